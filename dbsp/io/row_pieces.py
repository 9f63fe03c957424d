"""The rows of a file, gathered in pieces of columns.

A reader takes many rows at once. If the values of each column have the type of the column, the
piece is taken without a look at single values; else the reader converts its rows one by one, or
reports what does not fit. Several pieces become an Arrow table: it takes a fifth of the memory of
tuples, and the run encodes it by columns. One piece stays tuples, since to load Arrow takes longer
than to encode them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dbsp.data.int_range import IntRange
from dbsp.data.schema import Schema
from dbsp.data.types import Type
from dbsp.io.facts import Facts
from dbsp.kernels.limits import INT64_MAX, INT64_MIN

PIECE = 1 << 14
"""Readers take so many rows at once."""

_FITTING: dict[str, set[type]] = {"int": {int}, "float": {int, float}, "str": {str}}
"""By kind of a column, the types of the values that fit it as they are."""

Column = Sequence[Any]
_INT64 = IntRange(INT64_MIN, INT64_MAX)


class RowPieces:
    """The rows of a relation that a reader has read so far."""

    def __init__(self, schema: Schema, ranges: Mapping[str, IntRange]) -> None:
        self._schema = schema
        self._ranges = [ranges.get(name, _INT64) for name in schema.names]
        self._only: list[Column] | None = None
        """The columns of the first piece, until there is another one."""
        self._arrays: list[list[Any]] = [[] for _ in schema.names]
        """By column its Arrow arrays, one for each piece."""
        self._rows: list[tuple[Any, ...]] = []
        """All rows, if their types have no Arrow arrays."""
        self._columnar = bool(schema.types) and all(type_.kind in _FITTING for type_ in schema.types)

    def take(self, columns: Sequence[Column]) -> bool:
        """Add rows whose values have been read as they are, by column, if all of them fit.

        Returns False, and adds nothing, if some may not fit.
        """
        if not self._columnar or len(columns) != len(self._ranges):
            return False
        fitted = []
        for column, type_, range_ in zip(columns, self._schema.types, self._ranges, strict=True):
            if not _fits(column, type_, range_):
                return False
            try:
                fitted.append([*map(float, column)] if type_.kind == "float" else column)
            except OverflowError:
                return False
        self._add(fitted)
        return True

    def add(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Add rows whose values fit their columns."""
        if not self._columnar:
            self._rows.extend(rows)
        elif rows:
            self._add(list(zip(*rows, strict=True)))

    def facts(self) -> Facts:
        """Return all rows as a change."""
        if self._only is not None:
            return list(zip(*self._only, strict=True))
        if not self._columnar or not self._arrays[0]:
            return self._rows
        import pyarrow as pa

        return pa.table([pa.chunked_array(arrays) for arrays in self._arrays], names=self._schema.names)

    def _add(self, columns: list[Column]) -> None:
        if not self._arrays[0]:
            if self._only is None:
                self._only = columns
                return
            self._convert(self._only)
            self._only = None
        self._convert(columns)

    def _convert(self, columns: list[Column]) -> None:
        import pyarrow as pa

        types = {"int": pa.int64(), "float": pa.float64(), "str": pa.string()}
        for arrays, column, type_ in zip(self._arrays, columns, self._schema.types, strict=True):
            arrays.append(pa.array(column, types[type_.kind]))


def _fits(column: Column, type_: Type, range_: IntRange) -> bool:
    """Return whether all values, one or more, are values of the type; False if in doubt."""
    if not _FITTING[type_.kind].issuperset(map(type, column)):
        return False
    if type_.kind == "int":
        return min(column) in range_ and max(column) in range_
    if type_.kind == "str":
        try:
            "".join(column).encode()
        except UnicodeEncodeError:  # a surrogate
            return False
    return True
