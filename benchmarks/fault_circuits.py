"""Small circuits over all stateful operators, with endless ticks, for the injection of faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import dbsp
from benchmarks.table_totals import Totals
from dbsp import Circuit, Run, Stream, col, count
from dbsp.circuit.graph import Graph

Change = dict[str, dict[tuple[Any, ...], int]]


@dataclass(frozen=True)
class FaultCircuit:
    """A query, the rows that it starts with, and its n-th tick.

    Every tick has new strings. Odd ticks retract the rows of the tick before, unless time passes.
    """

    name: str
    start: Callable[..., Run]
    first: Change
    insertions: Callable[[int], Change]
    retracts: bool = True
    other: Callable[[], Graph] | None = None
    """Another physical circuit of the query, to replan to."""

    def tick(self, n: int) -> Change:
        """Return the changes of tick n, counted from 0."""
        if self.retracts and n % 2:
            rows = self.insertions(n - 1)
            return {name: {row: -weight for row, weight in part.items()} for name, part in rows.items()}
        return self.insertions(n)


def edges(n: int) -> Change:
    """New edges between old and new nodes."""
    return {"edge": {(1, 100 + n % 7): 1, (100 + n % 7, 2): 1, (3, 4 + n % 3): 1}}


def words(n: int) -> Change:
    """Rows with new strings."""
    return {"a": {(f"new{n}", 1): 1, ("Ada", n % 5): 2}, "b": {(f"new{n}", f"other{n}"): 1}}


def built(build: Callable[[Circuit], None]) -> Callable[..., Run]:
    """Return a function that starts the circuit that `build` makes."""

    def start(**options: Any) -> Run:
        circuit = Circuit(build.__name__)
        build(circuit)
        return circuit.start(**options)

    return start


@cache
def program(
    rules: str, strategy: Literal["auto", "binary", "wcoj"] = "auto", mode: str = "auto"
) -> dbsp.Program:
    """Return the compiled rules."""
    return dbsp.compile(rules, strategy=strategy, recursion=mode)


def compiled(rules: str, **how: Any) -> Callable[..., Run]:
    """Return a function that starts a program."""
    return lambda **options: program(rules, **how).start(**options)


def joins(circuit: Circuit) -> None:
    a, b = circuit.input("a", s=str, x=int), circuit.input("b", s=str, t=str)
    circuit.output("joined", a.join(b, on=["s"]))
    circuit.output("both", a.join(b, on=["s"], how="semi"))
    circuit.output("neither", a.join(b, on=["s"], how="anti"))
    circuit.output("delayed", a.delay())
    circuit.output("changes", a.distinct().differentiate())


def aggregates(circuit: Circuit) -> None:
    a, b = circuit.input("a", s=str, x=int), circuit.input("b", s=str, t=str)
    circuit.output(
        "numbers", a.group_by("s").agg(n=count(), low=col("x").min(), high=col("x").max(), sum=col("x").sum())
    )
    circuit.output(
        "others",
        a.group_by("x").agg(mean=col("x").mean(), mid=col("x").median(), s=col("s").count_distinct()),
    )
    circuit.output("strings", b.group_by("s").agg(t=col("t").max()))
    circuit.output("set", a.select("s").distinct())


def keyed(circuit: Circuit) -> None:
    a = circuit.input("a", s=str, x=int, key=["s"])
    b = circuit.input("b", s=str, t=str, kind="set")
    circuit.output("a", a)
    circuit.output("joined", a.join(b, on=["s"]))
    circuit.output("numbered", b.number_rows())
    circuit.output("totals", Totals()(b))


def ranking(circuit: Circuit) -> None:
    a, b = circuit.input("a", s=str, x=int), circuit.input("b", s=str, t=str)
    circuit.output("best", a.top_k(2, by="x", partition=["s"], descending=True))
    circuit.output("ranked", a.rank(by="x", partition=["s"]))
    circuit.output("before", b.lag("t", by="s"))


def triangles(circuit: Circuit) -> None:
    edge = circuit.input("edge", x=int, y=int, kind="set")
    circuit.output("triangle", dbsp.multiway_join([edge("a", "b"), edge("b", "c"), edge("a", "c")]))


def nested(circuit: Circuit) -> None:
    edge = circuit.input("edge", x=int, y=int)

    def closed(scope: Any, pairs: Stream, name: str) -> Stream:
        with scope.fixpoint(name) as inner:
            path = inner.variable("path", pairs.schema)
            step = path.join(pairs, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right")
            inner.define(path, (pairs + step).distinct())
        return inner.leave(path)

    with circuit.fixpoint("outer") as outer:
        held = outer.variable("held", edge.schema)
        lowest = closed(outer, (edge + held).distinct(), "inner").group_by("x").agg(y=col("y").min())
        outer.define(held, lowest.distinct())
    circuit.output("held", outer.leave(held))


def windows(circuit: Circuit) -> None:
    marked = circuit.input("seen", time=int, s=str).watermark("time", 5)
    parts = marked.on_time.window("time", 10).group_by("window_start", "window_end")
    circuit.output("count", parts.final(marked.watermark, "window_end", n=count()))
    circuit.output("open", parts.agg(n=count()).recent(marked.watermark, "window_end"))
    circuit.output("late", marked.late)


def asof(circuit: Circuit) -> None:
    a, b = circuit.input("a", s=str, x=int), circuit.input("b", s=str, x=int)
    circuit.output("at", a.asof_join(b, left="x", right="x", on=["s"]))
    circuit.output("near", a.range_join(b, left="x", right="x", low=-1, high=1))
    circuit.output("rolling", a.filter(col("x") < 9).rolling("x", 3, total=col("x").sum()))


PATHS = """
    .decl edge(x: number, y: number) .input edge
    .decl path(x: number, y: number) .output path
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
"""
RECORDS = """
    .type L = [head: symbol, tail: L]
    .decl a(s: symbol, x: number) .input a
    .decl b(s: symbol, t: symbol) .input b
    .decl lists(s: symbol, l: L) .output lists
    lists(s, [s, [t, nil]]) :- b(s, t).
    .decl longer(l: L) .output longer
    longer([s, l]) :- lists(s, l), a(s, _).
    .decl text(t: symbol) .output text
    text(cat(s, to_string(x))) :- a(s, x).
