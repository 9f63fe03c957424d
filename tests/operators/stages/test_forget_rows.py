"""Traces that forget rows: outputs are those of the circuit that keeps them, and state is bounded.

In these tests a trace forgets every row that it may forget, at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import (
    Circuit,
    CircuitError,
    EvaluationError,
    Run,
    Stream,
    col,
    count,
    fold,
    linear,
    lit,
    multiway_join,
)
from dbsp.circuit.listing import to_text
from dbsp.circuit.pass_manager import PassContext
from dbsp.circuit.stage import Stage
from dbsp.durable import Store
from dbsp.operators.groups.aggregate import ForgettingAggregate
from dbsp.operators.stages.circuit_passes import CIRCUIT
from dbsp.operators.stages.circuit_stages import physical
from dbsp.operators.time.forgetting import ForgettingOperator
from dbsp.state import trace, trace_limit
from tests.harness import deltas_of, views
from tests.profiles import examples, sampled
from tests.strategies import Tick

LATENESS = {"a": 3, "b": 1}


@pytest.fixture(autouse=True, scope="module")
def _forget_at_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_limit, "SMALL", 0)
        patch.setattr(trace_limit, "PER_TICK", 10**9)
        patch.setattr(trace, "LEAST_FORGOTTEN", 10**9)
        yield


def untrimmed(circuit: Circuit) -> Run:
    """Start the physical circuit in which every trace keeps all rows."""
    return Run(CIRCUIT.run(circuit, PassContext(disabled=frozenset({"forget_rows"}))))


def forgetting(run: Run | Circuit) -> list[str]:
    """Return the nodes that forget rows, with the condition by the column of the trace."""
    graph = physical(run) if isinstance(run, Circuit) else run.graph
    found = []
    for node in graph.nodes:
        operator = node.operator
        if isinstance(operator, ForgettingOperator):
            name, type_ = node.schema.names[operator.column], node.schema.types[operator.column]
            kind = "groups" if isinstance(operator, ForgettingAggregate) else "rows"
            found.append(f"{kind} {operator.forgotten(name, type_)}")
    return found


# --- random circuits ------------------------------------------------------------------------------


class Plan:
    """Builds random streams of (t: int, k: int); the marks are those of the inputs a and b."""

    def __init__(self, circuit: Circuit, chance: Random) -> None:
        self.chance = chance
        self.raw = {name: circuit.input(name, t=int, k=int) for name in LATENESS}
        self.split = {name: s.watermark("t", LATENESS[name]) for name, s in self.raw.items()}

    def mark(self) -> Stream:
        return self.split[self.chance.choice("ab")].watermark

    def leaf(self) -> Stream:
        name = self.chance.choice("aab")
        kind = self.chance.choice(["on_time"] * 8 + ["late", "raw"])
        return self.raw[name] if kind == "raw" else getattr(self.split[name], kind)

    def stream(self, depth: int) -> Stream:
        if depth == 0:
            return self.leaf()
        if self.chance.random() < 0.6:
            return self.chance.choice(ONE)(self, self.stream(depth - 1))
        return self.chance.choice(TWO)(self, self.stream(depth - 1), self.stream(depth - 1))


def windowed(which: str, size: int, hop: int) -> Callable[[Plan, Stream], Stream]:
    return lambda plan, s: s.window("t", size, hop).map(t=col(which), k=col("k"))


def number(call: Any, by: str = "t") -> Callable[[Plan, Stream], Stream]:
    def build(plan: Plan, s: Stream) -> Stream:
        grouped = s.group_by(by).agg(n=call)
        return grouped.map(t=col("t"), k=col("n")) if by == "t" else grouped.map(t=col("n"), k=col("k"))

    return build


def joined(on: list[str], take: tuple[str, str]) -> Callable[[Plan, Stream, Stream], Stream]:
    def build(plan: Plan, a: Stream, b: Stream) -> Stream:
        other = b.map(t2=col("t"), k2=col("k"))
        pairs = [(name, f"{name}2") for name in on]
        return a.join(other, on=pairs).map(t=col(take[0]), k=col(take[1]))

    return build


def ranged(low: int | None, high: int | None) -> Callable[[Plan, Stream, Stream], Stream]:
    def build(plan: Plan, a: Stream, b: Stream) -> Stream:
        joined = a.range_join(
            b.map(t2=col("t"), k=col("k")), on=["k"], left="t", right="t2", low=low, high=high
        )
        return joined.map(t=col("t2") if plan.chance.random() < 0.5 else col("t"), k=col("k"))

    return build


def within(low: int, high: int) -> Callable[[Plan, Stream, Stream], Stream]:
    def build(plan: Plan, a: Stream, b: Stream) -> Stream:
        spans = b.map(f=col("t"), u=col("t") + col("k"), k2=col("k"))
        found = a.interval_join(spans, left="t", first="f", last="u", low=low, high=high)
        return found.map(t=col(plan.chance.choice("tfu")), k=col("k2"))

    return build


ONE: list[Callable[[Plan, Stream], Stream]] = [
    windowed("window_end", 4, 4),
    windowed("window_start", 4, 4),
    windowed("window_end", 5, 2),
    windowed("window_start", 2, 5),
    lambda plan, s: s.filter(col("k") > 0),
    lambda plan, s: s.map(t=col("t") + 1, k=col("k")),
    lambda plan, s: s.map(t=col("k"), k=col("t")),
    lambda plan, s: s.map(t=col("t"), k=col("k") + 1),
    lambda plan, s: s.distinct(),
    lambda plan, s: s.delay(),
    lambda plan, s: -s,
    lambda plan, s: s.recent(plan.mark(), "t"),
    lambda plan, s: s.recent(plan.mark(), "t"),
    lambda plan, s: s.recent(plan.mark(), "k"),
    number(count()),
    number(col("k").max()),
    number(col("k").sum()),
    number(col("k").count_distinct()),
    number(linear(int.__add__, count(), count(), type=int)),
    number(col("t").max(), "k"),
    number(count(), "k"),
    lambda plan, s: s.distinct().top_k(1, "k", partition=["t"]),
    lambda plan, s: s.distinct().top_k(1, "t", partition=["k"], descending=True),
    lambda plan, s: s.rank("k", partition=["t"], name="r").map(t=col("t"), k=col("r")),
    lambda plan, s: s.choice_domain("t"),
]

TWO: list[Callable[[Plan, Stream, Stream], Stream]] = [
    lambda plan, a, b: a + b,
    lambda plan, a, b: a - b,
    joined(["t"], ("t", "k2")),
    joined(["t", "k"], ("t", "k")),
    joined(["k"], ("t", "k")),
    joined(["k"], ("t2", "k")),
    lambda plan, a, b: a.join(b, on=["t"], how="anti"),
    lambda plan, a, b: a.join(b, on=["t", "k"], how="semi"),
    lambda plan, a, b: multiway_join([a("t", "x"), b("t", "k"), a("t", "k")], ["t", "k"]),
    lambda plan, a, b: multiway_join([a("t", "k"), b("u", "k"), b("u", "t")], ["t", "k"]),
    lambda plan, a, b: multiway_join([a("k", "u"), b("t", "u"), b("k", "t")], ["t", "k"]),
    ranged(-2, 3),
    ranged(0, None),
    within(-1, 2),
]


def events(chance: Random) -> Iterator[Tick]:
    """Yield ticks whose times advance, with late rows, retractions and empty ticks."""
    now = 0
    for _ in range(14):
        now += chance.randrange(4)
        change = {}
        for name in LATENESS:
            rows = [(now + chance.randint(-5, 1), chance.randrange(3)) for _ in range(chance.randrange(4))]
            change[name] = {row: chance.choice([1, 1, 1, 2, -1]) for row in rows}
        yield change


@settings(max_examples=examples(150))
@given(st.integers(0, 10**9))
def test_random_circuits(seed: int) -> None:
    chance = Random(seed)
    circuit = Circuit("random")
    plan = Plan(circuit, chance)
    circuit.output("out", plan.stream(1 + seed % 4))
    circuit.output("failing", circuit.input("f", x=int).map(y=lit(1) // col("x")))
    run, whole = circuit.start(), untrimmed(circuit)
    for tick in events(chance):
        with pytest.raises(EvaluationError):
            run.step({**{name: [(90, 1)] for name in LATENESS}, "f": [(0,)]})
        assert deltas_of(run.step(tick)) == deltas_of(whole.step(tick)), to_text(run.graph)
        assert views(run) == views(whole)


# --- each condition -------------------------------------------------------------------------------

Built = Callable[[Any, Any], Stream]
"""Builds the output from the watermarked inputs a and b, of (t: int, k: int)."""


def windows(s: Any) -> Any:
    return s.on_time.window("t", 4)


CASES: dict[str, tuple[Built, list[str]]] = {
    # Where bounds start, and what they are.
    "on time": (lambda a, b: hidden(a.on_time.distinct()), ["rows t < watermark"]),
    "late": (lambda a, b: hidden(a.late.distinct()), []),
    "late rows of rows on time": (
        lambda a, b: hidden(a.on_time.watermark("t", 9).late.distinct()),
        ["rows t < watermark"],
    ),
    "a start": (
        lambda a, b: hidden(windows(a).map(t=col("window_start"), k=col("k")).distinct()),
        ["rows t < watermark - 3"],
    ),
    "an end": (
        lambda a, b: hidden(windows(a).map(t=col("window_end"), k=col("k")).distinct()),
        ["rows t <= watermark"],
    ),
    "overlapping windows": (
        lambda a, b: hidden(
            a.on_time.window("t", 4, 1).map(t=col("window_start"), k=col("window_end")).distinct()
        ),
        ["rows t < watermark - 3"],
    ),
    "recent": (
        lambda a, b: hidden(a.late.recent(a.watermark, "t").distinct()),
        ["rows t <= watermark"],
    ),
    "recent ends other bounds": (
        lambda a, b: hidden(
            a.on_time.map(t=col("t"), k=col("t") + 6).recent(a.watermark, "k").select("t").distinct()
        ),
        [],
    ),
    "closed groups": (
        lambda a, b: hidden(
            windows(a)
            .group_by("window_end", "k")
            .final(a.watermark, "window_end", n=count())
            .select("window_end", "k")
            .distinct()
        ),
        ["rows window_end <= watermark"],
    ),
    "a watermark that is none": (
        lambda a, b: hidden(
            windows(a)
            .group_by("window_end")
            .final(a.watermark.filter(lit(True)), "window_end", n=count())
            .distinct()
        ),
        [],
    ),
    # How they pass through operators.
    "a computed column": (lambda a, b: hidden(a.on_time.map(t=col("t") - 9).distinct()), []),
    "a union of two marks": (
        lambda a, b: hidden((a.on_time + b.on_time).distinct()),
        ["rows t < watermark"],
    ),
    "a union of different bounds": (
        lambda a, b: hidden((a.on_time + a.on_time.recent(a.watermark, "t")).distinct()),
        ["rows t < watermark"],
    ),
    "a union with all rows": (lambda a, b: hidden((a.on_time + a.late).distinct()), []),
    "a difference": (lambda a, b: hidden((a.on_time - b.late).distinct()), []),
    "a delay": (lambda a, b: hidden(a.on_time.delay().distinct()), []),
    "groups in a fixpoint": (lambda a, b: hidden(closure(a.on_time)), []),
    # Groups.
    "accumulators": (
        lambda a, b: hidden(a.on_time.group_by("t").agg(n=col("k").sum())),
        ["groups t < watermark"],
    ),
    "extremes": (
        lambda a, b: hidden(a.on_time.group_by("t").agg(n=col("k").max())),
        ["rows t < watermark", "groups t < watermark"],
    ),
    "accumulators by another column": (
        lambda a, b: hidden(a.on_time.group_by("k").agg(n=col("t").sum())),
        [],
    ),
    "extremes by another column": (lambda a, b: hidden(a.on_time.group_by("k").agg(n=col("t").max())), []),
    "recomputed groups": (
        lambda a, b: hidden(a.on_time.group_by("t").agg(n=fold(len, "k", type=int))),
        ["rows t < watermark"],
    ),
    "recomputed groups by another column": (
        lambda a, b: hidden(a.on_time.group_by("k").agg(n=fold(len, "t", type=int))),
        [],
    ),
    "results of recomputed groups": (
        lambda a, b: hidden(
            a.on_time.group_by("k").agg(n=fold(len, "t", type=int)).distinct().select("n").distinct()
        ),
        [],
    ),
    "kept results of groups": (
        lambda a, b: hidden(a.on_time.group_by("t").agg(n=col("k").count_distinct(), m=col("k").median())),
        ["rows t < watermark", "groups t < watermark"],
    ),
    "results of groups": (
        lambda a, b: hidden(
            a.on_time.group_by("t")
            .agg(n=col("k").count_distinct())
            .map(n=col("n") // 2, t=col("t"))
            .distinct()
        ),
        ["rows t < watermark", "groups t < watermark", "rows t < watermark"],
    ),
    "results of accumulators": (
        lambda a, b: hidden(
            a.on_time.group_by("k").agg(n=col("t").sum()).map(n=col("n"), k=lit(0)).distinct()
        ),
        [],
    ),
    "partitions by another column": (
        lambda a, b: hidden(a.on_time.distinct().top_k(1, "t", partition=["k"]).select("k").distinct()),
        ["rows t < watermark"],  # of the first distinct
    ),
    "the largest by another column": (
        lambda a, b: hidden(a.on_time.distinct().top_k(1, "t", partition=["k"]).select("t").distinct()),
        ["rows t < watermark"],  # that of the first distinct
    ),
    "ranks": (
        lambda a, b: hidden(a.on_time.rank("k", partition=["t"]).select("t", "k").distinct()),
        ["rows t < watermark"] * 2,
    ),
    # Joins.
    "a join of two marks": (
        lambda a, b: hidden(a.on_time.join(b.on_time, on=["t"]).select("t", "k").distinct()),
        ["rows t < watermark"] * 3,
    ),
    "a join by another column": (
        lambda a, b: hidden(a.on_time.join(b.on_time, on=["k"]).select("t", "k").distinct()),
        [],
    ),
    "a join with all rows": (
        # All rows read only those that are on time.
        lambda a, b: hidden(a.on_time.join(b.late, on=["t"]).select("t", "k").distinct()),
        ["rows t < watermark"],
    ),
    "a range above": (
        lambda a, b: hidden(in_range(a.on_time, b.late, 2, 3)),
        ["rows t < watermark + 2"],
    ),
    "a range below": (
        lambda a, b: hidden(in_range(a.late, b.on_time, -2, 3)),
        ["rows t < watermark - 3"],
    ),
    "a range without an end": (lambda a, b: hidden(in_range(a.late, b.on_time, -2, None)), []),
    "a multi-way join": (
        lambda a, b: hidden(
            multiway_join([a.on_time("t", "x"), b.on_time("t", "y"), a.on_time("t", "y")], ["y", "t"])
            .select("t")
            .distinct()
        ),
        ["rows t < watermark"] * 4,
    ),
    "a multi-way join with an atom without the time": (
        # A change of (u, y) looks up y, and then a t of any time.
        lambda a, b: hidden(
            multiway_join([a.on_time("t", "x"), a.on_time("t", "y"), b.on_time("u", "y")], ["t"]).distinct()
        ),
        ["rows t < watermark"],  # of (t, y), which changes of (t, x) look up
    ),
    "a multi-way join with all rows": (
        lambda a, b: hidden(
            multiway_join([a.on_time("t", "x"), b.on_time("t", "y"), b.late("t", "x")], ["t"]).distinct()
        ),
        ["rows t < watermark"],  # of the late rows
    ),
    "a multi-way join by the second column": (
        lambda a, b: hidden(
            multiway_join(
                [
                    a.on_time.select("k", "t")("p", "t"),
                    b.on_time.select("k", "t")("p", "t"),
                    b.on_time("t", "q"),
                ],
                ["q"],
            )
        ),
        ["rows t < watermark"] * 3,
    ),
    "intervals": (
        lambda a, b: hidden(
            a.late.interval_join(
                b.on_time.map(f=col("t"), u=col("t") + 2, j=col("k")), left="t", first="f", last="u", low=-2
            )
        ),
        ["rows t < watermark - 2"],
    ),
    "points in intervals": (
        lambda a, b: hidden(
            a.on_time.interval_join(
                b.late.map(f=col("t"), u=col("t") + col("k"), j=col("k")),
                left="t",
                first="f",
                last="u",
                high=3,
            )
        ),
        ["rows u < watermark - 3"],
    ),
    "a join of sides in different orders": (
        lambda a, b: (
            hidden(a.on_time.join(b.late, on=["t", "k"]))
            + hidden(a.on_time.join(b.on_time, on=["k"]))
            + hidden(b.late.join(a.on_time.filter(col("k") > 0), on=["t"]))
        ),
        ["rows t < watermark"],  # of the late rows, by (t, k); rows of a are by (k, t)
    ),
    "an antijoin, and a set of its rows": (
        lambda a, b: hidden(a.on_time.join(b.on_time, on=["t"], how="anti").distinct()),
        ["rows t < watermark"] * 3,
    ),
    "an antijoin whose rows are late": (
        lambda a, b: hidden(a.late.join(b.on_time, on=["t"], how="anti")),
        ["rows t < watermark"],  # of the late rows, read by changes of b; they read any key of b
    ),
    "an antijoin with late keys": (lambda a, b: hidden(a.on_time.join(b.late, on=["t"], how="anti")), []),
    # Readers of all rows.
    "a view": (lambda a, b: a.on_time, []),
    "a view of a set": (lambda a, b: a.on_time.distinct(), []),
    "a view of groups": (
        lambda a, b: a.on_time.group_by("t").agg(n=count()).map(t=col("t"), k=col("n")),
        ["groups t < watermark"],
    ),
    "two readers": (
        lambda a, b: hidden(a.on_time.distinct()) + hidden(a.on_time.join(b.late, on=["t"])),
        ["rows t < watermark"],  # of the late rows of b, read by the join only
    ),
    "a stream that enters a fixpoint": (
        lambda a, b: hidden(a.on_time.distinct()) + hidden(closure(a.on_time)),
        [],
    ),
    "a set that enters a fixpoint": (lambda a, b: hidden(closure(a.on_time.distinct())), []),
    "a trace that enters a fixpoint": (
        lambda a, b: (
            hidden((x := a.on_time.distinct()).join(b.on_time, on=["t"]))
            + hidden(closure(b.late.distinct(), x))
        ),
        ["rows t < watermark"] * 2,  # of the two streams on time, but not of the set
    ),
    "an input of a set": (
        lambda a, b: hidden(a.on_time.join(a.on_time.graph.input("s", t=int, k=int, kind="set"), on=["t"])),
        [],
    ),
}


def hidden(s: Stream) -> Stream:
    """The stream as (t: int, k: int), behind a stateless operator, so that no view keeps it."""
    columns = {name: col(name) for name in s.schema.names}
    (t, *rest) = columns.values()
    return s.map(t=t * 1, k=rest[0] * 1 if rest else lit(0))


def closure(s: Any, other: Any = None) -> Any:
    with s.graph.fixpoint("scope") as scope:
        v = scope.variable("v", s.schema)
        found = v.filter(col("k") < 0) if other is None else v.join(other, on=["t"]).select("t", "k")
        scope.define(v, (s + found).distinct())
    return scope.leave(v)


def in_range(a: Stream, b: Stream, low: int | None, high: int | None) -> Stream:
    other = b.map(t2=col("t"), k=col("k"))
    return a.range_join(other, on=["k"], left="t", right="t2", low=low, high=high).select("t", "t2")


@pytest.mark.parametrize("title", CASES)
def test_each_condition(title: str) -> None:
    build, expected = CASES[title]
    circuit = Circuit("case")
    a, b = (circuit.input(name, t=int, k=int).watermark("t", LATENESS[name]) for name in LATENESS)
    circuit.output("out", build(a, b))
    assert forgetting(circuit) == expected
    for seed in sampled(12):
        more = {"s": Random(seed + 1)} if "s" in circuit.start().inputs else {}
        run, whole, query = circuit.start(), untrimmed(circuit), circuit.start(Stage.QUERY)
        for tick in events(Random(seed)):
            for name, chance in more.items():
                tick[name] = {(chance.randrange(20), chance.randrange(2)): chance.choice([1, 1, -1])}
            result = deltas_of(run.step(tick))
            assert result == deltas_of(whole.step(tick)) == deltas_of(query.step(tick))
            assert views(run) == views(whole)


def test_the_first_watermark_of_each_stream() -> None:
    """Without a watermark on one side nothing is forgotten."""

    def build(circuit: Circuit) -> None:
        a, b = (circuit.input(name, t=int, k=int).watermark("t", LATENESS[name]) for name in LATENESS)
        both = a.on_time.join(b.on_time, on=["t"]).select("t", "k")
        circuit.output("out", hidden((a.on_time + b.on_time).distinct()) + hidden(both))

    circuit = Circuit("late start")
    build(circuit)
    run, whole = circuit.start(), untrimmed(circuit)
    for change in ({"a": [(3, 1), (50, 1)]}, {"a": [(60, 1)]}, {"b": [(3, 1), (3, 2)]}, {"b": [(70, 1)]}):
        assert deltas_of(run.step(change)) == deltas_of(whole.step(change))


def test_a_circuit_file_keeps_its_limits() -> None:
    circuit, _ = sessions()
    written = physical(circuit).to_json()
    again = dbsp.from_json(written)
    assert again.to_json() == written
    assert len(forgetting(circuit)) == 3
    document = json.loads(written)
    node = next(node for node in document["nodes"] if node["operator"]["class"] == "ForgettingArrange")
    node["strict"] = [0]
    with pytest.raises(CircuitError, match=r"expected a watermark of type int, got \(t: int, user: int\)"):
        dbsp.from_json(json.dumps(document))
    del node["strict"]
    with pytest.raises(CircuitError, match=r"Arrange at .*expected one watermark or more, one step late"):
        Run(dbsp.from_json(json.dumps(document)))


def sessions() -> tuple[Circuit, Stream]:
    """Pairs of clicks and sales of one second, counted by window, for the open windows."""
    circuit = Circuit("sessions")
    click, sale = circuit.input("click", t=int, user=int), circuit.input("sale", t=int, user=int)
    clicks, sales = click.watermark("t", 5), sale.watermark("t", 5)
    pairs = clicks.on_time.join(sales.on_time, on=["t", "user"])
    counts = pairs.window("t", 10).group_by("window_end").agg(n=count())
    circuit.output("open", counts.recent(clicks.watermark, "window_end"))
    return circuit, pairs


def sessions_of(tick: int) -> Tick:
    return {"click": {(tick, 1): 1, (tick - 3, 2): 1}, "sale": {(tick, 1): 1, (tick - 4, 2): 1}}


def test_explain() -> None:
    circuit, pairs = sessions()
    circuit.output("all", pairs.distinct())
    run = circuit.start()
    run.step(sessions_of(1))
    text = re.sub(r"test_forget_rows.py:\d+", "here", circuit.explain(run))
    assert """\
  trace of OnTime (here) by (t, user), read by Join -> t, user (here); 2 rows, 48 bytes
    forgets rows with t < watermark, by Watermark (here)
