"""Joins with many matches: equal rows are added up while matches are made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels import consolidate, join_runs, join_timed_runs, match_room, matches, register_run
from dbsp.kernels.arrays import Codes
from dbsp.kernels.tiers import INTERPRETED
from tests import reference
from tests.kernels.support import Pairs, Stack, bags, canonical, near, pairs_of, stacks

HUGE = 2**62


@contextmanager
def small_rooms() -> Iterator[None]:
    """Let plain kernels add up equal rows from four rows on, and reserve memory for two."""
    with (
        mock.patch.multiple(match_room, PIECE=4, SAMPLED=1, SELDOM=2),
        mock.patch.multiple(matches, PIECE=4, LARGEST_ROOM=2),
        np.errstate(all="ignore"),
    ):
        yield


@given(bags(near, 2), stacks(near, 2), st.lists(st.sampled_from([0, 1, -1, -2]), max_size=3))
def test_projected_pairs(bag: Pairs, stack: Stack, picked: list[int]) -> None:
    delta = reference.consolidate(bag)
    columns = np.array(picked, np.int64)
    delta_rows, delta_weights = canonical(delta, 2)
    with small_rooms():
        rows, found, count = matches.join_runs(
            delta_rows, delta_weights, 1, stack.table, stack.count, 2, columns
        )
    places = [(0, c) if c >= 0 else (1, -c - 1) for c in picked]
    assert reference.consolidate(pairs_of(rows, found)) == reference.join(
        delta, stack.total, [(0, 0)], places
    )
    pairs = [(a, b) for a in delta for run in stack.runs for b in run[0].tolist() if a[0] == b[0]]
    assert count == len(pairs) >= len(found)


@given(bags(near, 1), stacks(near, 4), st.integers(0, 3), st.integers(0, 3))
def test_projected_pairs_with_times(bag: Pairs, stack: Stack, outer: int, inner: int) -> None:
    """The time of a pair is the least upper bound of both times, in scopes within scopes."""
    delta = reference.consolidate(bag)
    delta_rows, delta_weights = canonical(delta, 1)
    now, columns = np.array([outer, inner], np.int64), np.array([0], np.int64)
    with small_rooms():
        rows, found, times, due, count = matches.join_timed_runs(
            delta_rows, delta_weights, 1, stack.table, stack.count, 4, columns, now, 2
        )
    expected = reference.consolidate(
        ((x, max(outer, time), max(inner, iteration)), w * v)
        for (x,), w in delta.items()
        for (key, _, time, iteration), v in stack.total.items()
        if key == x
    )
    at = [[outer, inner]] * due + times[due:].tolist()
    assert all(time != [outer, inner] for time in at[due:])
    timed = [((*row, *time), w) for (row, w), time in zip(pairs_of(rows, found), at, strict=True)]
    assert reference.consolidate(timed) == expected
    assert count >= len(found)


def test_partial_sums_beyond_64_bits() -> None:
    """Equal rows whose weights might not fit stay apart, since later ones may cancel them."""
    weights = [HUGE, HUGE, HUGE, HUGE, -HUGE, -HUGE, -HUGE]
    delta = np.zeros((7, 1), np.int64), np.array(weights, np.int64)
    stack = Stack([{(0, 5): 1}], 2)
    columns = np.array([-2], np.int64)
    with small_rooms():
        rows, found, count = matches.join_runs(*delta, 1, stack.table, 1, 2, columns)
    assert count == len(found) == 7
    assert pairs_of(*consolidate(rows, found)) == [((5,), HUGE)]
    smallest = np.zeros((5, 1), np.int64), np.array([-(2**63), -1, -1, -1, 4], np.int64)
    with small_rooms():
        rows, found, _ = matches.join_runs(*smallest, 1, stack.table, 1, 2, columns)
    assert pairs_of(*consolidate(rows, found)) == [((5,), 1 - 2**63)]


def product(size: int) -> tuple[tuple[Codes, Codes], Codes, tuple[Codes, Codes]]:
    """Return two relations of `size` rows with one key: a delta, and a table with its arrays."""
    rows = np.column_stack((np.zeros(size, np.int64), np.arange(size)))
    ones = np.ones(size, np.int64)
    table = np.zeros((1, 3), np.int64)
    register_run(table, 0, rows, ones)
    return (rows, ones), table, (rows, ones)


@pytest.mark.parametrize("columns", [[1], [-2], [0], [], [1, -2]])
def test_memory_follows_the_result(tier: str, columns: list[int]) -> None:
    size = 40 if tier == INTERPRETED else 1500
    delta, table, _kept = product(size)
    rows, found, count = join_runs(*delta, 1, table, 1, 2, np.array(columns, np.int64))
    assert count == size**2
    rows, sums = consolidate(rows, found)
    expected = {(0,): 1, (): 1, (1, -2): size**2}.get(tuple(columns), size)
    assert len(sums) == expected
    assert len(found) <= max(match_room.PIECE, expected)
    assert (sums == count // expected).all()
    if columns == [1, -2]:
        assert (rows == np.indices((size, size)).reshape(2, -1).T).all()


def test_matches_of_several_times(tier: str) -> None:
    """Half of the run rows are of a later iteration than the delta."""
    size = 40 if tier == INTERPRETED else 800
    delta, _, _ = product(size)
    run = np.column_stack((np.zeros(size, np.int64), np.arange(size), np.arange(size) % 2 + 2))
    table = np.zeros((1, 3), np.int64)
    ones = np.ones(size, np.int64)
    register_run(table, 0, run, ones)
    now = np.array([2], np.int64)
    rows, found, times, due, count = join_timed_runs(*delta, 1, table, 1, 3, np.array([1], np.int64), now, 1)
    assert count == size**2
    for part, time in ((slice(due), 2), (slice(due, None), 3)):
        rows_of, sums = consolidate(rows[part].copy(), found[part].copy())
        assert rows_of[:, 0].tolist() == list(range(size)) and (sums == size // 2).all()
        assert time == 2 or (times[part] == 3).all()
