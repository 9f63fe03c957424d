"""Bounds of groups at an iteration: the least, the greatest, the OR and the AND of their values."""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.copies import first_codes, first_rows
from dbsp.kernels.jit import add_weights, kernel
from dbsp.kernels.limits import INT64_MAX

# The bounds, as in the argument `bound` below.
LEAST = 0
GREATEST = 1
BIT_OR = 2
BIT_AND = 3


@kernel
def bound_timed_groups(
    rows: Rows, weights: Codes, m: int, now: int, bound: int
) -> tuple[Rows, Codes, Rows, Codes]:
    """Compute the change of a bound at iteration `now`, for whole groups of rows.

    `rows` are sorted and have the columns (m key columns, value, iteration, phase), with phase 0
    for earlier ticks and 1 for this tick. A value counts while its summed weight is positive, and a
    group while the sum of all its weights is. With O and N the prefix sums over iterations of phase
    0 and of both phases, and f(Z) the row (key, bound of the values of Z),

        out = (f(N<=now) - f(N<=now-1)) - (f(O<=now) - f(O<=now-1)).

    Returns the output (rows, weights), not consolidated, and the agenda: the keys with rows after
    `now`, and the first iteration of these rows. O(rows).
    """
    n = rows.shape[0]
    # A group has one row or more, and up to 4 rows of output.
    groups = 0
    for i in range(n):
        if i == 0 or compare_groups(rows, i - 1, i, m) != 0:
            groups += 1
    out_rows = np.empty((4 * groups, m + 1), np.int64)
    out_weights = np.empty(4 * groups, np.int64)
    agenda = np.empty((groups, m), np.int64)
    times = np.empty(groups, np.int64)
    out = 0
    waiting = 0
    # States 0 to 3: N<=now, N<=now-1, O<=now, O<=now-1; the last has the sign of the first.
    sums = np.zeros(4, np.int64)
    totals = np.zeros(4, np.int64)
    bounds = np.zeros(4, np.int64)
    found = np.zeros(4, np.int64)
    i = 0
    while i < n:
        first = i
        later = INT64_MAX
        for s in range(4):
            totals[s] = 0
            found[s] = 0
        while i < n and compare_groups(rows, first, i, m) == 0:
            value = rows[i, m]
            for s in range(4):
                sums[s] = 0
            while i < n and rows[i, m] == value and compare_groups(rows, first, i, m) == 0:
                time = rows[i, m + 1]
                if time > now:
                    later = min(later, time)
                else:
                    for s in range(4):
                        past = s >= 2
                        before = s == 1 or s == 3
                        if not (past and rows[i, m + 2] != 0) and not (before and time == now):
                            sums[s] = add_weights(sums[s], weights[i])
                i += 1
            for s in range(4):
                totals[s] = add_weights(totals[s], sums[s])
                if sums[s] > 0:
                    if found[s] == 0 or bound == GREATEST:  # values are in ascending order
                        bounds[s] = value
                    elif bound == BIT_OR:
                        bounds[s] |= value
                    elif bound == BIT_AND:
                        bounds[s] &= value
                    found[s] = 1
        for s in range(4):
            if totals[s] > 0:
                for c in range(m):
                    out_rows[out, c] = rows[first, c]
                out_rows[out, m] = bounds[s]
                out_weights[out] = 1 if s == 0 or s == 3 else -1
                out += 1
        if later != INT64_MAX:
            for c in range(m):
                agenda[waiting, c] = rows[first, c]
            times[waiting] = later
            waiting += 1
    return (
        first_rows(out_rows, out, out),
        first_codes(out_weights, out, out),
        first_rows(agenda, waiting, waiting),
        first_codes(times, waiting, waiting),
    )


@kernel
def compare_groups(rows: Rows, i: int, j: int, m: int) -> int:
    """Return 0 if two rows agree in their first m columns, else another number."""
    for c in range(m):
        if rows[i, c] != rows[j, c]:
            return 1
    return 0
