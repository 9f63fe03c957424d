"""Rows of 32-bit codes, sorted in their own memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels import count_different, sum_repeated
from dbsp.kernels.arrays import StoredRows
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.kernels.narrow_rows import empty_rows, narrowed
from dbsp.kernels.run_tables import run_entry
from dbsp.kernels.tiers import COMPILED, INTERPRETED, choose_tier
from dbsp.parallel.narrow_sort import sort_narrow
from dbsp.state.sorted_run import SortedRun

from .small_pieces import THREADS, small_pieces

LEAST, MOST = -(2**31), 2**31 - 1
SPANS = [(1,), (12, 12), (32, 32), (12, 3, 20), (32, 0, 32), (1, 31, 32), (10, 11, 12, 13), (0, 0), (32,)]
"""The bits of each column."""


def random_rows(seed: int, size: int, spans: tuple[int, ...]) -> StoredRows:
    chance = np.random.default_rng(seed)
    rows = empty_rows(size, len(spans), True)
    for column, bits in enumerate(spans):
        rows[:, column] = LEAST + chance.integers(0, 2**bits, size)
    return rows


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("spans", SPANS)
@given(seed=st.integers(0, 99), size=st.sampled_from([1, 2, 9, 300, 5_000]), turn=st.integers(0, 3))
def test_rows_in_order(threads: int, spans: tuple[int, ...], seed: int, size: int, turn: int) -> None:
    rows = random_rows(seed, size, spans)
    columns = np.roll(np.arange(len(spans)), turn)
    expected = sorted(rows[:, columns].tolist())
    with small_pieces(threads):
        assert sort_narrow(rows, columns)
    assert rows.tolist() == expected


@pytest.mark.parametrize("tier", [INTERPRETED, COMPILED])
def test_both_tiers(tier: str) -> None:
    rows = random_rows(3, 2_000, (12, 32, 20))
    expected = sorted(rows[:, [1, 2, 0]].tolist())
    choose_tier(tier)
    try:
        with small_pieces(2):
            assert sort_narrow(rows, np.array([1, 2, 0]))
    finally:
        choose_tier(COMPILED)
    assert rows.tolist() == expected


def test_keys_with_equal_digits() -> None:
    """Most rows are equal, or differ in the last bits only: no digit divides them."""
    rows = random_rows(1, 100_000, (32, 32))
    rows[:90_000] = 7
    rows[90_000:95_000, 0] = MOST
    expected = sorted(rows.tolist())
    assert sort_narrow(rows, np.arange(2)) and rows.tolist() == expected


@pytest.mark.parametrize("spans", [(32, 32, 1), (22, 22, 22)])
def test_rows_of_more_than_64_bits_stay(spans: tuple[int, ...]) -> None:
    rows = random_rows(2, 5_000, spans)
    before = rows.copy()
    assert not sort_narrow(rows, np.array([2, 0, 1])) and (rows == before).all()
    different = np.unique(before, axis=0)
    run = SortedRun.of_unsorted(narrowed(different[::-1].astype(np.int64)))
    assert run.narrow and run.codes.tolist() == different.tolist()


def test_few_rows_stay_wide() -> None:
    run = SortedRun.of_unsorted(np.array([[3, 1], [INT64_MAX, 0], [INT64_MIN, 0]]))
    assert not run.narrow and run.codes.tolist() == [[INT64_MIN, 0], [3, 1], [INT64_MAX, 0]]
    assert run.weights.tolist() == [1, 1, 1]


@pytest.mark.parametrize("tier", [INTERPRETED, COMPILED])
def test_repeated_rows_end_where_the_rows_end(tier: str) -> None:
    """The memory behind the rows has an equal row."""
    rows = narrowed(np.array([[1, 2], [1, 2], [3, 4], [3, 4], [3, 4]]))
    word, _, _ = run_entry(rows, np.ones(1, np.int64))
    counts = np.zeros(2, np.int64)
    choose_tier(tier)
    try:
        assert count_different(word, 2, 4) == 2
        sum_repeated(word, 2, 4, counts)
    finally:
        choose_tier(COMPILED)
    assert counts.tolist() == [2, 2] and rows[:2].tolist() == [[1, 2], [3, 4]]
