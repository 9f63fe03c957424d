"""Joins whose pairs are added up by groups: the sums that a join of single pairs has."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels import (
    consolidate,
    has_many_pairs,
    join_by_groups,
    join_runs,
    register_run,
)
from dbsp.kernels.tiers import INTERPRETED
from tests import reference
from tests.kernels.support import Pairs, Stack, bags, canonical, near, pairs_of, stacks

HUGE = 2**62
NONE = np.empty(0, np.int64)

picks = st.lists(st.sampled_from([0, 1, 2, -1, -2, -3]), max_size=4)


@given(bags(near, 3), stacks(near, 3), st.integers(0, 2), picks)
def test_sums(bag: Pairs, stack: Stack, m: int, picked: list[int]) -> None:
    delta = reference.consolidate(bag)
    rows, found, times, ready, count = join_by_groups(
        *canonical(delta, 3), m, stack.table, stack.count, 3, np.array(picked, np.int64), NONE, 0
    )
    places = [(0, c) if c >= 0 else (1, -c - 1) for c in picked]
    keys = [(c, c) for c in range(m)]
    assert reference.consolidate(pairs_of(rows, found)) == reference.join(delta, stack.total, keys, places)
    assert len(set(map(tuple, rows.tolist()))) == len(rows) == ready and len(times) == 0
    pairs = [0 for a in delta for run in stack.runs for b in run[0].tolist() if list(a[:m]) == b[:m]]
    assert count == len(pairs)


@given(
    bags(near, 2),
    stacks(near, 4),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
    st.sampled_from([1, 2]),
    st.lists(st.sampled_from([0, 1, -1, -2]), max_size=3),
)
def test_sums_with_times(
    bag: Pairs, stack: Stack, now: tuple[int, int], coordinates: int, picked: list[int]
) -> None:
    """The time of a pair is the later one of both, in each scope; outer runs have no inner time."""
    delta = reference.consolidate(bag)
    rows, found, times, ready, _ = join_by_groups(
        *canonical(delta, 2),
        1,
        stack.table,
        stack.count,
        4,
        np.array(picked, np.int64),
        np.array(now, np.int64),
        coordinates,
    )
    expected = []
    for row, w in delta.items():
        for stored, v in stack.total.items():
            if row[0] == stored[0]:
                stored_time = (*stored[4 - coordinates :], 0)[:2]
                time = tuple(map(max, now, stored_time))
                values = [row[c] if c >= 0 else stored[-c - 1] for c in picked]
                expected.append(((*values, *time), w * v))
    at = [now] * ready + [tuple(time) for time in times[ready:].tolist()]
    assert all(time != now for time in at[ready:])
    timed = [((*row, *time), w) for (row, w), time in zip(pairs_of(rows, found), at, strict=True)]
    assert reference.consolidate(timed) == reference.consolidate(expected)
    assert len({row for row, _ in timed}) == len(timed)


@given(bags(near, 1, 40), stacks(near, 2), st.integers(0, 4))
def test_many_pairs(bag: Pairs, stack: Stack, share: int) -> None:
    delta = reference.consolidate(bag)
    stored = [row for run in stack.runs for row in run[0].tolist() if (row[0],) in delta]
    rows, _ = canonical(delta, 1)
    many = len(stored) >= share * (len(delta) + len(stored))
    assert has_many_pairs(rows, 1, stack.table, stack.count, 2, share) == many
    # Each row with an equal key has the same stored rows.
    rows = np.repeat(np.column_stack((rows, rows)), 5, axis=0)
    rows[:, 1] = np.arange(len(rows))
    many = 5 * len(stored) >= share * (len(rows) + len(stored))
    assert has_many_pairs(rows, 1, stack.table, stack.count, 2, share) == many


@pytest.mark.parametrize("weights", [[HUGE, HUGE, -HUGE], [-(2**63), 3, 5], [1, 2, 3]])
@pytest.mark.parametrize("stored", [1, 1 - 2**63, 3])
def test_sums_that_may_not_fit_are_not_made(weights: list[int], stored: int) -> None:
    delta = np.zeros((3, 1), np.int64), np.array(weights, np.int64)
    stack = Stack([{(0, 5): stored}], 2)
    rows, found, _, ready, count = join_by_groups(
        *delta, 1, stack.table, 1, 2, np.array([-2], np.int64), NONE, 0
    )
    if max(map(abs, weights)) * abs(stored) * 3 < HUGE:
        assert count == 3 and pairs_of(rows, found) == [((5,), sum(weights) * stored)]
    else:
        assert count == -1 and ready == len(found) == len(rows) == 0


@pytest.mark.parametrize("columns", [(1, -2), (-2, 1), (1,), (-2,), (), (1, 0, -2)])
def test_many_rows(tier: str, columns: tuple[int, ...]) -> None:
    """More groups and partners than there is room for at first, in runs of both widths."""
    keys, values = (4, 40) if tier == INTERPRETED else (4, 3000)
    rows = np.stack(np.meshgrid(np.arange(keys), np.arange(values), indexing="ij"), 2).reshape(-1, 2)
    few = np.ascontiguousarray(rows[rows[:, 1] < 13])
    for delta, stored in ((few, rows * [1, 2**33]), (rows, few)):
        table = np.zeros((1, 3), np.int64)
        ones = np.ones(len(stored), np.int64)
        register_run(table, 0, stored, ones)
        arguments = delta, np.arange(1, len(delta) + 1), 1, table, 1, 2, np.array(columns, np.int64)
        expected_rows, expected, count = join_runs(*arguments)
        found_rows, found, *_, pairs = join_by_groups(*arguments, NONE, 0)
        assert pairs == count == 13 * len(rows)
        sums = pairs_of(*consolidate(found_rows, found))
        assert sums == pairs_of(*consolidate(expected_rows, expected)) and len(sums) == len(found)
