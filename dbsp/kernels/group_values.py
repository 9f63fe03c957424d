"""Aggregates of the groups of a delta: accumulators if linear, ends of ranges for min and max."""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Mask, Rows
from dbsp.kernels.copies import copy_codes, first_codes, first_rows
from dbsp.kernels.jit import add_product, add_weights, codes_at, kernel
from dbsp.kernels.joined_versions import join_versions
from dbsp.kernels.limits import NULL
from dbsp.kernels.matches import end_of_key
from dbsp.kernels.run_ends import next_row, take_row
from dbsp.kernels.run_search import compare_prefix, gallop, weights_at
from dbsp.kernels.wide_order import compare_columns
from dbsp.kernels.wide_sums import add_wide, fit_weight

# The measures of accumulators, as in `columns` below.
SUM = 0  # weight * value
SUM_PRESENT = 1  # the same, without None
COUNT_PRESENT = 2  # weights of the rows where the value is not None
SUM_COUNTS = 3  # weight * value, for a value that is itself a sum of weights


@kernel
def accumulate(
    rows: Rows, weights: Codes, m: int, columns: Rows, table: Rows, runs: int
) -> tuple[Rows, Rows, Rows]:
    """Compute linear accumulators per group, before and after a delta sorted by its m key columns.

    Accumulator 0 is the sum of weights; columns[a - 1] = (column, measure) defines accumulator a.
    The state in `runs` holds rows (key, accumulators), whose weighted sum is the current value.
    Sums are 128 bits wide inside. So a result outside int64 is an error, and intermediate sums are
    not, whatever their order.

    Returns (keys[g, m], before[g, a], after[g, a]). O(delta * log state).
    """
    n = rows.shape[0]
    count = columns.shape[0] + 1
    k = m + count
    groups = 0
    i = 0
    while i < n:
        i = end_of_key(rows, i, m)
        groups += 1
    keys = np.empty((groups, m), np.int64)
    before = np.zeros((groups, count), np.int64)
    after = np.zeros((groups, count), np.int64)
    high = np.zeros((groups, count), np.int64)
    for r in range(runs):
        run = codes_at(table[r, 0])
        state_weights, mask = weights_at(table[r, 1])
        size = table[r, 2]
        low = 0
        i = 0
        for g in range(groups):
            low = gallop(run, k, low, size, rows, i, m, 0)
            if low == size:
                break
            while low < size and compare_prefix(run, low * k, rows, i, m) == 0:
                w = state_weights[low & mask]
                for a in range(count):
                    high[g, a], after[g, a] = add_product(high[g, a], after[g, a], w, run[low * k + m + a])
                low += 1
            i = end_of_key(rows, i, m)
    i = 0
    for g in range(groups):
        end = end_of_key(rows, i, m)
        for c in range(m):
            keys[g, c] = rows[i, c]
        for a in range(count):
            before[g, a] = after[g, a]
        for j in range(i, end):
            w = weights[j]
            high[g, 0], after[g, 0] = add_product(high[g, 0], after[g, 0], w, 1)
            for a in range(1, count):
                value = rows[j, columns[a - 1, 0]]
                measure = columns[a - 1, 1]
                if SUM_PRESENT <= measure <= COUNT_PRESENT and value == NULL:
                    continue
                term = 1 if measure == COUNT_PRESENT else value
                high[g, a], after[g, a] = add_product(high[g, a], after[g, a], w, term)
        for a in range(count):
            if high[g, a] != (-1 if after[g, a] < 0 else 0):
                if a == 0 or columns[a - 1, 1] >= COUNT_PRESENT:
                    raise OverflowError("weight: the number of rows of a group is outside the 64-bit range")
                raise OverflowError("value: the sum of a group is outside the 64-bit range")
        i = end
    return keys, before, after


