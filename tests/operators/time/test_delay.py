"""Delay, and cycles closed through it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given

from dbsp import Circuit, Stream, UserFunctionError, col, count
from tests import reference
from tests.harness import apply, deltas_of, start, view
from tests.reference import Z, add, minus
from tests.strategies import Tick, rows, small, ticks

PAIR = rows(small, small)


def snapshots(sequence: list[Tick], name: str = "a") -> list[Z]:
    """The integral of an input after each tick."""
    inputs: dict[str, Z] = {name: {}}
    result = []
    for tick in sequence:
        apply(inputs, tick)
        result.append(inputs[name])
    return result


def check(build: Callable[[Circuit], Stream], expected: list[Z], sequence: list[Tick]) -> None:
    run = start(build)
    before: Z = {}
    for tick, after in zip(sequence, expected, strict=True):
        assert run.step(tick)["out"].to_dict() == minus(after, before)
        assert view(run) == after
        before = after


@given(ticks({"a": PAIR}))
def test_the_stream_one_tick_before(sequence: list[Tick]) -> None:
    values = snapshots(sequence)
    check(lambda c: c.input("a", x=int, y=int).delay(), [{}, *values][:-1] if values else [], sequence)


@given(ticks({"a": PAIR}))
def test_two_delays_with_an_operator_between(sequence: list[Tick]) -> None:
    values = [{}, {}, *(reference.distinct(value) for value in snapshots(sequence))]
    check(
        lambda c: c.input("a", x=int, y=int).delay().distinct().delay(),
        values[: len(sequence)],
        sequence,
    )


@given(ticks({"a": PAIR}))
def test_join_with_the_past(sequence: list[Tick]) -> None:
    values = snapshots(sequence)
    past = [{}, *values]
    expected = [
        reference.join(now, before, [(0, 0)], [(0, 0), (0, 1), (1, 1)])
        for now, before in zip(values, past, strict=False)
    ]
    check(lambda c: (a := c.input("a", x=int, y=int)).join(a.delay(), on=["x"]), expected, sequence)


@given(ticks({"a": PAIR}))
def test_feedback_sums_up(sequence: list[Tick]) -> None:
    """s[t] = a[t] + s[t - 1]: the integral, built as a cycle."""
    values: list[Z] = []
    for value in snapshots(sequence):
        values.append(add(value, values[-1] if values else {}))

    def build(c: Circuit) -> Stream:
        back = c.feedback({"x": int, "y": int})
        total = c.input("a", x=int, y=int) + back
        c.connect(back, total)
        return total

    check(build, values, sequence)


@given(ticks({"a": PAIR}))
def test_feedback_through_distinct_and_join_is_a_fixpoint_over_ticks(sequence: list[Tick]) -> None:
    """Each tick adds one step: p[t] = distinct(a[t] + p[t - 1] . a[t])."""
    values: list[Z] = []
    for value in snapshots(sequence):
        before = values[-1] if values else {}
        values.append(
            reference.distinct(add(value, reference.join(before, value, [(1, 0)], [(0, 0), (1, 1)])))
        )

    def build(c: Circuit) -> Stream:
        a = c.input("a", x=int, y=int)
        back = c.feedback(a.schema)
        step = back.join(a, on=[("y", "x")], select=["x", "y_right"])
        path = (a + step).distinct()
        c.connect(back, path)
        return path

    check(build, values, sequence)


def test_feedback_counts_ticks() -> None:
    def build(c: Circuit) -> Stream:
        back = c.feedback({"n": int})
        one = c.constant([(1,)], {"n": int})
        following = back.map(n=col("n") + 1) + one.join(back.map(k=1).distinct(), on=[("n", "k")], how="anti")
        c.connect(back, following)
        return following

    run = start(build)
    for tick in range(1, 6):
        run.step()
        assert view(run) == {(tick,): 1}


def test_two_connected_cycles() -> None:
    """Fibonacci: two delays that feed each other."""

    def build(c: Circuit) -> Stream:
        a, b = c.feedback({}), c.feedback({})
        seed = c.input("seed", schema={})
        c.connect(a, b + seed)
        c.connect(b, a + b)
        return b

    run = start(build)
    run.step({"seed": {(): 1}})
    run.step({"seed": {(): -1}})
    numbers = []
    for _ in range(8):
        run.step()
        numbers.append(view(run).get((), 0))
    assert numbers == [1, 1, 2, 3, 5, 8, 13, 21]


def test_a_failed_tick_does_not_count() -> None:
    def build(c: Circuit) -> Stream:
        a = c.input("a", x=int)
        return a.delay() + a.filter(lambda row: 1 // row.x >= 0).filter(col("x") < 0)

    run = start(build)
    run.step({"a": [(1,)]})
    for _ in range(2):
        with pytest.raises(UserFunctionError):
            run.step({"a": [(2,), (0,)]})
        assert view(run) == {}
    assert deltas_of(run.step({"a": [(3,)]})) == {"out": {(1,): 1}}
    assert deltas_of(run.step()) == {"out": {(3,): 1}}


def test_delay_of_an_aggregate() -> None:
    run = start(lambda c: c.input("a", x=int).group_by().agg(n=count()).delay())
    run.step({"a": [(1,), (2,)]})
    assert view(run) == {}
    run.step({"a": [(3,)]})
    assert view(run) == {(2,): 1}
    run.step()
    assert view(run) == {(3,): 1}
