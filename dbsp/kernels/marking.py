"""Marks on the values of an interner that rows refer to (see `dbsp.data.live_values`).

A value has an id, by which rows refer to it, and a place among the stored values, at which it is
marked. Ids below `base` are those in `kept`, which is sorted; their places are their positions
there. The place of any other id is the id less `shift`.
"""

from __future__ import annotations

from dbsp.kernels.arrays import Codes, Mask, Rows
from dbsp.kernels.jit import kernel


@kernel
def place_of(code: int, kept: Codes, base: int, shift: int, end: int) -> int:
    """Return the place of the value with an id; -1 if no value has it."""
    if code >= base:
        return code - shift if code < end else -1
    low = 0
    high = kept.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if kept[middle] < code:
            low = middle + 1
        else:
            high = middle
    return low if low < kept.shape[0] and kept[low] == code else -1


@kernel
def mark_rows(rows: Rows, columns: Codes, kept: Codes, base: int, shift: int, marks: Mask) -> None:
    """Mark the values whose ids are in these columns. O(rows * columns)."""
    end = marks.shape[0] + shift
    for at in range(columns.shape[0]):
        column = columns[at]
        before = -1
        for row in range(rows.shape[0]):
            code = rows[row, column]
            if code != before:
                place = place_of(code, kept, base, shift, end)
                if place >= 0:
                    marks[place] = True
                before = code


@kernel
def mark_parts(ends: Codes, parts: Codes, kept: Codes, base: int, shift: int, marks: Mask) -> None:
    """Mark the parts of marked values, and the parts of those.

    The value at a place has the codes in `parts` that end at `ends[place]` and start where those of
    the place before end. The parts of a value have smaller ids, so one pass from the last value to
    the first one finds all. O(values + parts), if few values were freed.
    """
    end = marks.shape[0] + shift
    for place in range(marks.shape[0] - 1, -1, -1):
        if marks[place]:
            start = ends[place - 1] if place > 0 else 0
            for at in range(start, ends[place]):
                part = place_of(parts[at], kept, base, shift, end)
                if 0 <= part < place:
                    marks[part] = True
