"""The merge of many sorted runs: the sum of their Z-sets, by pieces and two by two."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels import consolidate, narrow_rows
from dbsp.kernels.narrow_rows import fit_narrow, narrowed
from dbsp.state import merge_in_place, wide_merge
from dbsp.state.sorted_run import SortedRun
from dbsp.state.wide_merge import merge_many

Pairs = list[tuple[tuple[int, int], int]]


def run_of(pairs: Pairs, implicit: bool, narrow: bool = False) -> SortedRun:
    rows = np.array([row for row, _ in pairs], np.int64).reshape(len(pairs), 2)
    rows, weights = consolidate(rows, np.array([weight for _, weight in pairs], np.int64))
    codes = narrowed(rows) if narrow else rows
    return SortedRun.of_ones(codes) if implicit else SortedRun(codes, weights)


def total(runs: Sequence[SortedRun]) -> dict[tuple[int, ...], int]:
    sums: dict[tuple[int, ...], int] = {}
    for run in runs:
        for row, weight in zip(run.rows.tolist(), run.weights.tolist(), strict=True):
            sums[tuple(row)] = sums.get(tuple(row), 0) + weight
    return {row: weight for row, weight in sums.items() if weight}


values = st.integers(0, 30) | st.sampled_from([-(2**63), -(2**31) - 1, -(2**31), 2**31 - 1, 2**31, 2**63 - 1])
bags = st.lists(st.tuples(st.tuples(values, values), st.sampled_from([1, 1, -1, 3])), min_size=1, max_size=20)
stacks = st.lists(st.builds(run_of, bags, st.booleans(), st.booleans()).filter(len), min_size=1, max_size=14)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide_merge, "PIECE", 16)
    monkeypatch.setattr(wide_merge, "SLICE", 1)
    monkeypatch.setattr(narrow_rows, "LARGE", 30)


@given(stacks, st.sampled_from([0, 4, 100]), st.sampled_from([1, 1000]))
def test_the_merge_is_the_sum(stack: list[SortedRun], few: int, in_place: int) -> None:
    copies = [copy.copy(run) for run in stack]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wide_merge, "FEW", few)
        patch.setattr(merge_in_place, "LEAST", in_place)
        merged = merge_many(copies)
    assert not copies
    expected = sorted(total(stack).items())
    found = zip(map(tuple, merged.rows.tolist()), merged.weights.tolist(), strict=True)
    assert list(found) == expected
    assert merged.codes.flags.c_contiguous
    large = len(stack) > 1 and sum(run.size for run in stack) >= 30
    assert merged.narrow == (large and all(fit_narrow(run.rows) for run in stack)) or (
        few == 4 or not large or in_place == 1
    )


def test_many_runs_of_weight_one_keep_no_weights() -> None:
    """The rows of every piece are used; each run has rows in every piece."""
    nodes = np.arange(40)
    runs = [SortedRun.of_ones(np.column_stack((nodes, nodes + length))) for length in range(20)]
    merged = merge_many(runs)
    assert merged.size == 800 and len(merged.stored) == 1 and merged.largest == 1
    assert merged.rows.tolist() == [[x, x + length] for x in range(40) for length in range(20)]


def test_pieces_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """No piece of evenly spread rows is much larger than PIECE, so a merge needs little memory."""
    sizes = []

    def measured(rows: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sizes.append(len(rows))
        return consolidate(rows, weights)

    monkeypatch.setattr(wide_merge, "PIECE", 200)
    monkeypatch.setattr(wide_merge, "consolidate_owned", measured)
    chance = np.random.default_rng(1)
    runs = [run_of([((int(x), 0), 1) for x in chance.integers(0, 10**6, 50 + n)], False) for n in range(60)]
    merge_many(list(runs))
    assert sum(sizes) == sum(run.size for run in runs) and max(sizes) < 2 * 200
    few = len(sizes)
    monkeypatch.setattr(wide_merge, "SLICE", 20)  # of 60 runs: the pieces have 1,200 rows
    merge_many(runs)
    assert 4 <= len(sizes) - few < few // 4


def test_cancelled_rows_leave_no_memory() -> None:
    nodes = np.arange(64)
    rows = np.column_stack((nodes, nodes))
    ones = np.ones(64, np.int64)
    pairs = [SortedRun(rows, sign * ones) for _ in range(5) for sign in (1, -1)]
    assert merge_many(pairs).size == 0
    left = merge_many([*pairs, SortedRun(rows[:3].copy(), 2 * ones[:3])])
    assert left.weights.tolist() == [2, 2, 2] and left.rows.base is None


def test_pieces_with_equal_rows_and_others_alternate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide_merge, "PIECE", 100)
    nodes = np.arange(1000)
    seconds = (nodes, nodes + nodes // 100 % 2)  # every other hundred of the rows is in both runs
    runs = [SortedRun.of_ones(np.column_stack((nodes, second))) for second in seconds]
    runs += [SortedRun.of_ones(np.column_stack((nodes[:5], nodes[:5] - length))) for length in range(1, 9)]
    assert len(runs) > wide_merge.FEW
    merged = merge_many(list(runs))
    found = zip(map(tuple, merged.rows.tolist()), merged.weights.tolist(), strict=True)
    assert dict(found) == total(runs)
