"""Hash tables of rows: open addressing, with the rows themselves as keys."""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.jit import kernel


@kernel
def mix_columns(rows: Rows, i: int, k: int) -> np.uint64:
    """Return a word that depends on all bits of the first k columns of row i."""
    mixed = np.uint64(0x9E3779B97F4A7C15)
    for c in range(k):
        mixed = (mixed ^ np.uint64(rows[i, c])) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
    return mixed


@kernel
def first_slot(rows: Rows, i: int, size: int) -> int:
    """Return where the search for a row starts in a table of `size` slots, a power of two."""
    mixed = mix_columns(rows, i, rows.shape[1])
    slot: int = np.int64(mixed & np.uint64(size - 1))  # type: ignore[assignment]
    return slot


@kernel
def find_rows(rows: Rows, table: Rows, slots: Codes, numbers: Codes) -> None:
    """Set numbers[i] to the number of the row of `table` that equals rows[i], or to -1.

    A slot holds one more than the number of a row, or 0. O(rows) on average.
    """
    size = slots.shape[0]
    for i in range(rows.shape[0]):
        slot = first_slot(rows, i, size)
        numbers[i] = -1
        while slots[slot] != 0:
            number = slots[slot] - 1
            same = True
            for c in range(rows.shape[1]):
                if table[number, c] != rows[i, c]:
                    same = False
                    break
            if same:
                numbers[i] = number
                break
            slot = (slot + 1) & (size - 1)


@kernel
def intern_rows(rows: Rows, table: Rows, used: int, slots: Codes, numbers: Codes) -> int:
    """Do as `find_rows`, but add new rows to `table` from `used` on; return the new `used`.

    `table` must have space for all rows, and `slots` must be at least twice the new value of
    `used`.
    """
    size = slots.shape[0]
    for i in range(rows.shape[0]):
        slot = first_slot(rows, i, size)
        number = -1
        while slots[slot] != 0:
            number = slots[slot] - 1
            for c in range(rows.shape[1]):
                if table[number, c] != rows[i, c]:
                    number = -1
                    break
            if number >= 0:
                break
            slot = (slot + 1) & (size - 1)
        if number < 0:
            number = used
            for c in range(rows.shape[1]):
                table[used, c] = rows[i, c]
            slots[slot] = used + 1
            used += 1
        numbers[i] = number
    return used


@kernel
def place_rows(table: Rows, used: int, slots: Codes) -> None:
    """Insert the first `used` rows, all different, into slots that are all 0."""
    size = slots.shape[0]
    for number in range(used):
        slot = first_slot(table, number, size)
        while slots[slot] != 0:
            slot = (slot + 1) & (size - 1)
        slots[slot] = number + 1