@kernel
def _find_group(keys: Rows, g: int, m: int, table: Rows, runs: int, k: int, low: Codes, high: Codes) -> None:
    """Set low[r] and high[r] to the range of a group in run r.

    The search begins at high[r] of the group before it.
    """
    for r in range(runs):
        run = codes_at(table[r, 0])
        low[r] = gallop(run, k, high[r], table[r, 2], keys, g, m, 0)
        high[r] = gallop(run, k, low[r], table[r, 2], keys, g, m, 1)


@kernel
def _take_value(
    table: Rows, runs: int, k: int, m: int, low: Codes, high: Codes, largest: bool
) -> tuple[bool, int, int]:
    """Take the rows with the least (or largest) value in column m of a group.

    low[r] to high[r] are the rows of the group in run r that nobody has taken. Returns whether
    there is one, the value, and the summed weight.
    """
    found = False
    best = 0
    for r in range(runs):
        if low[r] < high[r]:
            run = codes_at(table[r, 0])
            at = high[r] - 1 if largest else low[r]
            value = run[at * k + m]
            if not found or (value > best if largest else value < best):
                best = value
                found = True
    carry = total = 0
    for r in range(runs):
        run = codes_at(table[r, 0])
        weights, mask = weights_at(table[r, 1])
        if largest:
            while low[r] < high[r] and run[(high[r] - 1) * k + m] == best:
                high[r] -= 1
                carry, total = add_wide(carry, total, weights[high[r] & mask])
        else:
            while low[r] < high[r] and run[low[r] * k + m] == best:
                carry, total = add_wide(carry, total, weights[low[r] & mask])
                low[r] += 1
    return found, best, fit_weight(carry, total)


@kernel
def extremes(keys: Rows, m: int, table: Rows, runs: int, k: int, largest: bool, nullable: bool) -> Codes:
    """Return the least (or largest) value with positive summed weight of each group; int64[g].

    The runs are ordered by (m key columns, value column m, other columns). None in a nullable
    column does not count; a group with no other value yields None. The search starts at one end of
    the range of the group: O(runs * log state) plus the cancelled rows that it skips.
    """
    groups = keys.shape[0]
    result = np.full(groups, np.int64(NULL))
    low = np.zeros(runs, np.int64)
    high = np.zeros(runs, np.int64)
    ends = np.zeros(runs, np.int64)
    for g in range(groups):
        _find_group(keys, g, m, table, runs, k, low, ends)
        copy_codes(ends, 0, high, 0, runs)
        found, value, weight = _take_value(table, runs, k, m, low, high, largest)
        while found and (weight <= 0 or (nullable and value == NULL)):
            found, value, weight = _take_value(table, runs, k, m, low, high, largest)
        if found:
            result[g] = value
    return result


@kernel
def change_extremes(
    keys: Rows, m: int, table: Rows, before: int, runs: int, k: int, largest: bool, nullable: bool
) -> Rows:
    """Return `extremes` in the first `before` runs and in all: int64[2, g]."""
    results = np.empty((2, keys.shape[0]), np.int64)
    copy_codes(extremes(keys, m, table, before, k, largest, nullable), 0, results[0], 0, keys.shape[0])
    copy_codes(extremes(keys, m, table, runs, k, largest, nullable), 0, results[1], 0, keys.shape[0])
    return results


@kernel
def count_present_values(
    keys: Rows, m: int, table: Rows, before: int, runs: int, k: int, nullable: bool
) -> Rows:
    """Return how many values with positive summed weight each group has: int64[2, g].

    The first counts are those in the first `before` runs, the others those in all. The runs are
    ordered as those of `extremes`, and None in a nullable column does not count. O(runs * log
    state) and the rows of the group, for each group.
    """
    groups = keys.shape[0]
    counts = np.zeros((2, groups), np.int64)
    low = np.zeros(runs, np.int64)
    high = np.zeros(runs, np.int64)
    starts = np.zeros(runs, np.int64)
    for g in range(groups):
        _find_group(keys, g, m, table, runs, k, starts, high)
        for version in range(2):
            count = before if version == 0 else runs
            copy_codes(starts, 0, low, 0, count)
            found, value, weight = _take_value(table, count, k, m, low, high, False)
            while found:
                if weight > 0 and not (nullable and value == NULL):
                    counts[version, g] += 1
                found, value, weight = _take_value(table, count, k, m, low, high, False)
    return counts


