"""Ticks are all or nothing: after a failure the run continues as if the tick had not happened."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import (
    Circuit,
    DbspError,
    EvaluationError,
    IterationLimitError,
    Run,
    Stream,
    UserFunctionError,
    ValueOutOfRangeError,
    WeightOverflowError,
    col,
    count,
)
from dbsp.state.merging_stack import TAIL
from tests.harness import deltas_of, views
from tests.profiles import examples
from tests.reference import Z
from tests.strategies import Tick, deltas, rows, small, weights, words

EDGE = {"x": int, "y": int}


class Bombs:
    """An input of rows (place, depth); the circuit fails at this place and iteration."""

    def __init__(self, circuit: Circuit) -> None:
        self.rows = circuit.input("bomb", place=int, depth=int)

    def at(self, place: int) -> Stream:
        return self.rows.filter(col("place") == place)


def interrupted(row: Any) -> bool:
    raise KeyboardInterrupt


def failing(row: Any) -> bool:
    raise RuntimeError(f"bomb of depth {row.depth}")


def then(a: Stream, b: Stream) -> Stream:
    return a.join(b, on=[(a.schema.names[1], b.schema.names[0])], select=["x", "y_right"]).rename(y="y_right")


def closure(c: Any, e: Stream, name: str, extra: Callable[[Any, Stream], Stream] | None = None) -> Stream:
    with c.fixpoint(name, max_iterations=60) as scope:
        p = scope.variable("p", EDGE)
        step = e + then(p, p)
        scope.define(p, (step if extra is None else step + extra(scope, p)).distinct())
    return scope.leave(p)


def everything(circuit: Circuit) -> None:
    """Every stateful operator, and places to fail before, between, inside and after them."""
    bombs = Bombs(circuit)
    nothing = bombs.at(0).filter(failing).select("place").map(x=col("place"), y=col("place"))
    edge = circuit.input("edge", x=int, y=int, kind="set") + nothing
    bag = circuit.input("bag", x=int, s=str)
    user = circuit.input("user", id=int, s=str, f=float, key=["id"])
    unit = circuit.constant([(1,)], {"one": int})

    joined = bag.join(edge, on=["x"])
    groups = joined.group_by("x").agg(
        n=count(), total=col("y").sum(), low=col("y").min(), high=col("y").max()
    )
    strings = bag.group_by("x").agg(s=col("s").max())
    floats = user.group_by("s").agg(f=col("f").sum(), m=col("f").mean())
    circuit.output("joined", joined)
    circuit.output("groups", groups)
    circuit.output("strings", strings)
    circuit.output("floats", floats)
    circuit.output("delayed", bag.delay().distinct())
    circuit.output("changes", joined.differentiate())
    back = circuit.feedback({"x": int})
    stepped = (back.map(x=(col("x") + 1) % 7) + edge.select("x")).distinct()
    circuit.connect(back, stepped)
    circuit.output("feedback", stepped)
    circuit.output("constant", unit.join(bag, on=[]))

    # 1: an expression without a value; 2: sum outside int64; 3: a product of weights outside int64
    circuit.output("quotient", bombs.at(1).map(q=1 // (col("depth") * 0)))
    circuit.output("sum", bombs.at(2).map(v=col("depth") * 0 + 2**62).group_by().agg(s=(col("v") * 1).sum()))
    heavy = bombs.at(3)
    for _ in range(7):
        heavy = heavy.join(heavy, on=["place", "depth"], select=["place", "depth"])
    circuit.output("heavy", heavy)

    # 4: inside a scope, at the iteration that the bomb says
    def counted(scope: Any, p: Stream) -> Stream:
        n = scope.variable("n", {"n": int})
        counter = unit.map(n=col("one") * 0) + n.map(n=col("n") + 1).filter(col("n") < 9)
        scope.define(n, counter.distinct())
        armed = n.join(bombs.at(4), on=[("n", "depth")], select=["n", "depth"]).filter(failing)
        return armed.map(x=col("n"), y=col("depth"))

    path = closure(circuit, edge, "closure", counted)
    circuit.output("path", path)

    # 5: a recursion without end
    with circuit.fixpoint("endless", max_iterations=40) as scope:
        up = scope.variable("up", {"n": int})
        scope.define(up, (bombs.at(5).map(n=col("depth")) + up.map(n=col("n") + 1)).distinct())
    circuit.output("up", scope.leave(up))

    # 6: in a scope within a scope
    with circuit.fixpoint("outer", max_iterations=60) as outer:
        q = outer.variable("q", EDGE)
        inner = closure(outer, (edge + q).distinct(), "inner")
        armed = inner.join(bombs.at(6), on=[("x", "depth")], select=["x", "depth"]).filter(failing)
        shortest = inner.group_by("x").agg(y=col("y").min())
        outer.define(q, (shortest + armed.map(x=col("x"), y=col("depth"))).distinct())
    circuit.output("nested", outer.leave(q))

    # 7 and 8: after everything else
    last = path.select("x").distinct().join(groups, on=["x"])
    circuit.output("last", last.join(edge, on=[("low", "x")], how="anti"))
    circuit.output("failing", bombs.at(7).filter(failing))
    circuit.output("interrupted", bombs.at(8).filter(interrupted))


ERRORS: dict[int, type[BaseException]] = {
    0: UserFunctionError,
    1: EvaluationError,
    2: ValueOutOfRangeError,
    3: WeightOverflowError,
    4: UserFunctionError,
    5: IterationLimitError,
    6: UserFunctionError,
    7: UserFunctionError,
    8: KeyboardInterrupt,
}


def started() -> Run:
    circuit = Circuit("everything")
    everything(circuit)
    return circuit.start()


def bomb(place: int, depth: int) -> Z:
    return {(place, depth): 2 if place in (2, 3) else 1}


def changes(pairs: int = 5) -> st.SearchStrategy[Tick]:
    user = rows(small, words, st.sampled_from([0.1, 0.2, 1e16, -0.3]))
    one_of_a_key = st.lists(user, max_size=3, unique_by=lambda row: row[0])
    return st.fixed_dictionaries(
        {},
        optional={
            "edge": deltas(rows(small, small), weights, pairs),
            "bag": deltas(rows(small, words), weights, pairs),
            "user": st.tuples(one_of_a_key, st.sampled_from([1, 1, -1])).map(
                lambda drawn: dict.fromkeys(drawn[0], drawn[1])
            ),
        },
    )


entries = st.lists(
    st.tuples(changes(), st.none() | st.tuples(st.sampled_from(sorted(ERRORS)), st.integers(0, 6))),
    min_size=1,
    max_size=7,
)


def fails(run: Run, tick: Tick, place: int, depth: int) -> bool:
    """Try the tick with a bomb in it; whether it went off (one inside may not be reached)."""
    try:
        run.step({**tick, "bomb": bomb(place, depth)})
    except ERRORS[place]:
        return True
    assert place == 6, "only what is reached inside the inner scope goes off"
    run.step({"bomb": {row: -w for row, w in bomb(place, depth).items()}})
    return False


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(entries)
def test_failed_ticks_leave_no_trace(sequence: list[tuple[Tick, tuple[int, int] | None]]) -> None:
    """Failing ticks of run A change no later delta or view: run B without them returns the same."""
    a, b = started(), started()
    for tick, armed in sequence:
        if armed is not None:
            before, number = views(a), a.tick
            if fails(a, tick, *armed):
                assert views(a) == before and a.tick == number
            else:  # the tick succeeded, and retracted the bomb
                b.step({**tick, "bomb": {}})
                b.step()
                continue
        result, other = a.step(tick), b.step(tick)
        assert deltas_of(result) == deltas_of(other)
        assert (result.absent, result.present) == (other.absent, other.present)
        assert views(a) == views(b)
    a.compact()
    b.compact()
    assert views(a) == views(b)
    assert a.state_rows == b.state_rows and a.state_bytes == b.state_bytes


@pytest.mark.parametrize("place", sorted(ERRORS))
@pytest.mark.parametrize("depth", [0, 3])
def test_every_place_fails_as_it_should_and_again(place: int, depth: int) -> None:
    run = started()
    tick: dict[str, Any] = {
        "edge": [(0, 1), (1, 2), (2, 3), (3, 3), (3, 0)],
        "bag": [(0, "a"), (3, "b")],
        "user": [(1, "a", 0.5)],
    }
    with pytest.raises(ERRORS[place]):
        run.step({**tick, "bomb": bomb(place, depth)})
    assert run.tick == 0 and not any(views(run).values()) and run.state_rows == 0
    run.step(tick)
    before = views(run)
    for _ in range(3):
        with pytest.raises(ERRORS[place]) as caught:
            run.step({"edge": {(3, 0): -1, (4, 0): 1}, "bomb": bomb(place, depth)})
        if isinstance(caught.value, DbspError):
            assert " at test_scheduler.py:" in str(caught.value)
            message = str(caught.value).lower()
            assert place == 1 or "rolled back" in message or "nothing has changed" in message
    assert views(run) == before and run.tick == 1
    run.step({"edge": {(3, 0): -1, (4, 0): 1}})
    other = started()
    other.step(tick)
    other.step({"edge": {(3, 0): -1, (4, 0): 1}})
    assert views(run) == views(other)


def test_failures_during_large_merges_do_not_disturb_them() -> None:
    """A merge takes several ticks; a failed tick must neither lose nor repeat a part of it."""

    def build() -> Run:
        circuit = Circuit()
        a = circuit.input("a", x=int, y=int)
        circuit.output("sums", a.group_by("y").agg(s=col("x").sum(), low=col("x").min(), n=count()))
        circuit.output("checked", a.filter(lambda row: 1 // (row.x + 1) < 5).filter(col("x") < 5))
        return circuit.start()

    rng = random.Random(5)
    run, other = build(), build()
    for number in range(60):
        size = rng.choice([1, 10, 1500, 9000])
        tick = {"a": {(rng.randrange(30_000), i % 50): rng.choice([1, -1, 2]) for i in range(size)}}
        if number % 3 == 0:
            with pytest.raises(UserFunctionError):
                run.step({"a": {**tick["a"], (-1, 0): 1}})
        assert run.step(tick)["sums"] == other.step(tick)["sums"]
    assert views(run) == views(other)
    assert run.state_rows == other.state_rows


def test_a_merge_continues_in_ticks_that_do_not_change_its_trace() -> None:
    circuit = Circuit()
    circuit.output("a", circuit.input("a", x=int).distinct())
    circuit.output("b", circuit.input("b", x=int).filter(col("x") < 0))
    run = circuit.start()
    run.step({"a": [(x,) for x in range(190_000)]})
    # Too few rows in each of these ticks for the merge of the retractions with the insertions.
    for start in range(0, 25_000, 1_000):
        run.step({"a": {(x,): -1 for x in range(start, start + 1_000)}})
    assert run.state_rows == 215_000
    ticks = 0
    while run.state_rows > 165_000:
        run.step({"b": [(1,)]} if ticks % 2 else {})
        ticks += 1
        assert ticks < 100, "the merge has stopped"
    assert run.state_rows == 165_000 and ticks > 10
    assert len(run.view("a")) == 165_000


def test_small_runs_of_nested_scopes_are_merged() -> None:
    circuit = Circuit()
    edge = circuit.input("edge", x=int, y=int)
    with circuit.fixpoint("path") as scope:
        path = scope.variable("path", edge.schema)
        longer = path.join(edge, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right")
        scope.define(path, (edge + longer).distinct())
    circuit.output("out", scope.leave(path))
    run = circuit.start()
    for x in range(60):  # each tick adds a run to most traces
        run.step({"edge": {(2 * x, 2 * x + 1): 1}})
    nested = [trace for child in run.scope.children for trace in child.traces]
    assert any(trace.rows for trace in nested)
    assert max(len(trace.runs) for trace in (*run.scope.traces, *nested)) <= TAIL + 2


def test_steps_run_in_the_order_they_were_built() -> None:
    circuit = Circuit()
    seen: list[str] = []

    def note(name: str) -> Callable[[Any], bool]:
        return lambda row: bool(seen.append(name)) or True

    a = circuit.input("a", x=int)
    second = a.filter(note("second")).filter(note("third"))
    circuit.output("b", a.filter(note("fourth")))
    circuit.output("a", second)
    run = circuit.start()
    for _ in range(2):
        seen.clear()
        run.step({"a": [(1,)]})
        assert seen == ["second", "third", "fourth"]
