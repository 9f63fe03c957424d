"""Random changes: reproducible, and possible for the inputs that they are made for."""

from __future__ import annotations

import pytest

from dbsp import ArgumentError
from dbsp.testing import random_changes
from dbsp.testing.change_log import Contents, applied, is_proper, rows_of

INPUTS = {"a": (range(3), "xy"), "b": (range(2),)}


@pytest.mark.parametrize("seed", range(5))
def test_no_absent_row_is_deleted(seed: int) -> None:
    log = random_changes(INPUTS, ticks=40, seed=seed)
    assert len(log) == 40
    assert is_proper(log, ())
    assert log == random_changes(INPUTS, ticks=40, seed=seed)
    assert log != random_changes(INPUTS, ticks=40, seed=seed + 1)
    weights = {weight for *_, weight in rows_of(log)}
    assert {1, 2, 3, -1} <= weights
    assert {} in log
    assert 3 <= max(len(delta) for tick in log for delta in tick.values()) <= 5
    assert {row for _, name, row, _ in rows_of(log) if name == "a"} <= {
        (x, y) for x in range(3) for y in "xy"
    }


def test_rows_of_a_set_are_inserted_once() -> None:
    log = random_changes(INPUTS, ticks=60, sets=["a"])
    assert is_proper(log, ["a"])
    assert not is_proper(log, ["a", "b"])
    assert {weight for _, name, _, weight in rows_of(log) if name == "a"} == {1, -1}


def test_negative_contents() -> None:
    log = random_changes(INPUTS, ticks=60, sets=["a"], negative=True)
    contents, lowest = Contents(), {"a": 0, "b": 0}
    for tick in log:
        contents = applied(contents, tick, ())
        lowest = {name: min([low, *contents[name].values()]) for name, low in lowest.items()}
    assert lowest["a"] == 0
    assert lowest["b"] < 0
    assert is_proper([{"a": tick.get("a", {})} for tick in log], ["a"])


def test_wrong_arguments() -> None:
    with pytest.raises(
        ArgumentError, match="expected values for each column of 'a', got none for one of them"
    ):
        random_changes({"a": (range(3), [])})
    with pytest.raises(ArgumentError, match="expected a number of ticks, got -1"):
        random_changes(INPUTS, ticks=-1)
    with pytest.raises(ArgumentError, match="expected a number of rows, got -2"):
        random_changes(INPUTS, rows=-2)
    with pytest.raises(ArgumentError, match=r"ticks: expected an int, got 3\.0 of type float"):
        random_changes(INPUTS, ticks=3.0)  # type: ignore[arg-type]
