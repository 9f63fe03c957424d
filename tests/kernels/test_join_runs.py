"""Kernels that search and join several sorted runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels import gather, join_runs, join_timed_runs
from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.jit import codes_at, kernel
from dbsp.kernels.run_search import gallop, gallop_keys
from dbsp.kernels.tiers import entry
from tests import reference
from tests.kernels.support import Pairs, Stack, bags, canonical, near, pairs_of, stacks


@entry
@kernel
def _gallop(stack: Rows, k: int, low: int, high: int, keys: Rows, i: int, m: int, after: int) -> int:
    return gallop(codes_at(stack[0, 0]), k, low, high, keys, i, m, after)


@entry
@kernel
def _gallop_keys(keys: Rows, low: int, table: Rows, at: int, m: int) -> int:
    return gallop_keys(keys, low, codes_at(table[0, 0]), at, m)


@given(bags(st.integers(0, 30), 2, 60), st.integers(0, 2), st.data())
def test_gallop(bag: Pairs, m: int, data: st.DataObject) -> None:
    stack = Stack([reference.consolidate(bag)], 2, data.draw(st.booleans(), "narrow"))
    run = stack.runs[0][0].tolist()
    low = data.draw(st.integers(0, len(run)))
    high = data.draw(st.integers(low, len(run)))
    key = data.draw(st.tuples(st.integers(-1, 31), st.integers(-1, 31)))
    keys = np.array([key], np.int64)
    for after in (0, 1):
        expected = next(
            (
                i
                for i in range(low, high)
                if (run[i][:m] >= list(key[:m]) if not after else run[i][:m] > list(key[:m]))
            ),
            high,
        )
        assert _gallop(stack.table, 2, low, high, keys, 0, m, after) == expected
    if run:
        at = data.draw(st.integers(0, len(run) - 1))
        sorted_keys = sorted({row for row, _ in bag})
        array = np.array(sorted_keys, np.int64)
        start = data.draw(st.integers(0, len(sorted_keys)))
        expected = next(
            (i for i in range(start, len(sorted_keys)) if list(sorted_keys[i][:m]) >= run[at][:m]),
            len(sorted_keys),
        )
        assert _gallop_keys(array, start, stack.table, at * 2, m) == expected


# --- joins over several runs ----------------------------------------------------------------------


@given(bags(near, 2), stacks(near, 2), st.integers(0, 2))
def test_join_runs(bag: Pairs, stack: Stack, m: int) -> None:
    delta = reference.consolidate(bag)
    columns = np.array([-2, 1, 0, -1], np.int64)
    rows, found, matches = join_runs(*canonical(delta, 2), m, stack.table, stack.count, 2, columns)
    expected = reference.join(
        delta, stack.total, [(c, c) for c in range(m)], [(1, 1), (0, 1), (0, 0), (1, 0)]
    )
    assert reference.consolidate(pairs_of(rows, found)) == expected
    assert matches == len(found)


@given(bags(near, 1), stacks(near, 3), st.integers(0, 3))
def test_join_timed_runs(bag: Pairs, stack: Stack, now: int) -> None:
    """The last column is the iteration; the time of a match is the later one of both."""
    delta = reference.consolidate(bag)
    columns = np.array([0, -2], np.int64)
    rows, found, times, due, matches = join_timed_runs(
        *canonical(delta, 1), 1, stack.table, stack.count, 3, columns, np.array([now], np.int64), 1
    )
    expected = reference.consolidate(
        ((x, y, max(now, time)), w * v)
        for (x,), w in delta.items()
        for (key, y, time), v in stack.total.items()
        if key == x
    )
    at = [now] * due + [int(time) for (time,) in times[due:]]
    assert all(time > now for time in at[due:])
    timed = [((*row, time), w) for (row, w), time in zip(pairs_of(rows, found), at, strict=True)]
    assert reference.consolidate(timed) == expected
    assert matches == len(found)


@given(bags(near, 1), stacks(near, 4), st.integers(0, 3), st.integers(0, 3), st.sampled_from([1, 2]))
def test_join_timed_runs_of_scopes_within_scopes(
    bag: Pairs, stack: Stack, outer: int, inner: int, coordinates: int
) -> None:
    """The time of a match is the least upper bound; runs of the outer scope have no inner time."""
    delta = reference.consolidate(bag)
    columns = np.array([0, -2], np.int64)
    now = np.array([outer, inner], np.int64)
    rows, found, times, due, matches = join_timed_runs(
        *canonical(delta, 1), 1, stack.table, stack.count, 4, columns, now, coordinates
    )
    pairs = []
    for (x,), w in delta.items():
        for row, v in stack.total.items():
            time = (*row[4 - coordinates :], 0)[:2]
            if row[0] == x:
                pairs.append(((x, row[1], max(outer, time[0]), max(inner, time[1])), w * v))
    at = [[outer, inner]] * due + times[due:].tolist()
    timed = [((*row, *time), w) for (row, w), time in zip(pairs_of(rows, found), at, strict=True)]
    assert reference.consolidate(timed) == reference.consolidate(pairs)
    assert matches == len(found)


@given(bags(near, 2), stacks(near, 3), st.integers(0, 2), st.data())
def test_gather(bag: Pairs, stack: Stack, m: int, data: st.DataObject) -> None:
    keys = sorted({row[:m] for row, _ in bag})
    split = data.draw(st.integers(0, stack.count))
    array = np.array(keys, np.int64).reshape(len(keys), m)
    rows, found, first = gather(array, m, stack.table, stack.count, 3, split)
    found_pairs = pairs_of(rows, found)

    def expected(runs: Sequence[tuple[Rows, Codes]]) -> Pairs:
        return sorted(pair for run in runs for pair in pairs_of(*run) if pair[0][:m] in keys)

    assert sorted(found_pairs[:first]) == expected(stack.runs[:split])
    assert sorted(found_pairs[first:]) == expected(stack.runs[split:])