@kernel
def replace_rows(keys: Rows, before: Rows, after: Rows, had: Mask, has: Mask) -> tuple[Rows, Codes]:
    """Retract (key, before) where `had`, insert (key, after) where `has`, do nothing where equal.

    Keys are sorted and distinct, so the result is canonical without another sort.
    """
    groups, m = keys.shape
    count = before.shape[1]
    out_rows = np.empty((2 * groups, m + count), np.int64)
    out_weights = np.empty(2 * groups, np.int64)
    out = 0
    for g in range(groups):
        order = 0
        for a in range(count):
            if before[g, a] != after[g, a]:
                order = -1 if before[g, a] < after[g, a] else 1
                break
        if had[g] and has[g] and order == 0:
            continue
        for step in range(2):
            retract = (step == 0) == (order <= 0)
            if (retract and not had[g]) or (not retract and not has[g]):
                continue
            for c in range(m):
                out_rows[out, c] = keys[g, c]
            for a in range(count):
                out_rows[out, m + a] = before[g, a] if retract else after[g, a]
            out_weights[out] = -1 if retract else 1
            out += 1
    if out < out_weights.shape[0]:
        return first_rows(out_rows, out, out), first_codes(out_weights, out, out)
    return out_rows, out_weights


@kernel
def change_accumulators(
    rows: Rows, weights: Codes, m: int, columns: Rows, table: Rows, runs: int
) -> tuple[Rows, Rows, Rows, Rows, Codes]:
    """Return the results of `accumulate`, and the change of its state.

    The state has a row per group with a non-zero accumulator.
    """
    keys, before, after = accumulate(rows, weights, m, columns, table, runs)
    groups, count = before.shape
    had = np.zeros(groups, np.bool_)
    has = np.zeros(groups, np.bool_)
    for g in range(groups):
        for a in range(count):
            had[g] |= before[g, a] != 0
            has[g] |= after[g, a] != 0
    changed, changes = replace_rows(keys, before, after, had, has)
    return keys, before, after, changed, changes


@kernel
def change_groups(
    rows: Rows, weights: Codes, m: int, columns: Rows, table: Rows, runs: int
) -> tuple[Rows, Codes, bool]:
    """Return the change of the state of `change_accumulators`.

    The third result says whether the sum of weights is positive in every row of the change.
    """
    _, _, _, changed, changes = change_accumulators(rows, weights, m, columns, table, runs)
    positive = True
    for i in range(changes.shape[0]):
        if changed[i, m] <= 0:
            positive = False
    return changed, changes, positive


@kernel
def divide_sorted(rows: Rows, weights: Codes, partition: Codes, order: Codes) -> tuple[Codes, Codes, Mask]:
    """Divide sorted rows into partitions, whose rows agree in the columns `partition`.

    Returns where each partition begins, the sum of the weights of its rows before each row, and
    whether each row is the first of those that agree in the columns `order`, too. Raises
    OverflowError if the weights of a partition have a sum outside int64. O(rows).
    """
    n = rows.shape[0]
    starts = np.empty(n, np.int64)
    before = np.empty(n, np.int64)
    fresh = np.empty(n, np.bool_)
    parts = 0
    total = 0
    for i in range(n):
        new = i == 0 or compare_columns(rows, i - 1, i, partition) != 0
        if new:
            starts[parts] = i
            parts += 1
            total = 0
        fresh[i] = new or compare_columns(rows, i - 1, i, order) != 0
        before[i] = total
        total = add_weights(total, weights[i])
    return first_codes(starts, parts, parts), before, fresh


