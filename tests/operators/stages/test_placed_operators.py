"""Every operator on shards: hand-written circuits, and random ones with event time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import (
    Circuit,
    Stream,
    col,
    count,
    fold,
    linear,
    lit,
    multiway_join,
)
from dbsp.operators.linear.filter import SameValue
from dbsp.state import trace, trace_limit
from tests.operators.stages.test_distribute import SHARDS, compare
from tests.operators.stages.test_forget_rows import Plan, events

Build = Callable[[Circuit, Stream, Stream, Stream], Stream]
"""Builds the output from a (Z-set), b (set) and k (by the key x) of (x: int, y: int, s: str)."""
COLUMNS = {"x": int, "y": int, "s": str}


def spread(row: Any) -> list[tuple[int, str]]:
    return [(row.x % 3, row.s), (row.y, row.s)]


def shifted(row: Any) -> tuple[int, int, str]:
    return row.x, row.x + row.y, row.s


def parts(row: Any) -> tuple[str, list[int]]:
    return row.s, [row.x, row.y]


def is_odd(row: Any) -> bool:
    return bool(row.x % 2)


def size(pairs: list[tuple[Any, int]]) -> int:
    return sum(weight for _, weight in pairs)


def marked(s: Stream) -> Any:
    return s.watermark("y", 1)


def windows(s: Stream) -> Any:
    return marked(s).on_time.window("y", 4)


def dozen(row: Any) -> tuple[str, int]:
    return row.s, 12 // (row.x - 2)


def renamed(s: Stream) -> Stream:
    return s.rename(x2="x", y2="y", s2="s")


def delayed(c: Circuit, a: Stream, b: Stream, k: Stream) -> Stream:
    seen = c.feedback(COLUMNS)
    c.connect(seen, (seen + a).distinct())
    return seen.group_by("s").agg(n=count())


def closure(c: Circuit, a: Stream, b: Stream, k: Stream) -> Stream:
    with c.fixpoint("closure") as scope:
        pair = {"x": int, "y": int}
        path = scope.variable("path", pair)
        longer = path.join(b, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right")
        scope.define(path, (c.constant([(0, 1)], pair) + a.select("x", "y").distinct() + longer).distinct())
    return scope.leave(path)


def parities(c: Circuit, a: Stream, b: Stream, k: Stream) -> Stream:
    return c.iterate(
        "steps",
        b.select("x", "y"),
        lambda v: (v + v.filter(col("x") < 5).map(x=col("x") + 1, y=col("y"))).distinct(),
    )


CASES: dict[str, Build] = {
    # Ports.
    "zset": lambda c, a, b, k: a,
    "set": lambda c, a, b, k: b,
    "key": lambda c, a, b, k: k,
    "constant": lambda c, a, b, k: c.constant([(1, 2, "a"), (1, 2, "b")], COLUMNS),
    "constant and rows": lambda c, a, b, k: a + c.constant({(1, 2, "a"): 2}, COLUMNS),
    "constants joined": lambda c, a, b, k: c.constant([(1,)], {"n": int}).join(
        c.constant([(1,)], {"n": int}), on=["n"]
    ),
    "distinct constant": lambda c, a, b, k: c.constant({(1,): 3}, {"n": int}).distinct(),
    "set joined by another column": lambda c, a, b, k: b.join(renamed(b), on=[("y", "y2")]),
    "checked": lambda c, a, b, k: (a + b - a).assert_nonnegative("no row of a twice"),
    # Row by row.
    "rows": lambda c, a, b, k: (
        (a - b)
        .filter(is_odd)
        .map(shifted, COLUMNS)
        .flat_map(spread, {"n": int, "s": str})
        .sample(0.5, on=["n"])
        .scale(-2)
    ),
    "expressions": lambda c, a, b, k: (
        a.select("y", "s").map(z=col("y") + 1, s=col("s")).generate_series(lit(0), col("z"))
    ),
    "partial expressions": lambda c, a, b, k: (a - b).select("x", "y").map(z=lit(12) // (col("x") + 1)),
    "errors": lambda c, a, b, k: (a + b).select("x").map(z=lit(12) // (col("x") - 2)),
    "tried": lambda c, a, b, k: (a - b).try_map(s=col("s"), z=lit(12) // (col("x") - 2)).good,
    "failed": lambda c, a, b, k: (
        (a + b).try_map(dozen, {"s": str, "z": int}).failed.join(renamed(b), on=[("x", "x2")])
    ),
    "lists": lambda c, a, b, k: (
        (a - b).map(parts, {"s": str, "parts": list[int]}).explode("parts", "part", position="at")
    ),
    "pairs": lambda c, a, b, k: a.join(renamed(b), on=[]).preceded(),
    "widened": lambda c, a, b, k: (a - b).widen("y", "s"),
    "same value": lambda c, a, b, k: SameValue(0, 1)(a),
    "changes": lambda c, a, b, k: a.integrate().differentiate().delay(),
    # Groups.
    "distinct": lambda c, a, b, k: a.select("y").distinct(),
    "at least": lambda c, a, b, k: a.select("s").at_least(2),
    "linear": lambda c, a, b, k: a.group_by("s").agg(n=count(), t=col("x").sum(), m=col("y").mean()),
    "linear after a join": lambda c, a, b, k: (
        a.join(renamed(k), on=[("y", "x2")]).group_by("s2").agg(n=count(), t=col("x").sum())
    ),
    "extremes": lambda c, a, b, k: a.group_by("s").agg(
        least=col("x").min(), most=col("y").max(), at=col("x").last(by="y")
    ),
    "recomputed": lambda c, a, b, k: a.group_by("s", "y").agg(
        n=col("x").count_distinct(), f=fold(size, "x", type=int)
    ),
    "sums of a function": lambda c, a, b, k: a.group_by("y").agg(
        n=linear(int.__add__, col("x").sum(), count(), type=int)
    ),
    "all rows": lambda c, a, b, k: a.group_by().agg(n=count(), t=col("x").sum(), most=col("x").max()),
    "groups of groups": lambda c, a, b, k: (
        a.group_by("x", "s")
        .agg(n=count())
        .group_by("s")
        .agg(m=col("n").sum())
        .group_by()
        .agg(t=col("m").max())
    ),
    "top": lambda c, a, b, k: a.top_k(2, "y", partition=["s"]),
    "top of all": lambda c, a, b, k: a.top_k(3, ["s", "x"]),
    "ranks": lambda c, a, b, k: b.rank("y", partition=["x"]).dense_rank("s", partition=["y"], name="d"),
    "numbers": lambda c, a, b, k: b.row_number("y", partition=["s"]).lag("x", by="y", partition=["s"]),
    "leads": lambda c, a, b, k: b.lead("x", by="y"),
    "ids": lambda c, a, b, k: b.number_rows(by="x"),
    "choice": lambda c, a, b, k: a.choice_domain("x", ["y", "x"]),
    "choice of all": lambda c, a, b, k: a.choice_domain("x", "y"),
    "classes": lambda c, a, b, k: a.select("x", "y").equivalence_classes(),
    "rolling": lambda c, a, b, k: b.rolling("y", 2, partition=["s"], n=count()),
    # Joins.
    "join": lambda c, a, b, k: a.join(renamed(b), on=[("x", "x2")]),
    "join by two": lambda c, a, b, k: a.join(renamed(b), on=[("x", "y2"), ("s", "s2")]).join(
        k.select("x", "y"), on=["x"]
    ),
    "join with a key": lambda c, a, b, k: a.join(renamed(k), on=[("y", "x2")]).group_by("x").agg(n=count()),
    "self join": lambda c, a, b, k: a.join(renamed(a), on=[("x", "y2")], select=["y", "x2"]),
    "join with a constant": lambda c, a, b, k: a.join(
        c.constant([(1, "one"), (2, "two")], {"y": int, "name": str}), on=["y"]
    ).distinct(),
    "product": lambda c, a, b, k: a.select("x").join(b.select("y"), on=[]),
    "product with a total": lambda c, a, b, k: a.join(b.group_by().agg(n=count()), on=[]).filter(
        col("x") < col("n")
    ),
    "product with a constant": lambda c, a, b, k: c.constant([(1,), (7,)], {"n": int}).join(a, on=[]),
    "product of totals": lambda c, a, b, k: (
        a.group_by().agg(n=count()).join(b.group_by().agg(m=col("x").max()), on=[])
    ),
    "semijoin": lambda c, a, b, k: a.join(b, on=["s"], how="semi"),
    "antijoin": lambda c, a, b, k: a.join(k, on=[("y", "x")], how="anti"),
    "semijoin with a constant": lambda c, a, b, k: a.join(
        c.constant([(1,), (2,)], {"y": int}), on=["y"], how="semi"
    ).distinct(),
    "antijoin of a constant": lambda c, a, b, k: c.constant([(1,), (7,), (3,)], {"n": int}).join(
        b, on=[("n", "x")], how="anti"
    ),
    "antijoin by two columns": lambda c, a, b, k: (
        a.join(k, on=[("x", "y"), ("y", "x")], how="anti")
        .join(b, on=["y"], how="semi")
        .join(a.filter(col("x") > 3), on=["s"], how="anti")
    ),
    "antijoin without a key": lambda c, a, b, k: a.join(b.filter(col("x") > 2), on=[], how="anti"),
    "outer joins": lambda c, a, b, k: a.join(renamed(k), on=[("y", "x2")], how="full"),
    "range join": lambda c, a, b, k: a.range_join(
        renamed(b), on=[("s", "s2")], left="x", right="y2", low=-1, high=1
    ),
    "range join of all": lambda c, a, b, k: a.range_join(renamed(b), left="x", right="y2", low=0, high=0),
    "range join with a total": lambda c, a, b, k: a.range_join(
        b.group_by().agg(m=col("x").max()), left="x", right="m", low=-1, high=1
    ),
    "interval join": lambda c, a, b, k: a.interval_join(
        renamed(b), on=[("s", "s2")], left="x", first="x2", last="y2", high=1
    ),
    "as-of join": lambda c, a, b, k: a.asof_join(renamed(b), on=[("s", "s2")], left="x", right="y2"),
    "outer as-of join": lambda c, a, b, k: a.asof_join(
        renamed(b), on=[("s", "s2")], left="y", right="y2", outer=True
    ),
    "as-of join by two keys": lambda c, a, b, k: a.asof_join(
        renamed(b), on=[("s", "s2"), ("x", "y2")], left="y", right="x2"
    ),
    "as-of join by two keys in order": lambda c, a, b, k: a.asof_join(
        renamed(b), on=[("x", "y2"), ("s", "s2")], left="y", right="x2"
    ),
    "as-of join with all": lambda c, a, b, k: a.asof_join(renamed(b), left="x", right="y2"),
    "as-of join with a constant": lambda c, a, b, k: a.asof_join(
        c.constant([(1, "one"), (3, "three")], {"since": int, "name": str}), left="x", right="since"
    ),
    "as-of join of a constant": lambda c, a, b, k: c.constant(
        [(1, "one")], {"at": int, "name": str}
    ).asof_join(a, left="at", right="x"),
    "star": lambda c, a, b, k: multiway_join(
        [a("x", "u", "s"), b("x", "v", "t"), k("x", "w", "r")], ["x", "u", "v"]
    ),
    "triangles": lambda c, a, b, k: multiway_join(
        [a("x", "y", "s"), a("y", "z", "t"), b("z", "x", "r")], ["x", "z"]
    ),
    "chain": lambda c, a, b, k: multiway_join([a("x", "y", "s"), b("y", "z", "t")], ["x", "z", "t"]),
    "cliques": lambda c, a, b, k: multiway_join(
        [
            b("p", "q", None),
            a("p", "r", None),
            b("p", "s", None),
            a("q", "r", None),
            b("q", "s", None),
            k("r", "s", None),
        ],
        where=[col("p") <= col("s"), col("q") != col("r")],
    ),
    "wide atoms": lambda c, a, b, k: multiway_join(
        [a("x", "y", "s"), b("y", "z", "s"), k("z", "x", "t"), b("x", "z", "t")], ["x", "z", "s"]
    ),
    "optional columns": lambda c, a, b, k: multiway_join(
        [a("x", "y", None), b.widen("x")("y", "z", None), k.widen("x", "y")("z", "x", None)], ["x", "y", "z"]
    ),
    "computed variables": lambda c, a, b, k: multiway_join(
        [a("x", "y", None), b("y", "z", None), k("z", "x", None)], let={"n": col("x") + col("z")}
    ),
    "a circle of six": lambda c, a, b, k: multiway_join(
        [
            a("p", "q", None),
            b("q", "r", None),
            a("r", "s", None),
            b("s", "t", None),
            a("t", "u", None),
            b("u", "p", None),
        ],
        ["p", "s"],
    ),
    # Recursion.
    "delay": delayed,
    "closure": closure,
    "iterate": parities,
    # Event time.
    "on time": lambda c, a, b, k: marked(a).on_time.group_by("s").agg(n=count()),
    "late": lambda c, a, b, k: marked(a - b).late.select("s", "y"),
    "the watermark": lambda c, a, b, k: marked(b).watermark,
    "final": lambda c, a, b, k: (
        windows(b)
        .group_by("window_start", "window_end")
        .final(marked(b).watermark, "window_end", n=count(), m=col("x").max())
    ),
    "final of projected rows": lambda c, a, b, k: (
        windows(b)
        .select("window_start", "window_end")
        .group_by("window_start", "window_end")
        .final(marked(b).watermark, "window_end", n=count())
    ),
    "recent": lambda c, a, b, k: a.recent(marked(b).watermark, "y"),
    "forgotten windows": lambda c, a, b, k: (
        windows(b).group_by("window_end").agg(n=count()).filter(col("n") > 1)
    ),
    "forgotten rows": lambda c, a, b, k: (
        marked(a).on_time.join(renamed(marked(b).on_time), on=[("y", "y2"), ("s", "s2")]).select("x", "x2")
    ),
}


def circuit_of(build: Build) -> Circuit:
    circuit = Circuit("case")
    a = circuit.input("a", schema=COLUMNS)
    b = circuit.input("b", schema=COLUMNS, kind="set")
    k = circuit.input("k", schema=COLUMNS, key="x")
    circuit.output("out", build(circuit, a, b, k))
    return circuit


def ticks(seed: int, number: int = 5) -> Iterator[dict[str, dict[Any, int]]]:
    """Yield changes of the inputs, with retractions, larger weights and an empty tick."""
    draw = Random(seed)
    held: dict[Any, int] = {}
    for tick in range(number):
        rows = [(draw.randrange(5), tick + draw.randrange(4), draw.choice("abc")) for _ in range(12)]
        a = {row: 1 + draw.randrange(2) for row in rows[:4]}
        for row in [row for row in held if draw.random() < 0.3 and row not in a]:
            a[row] = -held.pop(row)
        for row, weight in a.items():
            if weight > 0:
                held[row] = held.get(row, 0) + weight
        yield {
            "a": a,
            "b": {row: draw.choice([1, 1, 1, -1]) for row in rows[4:8]},
            "k": {
                row: draw.choice([1, 1, -1])
                for row in dict(zip([r[0] for r in rows[8:]], rows[8:], strict=True)).values()
            },
        }
        if tick == 1:
            yield {}


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    physical = circuit_of(CASES[name]).circuit("physical")
    for seed, shards in enumerate((2, 5)):
        compare(physical, shards, list(ticks(seed)), seed)


PHYSICAL = """
AccumulatedAggregate Arrange Close ConnectedClasses Constant Delay Delta0 DeltaAsofJoin
DeltaDistinct DeltaIntervalJoin DeltaJoin DeltaMultiwayJoin DeltaRangeJoin DeltaRecent
DeltaSemijoin Explode Filter FilterFunction FinishAggregates Fixpoint FlatMap
ForgettingAggregate ForgettingArrange GenerateSeries Input LeadingTopK Leave Map MapFunction
Minus Negate NumberRows Output Pad PerTick Preceded Project RecomputeGroups RefuseRows SameValue
Sample Scale Timely TryMap TryMapFunction Union Watermark Widen Window
"""


def test_the_cases_have_every_operator() -> None:
    graphs = [circuit_of(build).circuit("physical") for build in CASES.values()]
    found = {type(node.operator).__name__ for graph in graphs for node in graph.walk()}
    assert found >= set(PHYSICAL.split())


def test_late_rows_that_move_between_shards_cancel_before_they_are_closed() -> None:
    """One row is retracted on a shard and inserted on another, after its end: nothing changes."""
    circuit = Circuit("moved")
    seen = circuit.input("seen", place=int, t=int)
    names = circuit.input("names", place=int, name=str)
    rows = seen.join(names, on="place").select("t", "name")
    final = rows.group_by("t", "name").final(seen.watermark("t", 0).watermark, "t", n=count())
    circuit.output("out", final)
    start = {(place, 1): 1 for place in range(10)} | {(99, 10): 1}
    moved = {(place, 1): -1 for place in range(10)} | {(place, 1): 1 for place in range(20, 30)}
    named = {(place, "a"): 1 for place in range(100)}
    compared = compare(circuit.circuit("physical"), 3, [{"seen": start, "names": named}, {"seen": moved}])
    assert compared.many.view("out") == {(1, "a", 10): 1, (10, "a", 1): 1}


def test_a_callback_receives_the_changes_of_all_shards() -> None:
    received: list[Any] = []
    circuit = circuit_of(lambda c, a, b, k: a.inspect(lambda change: received.append(change.to_dict())))
    compared = compare(circuit.circuit("physical"), 3, [])
    for tick in ticks(0):
        received.clear()
        compared.tick(tick)
        assert received in ([], [tick.get("a")] * 2), "once in one process, and once on the shards"


@pytest.fixture
def _forget_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_limit, "SMALL", 0)
    monkeypatch.setattr(trace_limit, "PER_TICK", 10**9)
    monkeypatch.setattr(trace, "LEAST_FORGOTTEN", 10**9)


@pytest.mark.usefixtures("_forget_at_once")
@given(st.integers(0, 10**9), st.sampled_from(SHARDS))
def test_random_circuits_with_event_time(seed: int, shards: int) -> None:
    chance = Random(seed)
    circuit = Circuit("random")
    circuit.output("out", Plan(circuit, chance).stream(1 + seed % 4))
    compare(circuit.circuit("physical"), shards, list(events(chance)), seed)
