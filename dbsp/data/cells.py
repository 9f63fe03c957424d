"""Cells: the storage of constructed values, a row of field codes per different value.

All values of one layout are the rows of one table, which a hash of their codes finds: constructing
n values is one pass over n rows, and reading a field is a look-up. Their ids belong to the
interner, so the parts of a value have smaller ids than the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from dbsp.data.id_places import IdPlaces
from dbsp.data.types import Layout
from dbsp.kernels import find_rows, intern_rows, place_rows
from dbsp.kernels.arrays import Codes

Mask = npt.NDArray[np.bool_]

_FIRST_ROOM: Final = 16


class RepeatedValueError(ValueError):
    """A value that is to be added with a given id has an id already."""

    def __init__(self) -> None:
        super().__init__("a value occurs twice")


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
        """Return the number of each row in the table, or -1."""
        numbers = np.empty(len(rows), np.int64)
        find_rows(rows, self.rows, self._slots, numbers)
        return numbers

    def intern(self, rows: Codes) -> tuple[Codes, int]:
        """Add missing rows; return the number of each row and the number of rows in the table."""
        needed = self._grow(len(rows))
        if 2 * needed > len(self._slots):
            slots = np.zeros(1 << (4 * needed).bit_length(), np.int64)
            place_rows(self.rows, self.used, slots)
            self._slots = slots
        numbers = np.empty(len(rows), np.int64)
        return numbers, intern_rows(rows, self.rows, self.used, self._slots, numbers)

    def append(self, rows: Codes) -> None:
        """Add rows that `find` and `intern` do not find."""
        needed = self._grow(len(rows))
        self.rows[self.used : needed] = rows

    def _grow(self, new: int) -> int:
        """Make space for new rows; return the number of rows with them."""
        needed = self.used + new
        if needed > len(self.rows):
            room = 2 * needed
            # The rows last: an interrupt before that makes the next call do both again.
            self.ids = _grown(self.ids, room)
            self.rows = _grown(self.rows, room)
        return needed

    def some(self, kept: Mask) -> LayoutCells:
        """Return a table of some of the rows. O(n)."""
        table = LayoutCells(self.layout)
        rows, ids = self.rows[: self.used][kept], self.ids[: self.used][kept]
        table.intern(rows)
        table.ids[: len(ids)] = ids
        table.used = len(ids)
        return table

    def truncate(self, end: int) -> None:
        """Remove the rows of ids from `end` on, and rows that were added without an id. O(n)."""
        used = int(np.searchsorted(self.ids[: self.used], end))
        slots = np.zeros_like(self._slots)
        place_rows(self.rows, used, slots)
        self.used = used
        self._slots = slots


class Cells:
    """The tables of all layouts, and the table and row of each id."""

    __slots__ = ("_by_layout", "_depth", "_number", "_row", "places", "tables")

    def __init__(self, places: IdPlaces) -> None:
        self.places = places
        self.tables: list[LayoutCells] = []
        self._by_layout: dict[Layout, int] = {}
        # Indexed by the places of ids; those of other values have the table -1.
        self._number = np.empty(0, np.int64)
        self._row = np.empty(0, np.int64)
        self._depth = np.empty(0, np.int64)

    def table_number(self, layout: Layout) -> int:
        """Return the number of the table of a layout; add the table if it is missing."""
        number = self._by_layout.get(layout)
        if number is None:
            number = len(self.tables)
            self.tables.append(LayoutCells(layout))
            self._by_layout[layout] = number
        return number

    def find(self, layout: Layout, fields: Sequence[int]) -> int | None:
        """Return the id of one value, or None if it is not stored."""
        number = self._by_layout.get(layout)
        if number is None:
            return None
        table = self.tables[number]
        at = int(table.find(np.array(fields, np.int64).reshape(1, -1))[0])
        return None if at < 0 else int(table.ids[at])

    def intern(self, layout: Layout, rows: Codes, next_id: int) -> tuple[Codes, int]:
        """Return the ids of these values, and how many are new; new ids start at `next_id`."""
        number = self.table_number(layout)
        table = self.tables[number]
        numbers, used = table.intern(np.ascontiguousarray(rows))
        new = used - table.used
        if new:
            ids = np.arange(next_id, next_id + new)
            self._place(number, used, ids, ids - self.places.shift)
        return table.ids[numbers], new

    def put(self, layout: Layout, rows: Codes, ids: Codes) -> None:
        """Add new values with these ids, whose places are after all others."""
        table, rows = self.tables[self.table_number(layout)], np.ascontiguousarray(rows)
        if (table.find(rows) >= 0).any():
            raise RepeatedValueError
        _, used = table.intern(rows)
        if used != table.used + len(rows):
            raise ValueError("a value occurs twice")
        self._place(self.table_number(layout), used, ids, self.places.of(ids))

    def put_repeated(self, layout: Layout, rows: Codes, ids: Codes) -> None:
        """Do as `put` for values that may be stored already, and then have several ids."""
        number = self.table_number(layout)
        self.tables[number].append(rows)
        self._place(number, self.tables[number].used + len(rows), ids, self.places.of(ids))

    def _place(self, number: int, used: int, ids: Codes, places: Codes) -> None:
        """Note the ids and places of the rows of a table from `table.used` to `used`."""
        table, end = self.tables[number], int(places[-1]) + 1
        if end > len(self._number):
            room = max(2 * end, _FIRST_ROOM)
            # The numbers last: an interrupt before that makes the next call do all again.
            self._row = _grown(self._row, room)
            self._depth = _grown(self._depth, room, 0)
            self._number = _grown(self._number, room, -1)
        table.ids[table.used : used] = ids
        self._number[places] = number
        self._row[places] = np.arange(table.used, used)
        self._depth[places] = self._depths(table, table.rows[table.used : used])
        table.used = used

    def truncate(self, end: int) -> None:
        """Remove the values with ids from `end` on, and leftovers of an interrupted `intern`."""
        for table in self.tables:
            table.truncate(end)
        self._number[end - self.places.shift :] = -1

    def _depths(self, table: LayoutCells, rows: Codes) -> Codes:
        deepest = np.zeros(len(rows), np.int64)
        for column in table.nested:
            inner = rows[:, column]
            depth = self._depth[np.maximum(self.places.of(inner), 0)]
            np.maximum(deepest, np.where(inner >= 0, depth, 0), out=deepest)
        return deepest + 1

    def tables_of(self, count: int) -> Codes:
        """Return for each of the first `count` places the number of its table, -1 for others."""
        return _grown(self._number[:count], count, -1)

    def some(self, marks: Mask, places: IdPlaces) -> Cells:
        """Return the cells with a mark at their place, under the same ids. O(n)."""
        cells = Cells(places)
        cells._by_layout = dict(self._by_layout)
        numbers = self.tables_of(len(marks))
        cells._number = numbers[marks]
        cells._row = np.zeros(len(cells._number), np.int64)
        cells._depth = _grown(self._depth[: len(marks)], len(marks), 0)[marks]
        for number, table in enumerate(self.tables):
            kept = marks[self.places.of(table.ids[: table.used])]
            cells.tables.append(table.some(kept))
            cells._row[cells._number == number] = np.arange(np.count_nonzero(kept))
        return cells

    def depths(self, ids: Codes) -> Codes:
        """Return the depth of values: one more than that of the deepest part; 0 for nil."""
        if not len(self._depth):
            return np.zeros(len(ids), np.int64)
        return np.where(ids >= 0, self._depth[np.maximum(self.places.of(ids), 0)], 0)

    def has_layout(self, layout: Layout, ids: Codes) -> Mask:
        """Return which of the ids belong to values of this layout."""
        number = self._by_layout.get(layout)
        if number is None:
            return np.zeros(len(ids), np.bool_)
        places = self.places.of(ids)
        known = (places >= 0) & (places < len(self._number))
        in_layout: Mask = known & (self._number[np.where(known, places, 0)] == number)
        return in_layout

    def field(self, layout: Layout, ids: Codes, position: int, filler: int) -> Codes:
        """Return the codes of one field of each value; `filler` for values of other layouts."""
        in_layout = self.has_layout(layout, ids)
        if not in_layout.any():
            return np.full(len(ids), filler, np.int64)
        column, places = self.tables[self._by_layout[layout]].rows[:, position], self.places.of(ids)
        if in_layout.all():
            return column[self._row[places]]
        any_place = places[in_layout][0]
        return np.where(in_layout, column[self._row[np.where(in_layout, places, any_place)]], filler)

    def is_cell(self, code: int) -> bool:
        """Return whether an id belongs to a constructed value."""
        place = self.places.find(code)
        return 0 <= place < len(self._number) and bool(self._number[place] >= 0)

    def layout(self, code: int) -> Layout:
        """Return the layout of one value."""
        layout: Layout = self.tables[self._number[self.places.place(code)]].layout
        return layout

    def rows(self, layout: Layout, ids: Codes) -> Codes:
        """Return the field codes of values of one layout, int64[n, k]."""
        rows: Codes = self.tables[self._by_layout[layout]].rows[self._row[self.places.of(ids)]]
        return rows

    def cell(self, code: int) -> tuple[Layout, list[int]]:
        """Return the layout and the field codes of one value."""
        place = self.places.place(code)
        table = self.tables[self._number[place]]
        fields: list[int] = table.rows[self._row[place]].tolist()
        return table.layout, fields


def _grown(array: Codes, room: int, fill: int | None = None) -> Codes:
    """Return an array of `room` elements that starts with the elements of this one."""
    kept = array[:room]
    grown = np.empty((room, *array.shape[1:]), np.int64)
    grown[: len(kept)] = kept
    if fill is not None:
        grown[len(kept) :] = fill
    return grown
