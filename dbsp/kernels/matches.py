"""Joins of a sorted delta with a trace: one side of the bilinear formula."""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.copies import first_rows
from dbsp.kernels.jit import codes_at, kernel, multiply_weights
from dbsp.kernels.match_room import LARGEST_ROOM, PIECE, more_room
from dbsp.kernels.run_search import compare_prefix, gallop, gallop_keys, weights_at
from dbsp.kernels.sort import compare_rows


@kernel
def end_of_key(rows: Rows, start: int, m: int) -> int:
    """Return the position after the last row that shares the m-column key of rows[start]."""
    end = start + 1
    while end < rows.shape[0] and compare_rows(rows, start, rows, end, m) == 0:
        end += 1
    return end


@kernel
def find_matches(keys: Rows, m: int, table: Rows, runs: int, k: int) -> tuple[Rows, int, int]:
    """Find the rows of the runs that share the m-column prefix of the sorted `keys`.

    `k` is the number of columns of the runs. Returns (matches, count, pairs): matches[s] = (first
    key, end key, run, first row, end row), and the number of (key row, run row) pairs in them. The
    search gallops over both sides: O(min * log(max / min)) per run, plus the matches.
    """
    n = keys.shape[0]
    matches = np.empty((max(8, min(n * 2, 1024)), 5), np.int64)
    count = 0
    pairs = 0
    for r in range(runs):
        run = codes_at(table[r, 0])
        size = table[r, 2]
        i = 0
        low = 0
        while i < n and low < size:
            low = gallop(run, k, low, size, keys, i, m, 0)
            if low == size:
                break
            if compare_prefix(run, low * k, keys, i, m) != 0:
                i = gallop_keys(keys, i + 1, run, low * k, m)
                continue
            # A key with a single row is common, and needs no search.
            high = low + 1
            if high < size and compare_prefix(run, high * k, keys, i, m) == 0:
                high = gallop(run, k, high, size, keys, i, m, 1)
            end = end_of_key(keys, i, m)
            if count == matches.shape[0]:
                matches = first_rows(matches, count, 2 * count)
            matches[count, 0] = i
            matches[count, 1] = end
            matches[count, 2] = r
            matches[count, 3] = low
            matches[count, 4] = high
            count += 1
            pairs += (end - i) * (high - low)
            i = end
            low = high
    return matches, count, pairs


@kernel
def find_bands(starts: Rows, ends: Rows, m: int, table: Rows, runs: int, k: int) -> tuple[Rows, int, int]:
    """Find the rows of the runs with an m-column prefix from starts[i] to ends[i], both included.

    Both are sorted and differ in column m - 1 at most. Returns the same as `find_matches`. O(log
    gap) per row and run, plus the matches.
    """
    n = starts.shape[0]
    matches = np.empty((max(8, min(n * 2, 1024)), 5), np.int64)
    count = 0
    pairs = 0
    for r in range(runs):
        run = codes_at(table[r, 0])
        size = table[r, 2]
        low = 0
        high = 0
        for i in range(n):
            # Both bounds only grow, so the search continues from the position of the row before.
            low = gallop(run, k, low, size, starts, i, m, 0)
            if low == size:
                break
            high = gallop(run, k, max(low, high), size, ends, i, m, 1)
            if high == low:
                continue
            if count == matches.shape[0]:
                matches = first_rows(matches, count, 2 * count)
            matches[count, 0] = i
            matches[count, 1] = i + 1
            matches[count, 2] = r
            matches[count, 3] = low
            matches[count, 4] = high
            count += 1
            pairs += high - low
    return matches, count, pairs


@kernel
def _fill(
    matches: Rows,
    start: int,
    stop: int,
    delta_rows: Rows,
    delta_weights: Codes,
    table: Rows,
    k: int,
    columns: Codes,
    now: Codes,
    coordinates: int,
    out_rows: Rows,
    out_weights: Codes,
    out: int,
) -> int:
    """Write the pairs of the matches from `start` to `stop`, from `out` on.

    The columns after those of `columns` hold the time of the pair. Returns where the rows end.
    """
    # A function of its own: in a loop that may replace the arrays, the compiler would read their
    # addresses again for every pair.
    width = columns.shape[0]
    for s in range(start, stop):
        run = codes_at(table[matches[s, 2], 0])
        weights, mask = weights_at(table[matches[s, 2], 1])
        for row in range(matches[s, 0], matches[s, 1]):
            for j in range(matches[s, 3], matches[s, 4]):
                for c in range(width):
                    v = columns[c]
                    out_rows[out, c] = delta_rows[row, v] if v >= 0 else run[j * k - v - 1]
                for d in range(now.shape[0]):
                    out_rows[out, width + d] = now[d]
                at = (j + 1) * k - coordinates
                for d in range(coordinates):
                    out_rows[out, width + d] = max(now[d], run[at + d])
                out_weights[out] = multiply_weights(delta_weights[row], weights[j & mask])
                out += 1
    return out


