"""The partition of rows into ranges of their leading columns.

    rows  ->  key of the leading columns  ->  range of the key  ->  place in the range

A *key* is one non-negative number per row that never decreases in the order of the rows: the
leading columns, as offsets from their minimum, shifted into one word. Rows of equal keys belong to
one range. So the sorted ranges, one after the other, are the sorted rows.

The *plan* of the keys has KEY numbers for each leading column: its number, its minimum, and by how
many bits its offsets are shifted to the right and to the left.
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.jit import kernel

KEY_BITS = 62
"""Keys are below 2 ** KEY_BITS."""

CELLS = 1 << 12
CELL_BITS = KEY_BITS - 12
"""The number of equal parts of all keys, and the bits of the keys within one."""

KEY = 4
"""How many numbers of a plan describe a column."""


@kernel
def column_limits(rows: Rows, columns: Codes) -> Codes:
    """Return the minimum of each of the columns, and then the maximum of each. At least one row."""
    n, k = rows.shape[0], columns.shape[0]
    limits = np.empty(2 * k, np.int64)
    for c in range(k):
        column = columns[c]
        smallest = rows[0, column]
        largest = rows[0, column]
        for i in range(1, n):
            smallest = min(smallest, rows[i, column])
            largest = max(largest, rows[i, column])
        limits[c] = smallest
        limits[k + c] = largest
    return limits


@kernel
def range_keys(rows: Rows, plan: Codes) -> Codes:
    """Return the key of each row."""
    n = rows.shape[0]
    keys = np.zeros(n, np.int64)
    # The inner loop is over rows: the compiler makes instructions for several rows of it.
    for at in range(plan.shape[0] // KEY):
        column = plan[KEY * at]
        smallest = np.uint64(plan[KEY * at + 1])
        right, left = np.uint64(plan[KEY * at + 2]), np.uint64(plan[KEY * at + 3])
        for i in range(n):
            offset = np.uint64(rows[i, column]) - smallest
            keys[i] |= np.int64((offset >> right) << left)
    return keys


@kernel
def _first_ranges(limits: Codes) -> Codes:
    """Return for each of the cells, which divide the keys evenly, the range of its first key."""
    first = np.empty(CELLS + 1, np.int64)
    place = 0
    for cell in range(CELLS + 1):
        while place < limits.shape[0] and limits[place] <= cell << CELL_BITS:
            place += 1
        first[cell] = place
    return first


@kernel
def find_ranges(rows: Rows, plan: Codes, limits: Codes, counts: Codes) -> Codes:
    """Return the range of each row, and count the rows of each range in `counts`.

    The range is the number of the sorted `limits` that are at most the key of the row.
    """
    ranges = range_keys(rows, plan)
    first = _first_ranges(limits)
    for i in range(rows.shape[0]):
        key = ranges[i]
        # Most cells are within one range, so most searches take no step.
        cell = key >> CELL_BITS
        low, high = first[cell], first[cell + 1]
        while low < high:
            middle = (low + high) >> 1
            if limits[middle] <= key:
                low = middle + 1
            else:
                high = middle
        ranges[i] = low
        counts[low] += 1
    return ranges


@kernel
def move_to_ranges(
    rows: Rows, weights: Codes, columns: Codes, ranges: Codes, at: Codes, out_rows: Rows, out_weights: Codes
) -> None:
    """Write these columns of each row, and its weight, to the next place of its range.

    at[r] is the place of the next row of range r. Without room in `out_weights`, no weights are
    written.
    """
    weighted = out_weights.shape[0] > 0
    for i in range(rows.shape[0]):
        out = at[ranges[i]]
        at[ranges[i]] = out + 1
        for c in range(columns.shape[0]):
            out_rows[out, c] = rows[i, columns[c]]
        if weighted:
            out_weights[out] = weights[i]
