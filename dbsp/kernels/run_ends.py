"""The next row of ranges of several sorted runs, from one end of the ranges to the other.

The ranges are low[r]:high[r] of the runs. From their start the next row is the least one, from
their end the largest one; equal rows of several runs are one row, whose weights are summed.
"""

from __future__ import annotations

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.jit import codes_at, kernel
from dbsp.kernels.run_search import compare_run_rows, weight_at
from dbsp.kernels.wide_sums import add_wide, fit_weight


@kernel
def next_row(table: Rows, runs: int, k: int, low: Codes, high: Codes, from_end: bool) -> tuple[int, int]:
    """Return (run, position) of the next row; the run is -1 if all ranges are empty. O(runs)."""
    best = -1
    best_at = 0
    for r in range(runs):
        if low[r] < high[r]:
            at = high[r] - 1 if from_end else low[r]
            order = 0
            if best >= 0:
                order = compare_run_rows(
                    codes_at(table[r, 0]), at * k, codes_at(table[best, 0]), best_at * k, k
                )
            if best < 0 or (order > 0 if from_end else order < 0):
                best = r
                best_at = at
    return best, best_at


@kernel
def take_row(
    table: Rows, runs: int, k: int, low: Codes, high: Codes, from_end: bool, best: int, best_at: int
) -> int:
    """Remove the next row from the ranges; return its weight. O(runs).

    `best` and `best_at` are its run and position. Raises OverflowError if the weight is outside
    int64.
    """
    row = codes_at(table[best, 0])
    carry = total = 0
    for r in range(runs):
        if low[r] < high[r]:
            at = high[r] - 1 if from_end else low[r]
            if compare_run_rows(codes_at(table[r, 0]), at * k, row, best_at * k, k) == 0:
                carry, total = add_wide(carry, total, weight_at(table[r, 1], at))
                if from_end:
                    high[r] -= 1
                else:
                    low[r] += 1
    return fit_weight(carry, total)
