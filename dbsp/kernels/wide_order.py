"""The order of rows that do not fit a word: a sort of prefixes, then of the rows with equal ones.

    key = leading bits of the columns (60 bits of 86, say) | number of the row

The number of the row takes the low bits of its key, so the sort moves one word for each row, needs
only the passes over the leading bits, and is stable. Rows with the same leading bits are sorted
again by the columns from the first one that did not fit. Their values lie closer together, so each
time at least the bits of a key are decided. Usually few rows are left: those of a few rows each are
sorted by insertion (the hybrid of radix and insertion sort of McIlroy, Bostic and McIlroy,
Engineering radix sort, Computing Systems 6, 1993, section 3).
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.jit import kernel
from dbsp.kernels.packed_keys import bits_between, radix_sort

FEW = 48
"""Up to so many rows, an insertion sort takes less time than a sort of keys."""


@kernel
def compare_columns(rows: Rows, i: int, j: int, columns: Codes) -> int:
    """Return -1, 0 or 1: whether these columns of row i sort before, with or after row j."""
    for c in columns:
        if rows[i, c] != rows[j, c]:
            return -1 if rows[i, c] < rows[j, c] else 1
    return 0


@kernel
def row_order(rows: Rows, columns: Codes) -> Codes:
    """Return the stable permutation that sorts the rows by these columns.

    O(n) for each word of a row, less if a part of it decides the order.
    """
    n, k = rows.shape[0], columns.shape[0]
    order = np.arange(n)
    if n <= FEW:
        _insert(order, 0, n, rows, columns)
        return order
    keys = np.empty(n, np.int64)
    keys_to = np.empty(n, np.int64)
    none = np.empty(0, np.int64)
    # Rows to sort: order[first:last], by the columns from a number on. They are disjoint.
    waiting = np.empty((n // FEW + 1, 3), np.int64)
    waiting[0, 0] = 0
    waiting[0, 1] = n
    waiting[0, 2] = 0
    count = 1
    while count > 0:
        count -= 1
        start, size, c = waiting[count, 0], waiting[count, 1] - waiting[count, 0], waiting[count, 2]
        number_bits = 0
        while (size - 1) >> number_bits > 0:
            number_bits += 1
        c, bits = _leading_keys(rows, columns, order, start, size, c, 64 - number_bits, keys, keys_to)
        low = np.uint64(number_bits)
        for i in range(size):
            keys[i] = np.int64((np.uint64(keys[i]) << low) | np.uint64(i))
        moved = radix_sort(keys[:size], keys_to[:size], none, none, False, number_bits, number_bits + bits)
        ordered = keys_to if moved else keys
        spare = keys if moved else keys_to
        numbers = (1 << number_bits) - 1
        for i in range(size):
            spare[i] = order[start + (ordered[i] & numbers)]
        for i in range(size):
            order[start + i] = spare[i]
        if c == k:
            continue
        first = 0
        while first < size:
            key = np.uint64(ordered[first]) >> low
            last = first + 1
            while last < size and np.uint64(ordered[last]) >> low == key:
                last += 1
            if last - first > FEW:
                waiting[count, 0] = start + first
                waiting[count, 1] = start + last
                waiting[count, 2] = c
                count += 1
            elif last - first > 1:
                _insert(order, start + first, start + last, rows, columns[c:])
            first = last
    return order


@kernel
def _leading_keys(
    rows: Rows,
    columns: Codes,
    order: Codes,
    start: int,
    size: int,
    c: int,
    room: int,
    keys: Codes,
    spare: Codes,
) -> tuple[int, int]:
    """Write up to `room` leading bits of the columns from c on to `keys`, for `size` rows.

    The rows are order[start:], and `room` is less than 64. Returns the number of the first column
    of which bits are missing, and the number of bits.
    """
    left = room
    for i in range(size):
        keys[i] = 0
    while c < columns.shape[0] and left > 0:
        column = columns[c]
        smallest = rows[order[start], column]
        largest = smallest
        for i in range(size):
            value = rows[order[start + i], column]
            spare[i] = value
            if value < smallest:
                smallest = value
            elif value > largest:
                largest = value
        bits = bits_between(smallest, largest)
        taken = min(bits, left)
        low, drop, up = np.uint64(smallest), np.uint64(bits - taken), np.uint64(taken)
        for i in range(size):
            keys[i] = np.int64((np.uint64(keys[i]) << up) | ((np.uint64(spare[i]) - low) >> drop))
        left -= taken
        if taken < bits:
            break
        c += 1
    return c, room - left


@kernel
def _insert(order: Codes, start: int, end: int, rows: Rows, columns: Codes) -> None:
    """Sort the rows order[start:end] by these columns, by insertion."""
    for i in range(start + 1, end):
        row = order[i]
        j = i - 1
        while j >= start and compare_columns(rows, order[j], row, columns) > 0:
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = row
