"""Cells: constructed values as the engine keeps them, a row of field codes for each different one.

All values of one layout are the rows of one table, found again by a hash of their codes: to construct n
values is a pass over n rows, and to take them apart is a look-up. Their ids are the interner's, so the parts
of a value have smaller ids than the value itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from dbsp.data.types import Layout
from dbsp.kernels.arrays import Codes
from dbsp.kernels.hashing import find_rows, intern_rows, place_rows

Mask = npt.NDArray[np.bool_]

_FIRST_ROOM: Final = 16


class LayoutCells:
    """The field codes of all values of one layout, and the id of each."""

    __slots__ = ("_slots", "ids", "layout", "nested", "rows", "used")

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.nested = np.flatnonzero(np.array(layout.nested, np.bool_))
        self.rows = np.empty((_FIRST_ROOM, len(layout.nested)), np.int64)
        self.ids = np.empty(_FIRST_ROOM, np.int64)
        self.used = 0
        self._slots = np.zeros(4 * _FIRST_ROOM, np.int64)

    def find(self, rows: Codes) -> Codes:
        """The number of each row in the table, or -1."""
        numbers = np.empty(len(rows), np.int64)
        find_rows(rows, self.rows, self._slots, numbers)
        return numbers

    def intern(self, rows: Codes) -> tuple[Codes, int]:
        """The number of each row, and how many rows there are with those that are new."""
        needed = self.used + len(rows)
        if needed > len(self.rows):
            room = 2 * needed
            self.rows = _grown(self.rows, room)
            self.ids = _grown(self.ids, room)
        if 2 * needed > len(self._slots):
            slots = np.zeros(1 << (4 * needed).bit_length(), np.int64)
            place_rows(self.rows, self.used, slots)
            self._slots = slots
        numbers = np.empty(len(rows), np.int64)
        return numbers, intern_rows(rows, self.rows, self.used, self._slots, numbers)


class Cells:
    """The tables of all layouts, and of each id where its row is."""

    __slots__ = ("_by_layout", "_depth", "_number", "_row", "tables")

    def __init__(self) -> None:
        self.tables: list[LayoutCells] = []
        self._by_layout: dict[Layout, int] = {}
        # By id of the interner; ids of other values, among them, have no table.
        self._number = np.empty(0, np.int64)
        self._row = np.empty(0, np.int64)
        self._depth = np.empty(0, np.int64)

    def table_number(self, layout: Layout) -> int:
        """The number of a layout's table, which is made if it is not there."""
        number = self._by_layout.get(layout)
        if number is None:
            number = self._by_layout[layout] = len(self.tables)
            self.tables.append(LayoutCells(layout))
        return number

    def find(self, layout: Layout, fields: Sequence[int]) -> int | None:
        """The id of one value, if it is there."""
        number = self._by_layout.get(layout)
        if number is None:
            return None
        table = self.tables[number]
        at = int(table.find(np.array(fields, np.int64).reshape(1, -1))[0])
        return None if at < 0 else int(table.ids[at])

    def intern(self, layout: Layout, rows: Codes, next_id: int) -> tuple[Codes, int]:
        """The ids of the values with these field codes; new ones count from `next_id`. How many are new."""
        number = self.table_number(layout)
        table = self.tables[number]
        numbers, used = table.intern(np.ascontiguousarray(rows))
        new = used - table.used
        if new:
            end = next_id + new
            if end > len(self._number):
                room = max(2 * end, _FIRST_ROOM)
                self._number = _grown(self._number, room, -1)
                self._row = _grown(self._row, room)
                self._depth = _grown(self._depth, room, 0)
            table.ids[table.used : used] = np.arange(next_id, end)
            self._number[next_id:end] = number
            self._row[next_id:end] = np.arange(table.used, used)
            self._depth[next_id:end] = self._depths(table, table.rows[table.used : used])
            table.used = used
        return table.ids[numbers], new

    def _depths(self, table: LayoutCells, rows: Codes) -> Codes:
        deepest = np.zeros(len(rows), np.int64)
        for column in table.nested:
            inner = rows[:, column]
            depth = self._depth[np.maximum(inner, 0)]
            np.maximum(deepest, np.where(inner >= 0, depth, 0), out=deepest)
        return deepest + 1

    def depths(self, ids: Codes) -> Codes:
        """How deep constructed values are nested: one more than the deepest of their parts; nil is 0 deep."""
        if not len(self._depth):
            return np.zeros(len(ids), np.int64)
        return np.where(ids >= 0, self._depth[np.maximum(ids, 0)], 0)

    def has_layout(self, layout: Layout, ids: Codes) -> Mask:
        """Which of the ids are those of values of this layout."""
        number = self._by_layout.get(layout)
        if number is None:
            return np.zeros(len(ids), np.bool_)
        known = (ids >= 0) & (ids < len(self._number))
        in_layout: Mask = known & (self._number[np.where(known, ids, 0)] == number)
        return in_layout

    def field(self, layout: Layout, ids: Codes, position: int, filler: int) -> Codes:
        """The codes of one field of each value; `filler` where a value is not of this layout."""
        in_layout = self.has_layout(layout, ids)
        if not in_layout.any():
            return np.full(len(ids), filler, np.int64)
        column = self.tables[self._by_layout[layout]].rows[:, position]
        if in_layout.all():
            return column[self._row[ids]]
        return np.where(in_layout, column[self._row[np.where(in_layout, ids, ids[in_layout][0])]], filler)

    def is_cell(self, code: int) -> bool:
        """Whether an id is that of a constructed value."""
        return 0 <= code < len(self._number) and self._number[code] >= 0

    def cell(self, code: int) -> tuple[Layout, list[int]]:
        """The layout and the field codes of one value."""
        table = self.tables[self._number[code]]
        fields: list[int] = table.rows[self._row[code]].tolist()
        return table.layout, fields


def _grown(array: Codes, room: int, fill: int | None = None) -> Codes:
    """A longer array that begins with this one."""
    grown = np.empty((room, *array.shape[1:]), np.int64)
    grown[: len(array)] = array
    if fill is not None:
        grown[len(array) :] = fill
    return grown
