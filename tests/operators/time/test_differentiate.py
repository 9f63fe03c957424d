"""Differentiate: the change from one tick to the next, also when a tick fails in between."""

from __future__ import annotations

import pytest
from hypothesis import given

from dbsp import UserFunctionError, col
from tests.harness import start, view
from tests.operators.time.test_delay import check, snapshots
from tests.reference import Z, minus
from tests.strategies import Tick, rows, small, ticks

PAIR = rows(small, small)


@given(ticks({"a": PAIR}))
def test_twice(sequence: list[Tick]) -> None:
    def changes(values: list[Z]) -> list[Z]:
        return [minus(after, before) for before, after in zip([{}, *values], values, strict=False)]

    values = changes(changes(snapshots(sequence)))
    check(lambda c: c.input("a", x=int, y=int).differentiate().differentiate(), values, sequence)


def test_a_failed_tick_does_not_count() -> None:
    run = start(
        lambda c: (
            (a := c.input("a", x=int)).differentiate()
            + a.filter(lambda row: 1 // row.x >= 0).filter(col("x") < 0)
        )
    )
    run.step({"a": [(1,)]})
    with pytest.raises(UserFunctionError):
        run.step({"a": [(0,)]})
    assert run.step({"a": [(2,)]})["out"].to_dict() == {(1,): -1, (2,): 1}
    run.step()
    assert view(run) == {}
