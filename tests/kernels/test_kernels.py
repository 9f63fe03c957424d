"""Kernels against plain Python, on every path: insertion, one-word and several-word sorts, several runs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.data.columns import code_floats
from dbsp.kernels import (
    accumulate,
    arrange,
    assert_runs,
    concatenate,
    consolidate,
    distinct_runs,
    distinct_timed_runs,
    extremes,
    gather,
    join_runs,
    join_timed_runs,
    merge_some,
    project,
    register_run,
    replace_rows,
    sum_floats,
    sum_weights,
    with_time,
)
from dbsp.kernels.arrays import Codes
from dbsp.kernels.group_values import COUNT_PRESENT, SUM, SUM_PRESENT
from dbsp.kernels.jit import add_product, add_weights, kernel, multiply_weights
from dbsp.kernels.limits import INT64_MAX, INT64_MIN, NULL
from dbsp.kernels.runs import at_address, gallop, gallop_keys
from tests import reference
from tests.reference import Row, Z

Pairs = list[tuple[Row, int]]

codes = st.integers(-2, 3) | st.sampled_from([INT64_MIN, INT64_MAX, -1, 2**40])
near = st.integers(0, 3)
weights = st.integers(-3, 3)


def arrays(pairs: Sequence[tuple[Row, int]], arity: int) -> tuple[Codes, Codes]:
    rows = np.array([row for row, _ in pairs], np.int64).reshape(len(pairs), arity)
    return rows, np.array([weight for _, weight in pairs], np.int64)


def canonical(zset: Z, arity: int) -> tuple[Codes, Codes]:
    return arrays(sorted(zset.items()), arity)


def pairs_of(rows: Codes, weights: Codes) -> Pairs:
    assert rows.dtype == weights.dtype == np.int64 and rows.flags.c_contiguous
    return [(tuple(row), weight) for row, weight in zip(rows.tolist(), weights.tolist(), strict=True)]


def model_pairs(zset: Z) -> Pairs:
    return sorted(zset.items())


def bags(value: st.SearchStrategy[int], arity: int, max_size: int = 20) -> st.SearchStrategy[Pairs]:
    return st.lists(st.tuples(st.tuples(*[value] * arity), weights), max_size=max_size)


class Stack:
    """Sorted runs in a run table, as a trace hands them to kernels."""

    def __init__(self, zsets: Sequence[Z], arity: int) -> None:
        self.table = np.zeros((len(zsets) + 1, 3), np.int64)
        self.runs = [canonical(zset, arity) for zset in zsets]
        self.count = len(zsets)
        self.total = reference.add(*zsets)
        for index, (rows, run_weights) in enumerate(self.runs):
            largest = register_run(self.table, index, rows, run_weights)
            assert largest == max((abs(w) for w in run_weights.tolist()), default=0)


def stacks(value: st.SearchStrategy[int], arity: int) -> st.SearchStrategy[Stack]:
    runs = st.lists(bags(value, arity, 12).map(reference.consolidate), max_size=4)
    return runs.map(lambda zsets: Stack(zsets, arity))


# --- checked arithmetic ------------------------------------------------------------------------------

int64 = st.integers(INT64_MIN, INT64_MAX) | st.sampled_from(
    [0, 1, -1, 2, 2**31, 2**32, 2**62, -(2**62), 2**40, INT64_MIN, INT64_MAX]
)


@given(int64, int64)
def test_sums_and_products_are_exact_or_refused(a: int, b: int) -> None:
    for function, exact, word in ((add_weights, a + b, "sum"), (multiply_weights, a * b, "product")):
        if INT64_MIN <= exact <= INT64_MAX:
            assert function(a, b) == exact
        else:
            with pytest.raises(OverflowError, match=f"^weight: the {word} of weights leaves int64$"):
                function(a, b)


@kernel
def _add_up(terms: Codes) -> tuple[int, int]:
    high = low = 0
    for i in range(terms.shape[0]):
        high, low = add_product(high, low, terms[i, 0], terms[i, 1])
    return high, low


@given(st.lists(st.tuples(int64, int64), max_size=6))
def test_wide_sums_are_exact(terms: list[tuple[int, int]]) -> None:
    array = np.array(terms, np.int64).reshape(len(terms), 2)
    high, low = _add_up(array)
    exact = sum(a * b for a, b in terms)
    if abs(exact) < 2**127:
        assert (high << 64) + (low % 2**64) == exact


# --- sort and consolidate ----------------------------------------------------------------------------


@given(st.integers(1, 4).flatmap(lambda k: st.tuples(st.just(k), bags(codes, k))))
def test_consolidate(case: tuple[int, Pairs]) -> None:
    arity, bag = case
    assert pairs_of(*consolidate(*arrays(bag, arity))) == model_pairs(reference.consolidate(bag))


# How far the values of a column spread decides how many words a row is packed into.
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
    """Sizes on both sides of the insertion sort and of the wider digits; rows repeat."""
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
def test_consolidate_refuses_a_sum_that_leaves_int64(size: int) -> None:
    rows = np.zeros((size, 2), np.int64)
    rows[: size - 2, 0] = np.arange(size - 2)[::-1] + 1
    weights = np.ones(size, np.int64)
    weights[-2:] = INT64_MAX, 1
    with pytest.raises(OverflowError, match="weight: the sum of weights leaves int64"):
        consolidate(rows, weights)
    with pytest.raises(OverflowError, match="weight: the sum of weights leaves int64"):
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


def test_concatenate_refuses_what_leaves_int64() -> None:
    row = np.zeros((1, 1), np.int64)
    largest, lowest, one = (np.array([w], np.int64) for w in (INT64_MAX, INT64_MIN, 1))
    with pytest.raises(OverflowError, match="weight: the sum"):
        concatenate(row, largest, row, one, 1)
    with pytest.raises(OverflowError, match="weight: the negation"):
        concatenate(row[:0], one[:0], row, lowest, -1)


def test_with_time() -> None:
    rows = np.array([[1, 2], [3, 4]], np.int64)
    assert with_time(rows, np.array([7, 9], np.int64)).tolist() == [[1, 2, 7, 9], [3, 4, 7, 9]]


# --- merging -----------------------------------------------------------------------------------------


@given(bags(near, 2, 30), bags(near, 2, 30), st.lists(st.integers(1, 9), min_size=1))
def test_merge_in_instalments(a: Pairs, b: Pairs, fuels: list[int]) -> None:
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


# --- galloping ---------------------------------------------------------------------------------------


@kernel
def _gallop(table: Codes, k: int, low: int, high: int, keys: Codes, i: int, m: int, after: int) -> int:
    return gallop(at_address(table[0, 0]), k, low, high, keys, i, m, after)


@kernel
def _gallop_keys(keys: Codes, low: int, table: Codes, at: int, m: int) -> int:
    return gallop_keys(keys, low, at_address(table[0, 0]), at, m)


@given(bags(st.integers(0, 30), 2, 60), st.integers(0, 2), st.data())
def test_gallop(bag: Pairs, m: int, data: st.DataObject) -> None:
    stack = Stack([reference.consolidate(bag)], 2)
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


# --- joins over several runs -------------------------------------------------------------------------


@given(bags(near, 2), stacks(near, 2), st.integers(0, 2))
def test_join_runs(bag: Pairs, stack: Stack, m: int) -> None:
    delta = reference.consolidate(bag)
    columns = np.array([-2, 1, 0, -1], np.int64)
    rows, found = join_runs(*canonical(delta, 2), m, stack.table, stack.count, 2, columns)
    expected = reference.join(
        delta, stack.total, [(c, c) for c in range(m)], [(1, 1), (0, 1), (0, 0), (1, 0)]
    )
    assert reference.consolidate(pairs_of(rows, found)) == expected


@given(bags(near, 1), stacks(near, 3), st.integers(0, 3))
def test_join_timed_runs(bag: Pairs, stack: Stack, now: int) -> None:
    """The last column is the iteration; a match belongs to the later of both."""
    delta = reference.consolidate(bag)
    columns = np.array([0, -2], np.int64)
    rows, found, times, due = join_timed_runs(
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


@given(bags(near, 1), stacks(near, 4), st.integers(0, 3), st.integers(0, 3), st.sampled_from([1, 2]))
def test_join_timed_runs_of_scopes_within_scopes(
    bag: Pairs, stack: Stack, outer: int, inner: int, coordinates: int
) -> None:
    """A match belongs to the least upper bound of both times; a run of the outer scope has no inner time."""
    delta = reference.consolidate(bag)
    columns = np.array([0, -2], np.int64)
    now = np.array([outer, inner], np.int64)
    rows, found, times, due = join_timed_runs(
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


@given(bags(near, 2), stacks(near, 3), st.integers(0, 2), st.data())
def test_gather(bag: Pairs, stack: Stack, m: int, data: st.DataObject) -> None:
    keys = sorted({row[:m] for row, _ in bag})
    split = data.draw(st.integers(0, stack.count))
    array = np.array(keys, np.int64).reshape(len(keys), m)
    rows, found, first = gather(array, m, stack.table, stack.count, 3, split)
    found_pairs = pairs_of(rows, found)

    def expected(runs: Sequence[tuple[Codes, Codes]]) -> Pairs:
        return sorted(pair for run in runs for pair in pairs_of(*run) if pair[0][:m] in keys)

    assert sorted(found_pairs[:first]) == expected(stack.runs[:split])
    assert sorted(found_pairs[first:]) == expected(stack.runs[split:])


# --- presence ----------------------------------------------------------------------------------------


@given(bags(near, 2), stacks(near, 2))
def test_sum_weights_and_distinct(bag: Pairs, stack: Stack) -> None:
    delta = reference.consolidate(bag)
    rows, delta_weights = canonical(delta, 2)
    found = sum_weights(rows, stack.table, stack.count).tolist()
    assert found == [stack.total.get(row, 0) for row, _ in model_pairs(delta)]
    change = distinct_runs(rows, delta_weights, stack.table, stack.count)
    after = reference.distinct(reference.add(stack.total, delta))
    assert pairs_of(*change) == model_pairs(reference.minus(after, reference.distinct(stack.total)))


@given(bags(near, 2), stacks(near, 2))
def test_assert_runs(bag: Pairs, stack: Stack) -> None:
    delta = reference.consolidate(bag)
    rows, found, present, absent = assert_runs(*canonical(delta, 2), stack.table, stack.count)
    total = stack.total
    assert present == sum(w > 0 and total.get(row, 0) > 0 for row, w in delta.items())
    assert absent == sum(w < 0 and total.get(row, 0) <= 0 for row, w in delta.items())
    expected = {row: 1 if w > 0 else -1 for row, w in delta.items() if (w > 0) != (total.get(row, 0) > 0)}
    assert pairs_of(rows, found) == model_pairs(expected)


@given(bags(near, 1), stacks(near, 2), st.integers(0, 3), st.data())
def test_distinct_at_an_iteration(bag: Pairs, stack: Stack, now: int, data: st.DataObject) -> None:
    """The formula of section 5: what is visited, what comes out, what waits and until when."""
    past = data.draw(st.integers(0, stack.count))
    visited = sorted({row for row, _ in bag})
    rows, found, agenda, times = distinct_timed_runs(
        np.array(visited, np.int64).reshape(len(visited), 1), stack.table, past, stack.count, now
    )

    def present(runs: Sequence[tuple[Codes, Codes]], row: Row, until: int) -> int:
        pairs = (pair for run in runs for pair in pairs_of(*run))
        return int(sum(w for (x, time), w in pairs if (x,) == row and time <= until) > 0)

    expected: Z = {}
    waiting: dict[Row, int] = {}
    for row in visited:
        old, new = stack.runs[:past], stack.runs
        change = present(new, row, now) - present(new, row, now - 1)
        change -= present(old, row, now) - present(old, row, now - 1)
        if change:
            expected[row] = change
        later = [t for run in new for (x, t), _ in pairs_of(*run) if (x,) == row and t > now]
        if later:
            waiting[row] = min(later)
    assert pairs_of(rows, found) == model_pairs(expected)
    assert {row: t for (row, _), t in zip(pairs_of(agenda, times), times.tolist(), strict=True)} == waiting


# --- aggregates --------------------------------------------------------------------------------------

values = near | st.sampled_from([NULL, INT64_MIN + 1, 2**62, -(2**62), INT64_MAX])


def sums_of(zset: Z, m: int, columns: Sequence[tuple[int, int]]) -> dict[Row, list[int]]:
    groups: dict[Row, list[int]] = defaultdict(lambda: [0] * (len(columns) + 1))
    for row, w in zset.items():
        group = groups[row[:m]]
        group[0] += w
        for a, (column, what) in enumerate(columns, 1):
            if what == SUM or row[column] != NULL:
                group[a] += w if what == COUNT_PRESENT else w * row[column]
    return groups


@given(bags(values, 3), bags(values, 3), st.integers(0, 2))
def test_accumulate(past: Pairs, bag: Pairs, m: int) -> None:
    columns = [(2, SUM), (2, SUM_PRESENT), (1, COUNT_PRESENT)]
    old, delta = reference.consolidate(past), reference.consolidate(bag)
    before, after = sums_of(old, m, columns), sums_of(reference.add(old, delta), m, columns)
    if any(not INT64_MIN <= s <= INT64_MAX for group in before.values() for s in group):
        return
    # the state as a trace would hold it: in two runs that partly cancel
    first: Z = {(*key, *group): 1 for key, group in before.items()}
    stale: Z = {(*key, *[s ^ 5 for s in group]): 1 for key, group in before.items()}
    stack = Stack([stale, reference.minus(first, stale)], m + 4)
    touched = sorted({row[:m] for row in delta})
    arguments = (*canonical(delta, 3), m, np.array(columns, np.int64), stack.table, stack.count)
    wanted = [after.get(key, [0] * 4) for key in touched]
    if any(not INT64_MIN <= s <= INT64_MAX for group in wanted for s in group):
        with pytest.raises(OverflowError, match="value: the sum of a group leaves int64"):
            accumulate(*arguments)
        return
    keys, was, now = accumulate(*arguments)
    assert [tuple(key) for key in keys.tolist()] == touched
    assert was.tolist() == [before.get(key, [0] * 4) for key in touched]
    assert now.tolist() == wanted


def test_accumulate_does_not_mind_the_order_of_its_parts() -> None:
    """Partial sums leave int64, the sum does not; with a past or without."""
    columns = np.array([(0, SUM)], np.int64)
    nothing = Stack([], 2)
    delta: Z = {(2**62 + i,): 1 for i in range(5)} | {(-(2**62) - i,): 1 for i in range(5)}
    *_, now = accumulate(*canonical(delta, 1), 0, columns, nothing.table, 0)
    assert now.tolist() == [[10, 0]]
    past = Stack([{(1, -(2**62)): 1}], 2)
    *_, now = accumulate(*canonical({(2**62,): 1, (-(2**62),): -1}, 1), 0, columns, past.table, 1)
    assert now.tolist() == [[1, 2**62]]


def test_accumulate_refuses_a_number_of_rows_that_leaves_int64() -> None:
    delta: Z = {(0,): INT64_MAX, (1,): 1}
    with pytest.raises(OverflowError, match="weight: the number of rows of a group leaves int64"):
        accumulate(*canonical(delta, 1), 0, np.empty((0, 2), np.int64), Stack([], 1).table, 0)


@given(stacks(values, 3), st.integers(0, 1), st.booleans(), st.booleans())
def test_extremes(stack: Stack, m: int, largest: bool, nullable: bool) -> None:
    keys = sorted({row[:m] for row in stack.total} | {(9,) * m})
    array = np.array(keys, np.int64).reshape(len(keys), m)
    found = extremes(array, m, stack.table, stack.count, 3, largest, nullable).tolist()
    for key, value in zip(keys, found, strict=True):
        group = reference.project({r: w for r, w in stack.total.items() if r[:m] == key}, [m])
        present = [v for (v,), w in group.items() if w > 0 and not (nullable and v == NULL)]
        assert value == (max if largest else min)(present, default=NULL)


@given(st.lists(st.tuples(near, st.none() | near, st.none() | near), unique_by=lambda t: t[0], max_size=8))
def test_replace_rows(groups: list[tuple[int, int | None, int | None]]) -> None:
    groups = sorted(groups, key=lambda group: group[0])
    keys = np.array([[key] for key, *_ in groups], np.int64).reshape(len(groups), 1)
    before = np.array([[b or 0, 5] for _, b, _ in groups], np.int64).reshape(len(groups), 2)
    after = np.array([[a or 0, 5] for *_, a in groups], np.int64).reshape(len(groups), 2)
    had = np.array([b is not None for _, b, _ in groups], np.bool_)
    has = np.array([a is not None for *_, a in groups], np.bool_)
    expected = reference.add(
        *[{(key, b, 5): -1} for key, b, _ in groups if b is not None],
        *[{(key, a, 5): 1} for key, _, a in groups if a is not None],
    )
    assert pairs_of(*replace_rows(keys, before, after, had, has)) == model_pairs(expected)


def _floats(listed: Sequence[float]) -> Codes:
    return np.array(listed, np.float64).view(np.int64)


def _sum_floats(listed: Sequence[float], weights: Sequence[int], starts: Sequence[int]) -> list[float]:
    found = sum_floats(_floats(listed), np.array(weights, np.int64), np.array(starts, np.int64))
    return found.view(np.float64).tolist()


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(-3, 3)), min_size=1, max_size=30))
def test_sum_floats_loses_next_to_nothing(terms: list[tuple[float, int]]) -> None:
    (found,) = _sum_floats([v for v, _ in terms], [w for _, w in terms], [0])
    exact = math.fsum(v * w for v, w in terms)
    assert math.isclose(
        found, exact, rel_tol=1e-15, abs_tol=1e-18 * sum(abs(v * w) for v, w in terms) + 1e-300
    )


def test_sum_floats() -> None:
    assert _sum_floats([1e16, 1.0, -1e16, 0.1, 0.2], [1, 1, 1, 10, -5], [0, 3]) == [1.0, 0.0]
    assert _sum_floats([math.inf, 1.0], [1, 1], [0]) == [math.inf]
    assert _sum_floats([math.inf, 1.0], [-1, 1], [0]) == [-math.inf]
    assert math.isnan(_sum_floats([math.inf, -math.inf], [1, 1], [0])[0])
    assert math.isnan(_sum_floats([1.0, math.nan], [1, 1], [0])[0])
    assert code_floats(np.array([0], np.int64)).tolist() == [0.0]
