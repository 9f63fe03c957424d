"""Sums and differences of two sorted runs, in particular of one with many more rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dbsp.kernels import merge_backward, subtract_runs
from dbsp.kernels.arrays import Codes, StoredRows
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.kernels.narrow_rows import empty_rows, narrowed
from dbsp.kernels.run_merge import LONGER
from dbsp.kernels.run_tables import merge_some, run_entry
from tests import reference
from tests.kernels.support import canonical
from tests.reference import Z


class Sides(NamedTuple):
    """Two runs of rows of `width` columns, by the numbers of their rows and the other weights."""

    width: int
    long: dict[int, int]
    short: dict[int, int]
    swapped: bool
    narrow: tuple[bool, bool, bool]
    """Whether the codes of the first run, the second one and the result are int32."""
    units: bool
    """Whether a run whose weights are all 1 has only one of them."""

    def zsets(self) -> tuple[Z, Z]:
        one, other = (
            {self.row(number): weight for number, weight in side.items()} for side in (self.long, self.short)
        )
        return (other, one) if self.swapped else (one, other)

    def row(self, number: int) -> tuple[int, ...]:
        """Return row `number` in the order of rows: codes are negative, too, and columns equal."""
        return (number // 7 - 9,) * (self.width - 1) + (number % 7 - 3 if self.width > 1 else number - 60,)

    def runs(self) -> list[tuple[StoredRows, Codes]]:
        return [self.run(zset, narrow) for zset, narrow in zip(self.zsets(), self.narrow, strict=False)]

    def run(self, zset: Z, narrow: bool) -> tuple[StoredRows, Codes]:
        rows, weights = canonical(zset, self.width)
        if self.units and len(rows) > 1 and (weights == 1).all():
            weights = np.ones(1, np.int64)
        return (narrowed(rows) if narrow else rows), weights

    def room(self, weighted: bool) -> tuple[StoredRows, Codes]:
        size = len(self.long) + len(self.short)
        return empty_rows(size, self.width, self.narrow[2]), np.zeros(size if weighted else 0, np.int64)


@st.composite
def sides(draw: st.DrawFn, *weights: int) -> Sides:
    weight = st.sampled_from(weights)
    width = draw(st.integers(1, 3))
    count = draw(st.sampled_from([0, 3, LONGER, 3 * LONGER + 5, 7 * LONGER]))
    long = dict.fromkeys(range(0, draw(st.sampled_from([1, 2])) * count, draw(st.sampled_from([1, 2]))), 1)
    if draw(st.booleans()):
        long |= {number: draw(weight) for number in draw(st.sets(st.integers(0, 99), max_size=3))}
    short = draw(st.dictionaries(st.integers(0, 120), weight, max_size=4))
    narrow = draw(st.tuples(st.booleans(), st.booleans(), st.booleans()))
    return Sides(width, long, short, draw(st.booleans()), narrow, draw(st.booleans()))


def contents(rows: StoredRows, weights: Codes, count: int) -> list[tuple[tuple[int, ...], int]]:
    return list(zip(map(tuple, rows[:count].tolist()), weights[:count].tolist(), strict=True))


def expected(zset: Z) -> list[tuple[tuple[int, ...], int]]:
    return sorted(zset.items())


def merged(given: Sides, fuel: int, weighted: bool) -> list[tuple[tuple[int, ...], int]]:
    """Merge in pieces; without room for weights, get it where the merge stops."""
    (a, a_weights), (b, b_weights) = given.runs()
    rows, weights = given.room(weighted)
    state = np.zeros(4, np.int64)
    calls = 1
    while not merge_some(a, a_weights, b, b_weights, rows, weights, state, fuel):
        calls += 1
        assert state[0] + state[1] <= 2 * calls * fuel
        if state[3]:
            assert not len(weights)
            weights = np.ones(len(rows), np.int64)
            state[3] = 0
    assert calls >= len(a) // fuel and calls >= len(b) // fuel
    return contents(rows, weights if len(weights) else np.ones(len(rows), np.int64), state[2])


def merged_backward(given: Sides, weighted: bool, in_place: bool) -> list[tuple[tuple[int, ...], int]]:
    (a, a_weights), (b, b_weights) = given.runs()
    rows, weights = given.room(weighted)
    if in_place and rows.itemsize == a.itemsize:
        rows[: len(a)] = a
        a = rows[: len(a)]
    table = np.array([run_entry(a, a_weights), run_entry(b, b_weights), run_entry(rows, weights)], np.int64)
    if not weighted:
        table[2, 1] = 0
    state = np.array([len(a), len(b), len(rows), 0], np.int64)
    while not merge_backward(table, given.width, state):
        assert state[3] and not len(weights)
        weights = np.ones(len(rows), np.int64)
        table[2, 1] = weights.ctypes.data
        state[3] = 0
    first = int(state[2])
    weights = weights if len(weights) else np.ones(len(rows), np.int64)
    return contents(rows[first:], weights[first:], len(rows) - first)


@given(sides(1, -1, 2), st.integers(1, 40) | st.just(1 << 40), st.booleans())
def test_a_merge_in_pieces(given: Sides, fuel: int, weighted: bool) -> None:
    assert merged(given, fuel, weighted) == expected(reference.add(*given.zsets()))


@given(sides(1, -1, 2), st.booleans(), st.booleans())
def test_a_merge_backward(given: Sides, weighted: bool, in_place: bool) -> None:
    """The result may be in the memory of the first run."""
    assert merged_backward(given, weighted, in_place) == expected(reference.add(*given.zsets()))


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("width", [1, 2])
def test_a_weight_other_than_1_within_a_stretch(width: int, swapped: bool) -> None:
    """There is no room for it: the merge stops before its row, and not before or after others."""
    for place in range(100):
        long = dict.fromkeys(range(0, 200, 2), 1) | {2 * place: 2}
        given = Sides(width, long, {-1: 1, 77: 1, 198: -1}, swapped, (True,) * 3, True)
        total = expected(reference.add(*given.zsets()))
        assert merged(given, 1 << 40, weighted=False) == total
        assert merged_backward(given, weighted=False, in_place=not swapped) == total


@given(sides(1, 2, -3, INT64_MAX))
@example(Sides(2, {5: 1}, {5: 1, 6: 2}, False, (True, True, True), True))
def test_a_difference(given: Sides) -> None:
    one, other = given.zsets()
    sums = {row: one.get(row, 0) - other.get(row, 0) for row in one.keys() | other.keys()}
    runs = [*given.runs(), given.room(True)]
    table = np.array([run_entry(*run) for run in runs], np.int64)
    if any(not INT64_MIN <= weight <= INT64_MAX for weight in sums.values()):
        with pytest.raises(OverflowError, match="weight"):
            subtract_runs(table, given.width)
        return
    count = subtract_runs(table, given.width)
    assert contents(*runs[2], count) == expected({row: weight for row, weight in sums.items() if weight})


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("one", [{}, {1: 1}, {2: 1}])
def test_a_weight_that_cannot_be_negated(narrow: bool, one: dict[int, int]) -> None:
    given = Sides(2, one, {1: INT64_MIN}, False, (narrow,) * 3, False)
    runs = [*given.runs(), given.room(True)]
    table = np.array([run_entry(*run) for run in runs], np.int64)
    with pytest.raises(OverflowError, match="weight: the negation of a weight"):
        subtract_runs(table, 2)


@pytest.mark.parametrize("columns", [(-(2**31), 2**31 - 1), (2**31 - 1, -(2**31)), (-1, 0), (0, -1)])
def test_the_order_of_narrow_pairs_is_that_of_their_columns(columns: tuple[int, int]) -> None:
    """With every pair of these codes in one of the runs, or in both."""
    pairs = [(x, y) for x in columns for y in columns]
    for number in range(3 ** len(pairs)):
        places = [number // 3**k % 3 for k in range(len(pairs))]
        one = {pair: 1 for pair, place in zip(pairs, places, strict=True) if place != 1}
        other = {pair: 2 for pair, place in zip(pairs, places, strict=True) if place != 0}
        size = len(one) + len(other)
        runs = [(narrowed(rows), weights) for rows, weights in (canonical(side, 2) for side in (one, other))]
        runs.append((empty_rows(size, 2, True), np.zeros(size, np.int64)))
        count = subtract_runs(np.array([run_entry(*run) for run in runs], np.int64), 2)
        assert contents(*runs[2], count) == expected(reference.minus(one, other))