"""
PATTERN = """
    .decl edge(x: number, y: number) .input edge
    .decl pattern(x: number, y: number, z: number) .output pattern
    pattern(x, y, z) :- edge(x, y), edge(y, z), edge(x, z).
    .decl total(n: number) .output total
    total(n) :- n = count : { pattern(_, _, _) }.
"""
CLASSES = """
    .decl edge(x: number, y: number) .input edge
    .decl same(x: number, y: number) eqrel .output same
    same(x, y) :- edge(x, y).
"""

_EDGES: Change = {"edge": {(x, x % 5 + 1): 1 for x in range(1, 12)}}
_WORDS: Change = {
    "a": {(name, x): 1 for x, name in enumerate(("Ada", "Ben", "Cid", "Dan"))},
    "b": {(name, name.lower()): 1 for name in ("Ada", "Ben", "Eve")},
}


def _numbers(n: int) -> Change:
    return {"a": {(f"new{n}", n % 9): 1, ("Ada", n % 5): 2}, "b": {(f"new{n}", 3): 1, ("Ada", 1): 1}}


def _times(n: int) -> Change:
    return {"seen": {(3 * n, f"s{n}"): 1, (3 * n - 20, "late"): 1}}


CIRCUITS = (
    FaultCircuit("joins", built(joins), _WORDS, words),
    FaultCircuit("aggregates", built(aggregates), _WORDS, words),
    FaultCircuit("keyed", built(keyed), _WORDS, lambda n: {**words(n), "a": {(f"new{n}", n): 1}}),
    FaultCircuit("ranking", built(ranking), _WORDS, words),
    FaultCircuit("multiway", built(triangles), _EDGES, edges),
    FaultCircuit("nested", built(nested), _EDGES, edges),
    FaultCircuit("windows", built(windows), _times(0), lambda n: _times(n + 1), retracts=False),
    FaultCircuit("asof", built(asof), _numbers(100), _numbers),
    FaultCircuit("records", compiled(RECORDS), _WORDS, words),
    FaultCircuit("eqrel", compiled(CLASSES), _EDGES, edges),
    FaultCircuit(
        "replan",
        compiled(PATTERN, strategy="wcoj"),
        _EDGES,
        edges,
        other=lambda: program(PATTERN, strategy="binary").circuit("physical"),
    ),
    *(
        FaultCircuit(f"recursion {mode}", compiled(PATHS, mode=mode), _EDGES, edges)
        for mode in ("auto", "incremental", "insert-only")
    ),
)
