"""Presence: the rows of a delta that change the sign of their summed weight."""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.copies import first_codes, first_rows
from dbsp.kernels.jit import add_weights, codes_at, kernel
from dbsp.kernels.limits import INT64_MAX
from dbsp.kernels.run_search import compare_prefix, gallop, weights_at
from dbsp.kernels.wide_sums import add_wide, fit_weight


@kernel
def sum_weights(rows: Rows, table: Rows, runs: int) -> Codes:
    """Return the weight of each of the sorted, distinct `rows`, summed over the runs; int64[n].

    A row is present if this sum is positive; its presence in one run means nothing.
    """
    n, k = rows.shape
    total = np.zeros(n, np.int64)
    carry = np.zeros(n, np.int64)
    for r in range(runs):
        run = codes_at(table[r, 0])
        weights, mask = weights_at(table[r, 1])
        size = table[r, 2]
        low = 0
        for i in range(n):
            low = gallop(run, k, low, size, rows, i, k, 0)
            if low == size:
                break
            if compare_prefix(run, low * k, rows, i, k) == 0:
                carry[i], total[i] = add_wide(carry[i], total[i], weights[low & mask])
    for i in range(n):
        fit_weight(carry[i], total[i])
    return total


@kernel
def change_presence(rows: Rows, weights: Codes, table: Rows, runs: int, changes: Codes) -> tuple[int, bool]:
    """Write the change of f(w) = [w > 0] by each row of a delta, if the past is in `runs`.

    Returns the number of rows that appear or disappear, and whether each row changes by its weight.
    """
    before = sum_weights(rows, table, runs)
    changed = 0
    same = True
    for i in range(weights.shape[0]):
        after = add_weights(before[i], weights[i])
        changes[i] = (1 if after > 0 else 0) - (1 if before[i] > 0 else 0)
        if changes[i] != 0:
            changed += 1
        if changes[i] != weights[i]:
            same = False
    return changed, same


@kernel
def distinct_timed_runs(
    rows: Rows, table: Rows, past: int, runs: int, now: int
) -> tuple[Rows, Codes, Rows, Codes]:
    """Compute distinct at iteration `now` for the rows visited in it.

    Run rows end with their iteration; the first `past` runs hold earlier ticks, the others this
    tick. With O and N the prefix sums over iterations of the past and of past plus present,

        out(x) = (f(N<=now) - f(N<=now-1)) - (f(O<=now) - f(O<=now-1)),  f(w) = [w > 0].

    Returns the output (rows, weights) and the agenda: (rows, time) of the next iteration after
    `now` in the history of each row, in which the row must be visited again.
    """
    n, k = rows.shape
    wide = k + 1
    # Per row: O<=now-1, O<=now, N<=now-1, N<=now, next iteration.
    sums = np.zeros((n, 4), np.int64)
    carry = np.zeros((n, 4), np.int64)
    later = np.full(n, np.int64(INT64_MAX))
    for r in range(runs):
        run = codes_at(table[r, 0])
        weights, mask = weights_at(table[r, 1])
        size = table[r, 2]
        low = 0
        for i in range(n):
            low = gallop(run, wide, low, size, rows, i, k, 0)
            if low == size:
                break
            while low < size and compare_prefix(run, low * wide, rows, i, k) == 0:
                time = run[low * wide + k]
                w = weights[low & mask]
                low += 1
                if time > now:
                    if time < later[i]:
                        later[i] = time
                    # The run is sorted by time, so the rest of the history of this row is later.
                    break
                carry[i, 3], sums[i, 3] = add_wide(carry[i, 3], sums[i, 3], w)
                if time < now:
                    carry[i, 2], sums[i, 2] = add_wide(carry[i, 2], sums[i, 2], w)
                if r < past:
                    carry[i, 1], sums[i, 1] = add_wide(carry[i, 1], sums[i, 1], w)
                    if time < now:
                        carry[i, 0], sums[i, 0] = add_wide(carry[i, 0], sums[i, 0], w)
    out_rows = np.empty((n, k), np.int64)
    out_weights = np.empty(n, np.int64)
    waiting = 0
    out = 0
    for i in range(n):
        for c in range(4):
            fit_weight(carry[i, c], sums[i, c])
        before = (1 if sums[i, 1] > 0 else 0) - (1 if sums[i, 0] > 0 else 0)
        after = (1 if sums[i, 3] > 0 else 0) - (1 if sums[i, 2] > 0 else 0)
        if after != before:
            for c in range(k):
                out_rows[out, c] = rows[i, c]
            out_weights[out] = after - before
            out += 1
        if later[i] != INT64_MAX:
            waiting += 1
    agenda_rows = np.empty((waiting, k), np.int64)
    agenda_times = np.empty(waiting, np.int64)
    at = 0
    if waiting:
        for i in range(n):
            if later[i] != INT64_MAX:
                for c in range(k):
                    agenda_rows[at, c] = rows[i, c]
                agenda_times[at] = later[i]
                at += 1
    if out < n:
        return first_rows(out_rows, out, out), first_codes(out_weights, out, out), agenda_rows, agenda_times
    return out_rows, out_weights, agenda_rows, agenda_times


@kernel
def assert_runs(rows: Rows, weights: Codes, table: Rows, runs: int) -> tuple[Rows, Codes, int, int]:
    """Apply the set semantics of an input: w > 0 inserts a row, w < 0 retracts it.

    Returns the change (rows, weights of +1 or -1), the number of insertions of present rows and the
    number of retractions of absent rows.
    """
    n, k = rows.shape
    before = sum_weights(rows, table, runs)
    out_rows = np.empty((n, k), np.int64)
    out_weights = np.empty(n, np.int64)
    out = 0
    present = 0
    absent = 0
    for i in range(n):
        if weights[i] > 0 and before[i] > 0:
            present += 1
        elif weights[i] < 0 and before[i] <= 0:
            absent += 1
        else:
            for c in range(k):
                out_rows[out, c] = rows[i, c]
            out_weights[out] = 1 if weights[i] > 0 else -1
            out += 1
    if out < n:
        return first_rows(out_rows, out, out), first_codes(out_weights, out, out), present, absent
    return out_rows, out_weights, present, absent


@kernel
def count_asserted(rows: Rows, weights: Codes, table: Rows, runs: int) -> tuple[int, int, bool]:
    """Return the last two results of `assert_runs`, and whether every weight is 1 or -1.

    A small delta often changes the set as it is, and arrays of results take longer than its search.
    """
    before = sum_weights(rows, table, runs)
    present = 0
    absent = 0
    units = True
    for i in range(weights.shape[0]):
        if weights[i] > 0 and before[i] > 0:
            present += 1
        elif weights[i] < 0 and before[i] <= 0:
            absent += 1
        if weights[i] != 1 and weights[i] != -1:
            units = False
    return present, absent, units
