"""Sorts by ranges of keys: the rows and weights of one kernel call, with any number of threads."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp import kernels
from dbsp.kernels import consolidate
from dbsp.kernels.arrays import Codes
from dbsp.kernels.key_ranges import KEY_BITS
from dbsp.parallel import range_sort
from dbsp.parallel.range_sort import Part, joined_ranges, sort_parts

from .small_pieces import THREADS, small_pieces

values = st.integers(0, 6) | st.sampled_from([-(2**63), 2**63 - 1, -1, 2**40, 2**61, 2**62])
weights = st.sampled_from([1, 1, 1, -1, 2, 2**63 - 1, -(2**63)])


@st.composite
def batches(draw: st.DrawFn, weights: st.SearchStrategy[int]) -> list[Part]:
    """Parts of one to four columns; often all weights are 1."""
    arity = draw(st.integers(1, 4))
    weight = draw(st.sampled_from([weights, st.just(1)]))
    rows = st.lists(st.tuples(st.tuples(*[values] * arity), weight), min_size=1, max_size=24)
    return [part_of(pairs, arity) for pairs in draw(st.lists(rows, min_size=1, max_size=3))]


def part_of(pairs: list[tuple[tuple[int, ...], int]], arity: int) -> Part:
    rows = np.array([row for row, _ in pairs], np.int64).reshape(-1, arity)
    return rows, np.array([weight for _, weight in pairs], np.int64)


def plain(part: Part) -> tuple[list[list[int]], list[int]]:
    rows, weights = part
    assert rows.flags.c_contiguous
    assert rows.flags.writeable
    return rows.tolist(), weights.tolist()


def together(parts: list[Part]) -> Part:
    return np.concatenate([rows for rows, _ in parts]), np.concatenate([weights for _, weights in parts])


@given(batches(weights), st.booleans(), st.randoms(use_true_random=False))
def test_the_sum_of_parts(parts: list[Part], owned: bool, chance: random.Random) -> None:
    rows, given_weights = together(parts)
    columns = list(range(rows.shape[1]))
    chance.shuffle(columns)
    order = np.array(columns)
    try:
        expected = plain(kernels.project(rows, given_weights, order))
    except OverflowError as error:
        expected = str(error)  # type: ignore[assignment]
    for threads in THREADS:
        copies = [(rows.copy(), weights.copy()) for rows, weights in parts]
        with small_pieces(threads):
            try:
                found = plain(sort_parts(copies, order, owned=owned))
            except OverflowError as error:
                found = str(error)  # type: ignore[assignment]
        assert found == expected
        if not owned:
            assert list(map(plain, copies)) == list(map(plain, parts))
    assert not owned or not copies


@given(batches(weights))
def test_rows_that_nobody_else_reads(parts: list[Part]) -> None:
    rows, given_weights = together(parts)
    different = np.unique(rows, axis=0)
    shuffled = different[np.random.default_rng(len(rows)).permutation(len(different))]
    try:
        expected = plain(kernels.consolidate(rows, given_weights))
    except OverflowError as error:
        expected = str(error)  # type: ignore[assignment]
    for threads in THREADS:
        with small_pieces(threads):
            try:
                found = plain(range_sort.consolidate_sole(rows.copy(), given_weights.copy()))
            except OverflowError as error:
                found = str(error)  # type: ignore[assignment]
            sorted_rows = range_sort.sort_sole(shuffled.copy())
        assert found == expected
        assert sorted_rows.tolist() == different.tolist()


@pytest.mark.parametrize(
    ("columns", "wide"),
    [
        ([(0, 2**32 - 1)] * 2, False),
        ([(0, 2**32 - 1), (0, 2**32)], True),
        ([(-(2**63), 2**63 - 1)], False),
        ([(-(2**63), 2**63 - 1), (5, 5)], False),
        ([(-(2**63), 2**63 - 1), (5, 6)], True),
    ],
)
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_wide_rows_are_sorted_by_ranges(columns: list[tuple[int, int]], wide: bool, threads: int) -> None:
    rows = np.array([[low for low, _ in columns], [high for _, high in columns]] * 20)
    with small_pieces(threads):
        assert range_sort.is_wide(rows) == wide
        assert range_sort.sorts_in_place(rows) == (threads <= 4 and not wide)
        assert not range_sort.is_wide(rows[: range_sort.LARGE - 1])


@given(batches(st.sampled_from([1, 1, -1, 2])), st.randoms(use_true_random=False))
def test_rearranged_rows(parts: list[Part], chance: random.Random) -> None:
    rows, sums = consolidate(*together(parts))
    columns = list(range(rows.shape[1]))
    chance.shuffle(columns)
    order = np.array(columns)
    expected = plain(kernels.project(rows, sums, order))
    for threads in THREADS:
        with small_pieces(threads):
            found, found_weights = range_sort.rearrange(rows, sums, order)
        assert found.tolist() == expected[0]
        assert found_weights.tolist() == (expected[1] if len(found_weights) else [])
        assert len(found_weights) or set(expected[1]) <= {1}


def test_ranges_of_skewed_rows_are_of_about_equal_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few very large values, and NULL, do not put all other rows into one range."""
    seen: list[int] = []
    monkeypatch.setattr(
        range_sort,
        "consolidate_owned",
        lambda rows, weights: (seen.append(len(rows)), kernels.consolidate_owned(rows, weights))[1],
    )
    monkeypatch.setattr(range_sort, "PIECE", 100)
    chance = np.random.default_rng(1)
    rows = chance.integers(0, 1000, (10_000, 2))
    rows[::100, 0] = 2**62
    rows[::200, 0] = -(2**63)
    found = sort_parts([(rows, np.ones(len(rows), np.int64))], np.arange(2))
    expected = consolidate(rows, np.ones(len(rows), np.int64))
    assert (found[0] == expected[0]).all()
    assert (found[1] == expected[1]).all()
    assert len(seen) < 110
    assert max(seen) < 1000


