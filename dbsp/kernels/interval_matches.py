"""Joins of points with intervals: one side of the bilinear formula, for either side's delta."""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.copies import first_rows
from dbsp.kernels.jit import codes_at, kernel
from dbsp.kernels.matches import pair_rows, pair_timed_rows
from dbsp.kernels.run_search import gallop


@kernel
def find_intervals(
    starts: Rows, ends: Rows, floors: Codes, column: int, table: Rows, runs: int, k: int
) -> tuple[Rows, int, int]:
    """Find the run rows with a prefix from starts[i] to ends[i], and floors[i] or more in a column.

    `starts` is sorted, and starts[i] and ends[i] differ in their last column at most. A `column` of
    -1 checks no further column. Returns the same as `find_matches`. O(log n + rows in the range)
    per row and run.
    """
    n, m = starts.shape
    matches = np.empty((max(8, min(n * 2, 1024)), 5), np.int64)
    count = 0
    pairs = 0
    for r in range(runs):
        run = codes_at(table[r, 0])
        size = table[r, 2]
        low = 0
        for i in range(n):
            low = gallop(run, k, low, size, starts, i, m, 0)
            if low == size:
                break
            high = gallop(run, k, low, size, ends, i, m, 1)
            at = low
            while at < high:
                # The next rows that all have enough in the column: at:end.
                end = high
                if column >= 0:
                    while at < high and run[at * k + column] < floors[i]:
                        at += 1
                    end = at
                    while end < high and run[end * k + column] >= floors[i]:
                        end += 1
                if end > at:
                    if count == matches.shape[0]:
                        matches = first_rows(matches, count, 2 * count)
                    matches[count, 0] = i
                    matches[count, 1] = i + 1
                    matches[count, 2] = r
                    matches[count, 3] = at
                    matches[count, 4] = end
                    count += 1
                    pairs += end - at
                at = end
    return matches, count, pairs


@kernel
def join_intervals(
    delta_rows: Rows,
    delta_weights: Codes,
    starts: Rows,
    ends: Rows,
    floors: Codes,
    column: int,
    table: Rows,
    runs: int,
    k: int,
    columns: Codes,
) -> tuple[Rows, Codes, int]:
    """Join each delta row with the run rows that `find_intervals` finds for it."""
    matches, count, pairs = find_intervals(starts, ends, floors, column, table, runs, k)
    now = np.empty(0, np.int64)
    rows, weights = pair_rows(matches, count, pairs, delta_rows, delta_weights, table, k, columns, now, 0)
    return rows, weights, pairs


@kernel
def join_timed_intervals(
    delta_rows: Rows,
    delta_weights: Codes,
    starts: Rows,
    ends: Rows,
    floors: Codes,
    column: int,
    table: Rows,
    runs: int,
    k: int,
    columns: Codes,
    now: Codes,
    coordinates: int,
) -> tuple[Rows, Codes, Rows, int, int]:
    """Join as `join_intervals`, with the times of `join_timed_runs`."""
    matches, count, pairs = find_intervals(starts, ends, floors, column, table, runs, k)
    rows, weights, times, due = pair_timed_rows(
        matches, count, pairs, delta_rows, delta_weights, table, k, columns, now, coordinates
    )
    return rows, weights, times, due, pairs
