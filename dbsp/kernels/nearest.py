"""Searches along an ordered column of a trace: the nearest present row, and all rows of a range."""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Mask, Rows
from dbsp.kernels.copies import first_rows
from dbsp.kernels.jit import codes_at, kernel
from dbsp.kernels.joined_versions import join_versions
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.kernels.matches import end_of_key, find_bands
from dbsp.kernels.run_ends import next_row, take_row
from dbsp.kernels.run_search import gallop, weights_at
from dbsp.kernels.sort import compare_rows, consolidate


@kernel
def nearest_present(
    keys: Rows, m: int, least: int, table: Rows, runs: int, k: int, forward: bool
) -> tuple[Mask, Codes]:
    """Find for each (key of m columns, value) the nearest value with a row of positive weight.

    The runs are ordered by (key, value, other columns); `keys` are sorted and distinct. Backward,
    it is the largest value from `least` up to the given one; forward, the smallest value above the
    given one. Returns (whether there is one, the value). O(runs * log state) per key, plus the
    cancelled rows that the search skips.
    """
    n = keys.shape[0]
    present = np.zeros(n, np.bool_)
    values = np.zeros(n, np.int64)
    begin = np.zeros(runs, np.int64)
    low = np.zeros(runs, np.int64)
    high = np.zeros(runs, np.int64)
    for i in range(n):
        for r in range(runs):
            run = codes_at(table[r, 0])
            size = table[r, 2]
            begin[r] = gallop(run, k, begin[r], size, keys, i, m, 0)
            middle = gallop(run, k, begin[r], size, keys, i, m + 1, 1)
            if forward:
                low[r] = middle
                high[r] = gallop(run, k, middle, size, keys, i, m, 1)
            else:
                low[r] = begin[r]
                high[r] = middle
        # Invariant: the rows of the range outside low[r]:high[r] have the summed weight 0 or less.
        while True:
            best, at = next_row(table, runs, k, low, high, not forward)
            if best < 0:
                break
            value = codes_at(table[best, 0])[at * k + m]
            if not forward and value < least:
                break
            total = take_row(table, runs, k, low, high, not forward, best, at)
            if total > 0:
                present[i] = True
                values[i] = value
                break
    return present, values


@kernel
def reach_copies(keys: Rows, m: int, copies: int, table: Rows, runs: int, k: int, forward: bool) -> Rows:
    """Return for each of the sorted `keys` the key of the row that is `copies` rows after it.

    Or before it, if not `forward`. The runs are sorted by the columns of a key, of which the first
    m are a partition, and by others. Rows with the key itself do not count, a row of weight w > 0
    counts as w rows, others as none. If the partition ends before, the other columns are the limits
    of int64. O(runs * (log state + rows read)) per key.
    """
    n, q = keys.shape
    reached = keys.copy()
    if copies == 0:
        return reached
    begin = np.zeros(runs, np.int64)
    low = np.zeros(runs, np.int64)
    high = np.zeros(runs, np.int64)
    for i in range(n):
        for r in range(runs):
            run = codes_at(table[r, 0])
            size = table[r, 2]
            begin[r] = gallop(run, k, begin[r], size, keys, i, m, 0)
            if forward:
                low[r] = gallop(run, k, begin[r], size, keys, i, q, 1)
                high[r] = gallop(run, k, low[r], size, keys, i, m, 1)
            else:
                low[r] = begin[r]
                high[r] = gallop(run, k, low[r], size, keys, i, q, 0)
        for c in range(m, q):
            reached[i, c] = INT64_MAX if forward else INT64_MIN
        taken = 0
        while True:
            best, at = next_row(table, runs, k, low, high, not forward)
            if best < 0:
                break
            total = take_row(table, runs, k, low, high, not forward, best, at)
            if total > 0:
                if total >= copies - taken:
                    row = codes_at(table[best, 0])
                    for c in range(m, q):
                        reached[i, c] = row[at * k + c]
                    break
                taken += total
    return reached