@kernel
def pair_rows(
    matches: Rows,
    count: int,
    pairs: int,
    delta_rows: Rows,
    delta_weights: Codes,
    table: Rows,
    k: int,
    columns: Codes,
    now: Codes,
    coordinates: int,
) -> tuple[Rows, Codes]:
    """Return the joined rows of the matches, and their times in further columns for each of `now`.

    Equal rows may be added up (see `dbsp.kernels.match_room`).
    """
    room = min(pairs, LARGEST_ROOM)
    until = piece = min(room, PIECE)
    left = pairs
    out_rows = np.empty((room, columns.shape[0] + now.shape[0]), np.int64)
    out_weights = np.empty(room, np.int64)
    out = 0
    part = np.empty((1, 5), np.int64)
    s = 0
    while s < count:
        # Most matches fit as they are, many at once.
        end = s
        fitting = until - out
        while end < count:
            fitting -= (matches[end, 1] - matches[end, 0]) * (matches[end, 4] - matches[end, 3])
            if fitting < 0:
                break
            end += 1
        if end > s:
            filled = _fill(
                matches,
                s,
                end,
                delta_rows,
                delta_weights,
                table,
                k,
                columns,
                now,
                coordinates,
                out_rows,
                out_weights,
                out,
            )
            left -= filled - out
            out = filled
            s = end
            continue
        i, last, low, high = matches[s, 0], matches[s, 1], matches[s, 3], matches[s, 4]
        part[0, 2] = matches[s, 2]
        while i < last:
            if out == until:
                out_rows, out_weights, out, piece = more_room(out_rows, out_weights, out, piece, left)
                until = min(out_weights.shape[0], piece)
            # All delta rows that fit, or a part of one.
            end = i + 1
            if low == matches[s, 3]:
                end = min(last, i + max((until - out) // (high - low), np.int64(1)))
            stop = min(high, low + until - out)
            left -= (end - i) * (stop - low)
            part[0, 0], part[0, 1], part[0, 3], part[0, 4] = i, end, low, stop
            out = _fill(
                part,
                0,
                1,
                delta_rows,
                delta_weights,
                table,
                k,
                columns,
                now,
                coordinates,
                out_rows,
                out_weights,
                out,
            )
            if stop < high:
                low = stop
            else:
                i, low = end, matches[s, 3]
        s += 1
    return out_rows[:out], out_weights[:out]


@kernel
def split_by_time(rows: Rows, weights: Codes, now: Codes) -> tuple[Rows, Codes, Rows, int]:
    """Return the rows without their last columns, their times: those of the time `now` first."""
    n, depth = rows.shape[0], now.shape[0]
    width = rows.shape[1] - depth
    out_rows = np.empty((n, width), np.int64)
    out_weights = np.empty(n, np.int64)
    times = np.empty((n, depth), np.int64)
    front = 0
    back = n
    for i in range(n):
        later = False
        for d in range(depth):
            if rows[i, width + d] > now[d]:
                later = True
        if later:
            back -= 1
            out = back
        else:
            out = front
            front += 1
        for c in range(width):
            out_rows[out, c] = rows[i, c]
        for d in range(depth):
            times[out, d] = rows[i, width + d]
        out_weights[out] = weights[i]
    return out_rows, out_weights, times, front


@kernel
def pair_timed_rows(
    matches: Rows,
    count: int,
    pairs: int,
    delta_rows: Rows,
    delta_weights: Codes,
    table: Rows,
    k: int,
    columns: Codes,
    now: Codes,
    coordinates: int,
) -> tuple[Rows, Codes, Rows, int]:
    """Return the joined rows of the matches, with their times; see `join_timed_runs`."""
    if pairs > PIECE:
        rows, summed = pair_rows(
            matches, count, pairs, delta_rows, delta_weights, table, k, columns, now, coordinates
        )
        return split_by_time(rows, summed, now)
    # The split of so few pairs would take a quarter of the time of the join.
    width = columns.shape[0]
    depth = now.shape[0]
    out_rows = np.empty((pairs, width), np.int64)
    out_weights = np.empty(pairs, np.int64)
    times = np.empty((pairs, depth), np.int64)
    front = 0
    back = pairs
    for s in range(count):
        run = codes_at(table[matches[s, 2], 0])
        weights, mask = weights_at(table[matches[s, 2], 1])
        for i in range(matches[s, 0], matches[s, 1]):
            for j in range(matches[s, 3], matches[s, 4]):
                at = (j + 1) * k - coordinates
                later = False
                for d in range(coordinates):
                    if run[at + d] > now[d]:
                        later = True
                        break
                if later:
                    back -= 1
                    out = back
                    for d in range(depth):
                        times[out, d] = now[d]
                    for d in range(coordinates):
                        times[out, d] = max(now[d], run[at + d])
                else:
                    out = front
                    front += 1
                for c in range(width):
                    v = columns[c]
                    out_rows[out, c] = delta_rows[i, v] if v >= 0 else run[j * k - v - 1]
                out_weights[out] = multiply_weights(delta_weights[i], weights[j & mask])
    return out_rows, out_weights, times, front


@kernel
def join_runs(
    delta_rows: Rows,
    delta_weights: Codes,
    m: int,
    table: Rows,
    runs: int,
    k: int,
    columns: Codes,
) -> tuple[Rows, Codes, int]:
    """Join a delta with a trace on equal m-column prefixes; the result rows are not sorted.

    columns[c] is the source of output column c: column v of the delta for v >= 0, column -v - 1 of
    the run for v < 0. Weights multiply, checked. Returns (rows, weights, matches): of many matches,
    equal rows may be added up already (see `dbsp.kernels.match_room`); `matches` counts all.
    """
    matches, count, pairs = find_matches(delta_rows, m, table, runs, k)
    now = np.empty(0, np.int64)
    rows, weights = pair_rows(matches, count, pairs, delta_rows, delta_weights, table, k, columns, now, 0)
    return rows, weights, pairs


@kernel
def join_timed_runs(
    delta_rows: Rows,
    delta_weights: Codes,
    m: int,
    table: Rows,
    runs: int,
    k: int,
    columns: Codes,
    now: Codes,
    coordinates: int,
) -> tuple[Rows, Codes, Rows, int, int]:
    """Join as `join_runs`, with runs whose last `coordinates` columns are the time of the row.

    `now` is the time of the delta, one iteration per nested scope, outermost first; a run of an
    outer scope has fewer coordinates, and the others are 0. The time of a match is the least upper
    bound of both times. Returns (rows, weights, times, due, matches): the first `due` rows have the
    time `now`, the others their later `times`, int64[rows, depth]. `matches` as in `join_runs`.
    """
    matches, count, pairs = find_matches(delta_rows, m, table, runs, k)
    rows, weights, times, due = pair_timed_rows(
        matches, count, pairs, delta_rows, delta_weights, table, k, columns, now, coordinates
    )
    return rows, weights, times, due, pairs


@kernel
def join_bands(
    delta_rows: Rows,
    delta_weights: Codes,
    starts: Rows,
    ends: Rows,
    table: Rows,
    runs: int,
    k: int,
    columns: Codes,
) -> tuple[Rows, Codes, int]:
    """Join each delta row with the run rows whose prefix is from starts[i] to ends[i]."""
    matches, count, pairs = find_bands(starts, ends, starts.shape[1], table, runs, k)
    now = np.empty(0, np.int64)
    rows, weights = pair_rows(matches, count, pairs, delta_rows, delta_weights, table, k, columns, now, 0)
    return rows, weights, pairs


@kernel
def join_timed_bands(
    delta_rows: Rows,
    delta_weights: Codes,
    starts: Rows,
    ends: Rows,
    table: Rows,
    runs: int,
    k: int,
    columns: Codes,
    now: Codes,
    coordinates: int,
) -> tuple[Rows, Codes, Rows, int, int]:
    """Join as `join_bands`, with the times of `join_timed_runs`."""
    matches, count, pairs = find_bands(starts, ends, starts.shape[1], table, runs, k)
    rows, weights, times, due = pair_timed_rows(
        matches, count, pairs, delta_rows, delta_weights, table, k, columns, now, coordinates
    )
    return rows, weights, times, due, pairs


@kernel
def gather(keys: Rows, m: int, table: Rows, runs: int, k: int, split: int) -> tuple[Rows, Codes, int]:
    """Return the run rows that share an m-column prefix with the sorted, distinct `keys`.

    Returns (rows, weights, first): rows of runs before `split` are before index `first`, the others
    after it. Rows have the k columns of the runs and are not consolidated.
    """
    matches, count, pairs = find_matches(keys, m, table, runs, k)
    out_rows = np.empty((pairs, k), np.int64)
    out_weights = np.empty(pairs, np.int64)
    out = 0
    first = 0
    for s in range(count):  # runs are in order, so those before `split` are first
        r = matches[s, 2]
        run = codes_at(table[r, 0])
        weights, mask = weights_at(table[r, 1])
        for j in range(matches[s, 3], matches[s, 4]):
            for c in range(k):
                out_rows[out, c] = run[j * k + c]
            out_weights[out] = weights[j & mask]
            out += 1
        if r < split:
            first = out
    return out_rows, out_weights, first
