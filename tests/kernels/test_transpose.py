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


def transposed(
    sides: list[Pairs], column: int, most: int, weight_of: dict[tuple[int, int], int] | None = None
) -> tuple[list[list[int]], list[int]] | None:
    """Return what the kernel writes, with the column first, and the weights, if there are any."""
    parts = [narrowed(np.array(side, np.int64).reshape(-1, 2)) for side in sides]
    weights = [np.array([(weight_of or {}).get(pair, 1) for pair in side], np.int64) for side in sides]
    size = sum(map(len, parts))
    out, summed = empty_rows(size, 2, True), np.zeros(size if weight_of else 0, np.int64)
    runs = zip([*parts, out], [*weights, summed], strict=True)
    table = np.array([run_entry(*run) for run in runs], np.int64)
    if weight_of is None:
        table[2, 1] = 0
    return (out.tolist(), summed.tolist()) if transpose_pairs(table, column, most) else None


def by_the_other(pairs: Pairs, column: int) -> Pairs:
    return sorted(pairs, key=lambda pair: (pair[1 - column], pair[column]))


@given(
    st.dictionaries(st.tuples(values, st.integers(0, 6)), st.integers(0, 1), min_size=1, max_size=30),
    st.sampled_from([0, 5 - 2**31, 2**31 - 7]),
    st.integers(0, 1),
    st.booleans(),
)
def test_a_transposition_sorts_pairs(
    side_of: dict[tuple[int, int], int], shift: int, column: int, weighted: bool
) -> None:
    """The values of the column are close to each other, and those of the other one are not."""
    side_of = {
        (value + shift, far) if column == 0 else (far, value + shift): side
        for (far, value), side in side_of.items()
    }
    sides = [by_the_other([p for p in side_of if side_of[p] == side], column) for side in range(2)]
    found = [pair[column] for pair in side_of]
    span = max(found) - min(found) + 1
    in_order = sorted(side_of, key=lambda pair: (pair[column], pair[1 - column]))
    weight_of = {pair: 2 + number for number, pair in enumerate(side_of)} if weighted else None
    expected = [[pair[column], pair[1 - column]] for pair in in_order]
    weights = [weight_of[pair] for pair in in_order] if weight_of else []
    assert transposed(sides, column, span, weight_of) == (expected, weights)
    assert transposed(sides, column, span - 1, weight_of) is None


def test_the_weights_of_both_runs_move_with_their_pairs() -> None:
    sides = [[(1, 5), (4, 6), (2, 7)], [(3, 5), (1, 6), (2, 8), (1, 9)]]
    weight_of = {pair: 10 * pair[0] + pair[1] for side in sides for pair in side}
    in_order = sorted(weight_of)
    assert transposed(sides, 0, 4, weight_of) == (
        [list(pair) for pair in in_order],
        [weight_of[pair] for pair in in_order],
    )


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
    if parts == 1:
        weighted = SortedRun.transposed(halves, column, np.arange(24) * 5)
        assert weighted is not None and weighted.narrow and weighted.size == len(weighted.stored) == 24
        assert weighted.codes.tolist() == found.codes.tolist()
        assert weighted.stored.tolist() == (weighted.rows[:, 1] * 5).tolist()
    monkeypatch.setattr(sorted_run, "MOST_VALUES", 2)
    assert SortedRun.transposed(halves, column) is None
