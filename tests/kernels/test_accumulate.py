"""Kernels that evaluate presence and aggregates over several sorted runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels import (
    accumulate,
    assert_runs,
    change_accumulators,
    change_extremes,
    change_groups,
    change_presence,
    count_asserted,
    count_present_values,
    distinct_timed_runs,
    replace_rows,
    sum_weights,
)
from dbsp.kernels.arrays import Codes
from dbsp.kernels.group_values import COUNT_PRESENT, SUM, SUM_PRESENT
from dbsp.kernels.limits import INT64_MAX, INT64_MIN, NULL
from tests import reference
from tests.kernels.support import Pairs, Stack, bags, canonical, model_pairs, near, pairs_of, stacks
from tests.reference import Row, Z


@given(bags(near, 2), stacks(near, 2))
def test_sum_weights_and_distinct(bag: Pairs, stack: Stack) -> None:
    delta = reference.consolidate(bag)
    rows, delta_weights = canonical(delta, 2)
    found = sum_weights(rows, stack.table, stack.count).tolist()
    assert found == [stack.total.get(row, 0) for row, _ in model_pairs(delta)]
    changes = np.full(len(rows), 7)
    counts = change_presence(rows, delta_weights, stack.table, stack.count, changes)
    after = reference.distinct(reference.add(stack.total, delta))
    expected = reference.minus(after, reference.distinct(stack.total))
    assert changes.tolist() == [expected.get(row, 0) for row, _ in model_pairs(delta)]
    assert counts == (len(expected), expected == delta)


@given(bags(near, 2), stacks(near, 2))
def test_assert_runs(bag: Pairs, stack: Stack) -> None:
    delta = reference.consolidate(bag)
    rows, found, present, absent = assert_runs(*canonical(delta, 2), stack.table, stack.count)
    total = stack.total
    assert present == sum(w > 0 and total.get(row, 0) > 0 for row, w in delta.items())
    assert absent == sum(w < 0 and total.get(row, 0) <= 0 for row, w in delta.items())
    expected = {row: 1 if w > 0 else -1 for row, w in delta.items() if (w > 0) != (total.get(row, 0) > 0)}
    assert pairs_of(rows, found) == model_pairs(expected)
    *counts, units = count_asserted(*canonical(delta, 2), stack.table, stack.count)
    assert counts == [present, absent]
    assert units == all(w in (1, -1) for w in delta.values())


@given(bags(near, 1), stacks(near, 2), st.integers(0, 3), st.data())
def test_distinct_at_an_iteration(bag: Pairs, stack: Stack, now: int, data: st.DataObject) -> None:
    """The formula of section 5: visited rows, output, waiting rows and their times."""
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


# --- aggregates -----------------------------------------------------------------------------------

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
    # the state in two runs that partly cancel, as in a trace
    first: Z = {(*key, *group): 1 for key, group in before.items()}
    stale: Z = {(*key, *[s ^ 5 for s in group]): 1 for key, group in before.items()}
    stack = Stack([stale, reference.minus(first, stale)], m + 4)
    touched = sorted({row[:m] for row in delta})
    arguments = (*canonical(delta, 3), m, np.array(columns, np.int64), stack.table, stack.count)
    wanted = [after.get(key, [0] * 4) for key in touched]
    if any(not INT64_MIN <= s <= INT64_MAX for group in wanted for s in group):
        with pytest.raises(OverflowError, match="value: the sum of a group is outside the 64-bit range"):
            accumulate(*arguments)
        return
    keys, was, now = accumulate(*arguments)
    assert [tuple(key) for key in keys.tolist()] == touched
    assert was.tolist() == [before.get(key, [0] * 4) for key in touched]
    assert now.tolist() == wanted


def test_accumulate_does_not_depend_on_the_order_of_its_parts() -> None:
    """Partial sums are outside int64, the sum is not; with and without a past."""
    columns = np.array([(0, SUM)], np.int64)
    nothing = Stack([], 2)
    delta: Z = {(2**62 + i,): 1 for i in range(5)} | {(-(2**62) - i,): 1 for i in range(5)}
    *_, now = accumulate(*canonical(delta, 1), 0, columns, nothing.table, 0)
    assert now.tolist() == [[10, 0]]
    past = Stack([{(1, -(2**62)): 1}], 2)
    *_, now = accumulate(*canonical({(2**62,): 1, (-(2**62),): -1}, 1), 0, columns, past.table, 1)
    assert now.tolist() == [[1, 2**62]]


def test_accumulate_refuses_a_number_of_rows_outside_int64() -> None:
    delta: Z = {(0,): INT64_MAX, (1,): 1}
    with pytest.raises(
        OverflowError, match="weight: the number of rows of a group is outside the 64-bit range"
    ):
        accumulate(*canonical(delta, 1), 0, np.empty((0, 2), np.int64), Stack([], 1).table, 0)


@given(stacks(values, 3), st.integers(0, 1), st.booleans(), st.booleans(), st.data())
def test_extremes_and_counts_of_values(
    stack: Stack, m: int, largest: bool, nullable: bool, data: st.DataObject
) -> None:
    """Before and after the last runs, from scratch."""
    before = data.draw(st.integers(0, stack.count))
    past = reference.add(*(dict(pairs_of(*run)) for run in stack.runs[:before]))
    keys = sorted({row[:m] for row in stack.total} | {(9,) * m})
    array = np.array(keys, np.int64).reshape(len(keys), m)
    runs = (stack.table, before, stack.count, 3)
    extremes = change_extremes(array, m, *runs, largest, nullable).tolist()
    counts = count_present_values(array, m, *runs, nullable).tolist()
    for version, total in enumerate((past, stack.total)):
        for key, value, count in zip(keys, extremes[version], counts[version], strict=True):
            group = reference.project({r: w for r, w in total.items() if r[:m] == key}, [m])
            present = [v for (v,), w in group.items() if w > 0 and not (nullable and v == NULL)]
            assert value == (max if largest else min)(present, default=NULL)
            assert count == len(present)


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


@given(bags(near, 3), bags(near, 3), st.integers(0, 2))
def test_change_groups(past: Pairs, bag: Pairs, m: int) -> None:
    """The change of the state against the state from scratch; negative weights."""
    columns = [(2, SUM), (1, SUM)]
    old = reference.consolidate(past)
    delta = reference.consolidate(bag)
    before, after = sums_of(old, m, columns), sums_of(reference.add(old, delta), m, columns)
    stored = {key: group for key, group in before.items() if any(group)}
    stack = Stack([{(*key, *group): 1 for key, group in stored.items()}], m + 3)
    arguments = (*canonical(delta, 3), m, np.array(columns, np.int64), stack.table, stack.count)
    *change, positive = change_groups(*arguments)
    *accumulated, rows, weights = change_accumulators(*arguments)
    assert pairs_of(rows, weights) == pairs_of(*change)
    for found, expected_array in zip(accumulated, accumulate(*arguments), strict=True):
        assert found.tolist() == expected_array.tolist()

    def state(groups: dict[Row, list[int]]) -> Z:
        return {(*key, *group): 1 for key, group in groups.items() if any(group)}

    expected = reference.minus(state(after), state(before))
    assert pairs_of(*change) == model_pairs(expected)
    assert positive == all(row[m] > 0 for row in expected)
