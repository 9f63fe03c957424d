"""Kernels that sort, consolidate and merge rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels import arrange, concatenate, consolidate, merge_some, project, with_time
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from tests import reference
from tests.kernels.support import Pairs, arrays, bags, canonical, codes, model_pairs, near, pairs_of, weights


@given(st.integers(1, 4).flatmap(lambda k: st.tuples(st.just(k), bags(codes, k))))
def test_consolidate(case: tuple[int, Pairs]) -> None:
    arity, bag = case
    assert pairs_of(*consolidate(*arrays(bag, arity))) == model_pairs(reference.consolidate(bag))


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
    assert pairs_of(*consolidate(*arrays(bag, len(SPREADS[spread])))) == expected
    assert pairs_of(*consolidate(*arrays(sorted(bag), len(SPREADS[spread])))) == expected


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


@given(bags(codes, 3), st.lists(st.integers(0, 2), max_size=4))
def test_project(bag: Pairs, columns: list[int]) -> None:
    zset = reference.consolidate(bag)
    found = project(*canonical(zset, 3), np.array(columns, np.int64))
    assert pairs_of(*found) == model_pairs(reference.project(zset, columns))


@given(bags(codes, 3), st.permutations([0, 1, 2]))
def test_arrange(bag: Pairs, order: list[int]) -> None:
    zset = reference.consolidate(bag)
    found = arrange(*canonical(zset, 3), np.array(order, np.int64))
    assert pairs_of(*found) == model_pairs(reference.project(zset, order))


@given(bags(codes, 2), bags(codes, 2), st.sampled_from([1, -1]))
def test_concatenate(a: Pairs, b: Pairs, sign: int) -> None:
    left, right = reference.consolidate(a), reference.consolidate(b)
    found = concatenate(*canonical(left, 2), *canonical(right, 2), sign)
    assert pairs_of(*found) == model_pairs(reference.add(left, reference.scale(sign, right)))


def test_concatenate_refuses_weights_outside_int64() -> None:
    row = np.zeros((1, 1), np.int64)
    largest, lowest, one = (np.array([w], np.int64) for w in (INT64_MAX, INT64_MIN, 1))
    with pytest.raises(OverflowError, match="weight: the sum"):
        concatenate(row, largest, row, one, 1)
    with pytest.raises(OverflowError, match="weight: the negation"):
        concatenate(row[:0], one[:0], row, lowest, -1)


def test_with_time() -> None:
    rows = np.array([[1, 2], [3, 4]], np.int64)
    assert with_time(rows, np.array([7, 9], np.int64)).tolist() == [[1, 2, 7, 9], [3, 4, 7, 9]]


# --- merging --------------------------------------------------------------------------------------


@given(bags(near, 2, 30), bags(near, 2, 30), st.lists(st.integers(1, 9), min_size=1))
def test_incremental_merge(a: Pairs, b: Pairs, fuels: list[int]) -> None:
    left, right = reference.consolidate(a), reference.consolidate(b)
    size = len(left) + len(right)
    rows, out_weights = np.empty((size, 2), np.int64), np.empty(size, np.int64)
    state = np.zeros(3, np.int64)
    one, other = canonical(left, 2), canonical(right, 2)
    done, turn = False, 0
    while not done:
        fuel, written = fuels[turn % len(fuels)], int(state[2])
        done = merge_some(*one, *other, rows, out_weights, state, fuel)
        assert state[2] - written <= fuel
        turn += 1
        assert turn <= size + 1
    found = pairs_of(rows[: state[2]].copy(), out_weights[: state[2]].copy())
    assert found == model_pairs(reference.add(left, right))