""" in text  # fmt: skip
    assert """
  trace of Join -> t, user (here) by (t, user), read by Distinct (here); 1 rows, 24 bytes
    keeps the rows that a watermark has passed: Output all (here) may read them
""" in text  # fmt: skip
    both = "Watermark (here), Watermark (here)"
    assert f"forgets rows with window_end <= watermark, by the least of {both}" in text


def test_units_of_time() -> None:
    circuit = Circuit("times")
    split = circuit.input("a", at=datetime).watermark("at", timedelta(minutes=1))
    starts = split.on_time.window("at", timedelta(minutes=15)).select("window_start").distinct()
    circuit.output("out", starts.map(hour=lit(1)))
    assert forgetting(circuit) == ["rows window_start <= watermark - 0:15:00"]


def test_replanning_does_not_read_forgotten_rows() -> None:
    circuit, _ = sessions()
    run = circuit.start()
    for tick in range(40):
        run.step(sessions_of(tick))
    before = views(run)
    assert run.replan(physical(sessions()[0])).rebuilt == 0
    assert views(run) == before
    whole = CIRCUIT.run(circuit, PassContext(disabled=frozenset({"forget_rows"})))
    with pytest.raises(CircuitError, match="needs all past rows of this node") as raised:
        run.replan(whole)
    assert raised.value.code == "rows-not-kept"
    for tick in range(40, 60):
        run.step(sessions_of(tick))
    full = untrimmed(circuit)
    for tick in range(60):
        full.step(sessions_of(tick))
    assert views(run) == views(full)
    # The state of a circuit that keeps all rows fits one that forgets them.
    assert full.replan(physical(circuit)).rebuilt == 0
    assert forgetting(full) == forgetting(run) != []
    full.step(sessions_of(60))
    run.step(sessions_of(60))
    assert views(run) == views(full)


def test_forgotten_rows_are_no_integral() -> None:
    """A relation whose only trace forgets rows is not stored."""
    circuit = Circuit("kept")
    table = circuit.input("table", t=int, k=int)
    split = circuit.input("a", t=int, k=int).watermark("t", 0)
    circuit.output("out", hidden(split.on_time.join(table, on=["t"])))
    run = circuit.start()
    run.step({"table": [(1, 1)], "a": [(9, 9)]})
    with pytest.raises(CircuitError, match="does not keep the rows of its input 'table'"):
        run.asserted("table")
    assert untrimmed(circuit).asserted("table").to_dict() == {}


@settings(max_examples=8)
@given(st.integers(0, 10**9), st.sets(st.integers(0, 13), max_size=3))
def test_checkpoints(tmp_path_factory: pytest.TempPathFactory, seed: int, restarts: set[int]) -> None:
    def build() -> Circuit:
        chance = Random(seed)
        circuit = Circuit("random")
        circuit.output("out", Plan(circuit, chance).stream(3))
        return circuit

    folder = tmp_path_factory.mktemp("forget")
    run, whole = build().start(checkpoint=Store(folder, snapshot_every=2, sync=False)), untrimmed(build())
    for number, tick in enumerate(events(Random(seed))):
        if number in restarts:
            assert isinstance(run.log, Store)
            run.log.close()
            run = build().start(checkpoint=Store(folder, snapshot_every=2, sync=False))
        assert deltas_of(run.step(tick)) == deltas_of(whole.step(tick))
        assert views(run) == views(whole)
    assert isinstance(run.log, Store)
    run.log.close()


def test_the_state_is_bounded_and_old_checkpoints_open(tmp_path: Path) -> None:
    """With the real limits; also from a checkpoint of the circuit that keeps all rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_limit, "SMALL", 1024)
        patch.setattr(trace_limit, "PER_TICK", 256)
        patch.setattr(trace, "LEAST_FORGOTTEN", 2)
        circuit, _ = sessions()
        store = Store(tmp_path, snapshot_every=1000, sync=False)
        whole = store.resume(circuit, lambda _: untrimmed(circuit))
        for tick in range(3000):
            whole.step(sessions_of(tick))
        store.close()
        assert whole.state_rows > 6000
        run = circuit.start(checkpoint=Store(tmp_path, snapshot_every=1000, sync=False))
        assert views(run) == views(whole)
        most = 0
        for tick in range(3000, 9000):
            run.step(sessions_of(tick))
            most = max(most, run.state_rows) if tick > 3100 else 0
        assert most < 8 * 1024
        assert isinstance(run.log, Store)
        run.log.close()
        fresh = untrimmed(circuit)
        for tick in range(9000):
            fresh.step(sessions_of(tick))
        assert views(run) == views(fresh)
