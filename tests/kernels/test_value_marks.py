"""Marks of the values of a list: no value of the list is missed, and erased marks are gone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels import value_marks
from dbsp.kernels.arrays import Codes, Pointer
from dbsp.kernels.jit import at_address, codes_at
from dbsp.kernels.value_marks import MARKED_SIZE, MARKS, WORDS

from .support import codes

VALUES = st.lists(codes | st.integers(0, 80) | st.integers(-(2**63), 2**63 - 1), max_size=30)


def column(values: list[int]) -> Codes:
    """Rows of two columns, of which the second has the sorted values."""
    rows = np.full((len(values), 2), 3, np.int64)
    rows[:, 1] = np.sort(np.array(values, np.int64))
    return rows


def marked(memory: Codes, rows: Codes, low: int, high: int) -> Pointer:
    marks = at_address(memory.ctypes.data)
    value_marks.mark_values(marks, codes_at(rows.ctypes.data), 2, 1, low, high)
    return marks


@given(VALUES, VALUES, st.integers(0, 3))
def test_the_next_marked_row_is_the_first_with_a_shared_place(
    listed: list[int], others: list[int], low: int
) -> None:
    memory = np.zeros(MARKED_SIZE, np.int64)
    rows, other = column(listed), column(others)
    low = min(low, len(listed))
    marks = marked(memory, rows, low, len(rows))
    places = {value_marks.mark_place(value) for value in rows[low:, 1].tolist()}
    assert all(0 <= place < MARKS for place in places)
    for start in range(len(other) + 1):
        found = value_marks.next_marked(marks, codes_at(other.ctypes.data), 2, 1, start, len(other))
        rest = [row for row in range(start, len(other)) if value_marks.mark_place(other[row, 1]) in places]
        assert found == (rest[0] if rest else len(other))
    for value in set(rows[low:, 1].tolist()):
        row = value_marks.marked_row(marks, value)
        assert low <= row <= rows[:, 1].tolist().index(value, low)
        assert value_marks.mark_place(rows[row, 1]) == value_marks.mark_place(value)
    value_marks.erase_marks(marks, codes_at(rows.ctypes.data), 2, 1, low, len(rows))
    assert not memory[:WORDS].any()


def test_near_values_share_no_place() -> None:
    for start in (0, 12345, 2**38, -(2**50)):
        values = range(start, start + 1000)
        assert len({value_marks.mark_place(value) for value in values}) == 1000


def test_floats_of_small_numbers_seldom_share_a_place() -> None:
    values = np.arange(1, 1000).astype(np.float64).view(np.int64).tolist()
    assert len({value_marks.mark_place(value) for value in values}) > 300