@kernel
def leading(
    keys: Rows, m: int, p: int, table: Rows, runs: int, k: int, copies: int, from_end: bool
) -> tuple[Rows, Codes]:
    """Return the first (or last) rows of each group until their positive weights sum to `copies`.

    The runs are ordered by (m key columns, p columns, others). Rows that agree with the last one in
    the p columns are in the result too, so the other columns do not decide which rows are in it.
    Weights are summed; rows of weight <= 0 are skipped. The search starts at one end of the range
    of the
    group: O(runs * (log state + rows read)).
    """
    groups = keys.shape[0]
    rows = np.empty((max(8, min(groups * copies, 1024)), k), np.int64)
    out_weights = np.empty(rows.shape[0], np.int64)
    out = 0
    low = np.zeros(runs, np.int64)
    high = np.zeros(runs, np.int64)
    ends = np.empty(runs, np.int64)
    for g in range(groups):
        _find_group(keys, g, m, table, runs, k, low, high)
        copy_codes(high, 0, ends, 0, runs)
        taken = 0
        while True:
            best, best_at = next_row(table, runs, k, low, high, from_end)
            if best < 0:
                break
            row = codes_at(table[best, 0])
            if taken == copies and compare_prefix(row, best_at * k, rows, out - 1, m + p) != 0:
                break
            total = take_row(table, runs, k, low, high, from_end, best, best_at)
            if total > 0:
                if out == rows.shape[0]:
                    rows = first_rows(rows, out, 2 * out)
                    out_weights = first_codes(out_weights, out, 2 * out)
                for c in range(k):
                    rows[out, c] = row[best_at * k + c]
                out_weights[out] = total
                out += 1
                taken = copies if total >= copies - taken else taken + total
        copy_codes(ends, 0, high, 0, runs)
    return first_rows(rows, out, out), first_codes(out_weights, out, out)


@kernel
def leading_versions(
    keys: Rows, m: int, p: int, table: Rows, before: int, runs: int, k: int, copies: int, from_end: bool
) -> tuple[Rows, Codes]:
    """Return the rows of `leading` in the first `before` runs and in all runs (`join_versions`)."""
    old_rows, old_weights = leading(keys, m, p, table, before, k, copies, from_end)
    new_rows, new_weights = leading(keys, m, p, table, runs, k, copies, from_end)
    return join_versions(old_rows, old_weights, new_rows, new_weights)


@kernel
def shifted(before: Codes, weights: Codes, starts: Codes, offset: int) -> tuple[Codes, Codes, Codes]:
    """Find the row `offset` copies before each row of its segment; a row of weight w is w copies.

    before[i] is the number of copies that precede row i in its segment. Returns (row, other,
    copies): for that many copies of the row, the row found is `other`, or -1 for none. O(n).
    """
    n = weights.shape[0]
    groups = starts.shape[0]
    row = np.empty(2 * (n + groups), np.int64)
    other = np.empty(2 * (n + groups), np.int64)
    copies = np.empty(2 * (n + groups), np.int64)
    out = 0
    for g in range(groups):
        end = starts[g + 1] if g + 1 < groups else n
        size = before[end - 1] + weights[end - 1]
        j = starts[g]
        for i in range(starts[g], end):
            position = before[i]
            while position < before[i] + weights[i]:
                left = before[i] + weights[i] - position
                source_row = -1
                if position < offset:
                    count = min(left, offset - position)
                elif offset < 0 and position >= size + offset:
                    count = left
                else:
                    source = position - offset
                    while before[j] + weights[j] <= source:
                        j += 1
                    source_row = j
                    count = min(left, before[j] + weights[j] - source)
                row[out] = i
                other[out] = source_row
                copies[out] = count
                out += 1
                position += count
    return first_codes(row, out, out), first_codes(other, out, out), first_codes(copies, out, out)