@pytest.mark.parametrize("spans", [(62,), (63,), (64,), (1, 61), (1, 62), (30, 40, 10), (0, 64), (64, 64)])
def test_keys_never_decrease_in_the_order_of_the_rows(spans: tuple[int, ...]) -> None:
    chance = np.random.default_rng(sum(spans))
    columns = [chance.integers(0, 2**bits, 200, np.uint64, endpoint=False) for bits in map(_below_64, spans)]
    columns = [column | np.uint64(1) << np.uint64(63) if bits == 64 else column
               for column, bits in zip(columns, spans, strict=True)]  # fmt: skip
    rows = np.column_stack([(column - np.uint64(2**63)).view(np.int64) for column in columns])
    rows = rows[np.lexsort(rows.T[::-1])]
    rows = np.ascontiguousarray(rows)
    low, high = rows.min(axis=0).tolist(), rows.max(axis=0).tolist()
    plan = range_sort._plan(range(len(spans)), low, high)
    keys = kernels.range_keys(rows, plan).tolist()
    assert keys == sorted(keys)
    assert keys[0] >= 0
    assert keys[-1] < 2**KEY_BITS
    assert len(set(keys)) > 100


def test_a_key_has_no_column_without_bits() -> None:
    """A shift by all 64 bits of a column has no defined result."""
    low, high = [0, -(2**63)], [2**62 - 1, 2**63 - 1]
    rows = np.array([low, high])
    plan = range_sort._plan([0, 1], low, high)
    assert kernels.range_keys(rows, plan).tolist() == [0, 2**62 - 1]


def _below_64(bits: int) -> int:
    return min(bits, 63)


@pytest.mark.parametrize("sizes", [[2, 0, 3, 1], [4, 4, 4, 4], [0, 0, 0, 0], [4, 4, 4, 3], [3, 4, 4, 4]])
@pytest.mark.parametrize("weighted", [False, True])
def test_ranges_are_joined_without_gaps(sizes: list[int], weighted: bool) -> None:
    rows = np.arange(32).reshape(16, 2).copy()  # an array with memory of its own
    weights = np.arange(16 if weighted else 0)
    starts = [0, 4, 8, 12]
    kept = [start + at for start, size in zip(starts, sizes, strict=True) for at in range(size)]
    expected: Codes = np.arange(32).reshape(16, 2)[kept]
    found, found_weights = joined_ranges(rows, weights, starts, sizes)
    assert found.tolist() == expected.tolist()
    assert found_weights.tolist() == (kept if weighted else [])
