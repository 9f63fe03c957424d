"""Live values: which values of an interner are in use, and an interner with only those.

Rows refer to values by id. A column of a type without interned values refers to none; any other
column is searched for ids, and so are all ints whose meaning is not known. A number that happens to
be an id keeps a value that is not needed, which does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.nested_values import struct_layout
from dbsp.data.types import Layout, Structure, Type
from dbsp.kernels import mark_parts, mark_rows
from dbsp.kernels.arrays import Codes, Mask
from dbsp.kernels.limits import INT64_MAX, INT64_MIN


class PartTypes:
    """Which parts of values may be ids, by the types of the columns that hold the values."""

    def __init__(self) -> None:
        self.unknown = False
        """Whether there may be values of other types, any parts of which may be ids."""
        self.in_lists = False
        """Whether the numbers in tuples may be ids: those in lists of interned values are."""
        self._fields: dict[Layout, set[int]] = {}
        self._types: set[Type] = set()

    def add(self, types: Iterable[Type]) -> None:
        """Note that there are values of these types."""
        waiting = list(types)
        while waiting:
            type_ = waiting.pop()
            if type_ in self._types or not type_.interned:
                continue
            self._types.add(type_)
            if type_.kind == "list":
                self.in_lists |= type_.element.interned
            elif type_.kind == "struct":
                waiting += self._noted(struct_layout(type_), [part.type for part in type_.parts])
            elif type_.structure is not None:
                waiting += self._parts_of(type_.structure)
            waiting += [part.type for part in type_.parts]

    def _parts_of(self, structure: Structure) -> Iterator[Type]:
        for constructor in structure.constructors:
            yield from self._noted(constructor.layout, [field.type for field in constructor.fields])

    def _noted(self, layout: Layout, types: Sequence[Type]) -> Sequence[Type]:
        fields = self._fields.setdefault(layout, set())
        fields.update(place for place, type_ in enumerate(types) if type_.interned)
        return types

    def fields(self, layout: Layout) -> list[int]:
        """Return the positions of the fields that may hold ids."""
        if self.unknown:
            return list(range(len(layout.nested)))
        nested = {place for place, inside in enumerate(layout.nested) if inside}
        return sorted(nested | self._fields.get(layout, set()))


class LiveValues:
    """Marks on the values of an interner that are in use; `Interner.some` keeps only those.

    No value may be added meanwhile.
    """

    def __init__(self, interner: Interner, parts: PartTypes) -> None:
        self._interner = interner
        self._parts = parts
        self.marks: Mask = np.zeros(len(interner), np.bool_)
        """Which values are in use, in the order of their ids."""

    def add_rows(self, rows: Codes, types: Sequence[Type] | None) -> None:
        """Mark the values to which rows int64[n, k] refer; without types, any code may be an id."""
        if types is None:
            columns = np.arange(rows.shape[1])
        else:
            columns = np.array([c for c, type_ in enumerate(types) if type_.interned], np.int64)
        if len(columns) and len(rows):
            places = self._interner.places
            rows = np.require(rows, requirements=("C", "W"))  # what kernels accept
            mark_rows(rows, columns, places.kept, places.base, places.shift, self.marks)

    def add_any(self, value: Any) -> None:
        """Mark all values whose ids may be in a Python object: its ints, at any depth."""
        found: list[int] = []
        waiting = [value]
        while waiting:
            part = waiting.pop()
            if type(part) is int or isinstance(part, np.integer):
                found.append(int(part))
            elif isinstance(part, Batch):
                self.add_rows(part.rows, None)
            elif isinstance(part, np.ndarray):
                if part.dtype == np.int64:
                    self.add_rows(np.ascontiguousarray(part).reshape(-1, 1), None)
            elif isinstance(part, Mapping):
                waiting += [*part.keys(), *part.values()]
            elif isinstance(part, tuple | list | set | frozenset):
                waiting += part
        end = self._interner.end
        ids = [code for code in found if 0 <= code < end]
        self.add_rows(np.array(ids, np.int64).reshape(-1, 1), None)

    def add_table(self, table: Mapping[Any, Any]) -> None:
        """Do as `add_any` for a dictionary, fast if its keys are rows and its values are ints."""
        try:
            keys = np.fromiter(chain.from_iterable(table), np.int64)
            values = np.fromiter(table.values(), np.int64, len(table))
        except (TypeError, ValueError, OverflowError):
            self.add_any(table)
            return
        self.add_rows(keys.reshape(-1, 1), None)
        self.add_rows(values.reshape(-1, 1), None)

    def add_parts(self) -> None:
        """Mark the parts of all marked values, after these. O(values)."""
        interner, places = self._interner, self._interner.places
        counts = np.zeros(len(self.marks), np.int64)
        pieces: list[tuple[Codes, Codes]] = []
        """Places of values, and a row for each with the ids of its parts."""
        for table in interner.cells.tables:
            fields = self._parts.fields(table.layout)
            if fields and table.used:
                at = places.of(table.ids[: table.used])
                pieces.append((at, table.rows[: table.used, fields]))
                counts[at] = len(fields)
        inside = _parts_of_tuples(interner, self._parts.in_lists or self._parts.unknown)
        for code, ids in inside:
            place = places.place(code)
            counts[place] = len(ids)
            pieces.append((np.array([place]), np.array([ids], np.int64)))
        if not pieces:
            return
        ends = np.cumsum(counts)
        parts = np.empty(int(ends[-1]), np.int64)
        for at, rows in pieces:
            width = rows.shape[1]
            parts[(ends[at] - width)[:, None] + np.arange(width)] = rows
        mark_parts(ends, parts, places.kept, places.base, places.shift, self.marks)


def _parts_of_tuples(interner: Interner, ints: bool) -> Iterator[tuple[int, list[int]]]:
    """Yield the id of each tuple or set with parts, and their ids; with `ints`, also its ints."""
    if interner.has_tuples:
        for key, code in interner.keyed():
            if type(key) is tuple and (parts := list(_parts_of_key(key, ints))):
                yield code, parts


def _parts_of_key(key: tuple[Any, ...], ints: bool) -> Iterator[int]:
    """Yield the ids of tuples in the key of a value (see `Interner`), and its ints of 64 bits."""
    cls = key[0]
    if issubclass(cls, tuple):
        pairs: Iterable[tuple[type, Any]] = zip(key[1::2], key[2::2], strict=True)
    elif issubclass(cls, frozenset):
        pairs = key[1]
    else:
        return
    for kind, part in pairs:
        if issubclass(kind, tuple) or (ints and kind is int and INT64_MIN <= part <= INT64_MAX):
            yield part
        elif issubclass(kind, frozenset):
            yield from _parts_of_key((kind, part), ints)
