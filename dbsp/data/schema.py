"""Schemas: the names and types of a relation's columns, and the way of rows to codes and back."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import keyword
import operator
import typing
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dbsp.data.columns import decode_column, encode_column
from dbsp.data.interner import Interner
from dbsp.data.type_inference import as_type, infer_type
from dbsp.data.types import INT, Type
from dbsp.data.values import decoder, encoder
from dbsp.errors import DbspError, InputError, SchemaError, shorten
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX, INT64_MIN

_POSITIONAL = frozenset({tuple, list})
_FEW = 4
"""Up to this many rows, value by value is faster than numpy's fixed cost per column."""


@dataclass(frozen=True)
class Schema:
    """Names and types of the columns of a relation, in order.

    >>> schema = Schema.of(x=int, name=str | None)
    >>> print(schema.describe(), schema.arity, schema.index("name"))
    x: int, name: str? 2 1
    """

    names: tuple[str, ...]
    types: tuple[Type, ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.types):
            raise SchemaError(f"{len(self.names)} column names for {len(self.types)} types")
        if len(set(self.names)) != len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise SchemaError(f"column {twice!r} occurs twice in ({', '.join(self.names)})")

    def __reduce__(self) -> tuple[Any, ...]:
        return Schema, (
            self.names,
            self.types,
        )  # without what is cached: a row class has no home to be found in

    # --- making and changing schemas ---------------------------------------------------------------

    @staticmethod
    def of(**columns: Any) -> Schema:
        """A schema from keywords: a type, a Python class, `X | None` or a kind's name for each column."""
        return as_schema(columns)

    def select(self, indices: Iterable[int]) -> Schema:
        """The schema of the columns at these positions."""
        chosen = tuple(indices)
        return Schema(tuple(self.names[i] for i in chosen), tuple(self.types[i] for i in chosen))

    def rename(self, mapping: Mapping[str, str] | None = None, /, **new_to_old: str) -> Schema:
        """The schema with other names: `rename({"old": "new"})` or `rename(new="old")`."""
        changes = dict(mapping or {}) | {old: new for new, old in new_to_old.items()}
        for old in changes:
            self.index(old)
        return Schema(tuple(changes.get(name, name) for name in self.names), self.types)

    # --- what it says ------------------------------------------------------------------------------

    @property
    def arity(self) -> int:
        """The number of columns."""
        return len(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def index(self, name: str) -> int:
        """The position of a column. Raises SchemaError with the nearest names."""
        try:
            return self._positions[name]
        except KeyError:
            raise SchemaError(
                f"no column {name!r} in ({self.describe()}){suggestion(name, self.names)}"
            ) from None

    def indices(self, names: Iterable[str]) -> tuple[int, ...]:
        """The positions of several columns; a single name stands for itself."""
        if isinstance(names, str):
            names = (names,)
        return tuple(self.index(name) for name in names)

    def type_of(self, name: str) -> Type:
        """The type of a column."""
        return self.types[self.index(name)]

    def describe(self) -> str:
        """The schema as text: `x: int, y: str?`."""
        return ", ".join(f"{name}: {type_}" for name, type_ in zip(self.names, self.types, strict=True))

    def __str__(self) -> str:
        return f"({self.describe()})"

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.names)}

    @cached_property
    def _encoders(self) -> tuple[Callable[[Any, Interner], int], ...]:
        return tuple(map(encoder, self.types))

    @cached_property
    def _decoders(self) -> tuple[Callable[[int, Interner], Any], ...]:
        return tuple(map(decoder, self.types))

    @cached_property
    def _all_int(self) -> bool:
        return all(type_ == INT for type_ in self.types)

    @cached_property
    def row_class(self) -> type[Any]:
        """A named tuple class for the rows handed to user functions.

        A column whose name is no Python identifier gets the name `_0`, `_1`, ... of its position.
        """
        usable = [
            name.isidentifier() and not keyword.iskeyword(name) and name[0] != "_" for name in self.names
        ]
        fields = [
            name if ok else f"_{i}" for i, (name, ok) in enumerate(zip(self.names, usable, strict=True))
        ]
        return namedtuple("Row", fields, rename=True)

    # --- rows to codes -----------------------------------------------------------------------------

    def encode_row(self, row: Any, interner: Interner) -> tuple[int, ...]:
        """The codes of one row (tuple, list, mapping, named tuple, dataclass). Errors as `encode_rows`."""
        if type(row) not in _POSITIONAL:
            row = self.positional(row)
        encoders = self._encoders
        if len(row) != len(encoders):
            raise self._wrong_length(row)
        codes = []
        for value, encode in zip(row, encoders, strict=True):
            if type(value) is int and encode is _encode_int:
                if not INT64_MIN <= value <= INT64_MAX:
                    raise self._explain(row, interner)
                codes.append(value)
            else:
                try:
                    codes.append(encode(value, interner))
                except DbspError:
                    raise self._explain(row, interner) from None
        return tuple(codes)

    def encode_rows(self, rows: Sequence[Any], interner: Interner) -> Codes:
        """The codes of many rows, int64[n, arity] in C order, free to be written to.

        A row is a tuple or list in column order, or a mapping, dataclass or named tuple by column
        name. Cost: a few C passes per column. Raises InputError (wrong arity or type) or
        ValueOutOfRangeError, each naming row, column and value; `interner` may then have new
        entries, which do no harm.
        """
        if not isinstance(rows, (list, tuple)):
            rows = list(rows)
        if not _POSITIONAL.issuperset(map(type, rows)):
            rows = [
                row if type(row) in _POSITIONAL else self._numbered(self.positional, i, row)
                for i, row in enumerate(rows)
            ]
        count, arity = len(rows), self.arity
        if 0 < count <= _FEW:
            try:
                few = [self.encode_row(row, interner) for row in rows]
                return np.array(few, np.int64).reshape(count, arity)
            except DbspError:
                pass  # worded below, with the number of the row
        if count and set(map(len, rows)) != {arity}:
            number, row = next((i, row) for i, row in enumerate(rows) if len(row) != arity)
            raise InputError(f"row {number}: {self._wrong_length(row).message}")
        if self._all_int and set(map(type, itertools.chain.from_iterable(rows))) <= {int}:
            try:
                flat = np.fromiter(itertools.chain.from_iterable(rows), np.int64, count * arity)
                return flat.reshape(count, arity)
            except OverflowError:
                pass  # worded below, column by column
        codes = np.empty((count, arity), np.int64)
        for j, (name, type_) in enumerate(zip(self.names, self.types, strict=True)):
            codes[:, j] = encode_column(type_, list(map(operator.itemgetter(j), rows)), interner, name)
        return codes

    def positional(self, row: Any) -> Sequence[Any]:
        """The values of a row in column order, whatever the row's form."""
        if isinstance(row, tuple):
            fields = getattr(row, "_fields", None)
            if fields is not None and fields != self.names and set(fields) == set(self.names):
                return tuple(getattr(row, name) for name in self.names)
            return row
        if isinstance(row, list):
            return row
        if isinstance(row, Mapping):
            if row.keys() != self._positions.keys():
                raise self._wrong_names(row.keys())
            return tuple(row[name] for name in self.names)
        if dataclasses.is_dataclass(row) and not isinstance(row, type):
            fields = {field.name for field in dataclasses.fields(row)}
            if not fields >= self._positions.keys():
                raise self._wrong_names(fields)
            return tuple(getattr(row, name) for name in self.names)
        if isinstance(row, np.ndarray) and row.ndim == 1:
            return list(row)
        hint = f"; write a row of one column as ({shorten(row)},)" if self.arity == 1 else ""
        raise InputError(
            f"{shorten(row)} of type {type(row).__name__} is no row of ({self.describe()}){hint}"
        )

    # --- codes to rows -----------------------------------------------------------------------------

    def decode_rows(self, codes: Codes, interner: Interner) -> list[tuple[Any, ...]]:
        """The rows that int64[n, arity] stands for, as tuples."""
        if self.arity == 0:
            return [()] * len(codes)
        if len(codes) <= _FEW:
            decoders = self._decoders
            return [
                tuple([decode(code, interner) for code, decode in zip(row, decoders, strict=True)])
                for row in codes.tolist()
            ]
        columns = [decode_column(type_, codes[:, j], interner) for j, type_ in enumerate(self.types)]
        return list(zip(*columns, strict=True))

    def decode_row(self, codes: Sequence[int], interner: Interner) -> tuple[Any, ...]:
        """The row that `arity` codes stand for."""
        return tuple([decode(code, interner) for code, decode in zip(codes, self._decoders, strict=True)])

    # --- errors ------------------------------------------------------------------------------------

    def _numbered(self, convert: Callable[[Any], Sequence[Any]], number: int, row: Any) -> Sequence[Any]:
        try:
            return convert(row)
        except DbspError as error:
            raise type(error)(f"row {number}: {error.message}") from None

    def _wrong_length(self, row: Sequence[Any]) -> InputError:
        return InputError(
            f"{shorten(tuple(row))} has {_values(len(row))}, ({self.describe()}) has {self.arity} columns"
        )

    def _wrong_names(self, given: Iterable[Any]) -> InputError:
        names = list(map(str, given))
        missing = [name for name in self.names if name not in names]
        extra = [name for name in names if name not in self._positions]
        parts = [f"lacks {', '.join(map(repr, missing))}"] if missing else []
        if extra:
            hint = suggestion(extra[0], missing or self.names)
            parts.append(f"has {', '.join(map(repr, extra))}, unknown to ({self.describe()}){hint}")
        return InputError(f"the row {' and '.join(parts)}")

    def _explain(self, row: Sequence[Any], interner: Interner) -> DbspError:
        """The error of a row known to have one, naming the column."""
        for name, encode, value in zip(self.names, self._encoders, row, strict=True):
            try:
                encode(value, interner)
            except DbspError as error:
                return type(error)(f"row {shorten(tuple(row))}, column {name!r}: {error.message}")
        raise AssertionError("a row was refused and then accepted")