@kernel
def gather_bands(starts: Rows, ends: Rows, table: Rows, runs: int, k: int) -> tuple[Rows, Codes]:
    """Return the run rows whose prefix is from starts[i] to ends[i] for some i; not consolidated.

    The ranges are sorted and do not overlap.
    """
    matches, count, pairs = find_bands(starts, ends, starts.shape[1], table, runs, k)
    out_rows = np.empty((pairs, k), np.int64)
    out_weights = np.empty(pairs, np.int64)
    out = 0
    for s in range(count):
        run = codes_at(table[matches[s, 2], 0])
        weights, mask = weights_at(table[matches[s, 2], 1])
        for j in range(matches[s, 3], matches[s, 4]):
            for c in range(k):
                out_rows[out, c] = run[j * k + c]
            out_weights[out] = weights[j & mask]
            out += 1
    return out_rows, out_weights


@kernel
def reach_around(keys: Rows, m: int, copies: int, table: Rows, runs: int, k: int) -> tuple[Rows, Rows]:
    """Return the ranges from `copies` rows before to `copies` rows after each of the sorted `keys`.

    Rows are counted as by `reach_copies`. Ranges that overlap or touch are one. Returns (starts,
    ends).
    """
    n, q = keys.shape
    ends = reach_copies(keys, m, copies, table, runs, k, True)
    starts = reach_copies(keys, m, copies, table, runs, k, False)
    out = 0
    for i in range(n):
        if out == 0 or compare_rows(ends, out - 1, starts, i, q) < 0:
            for c in range(q):
                starts[out, c] = starts[i, c]
            out += 1
        for c in range(q):
            ends[out - 1, c] = ends[i, c]
    return first_rows(starts, out, out), first_rows(ends, out, out)


@kernel
def gather_versions(
    starts: Rows, ends: Rows, table: Rows, before: int, runs: int, k: int
) -> tuple[Rows, Codes]:
    """Return the rows of ranges as by `gather_bands`, of the first `before` runs and of all runs.

    The rows of each version are consolidated; see `join_versions`.
    """
    rows, weights = gather_bands(starts, ends, table, before, k)
    old_rows, old_weights = consolidate(rows, weights)
    rows, weights = gather_bands(starts, ends, table, runs, k)
    new_rows, new_weights = consolidate(rows, weights)
    return join_versions(old_rows, old_weights, new_rows, new_weights)


@kernel
def moved_bands(
    rows: Rows, before: Codes, after: Codes, m: int, q: int, descending: bool
) -> tuple[Rows, Rows, Rows, Rows]:
    """Return the range of each partition in which ranks may change.

    The changed rows are sorted by m columns of a partition and q - m of an order; they count
    `before` and `after` times. A range is from the first changed row to the last one, or to the end
    of the partition, in the order or, `descending`, in its opposite, if the partition has more or
    fewer rows after than before. Returns (keys[p, m], starts[p, q], ends[p, q], edges[p, q]); an
    edge is the first changed row in the direction of the ranks.
    """
    n = rows.shape[0]
    keys = np.empty((n, m), np.int64)
    starts = np.empty((n, q), np.int64)
    ends = np.empty((n, q), np.int64)
    edges = np.empty((n, q), np.int64)
    out = 0
    i = 0
    while i < n:
        end = end_of_key(rows, i, m)
        change = 0
        for j in range(i, end):
            change += after[j] - before[j]
        for c in range(q):
            starts[out, c] = rows[i, c]
            ends[out, c] = rows[end - 1, c]
            edges[out, c] = rows[end - 1 if descending else i, c]
            if c < m:
                keys[out, c] = rows[i, c]
            elif change != 0 and descending:
                starts[out, c] = INT64_MIN
            elif change != 0:
                ends[out, c] = INT64_MAX
        out += 1
        i = end
    return (
        first_rows(keys, out, out),
        first_rows(starts, out, out),
        first_rows(ends, out, out),
        first_rows(edges, out, out),
    )
