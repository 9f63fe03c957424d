"""Sorting of narrow pairs by a column with few values, which are sorted by the other one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels import narrow_rows, transpose_pairs
from dbsp.kernels.narrow_rows import empty_rows, narrowed
from dbsp.kernels.run_tables import run_entry
from dbsp.state import sorted_run
from dbsp.state.sorted_run import ROWS_OF_VALUE, SortedRun

LEAST, MOST = -(2**31), 2**31 - 1
ONE = np.ones(1, np.int64)

Pairs = list[tuple[int, int]]

values = st.integers(-3, 3) | st.sampled_from([LEAST, LEAST + 2, MOST - 1, MOST])


def transposed(sides: list[Pairs], column: int, most: int) -> list[list[int]] | None:
    """Return what the kernel writes, with the column first."""
    parts = [narrowed(np.array(side, np.int64).reshape(-1, 2)) for side in sides]
    out = empty_rows(sum(map(len, parts)), 2, True)
    table = np.array([run_entry(part, ONE) for part in (*parts, out)], np.int64)
    return out.tolist() if transpose_pairs(table, column, most) else None


def by_the_other(pairs: Pairs, column: int) -> Pairs:
    return sorted(pairs, key=lambda pair: (pair[1 - column], pair[column]))


@given(
    st.dictionaries(st.tuples(values, st.integers(0, 6)), st.integers(0, 1), min_size=1, max_size=30),
    st.sampled_from([0, 5 - 2**31, 2**31 - 7]),
    st.integers(0, 1),
)
def test_a_transposition_sorts_pairs(side_of: dict[tuple[int, int], int], shift: int, column: int) -> None:
    """The values of the column are close to each other, and those of the other one are not."""
    side_of = {
        (value + shift, far) if column == 0 else (far, value + shift): side
        for (far, value), side in side_of.items()
    }
    sides = [by_the_other([p for p in side_of if side_of[p] == side], column) for side in range(2)]
    found = [pair[column] for pair in side_of]
    span = max(found) - min(found) + 1
    expected = sorted([pair[column], pair[1 - column]] for pair in side_of)
    assert transposed(sides, column, span) == expected
    assert transposed(sides, column, span - 1) is None


@pytest.mark.parametrize("column", [0, 1])
def test_a_column_with_the_range_of_int32_is_not_transposed(column: int) -> None:
    pairs = [(LEAST, LEAST), (MOST, MOST)]
    for sides in ([pairs, []], [[], pairs], [pairs[:1], pairs[1:]]):
        assert transposed(sides, column, 2**32 - 1) is None


@pytest.mark.parametrize("size", [narrow_rows.LARGE - 1, narrow_rows.LARGE])
@pytest.mark.parametrize("far", [0, 2**40])
@pytest.mark.parametrize("wide", [True, False])
def test_only_many_narrow_pairs_are_transposed(size: int, far: int, wide: bool) -> None:
    rows = np.column_stack((np.arange(size) + far, np.zeros(size, np.int64)))
    form = np.copy if wide or far else narrowed
    found = SortedRun.transposed([form(rows[::2].copy()), form(rows[1::2].copy())], 1)
    assert (found is not None) == (size == narrow_rows.LARGE and not far)
    if found is not None:
        assert found.narrow and len(found.stored) == 1 and (found.rows == rows[:, ::-1]).all()


def test_neither_triples_nor_a_part_with_larger_codes_are_transposed() -> None:
    triples, pairs = (np.zeros((narrow_rows.LARGE, width), np.int64) for width in (3, 2))
    assert SortedRun.transposed([triples], 1) is None
    assert SortedRun.transposed([pairs, np.array([[2**32, 0]])], 1) is None
    assert SortedRun.transposed([pairs, np.array([[2**20, 0]])], 1) is not None


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("column", [0, 1])
def test_only_a_column_with_few_values_is_transposed(
    parts: int, column: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(narrow_rows, "LARGE", 24)
    few, many = (
        np.column_stack((np.arange(24), np.arange(24) % values)) for values in (24 // ROWS_OF_VALUE, 4)
    )
    if column == 0:
        few, many = few[:, ::-1].copy(), many[:, ::-1].copy()
    halves = [few[::2].copy(), few[1::2].copy()] if parts == 2 else [few]
    found = SortedRun.transposed(halves, column)
    assert found is not None
    assert found.rows.tolist() == sorted(few[:, [column, 1 - column]].tolist())
    assert SortedRun.transposed([many], column) is None
    monkeypatch.setattr(sorted_run, "MOST_VALUES", 2)
    assert SortedRun.transposed(halves, column) is None
