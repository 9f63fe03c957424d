"""Integrate: every tick emits the complete sum."""

from __future__ import annotations

from hypothesis import given

from tests.harness import start, view
from tests.operators.time.test_delay import check, snapshots
from tests.reference import Z, add, minus
from tests.strategies import Tick, rows, small, ticks

PAIR = rows(small, small)


def sums(values: list[Z]) -> list[Z]:
    result: list[Z] = []
    for value in values:
        result.append(add(value, result[-1] if result else {}))
    return result


@given(ticks({"a": PAIR}))
def test_the_sum_so_far(sequence: list[Tick]) -> None:
    """The values of the stream are the integrals of the input; I emits their sum."""
    check(lambda c: c.input("a", x=int, y=int).integrate(), sums(snapshots(sequence)), sequence)


@given(ticks({"a": PAIR}))
def test_twice(sequence: list[Tick]) -> None:
    check(
        lambda c: c.input("a", x=int, y=int).integrate().integrate(),
        sums(sums(snapshots(sequence))),
        sequence,
    )


@given(ticks({"a": PAIR}))
def test_the_inverse_of_differentiate(sequence: list[Tick]) -> None:
    values = snapshots(sequence)
    check(lambda c: c.input("a", x=int, y=int).integrate().differentiate(), values, sequence)
    check(lambda c: c.input("a", x=int, y=int).differentiate().integrate(), values, sequence)
    steps = [minus(after, before) for before, after in zip([{}, *values], values, strict=False)]
    check(lambda c: c.input("a", x=int, y=int).differentiate(), steps, sequence)


def test_emits_the_sum_in_ticks_without_changes() -> None:
    run = start(lambda c: c.input("a", x=int).integrate())
    run.step({"a": [(1,)]})
    assert run.step()["out"].to_dict() == {(1,): 1}
    assert view(run) == {(1,): 2}
    run.step({"a": {(1,): -1}})
    assert run.step()["out"].to_dict() == {}
