"""Marks of the values of a list: a value without a mark is not in it.

The same list is often intersected with many others: all edges into d, with the edges from each
neighbour of d. Then its values are marked once, and the other lists are read against the marks,
which takes one step for a value and no comparison that the processor would predict wrongly.

A mark is a bit, and its place is computed from the value. Each place also has the row of the value.
Values may share a place, so this row is compared with the value. Dense values, as ids and small
numbers are, seldom share one.
"""

from __future__ import annotations

from dbsp.kernels.arrays import Pointer, RunCodes
from dbsp.kernels.jit import kernel
from dbsp.kernels.limits import INT64_MIN

MARKS = 1 << 14
"""The number of marks of a list: they fit the innermost cache."""

WORDS = MARKS >> 6

MARKED_SIZE = WORDS + MARKS
"""How many numbers the marks and rows of a list take. They are 0 before the first mark."""

MOST_MARKED = MARKS >> 3
"""A longer list is not marked, since many values of other lists would share a place with it."""


@kernel
def mark_place(value: int) -> int:
    """Return the place of a value. Floats differ in their high bits."""
    return (value ^ (value >> 38)) & (MARKS - 1)


@kernel
def next_marked(marks: Pointer, run: RunCodes, k: int, c: int, low: int, high: int) -> int:
    """Return the first row of low:high whose value in column c has a marked place, or `high`."""
    at = low * k + c
    for row in range(low, high):
        place = mark_place(run[at])
        if (marks[place >> 6] >> (place & 63)) & 1:
            return row
        at += k
    return high


@kernel
def marked_row(marks: Pointer, value: int) -> int:
    """Return the first row of the list whose value has this place; the value may be another one."""
    row: int = marks[WORDS + mark_place(value)]
    return row


@kernel
def mark_values(marks: Pointer, run: RunCodes, k: int, c: int, low: int, high: int) -> None:
    """Mark the values of column c in some rows. O(high - low)."""
    for row in range(high - 1, low - 1, -1):
        place = mark_place(run[row * k + c])
        marks[(place >> 6)] |= 1 << (place & 63) if place & 63 < 63 else INT64_MIN
        marks[WORDS + place] = row


@kernel
def erase_marks(marks: Pointer, run: RunCodes, k: int, c: int, low: int, high: int) -> None:
    """Erase the marks of these values, the only ones that are marked. O(high - low)."""
    for row in range(low, high):
        marks[(mark_place(run[row * k + c]) >> 6)] = 0
