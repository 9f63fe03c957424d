"""Positions in sorted runs: the weight of the rows of a range, and the value at a position.

A *counted table* is a run table (see `dbsp.kernels.run_search`) with two more columns: the address
of the totals of the run, and the width of its rows. The totals of a run are its weights, summed up
to every BLOCK-th row, in 128 bits. So the weight of a range is a difference of two totals and two
parts of blocks. A run whose weights are all 1 needs no totals, and a small run has none.
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.column_search import seek, seek_past
from dbsp.kernels.copies import first_codes, first_rows
from dbsp.kernels.jit import add_product, at_address, codes_at, kernel
from dbsp.kernels.limits import NULL
from dbsp.kernels.matches import end_of_key
from dbsp.kernels.run_search import gallop, weights_at
from dbsp.kernels.wide_sums import add_wide, fit_weight

BLOCK = 64
"""The rows between two totals of a run."""


@kernel
def total_blocks(weights: Codes) -> Codes:
    """Return the totals of a run with these weights: for each block (high, low) before it. O(n)."""
    blocks = weights.shape[0] // BLOCK + 1
    totals = np.empty(2 * blocks, np.int64)
    high = low = 0
    for b in range(blocks):
        totals[2 * b] = high
        totals[2 * b + 1] = low
        if b < blocks - 1:
            for i in range(b * BLOCK, (b + 1) * BLOCK):
                high, low = add_wide(high, low, weights[i])
    return totals


@kernel
def _add_range(table: Rows, r: int, start: int, end: int, high: int, low: int) -> tuple[int, int]:
    """Return (high, low) plus the weight of the rows start:end of a run."""
    if table[r, 1] & 1:
        return add_wide(high, low, end - start)
    weights, _ = weights_at(table[r, 1])
    first = -(-start // BLOCK)
    last = end // BLOCK
    if table[r, 3] == 0 or first >= last:
        for i in range(start, end):
            high, low = add_wide(high, low, weights[i])
        return high, low
    for i in range(start, first * BLOCK):
        high, low = add_wide(high, low, weights[i])
    for i in range(last * BLOCK, end):
        high, low = add_wide(high, low, weights[i])
    # A lower word counts as a signed number here, which is less by 2^64 if it is negative.
    totals = at_address(table[r, 3])
    high, low = add_wide(high, low, totals[2 * last + 1])
    high, low = add_product(high, low, totals[2 * first + 1], -1)
    high += totals[2 * last] + (totals[2 * last + 1] < 0)
    return high - totals[2 * first] - (totals[2 * first + 1] < 0), low


@kernel
def weigh_values(rows: Rows, weights: Codes, m: int, table: Rows, runs: int) -> tuple[Rows, Codes, Codes]:
    """Return the different values of a delta, with their weights before and after it.

    A value is the first m columns of a row, by which the rows and the runs are sorted; its weight
    is the sum of those of its rows. Returns (values[v, m], before[v], after[v]).
    O(values * runs * log state).
    """
    n = rows.shape[0]
    found = np.empty((n, m), np.int64)
    before = np.empty(n, np.int64)
    after = np.empty(n, np.int64)
    places = np.zeros(runs, np.int64)
    out = 0
    i = 0
    while i < n:
        end = end_of_key(rows, i, m)
        high = low = 0
        for r in range(runs):
            run = codes_at(table[r, 0])
            k = table[r, 4]
            start = gallop(run, k, places[r], table[r, 2], rows, i, m, 0)
            places[r] = gallop(run, k, start, table[r, 2], rows, i, m, 1)
            high, low = _add_range(table, r, start, places[r], high, low)
        before[out] = fit_weight(high, low)
        for j in range(i, end):
            high, low = add_wide(high, low, weights[j])
        after[out] = fit_weight(high, low)
        for c in range(m):
            found[out, c] = rows[i, c]
        out += 1
        i = end
    return first_rows(found, out, out), first_codes(before, out, out), first_codes(after, out, out)


@kernel
def _find_group(
    keys: Rows, g: int, table: Rows, runs: int, nullable: bool, starts: Codes, ends: Codes
) -> None:
    """Set the range of a group in each run, without the rows whose value is None.

    The search begins at `ends`, the end of the group before.
    """
    m = keys.shape[1]
    for r in range(runs):
        run = codes_at(table[r, 0])
        k = table[r, 4]
        starts[r] = gallop(run, k, ends[r], table[r, 2], keys, g, m, 0)
        ends[r] = gallop(run, k, starts[r], table[r, 2], keys, g, m, 1)
        if nullable and starts[r] < ends[r]:
            starts[r] = seek_past(run, k, m, starts[r], ends[r], NULL)


@kernel
def count_values(keys: Rows, table: Rows, runs: int, nullable: bool) -> Codes:
    """Return the weight of each group, without the rows whose value is None; int64[g].

    The runs are sorted by the key and the value. O(runs * log state) per group.
    """
    groups = keys.shape[0]
    sizes = np.empty(groups, np.int64)
    starts = np.zeros(runs, np.int64)
    ends = np.zeros(runs, np.int64)
    for g in range(groups):
        _find_group(keys, g, table, runs, nullable, starts, ends)
        high = low = 0
        for r in range(runs):
            high, low = _add_range(table, r, starts[r], ends[r], high, low)
        sizes[g] = fit_weight(high, low)
    return sizes


@kernel
def count_beyond(keys: Rows, m: int, table: Rows, runs: int, after: bool) -> Codes:
    """Return the weight of the rows of a partition that sort before each key, or `after` it.

    A partition is the first m columns of a key; the keys and the runs are sorted.
    O(runs * log state) per key.
    """
    n, q = keys.shape
    counts = np.empty(n, np.int64)
    places = np.zeros(runs, np.int64)
    for i in range(n):
        high = low = 0
        for r in range(runs):
            run = codes_at(table[r, 0])
            k = table[r, 4]
            places[r] = gallop(run, k, places[r], table[r, 2], keys, i, m, 0)
            if after:
                start = gallop(run, k, places[r], table[r, 2], keys, i, q, 1)
                end = gallop(run, k, start, table[r, 2], keys, i, m, 1)
            else:
                start = places[r]
                end = gallop(run, k, start, table[r, 2], keys, i, q, 0)
            high, low = _add_range(table, r, start, end, high, low)
        counts[i] = fit_weight(high, low)
    return counts


@kernel
def values_at(keys: Rows, positions: Rows, table: Rows, runs: int, nullable: bool) -> Rows:
    """Return the values at positions from 0 of each group, each value as often as its weight.

    The runs are sorted by the key and the value, and the summed weight of each value is 0 or more.
    A position outside of its group yields None. Each round halves the longest of the ranges that
    may hold the value: O(runs^2 * log(state)^2) per position.
    """
    groups, wanted = positions.shape
    m = keys.shape[1]
    result = np.full((groups, wanted), np.int64(NULL))
    starts = np.zeros(runs, np.int64)
    ends = np.zeros(runs, np.int64)
    first = np.zeros(runs, np.int64)
    last = np.zeros(runs, np.int64)
    less = np.zeros(runs, np.int64)
    more = np.zeros(runs, np.int64)
    for g in range(groups):
        _find_group(keys, g, table, runs, nullable, starts, ends)
        for p in range(wanted):
            left = positions[g, p]
            for r in range(runs):
                first[r] = starts[r]
                last[r] = ends[r]
            # Invariant: the value is in first:last of the runs, `left` copies after their start.
            while left >= 0:
                longest = 0
                for r in range(1, runs):
                    if last[r] - first[r] > last[longest] - first[longest]:
                        longest = r
                if runs == 0 or first[longest] == last[longest]:
                    break
                run = codes_at(table[longest, 0])
                value = run[((first[longest] + last[longest]) >> 1) * table[longest, 4] + m]
                high = low = high_equal = low_equal = 0
                for r in range(runs):
                    run = codes_at(table[r, 0])
                    less[r] = seek(run, table[r, 4], m, first[r], last[r], value)
                    more[r] = seek_past(run, table[r, 4], m, less[r], last[r], value)
                    high, low = _add_range(table, r, first[r], less[r], high, low)
                    high_equal, low_equal = _add_range(table, r, less[r], more[r], high_equal, low_equal)
                before = fit_weight(high, low)
                equal = fit_weight(high_equal, low_equal)
                if left < before:
                    for r in range(runs):
                        last[r] = less[r]
                    continue
                left -= before
                if left < equal:
                    result[g, p] = value
                    break
                left -= equal
                for r in range(runs):
                    first[r] = more[r]
    return result
