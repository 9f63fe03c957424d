"""Relations with one row per key: the change that a batch of new and removed rows makes."""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows, RunCodes
from dbsp.kernels.jit import codes_at, kernel
from dbsp.kernels.matches import end_of_key
from dbsp.kernels.run_search import compare_prefix, compare_run_rows, gallop, weight_at


@kernel
def _is_stored(row: RunCodes, at: int, k: int, table: Rows, runs: int, lows: Codes) -> bool:
    """Return whether the weights of a row in all runs have a positive sum.

    lows[r] is the first row with its key in run r. A run has few rows of a key: it adds up the
    changes of successive ticks, which leave the row before them and the row after them.
    """
    total = 0
    for r in range(runs):
        run = codes_at(table[r, 0])
        low = lows[r]
        while low < table[r, 2] and compare_run_rows(run, low * k, row, at, k) < 0:
            low += 1
        if low < table[r, 2] and compare_run_rows(run, low * k, row, at, k) == 0:
            total += weight_at(table[r, 1], low)
    return total > 0


@kernel
def _find_stored(rows: Rows, i: int, m: int, table: Rows, runs: int, lows: Codes) -> tuple[int, int]:
    """Return the run of the stored row with the key of rows[i], and its place; -1, -1 without one.

    The search in run r starts at lows[r], which becomes the place of its first row with the key.
    """
    k = rows.shape[1]
    for r in range(runs):
        lows[r] = gallop(codes_at(table[r, 0]), k, lows[r], table[r, 2], rows, i, m, 0)
    for r in range(runs):
        run = codes_at(table[r, 0])
        at = lows[r]
        while at < table[r, 2] and compare_prefix(run, at * k, rows, i, m) == 0:
            if weight_at(table[r, 1], at) > 0 and _is_stored(run, at * k, k, table, runs, lows):
                return r, at
            at += 1
    return -1, -1


@kernel
def replace_by_key(
    rows: Rows, weights: Codes, m: int, table: Rows, runs: int
) -> tuple[Rows, Codes, int, int, int]:
    """Apply sorted rows to a relation with one row per key, which is their first m columns.

    A positive weight replaces the row of the key, other weights remove it:

        out = sum over the keys of rows with w > 0 of  {new row: 1} - {stored row: 1}
            - sum over the other keys of               {stored row: 1}

    Returns the change (rows, weights of +1 or -1), the number of new rows that were stored already,
    the number of removed keys without a stored row, and -1. If two rows of one key have a positive
    weight, the last result is the number of rows with positive weights before the second of them,
    and the others mean nothing. O(log n) per key and run, and O(log gap) for close keys.
    """
    n, k = rows.shape
    lows = np.zeros(runs, np.int64)
    found = np.empty((n, 3), np.int64)  # by changed key: the new row, the run and place of the old
    keys = 0
    changed = 0
    new_rows = 0
    present = 0
    absent = 0
    clash = -1
    i = 0
    while i < n:
        first = i
        i = end_of_key(rows, first, m)
        new = -1
        for row in range(first, i):
            if weights[row] > 0:
                if new >= 0 and clash < 0:
                    clash = new_rows
                new = row
                new_rows += 1
        r, at = _find_stored(rows, first, m, table, runs, lows)
        if new >= 0 and r >= 0 and compare_prefix(codes_at(table[r, 0]), at * k, rows, new, k) == 0:
            present += 1
        elif new < 0 and r < 0:
            absent += 1
        else:
            found[keys, 0] = new
            found[keys, 1] = r
            found[keys, 2] = at
            keys += 1
            changed += (1 if new >= 0 else 0) + (1 if r >= 0 else 0)
    out_rows = np.empty((changed, k), np.int64)
    out_weights = np.empty(changed, np.int64)
    out = 0
    for key in range(keys):
        new, r, at = found[key, 0], found[key, 1], found[key, 2]
        old_turn = -1
        if r >= 0:
            run = codes_at(table[r, 0])
            old_turn = out
            if new >= 0 and compare_prefix(run, at * k, rows, new, k) > 0:
                old_turn = out + 1
            for c in range(k):
                out_rows[old_turn, c] = run[at * k + c]
            out_weights[old_turn] = -1
        if new >= 0:
            turn = out + 1 if old_turn == out else out
            for c in range(k):
                out_rows[turn, c] = rows[new, c]
            out_weights[turn] = 1
        out += (1 if new >= 0 else 0) + (1 if r >= 0 else 0)
    return out_rows, out_weights, present, absent, clash
