"""Kernels that sort, consolidate and merge rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.data.batch import Batch
from dbsp.kernels import (
    consolidate,
    consolidate_few,
    consolidate_owned,
    is_sorted,
    project,
    sort_owned,
    subtract_runs,
    sum_runs,
    with_time,
)
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.kernels.narrow_rows import empty_rows, fit_narrow, narrowed, widened
from dbsp.kernels.run_tables import merge_some, run_entry
from dbsp.kernels.tiers import COMPILED
from tests import reference
from tests.kernels.support import (
    Pairs,
    Stack,
    arrays,
    bags,
    canonical,
    codes,
    model_pairs,
    near,
    pairs_of,
    stacks,
    weights,
)
from tests.reference import Z


@given(st.integers(1, 4).flatmap(lambda k: st.tuples(st.just(k), bags(codes, k))))
def test_consolidate(case: tuple[int, Pairs]) -> None:
    arity, bag = case
    assert pairs_of(*consolidate(*arrays(bag, arity))) == model_pairs(reference.consolidate(bag))


@given(st.integers(0, 3).flatmap(lambda k: st.tuples(st.just(k), bags(codes, k))))
def test_is_sorted(case: tuple[int, Pairs]) -> None:
    arity, bag = case
    rows, _ = arrays(bag, arity)
    assert is_sorted(rows) == (rows.tolist() == sorted(rows.tolist()))
    assert is_sorted(rows[np.lexsort(rows.T[::-1])] if arity else rows)


@given(st.integers(0, 4).flatmap(lambda k: st.tuples(st.just(k), bags(codes, k))))
def test_consolidate_few_rows_in_their_memory(case: tuple[int, Pairs]) -> None:
    arity, bag = case
    rows, weights = arrays(bag, arity)
    size = consolidate_few(rows, weights)
    assert pairs_of(rows[:size], weights[:size]) == model_pairs(reference.consolidate(bag))


def test_the_sum_of_few_weights_may_exceed_int64_in_between() -> None:
    rows, weights = arrays([((1,), INT64_MAX), ((0,), 5), ((1,), INT64_MAX), ((1,), -INT64_MAX)], 1)
    assert consolidate_few(rows, weights) == 2
    assert (rows[:2, 0].tolist(), weights[:2].tolist()) == ([0, 1], [5, INT64_MAX])
    rows, weights = arrays([((1,), INT64_MAX), ((1,), 1)], 1)
    with pytest.raises(OverflowError, match="sum of weights"):
        consolidate_few(rows, weights)


@given(st.integers(1, 3).flatmap(lambda k: st.tuples(st.permutations(range(k)), bags(codes, k))))
def test_permute_the_columns_of_few_rows(case: tuple[list[int], Pairs]) -> None:
    order, bag = case
    batch = Batch(*consolidate(*arrays(bag, len(order))))
    before = batch.rows.copy(), batch.weights.copy()
    permuted = batch.rearranged(np.array(order, np.int64))
    found = pairs_of(*project(*before, np.array(order, np.int64)))
    assert pairs_of(permuted.rows, permuted.weights) == found
    assert (batch.rows == before[0]).all() and (batch.weights == before[1]).all()
    assert permuted.rows.flags.c_contiguous


# The range of the values of a column decides the number of words of a packed row.
SPREADS = {
    "one word": [(0, 100)] * 3,
    "one full word": [(INT64_MIN, INT64_MAX)],
    "constant columns": [(7, 7)] * 3,
    "two words": [(0, 2**40), (0, 2**20), (0, 2**20)],
    "a word for each": [(INT64_MIN, INT64_MAX)] * 3,
    "narrow beside wide": [(0, 1), (INT64_MIN, INT64_MAX), (-1, 1), (INT64_MIN, -(2**62))],
}


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("size", [49, 300, 9000])
@pytest.mark.parametrize("units", [True, False])
def test_consolidate_many_rows(spread: str, size: int, units: bool) -> None:
    """Sizes on both sides of the limits of insertion sort and of wide digits; rows repeat."""
    rng = np.random.default_rng(size)
    distinct = size // 3 + 1
    pool = np.stack(
        [rng.integers(low, high, distinct, endpoint=True) for low, high in SPREADS[spread]], axis=1
    )
    pool[0] = [low for low, _ in SPREADS[spread]]
    pool[-1] = [high for _, high in SPREADS[spread]]
    rows = [tuple(row) for row in pool[rng.integers(0, distinct, size)].tolist()]
    weighted = zip(rows, rng.integers(-2, 3, size).tolist(), strict=True)
    bag = [(row, 1 if units else weight) for row, weight in weighted]
    expected = model_pairs(reference.consolidate(bag))
    arity = len(SPREADS[spread])
    for pairs in (bag, sorted(bag)):
        rows, weights = arrays(pairs, arity)
        before = rows.copy(), weights.copy()
        assert pairs_of(*consolidate(rows, weights)) == expected
        assert np.array_equal(rows, before[0]) and np.array_equal(weights, before[1])
        if size == 300:
            assert pairs_of(*consolidate_owned(rows, weights)) == expected
        different = np.array(list(dict.fromkeys(row for row, _ in pairs)), np.int64)
        assert sort_owned(different.copy()).tolist() == sorted(different.tolist())


@pytest.mark.parametrize("columns", [[2, 0, 1], [1], [2, 1], [0, 0, 2, 1]])
@pytest.mark.parametrize("size", [40, 300])
@pytest.mark.parametrize("units", [True, False])
def test_project_many_rows(columns: list[int], size: int, units: bool) -> None:
    rng = np.random.default_rng(size)
    zset = reference.consolidate(
        ((x, y, z), 1 if units else w)
        for x, y, z, w in rng.integers([0, -9, 5, -2], [size, 9, 99, 3], (size, 4)).tolist()
    )
    expected = model_pairs(reference.project(zset, columns))
    assert pairs_of(*project(*canonical(zset, 3), np.array(columns, np.int64))) == expected
    if len(columns) == 3:
        rows, weights = canonical(zset, 3)
        found = Batch(rows, weights).rearranged(np.array(columns, np.int64))
        assert pairs_of(found.rows, found.weights) == expected
        assert (found.weights is weights) == (units and size > 48)
        assert pairs_of(rows, weights) == model_pairs(zset)


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("units", [True, False])
def test_rearrange_many_rows(spread: str, units: bool, tier: str) -> None:
    """Every order of the columns; most rows are equal in their leading columns."""
    ranges = SPREADS[spread]
    for size in (100, 20_000) if tier == COMPILED else (100,):
        rng = np.random.default_rng(size)
        few = [rng.integers(low, high, 30, endpoint=True) for low, high in ranges]
        rows = np.unique(np.stack([rng.choice(values, size) for values in few], axis=1), axis=0)
        weights = np.ones(len(rows), np.int64) if units else rng.choice([-2, 1, 3], len(rows))
        for order in itertools.permutations(range(len(ranges))):
            columns = np.array(order, np.int64)
            found = Batch(rows, weights).rearranged(columns)
            places = np.lexsort(rows[:, columns[::-1]].T)
            assert np.array_equal(found.rows, rows[places][:, columns])
            assert np.array_equal(found.weights, weights[places])


@pytest.mark.parametrize("size", [2, 300])
def test_arguments_are_not_written(tier: str, size: int) -> None:
    """Callers pass batches that others share."""
    rows, weights = np.arange(2 * size)[::-1].reshape(size, 2).copy(), np.ones(size, np.int64)
    order = np.array([1, 0])
    given = pairs_of(rows, weights)
    expected = pairs_of(*project(rows, weights, order))
    # Numba would compile the kernels again for arrays that cannot be written.
    rows.flags.writeable = weights.flags.writeable = tier == COMPILED
    assert pairs_of(*consolidate(rows, weights)) == pairs_of(rows[::-1].copy(), weights)
    assert pairs_of(*project(rows, weights, order)) == expected
    found = Batch(rows, weights).rearranged(order)
    assert pairs_of(found.rows, found.weights) == expected
    assert pairs_of(rows, weights) == given


def test_the_result_has_no_memory_of_many_cancelled_rows() -> None:
    rows = np.arange(2000)[::-1].reshape(1000, 2).copy()
    for rest in (900, 100):
        doubled, weights = np.concatenate((rows, rows[rest:])), np.ones(2000 - rest, np.int64)
        weights[1000:] = -1
        for found in consolidate(doubled, weights):
            room = found if found.base is None else found.base  # an array, or memory of Numba
            assert len(found) == rest
            assert memoryview(room).nbytes <= found.nbytes * 5 / 4


@given(st.lists(weights, max_size=5))
def test_consolidate_rows_without_columns(listed: list[int]) -> None:
    bag: Pairs = [((), weight) for weight in listed]
    assert pairs_of(*consolidate(*arrays(bag, 0))) == model_pairs(reference.consolidate(bag))


@pytest.mark.parametrize("size", [2, 60])
def test_consolidate_refuses_a_sum_outside_int64(size: int) -> None:
    rows = np.zeros((size, 2), np.int64)
    rows[: size - 2, 0] = np.arange(size - 2)[::-1] + 1
    weights = np.ones(size, np.int64)
    weights[-2:] = INT64_MAX, 1
    with pytest.raises(OverflowError, match="weight: the sum of weights is outside the 64-bit range"):
        consolidate(rows, weights)
    with pytest.raises(OverflowError, match="weight: the sum of weights is outside the 64-bit range"):
        consolidate(rows[-2:, :0].copy(), weights[-2:])


@given(bags(codes, 3), st.lists(st.integers(0, 2), max_size=4) | st.permutations([0, 1, 2]))
def test_project(bag: Pairs, columns: list[int]) -> None:
    zset = reference.consolidate(bag)
    found = project(*canonical(zset, 3), np.array(columns, np.int64))
    assert pairs_of(*found) == model_pairs(reference.project(zset, columns))


def test_with_time() -> None:
    rows = np.array([[1, 2], [3, 4]], np.int64)
    assert with_time(rows, np.array([7, 9], np.int64)).tolist() == [[1, 2, 7, 9], [3, 4, 7, 9]]


# --- merging --------------------------------------------------------------------------------------


def pairs_of_runs(arity: int) -> st.SearchStrategy[tuple[int, Z, Z]]:
    """Two Z-sets of rows with so many columns; some are sets."""
    zsets = bags(codes, arity).map(reference.consolidate)
    zsets |= zsets.map(lambda zset: dict.fromkeys(zset, 1))
    return st.tuples(st.just(arity), zsets, zsets)


Narrow = tuple[bool, bool, bool]

merge_widths = st.tuples(st.booleans(), st.booleans(), st.booleans())
edges = st.sampled_from([-(2**31), -1, 0, 2**31 - 1])


@given(bags(edges, 2, 30), bags(edges, 2, 30), st.lists(st.integers(1, 9), min_size=1), merge_widths)
def test_incremental_merge(a: Pairs, b: Pairs, fuels: list[int], narrow: Narrow) -> None:
    left, right = reference.consolidate(a), reference.consolidate(b)
    check_merge(left, right, fuels, True, narrow)


@given(bags(codes, 2, 30), bags(codes, 2, 30), st.lists(st.integers(1, 9), min_size=1))
def test_incremental_merge_of_large_codes(a: Pairs, b: Pairs, fuels: list[int]) -> None:
    left, right = reference.consolidate(a), reference.consolidate(b)
    check_merge(left, right, fuels, True, (False, False, False))


@given(bags(near, 2, 30), bags(near, 2, 30), st.lists(st.integers(1, 9), min_size=1), merge_widths)
def test_merge_without_weights_until_one_is_not_1(
    a: Pairs, b: Pairs, fuels: list[int], narrow: Narrow
) -> None:
    ones = {row: 1 for row, _ in a}
    changes = {row: weight if row in ones else 1 for row, weight in reference.consolidate(b).items()}
    check_merge(ones, changes, fuels, False, narrow)
    check_merge(changes, ones, fuels, False, narrow)


def check_merge(left: Z, right: Z, fuels: list[int], weighted: bool, narrow: Narrow) -> None:
    """Merge two Z-sets and compare with their sum; start without weights unless `weighted`.

    `narrow` says which of the two and of the result are int32.
    """
    size = len(left) + len(right)
    total = model_pairs(reference.add(left, right))
    stops = 0
    rows, out_weights = empty_rows(size, 2, narrow[2]), np.empty(size if weighted else 0, np.int64)
    state = np.zeros(4, np.int64)
    sides = []
    for zset, as_narrow in zip((left, right), narrow, strict=False):
        side_rows, side_weights = canonical(zset, 2)
        sides.append((narrowed(side_rows) if as_narrow else side_rows, side_weights))
    done, turn = False, 0
    while not done:
        fuel, written = fuels[turn % len(fuels)], int(state[2])
        done = merge_some(*sides[0], *sides[1], rows, out_weights, state, fuel)
        assert state[2] - written <= fuel
        if state[3]:
            assert not done and not len(out_weights)
            out_weights = np.ones(size, np.int64)
            state[3] = 0
            stops += 1
        turn += 1
        assert turn <= size + 2
    if size and not len(out_weights):
        out_weights = np.ones(size, np.int64)
    assert stops == (not weighted and any(weight != 1 for _, weight in total))
    assert pairs_of(widened(rows[: state[2]]).copy(), out_weights[: state[2]].copy()) == total


@given(
    st.integers(0, 3).flatmap(lambda k: st.tuples(st.just(k), stacks(near, k))), st.integers(0, 4), st.data()
)
def test_sum_of_runs(case: tuple[int, Stack], first: int, data: st.DataObject) -> None:
    arity, stack = case
    first = min(first, stack.count)
    count = data.draw(st.integers(0, stack.count - first))
    before = stack.table.copy()
    rows, sums = sum_runs(stack.table, first, count, arity)
    summed = (dict(pairs_of(*run)) for run in stack.runs[first : first + count])
    assert pairs_of(rows, sums) == model_pairs(reference.add(*summed))
    assert (stack.table == before).all()


def test_a_sum_of_runs_outside_the_range_of_weights_is_refused() -> None:
    stack = Stack([{(1,): INT64_MAX}, {(2,): 5}, {(1,): 1}], 1)
    with pytest.raises(OverflowError, match="weight"):
        sum_runs(stack.table, 0, 3, 1)
    assert pairs_of(*sum_runs(stack.table, 0, 2, 1)) == [((1,), INT64_MAX), ((2,), 5)]


def difference(stack: Stack, arity: int, narrow: bool = False) -> list[tuple[tuple[int, ...], int]]:
    """Return the first run of a stack less the second one, written as int32 if `narrow`."""
    size = sum(len(rows) for rows, _ in stack.runs)
    rows, weights = empty_rows(size, arity, narrow), np.empty(size, np.int64)
    stack.table[2] = run_entry(rows, weights)
    before = stack.table.copy()
    kept = subtract_runs(stack.table, arity)
    assert (stack.table == before).all()
    return pairs_of(widened(rows[:kept]), weights[:kept])


@given(st.integers(0, 3).flatmap(pairs_of_runs), st.booleans(), st.booleans())
def test_the_difference_of_two_runs(case: tuple[int, Z, Z], narrow: bool, narrow_result: bool) -> None:
    arity, a, b = case
    stack = Stack([a, b], arity, narrow)
    narrow_result &= all(fit_narrow(rows) for rows, _ in stack.runs if rows.size)
    found = difference(stack, arity, narrow_result)
    assert found == model_pairs(reference.add(a, reference.scale(-1, b)))


def test_a_difference_of_two_runs_outside_the_range_of_weights_is_refused() -> None:
    with pytest.raises(OverflowError, match="weight: the sum"):
        difference(Stack([{(1,): INT64_MAX}, {(1,): -1}], 1), 1)
    lowest = Stack([{}, {(1,): INT64_MIN + 1}], 1)
    assert difference(lowest, 1) == [((1,), INT64_MAX)]
    lowest.runs[1][1][0] = INT64_MIN
    with pytest.raises(OverflowError, match="weight: the negation"):
        difference(lowest, 1)