_encode_int = encoder(INT)


def as_schema(spec: Any) -> Schema:
    """The `Schema` a user means: a schema, a mapping from names to types, or an annotated class.

    >>> as_schema({"x": int}).describe()
    'x: int'
    """
    if isinstance(spec, Schema):
        return spec
    if isinstance(spec, Mapping):
        columns = dict(spec)
    elif isinstance(spec, type) and (dataclasses.is_dataclass(spec) or hasattr(spec, "_fields")):
        columns = typing.get_type_hints(spec)
    else:
        raise SchemaError(
            f"{shorten(spec)} is no schema; write Schema.of(x=int, y=str) or {{'x': int, 'y': str}}"
        )
    types = []
    for name, column in columns.items():
        if not isinstance(name, str) or not name:
            raise SchemaError(f"a column name is a non-empty string, not {name!r}")
        try:
            types.append(as_type(column))
        except SchemaError as error:
            raise SchemaError(f"column {name!r}: {error.message}") from None
    return Schema(tuple(columns), tuple(types))


def infer_schema(rows: Sequence[Any]) -> Schema:
    """The schema of rows that came without one.

    Types are the narrowest that hold all values of a column; names are those of the first row's keys
    or fields if it has any, else `c0`, `c1`, ... No rows at all give the schema without columns.
    """
    if not rows:
        return Schema((), ())
    first = rows[0]
    if isinstance(first, Mapping):
        names = tuple(map(str, first))
    elif dataclasses.is_dataclass(first) and not isinstance(first, type):
        names = tuple(field.name for field in dataclasses.fields(first))
    elif hasattr(first, "_fields"):
        names = tuple(first._fields)
    elif isinstance(first, (tuple, list)):
        names = tuple(f"c{i}" for i in range(len(first)))
    else:
        raise InputError(f"{shorten(first)} is no row; write a row of one column as ({shorten(first)},)")
    by_name = Schema(names, tuple(as_type(object).optional() for _ in names))
    plain = [row if type(row) in _POSITIONAL else by_name.positional(row) for row in rows]
    for number, row in enumerate(plain):
        if len(row) != len(names):
            raise InputError(
                f"row {number}: {shorten(tuple(row))} has {_values(len(row))}, row 0 has {len(names)}"
            )
    return Schema(names, tuple(infer_type(row[j] for row in plain) for j in range(len(names))))


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` if a known name is close, else nothing: the end of an error message."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _values(number: int) -> str:
    return "1 value" if number == 1 else f"{number} values"
