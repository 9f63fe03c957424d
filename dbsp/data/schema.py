"""Schemas: the names and types of the columns of a relation, and the encoding of rows as codes."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import keyword
import operator
import typing
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.data.columns import decode_column, encode_column
from dbsp.data.interner import Interner
from dbsp.data.type_inference import as_type, infer_type
from dbsp.data.types import INT, Type
from dbsp.data.values import decoder, encoder
from dbsp.display.displayed import Displayed
from dbsp.errors import DbspError, InputError, SchemaError, at_place, counted, shorten, wrong_argument
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX, INT64_MIN
from dbsp.lazy_dataclass import dataclass

_POSITIONAL = frozenset({tuple, list})
_FEW = 4
"""Up to this many rows, encoding by value is faster than the fixed cost of numpy."""


@dataclass(frozen=True)
class Schema(Displayed):
    """Names and types of the columns of a relation, in order.

    `len(schema)` is the number of columns.

    Raises:
        SchemaError: a name occurs twice, or there are more names than types or the reverse.

    Examples:
        >>> schema = Schema.of(x=int, name=str | None)
        >>> print(schema.describe(), schema.arity, schema.index("name"))
        x: int, name: str? 2 1
    """

    names: tuple[str, ...]
    """The names of the columns."""
    types: tuple[Type, ...]
    """The types of the columns."""

    def __post_init__(self) -> None:
        if not isinstance(self.names, tuple) or not isinstance(self.types, tuple):
            raise wrong_argument("names and types", "two tuples; or use Schema.of(x=int)", self.names)
        for name in self.names:
            if not isinstance(name, str):
                raise wrong_argument("the name of a column", "a string", name)
        if len(self.names) != len(self.types):
            raise SchemaError(
                f"expected one type per column name, got {counted(len(self.names), 'name')} and "
                f"{counted(len(self.types), 'type')}",
                code="wrong-arity",
            )
        if len(set(self.names)) != len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise SchemaError(
                f"column {twice!r} occurs twice in ({', '.join(self.names)}); rename one of the two",
                code="duplicate-column",
            )

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the cached attributes, since pickle cannot find a row class by its name.
        return Schema, (self.names, self.types)

    # --- construction -----------------------------------------------------------------------------

    @staticmethod
    @ends_at_caller
    def of(**columns: Any) -> Schema:
        """Return the schema of these columns.

        Parameters:
            columns: for each name a Python class such as `int` or `datetime.date`, `X | None` for
                an
                optional column, the name of a type such as `"float?"`, or a `Type`.

        Raises:
            SchemaError: a type is unknown or cannot be the type of a column.

        Examples:
            >>> print(Schema.of(id=int, name=str | None, price="float"))
            (id: int, name: str?, price: float)
        """
        return as_schema(columns)

    @ends_at_caller
    def select(self, indices: Iterable[int]) -> Schema:
        """Return the schema of the columns at these positions, in their order.

        Parameters:
            indices: positions, counted from 0.

        Raises:
            SchemaError: there is no column at a position.

        Examples:
            >>> print(Schema.of(x=int, y=str, z=bool).select([2, 0]))
            (z: bool, x: int)
        """
        if not isinstance(indices, Iterable) or isinstance(indices, str):
            raise wrong_argument("indices", "positions of columns", indices)
        chosen = tuple(indices)
        for position in chosen:
            if not -self.arity <= position < self.arity:
                raise SchemaError(
                    f"unknown column at position {position}; there are {counted(self.arity, 'column')} "
                    f"({self.describe()})",
                    code="unknown-column",
                )
        return Schema(tuple(self.names[i] for i in chosen), tuple(self.types[i] for i in chosen))

    @ends_at_caller
    def rename(self, mapping: Mapping[str, str] | None = None, /, **new_to_old: str) -> Schema:
        """Return the schema with other names: `rename({"old": "new"})` or `rename(new="old")`.

        Parameters:
            mapping: the new name of each column to rename, by its old name.
            new_to_old: the old name of each column to rename, by its new name.

        Raises:
            SchemaError: a column does not exist, or two columns would have one name.

        Examples:
            >>> print(Schema.of(x=int, y=str).rename(id="x"))
            (id: int, y: str)
        """
        if mapping is not None and not isinstance(mapping, Mapping):
            raise wrong_argument("mapping", "new names by old names, such as {'x': 'y'}", mapping)
        changes = dict(mapping or {}) | {old: new for new, old in new_to_old.items()}
        for old in changes:
            self.index(old)
        return Schema(tuple(changes.get(name, name) for name in self.names), self.types)

    # --- columns ----------------------------------------------------------------------------------

    @property
    def arity(self) -> int:
        """The number of columns."""
        return len(self.names)

    def __len__(self) -> int:
        return len(self.names)

    @ends_at_caller
    def index(self, name: str) -> int:
        """Return the position of a column, counted from 0.

        Parameters:
            name: the name of the column.

        Raises:
            SchemaError: there is no such column; the message suggests a similar name.

        Examples:
            >>> Schema.of(x=int, y=str).index("y")
            1
        """
        try:
            return self._positions[name]
        except (KeyError, TypeError):
            hint = suggestion(name, self.names)
            raise SchemaError(
                f"unknown column {shorten(name)}{f'{hint} The' if hint else '; the'} columns are "
                f"({self.describe()})",
                code="unknown-column",
            ) from None

    @ends_at_caller
    def indices(self, names: Iterable[str]) -> tuple[int, ...]:
        """Return the positions of several columns; a single name is one column.

        Raises SchemaError if a column does not exist, ArgumentError if `names` are not names.
        """
        if isinstance(names, str):
            names = (names,)
        if not isinstance(names, Iterable):
            raise wrong_argument("names", "a column name or a list of column names", names)
        return tuple(self.index(name) for name in names)

    @ends_at_caller
    def type_of(self, name: str) -> Type:
        """Return the type of a column.

        Parameters:
            name: the name of the column.

        Raises:
            SchemaError: there is no such column.

        Examples:
            >>> Schema.of(x=int, y=str | None).type_of("y")
            STR.optional()
        """
        return self.types[self.index(name)]

    def describe(self) -> str:
        """Return the schema as text; `?` marks optional columns.

        Examples:
            >>> Schema.of(x=int, y=str | None).describe()
            'x: int, y: str?'
        """
        return ", ".join(f"{name}: {type_}" for name, type_ in zip(self.names, self.types, strict=True))

    _described_by = "dbsp.data.zset_display:schema_document"

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
        """The named tuple class of the rows that functions of the caller receive.

        A column whose name is not a Python identifier is named `_0`, `_1`, ... after its position.
        """
        usable = [
            name.isidentifier() and not keyword.iskeyword(name) and name[0] != "_" for name in self.names
        ]
        fields = [
            name if ok else f"_{i}" for i, (name, ok) in enumerate(zip(self.names, usable, strict=True))
        ]
        return namedtuple("Row", fields, rename=True)

    # --- rows to codes ----------------------------------------------------------------------------

    def encode_row(self, row: Any, interner: Interner) -> tuple[int, ...]:
        """Return the codes of one row (tuple, list, mapping, named tuple, dataclass).

        Raises the errors of `encode_rows`.
        """
        if type(row) not in _POSITIONAL:
            row = self.positional(row)
        encoders = self._encoders
        if len(row) != len(encoders):
            raise self._wrong_length(row)
        if self._all_int:  # the usual row of a small tick
            for value in row:
                if type(value) is not int or not INT64_MIN <= value <= INT64_MAX:
                    break
            else:
                return tuple(row)
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
        """Return the codes of many rows, int64[n, arity] in C order; the caller owns the array.

        A row is a tuple or list in column order, or a mapping, dataclass or named tuple by column
        name. Cost: a few C passes per column. Raises InputError (wrong arity or type) or
        ValueOutOfRangeError, each of which names row, column and value. `interner` may have new
        entries after an error, which are harmless.
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
                pass  # the code below raises the error with the number of the row
        if count and set(map(len, rows)) != {arity}:
            number, row = next((i, row) for i, row in enumerate(rows) if len(row) != arity)
            raise at_place(self._wrong_length(row), f"row {number}")
        if self._all_int and set(map(type, itertools.chain.from_iterable(rows))) <= {int}:
            try:
                flat = np.fromiter(itertools.chain.from_iterable(rows), np.int64, count * arity)
                return flat.reshape(count, arity)
            except OverflowError:
                pass  # the code below raises the error with its column
        codes = np.empty((count, arity), np.int64)
        for j, (name, type_) in enumerate(zip(self.names, self.types, strict=True)):
            codes[:, j] = encode_column(type_, list(map(operator.itemgetter(j), rows)), interner, name)
        return codes

    def positional(self, row: Any) -> Sequence[Any]:
        """Return the values of a row in column order.

        Parameters:
            row: a tuple, list, mapping, named tuple, dataclass or one-dimensional array.

        Raises:
            InputError: the row is of another type, or its names are not those of the columns.

        Examples:
            >>> Schema.of(x=int, y=str).positional({"y": "a", "x": 1})
            (1, 'a')
        """
        if isinstance(row, tuple):
            fields = getattr(row, "_fields", None)
            if fields is not None and fields != self.names and set(fields) == set(self.names):
                return tuple(getattr(row, name) for name in self.names)
            return row
        if isinstance(row, list):
            return row
        if isinstance(row, Mapping):
            if row.keys() != self._positions.keys():
                raise self.wrong_names(row.keys())
            return tuple(row[name] for name in self.names)
        if dataclasses.is_dataclass(row) and not isinstance(row, type):
            fields = dict.fromkeys(field.name for field in dataclasses.fields(row)).keys()
            if not fields >= self._positions.keys():
                raise self.wrong_names(fields)
            return tuple(getattr(row, name) for name in self.names)
        if isinstance(row, np.ndarray) and row.ndim == 1:
            return list(row)
        hint = f"; write a row of one column as ({shorten(row)},)" if self.arity == 1 else ""
        raise InputError(
            f"expected a row of ({self.describe()}), got {shorten(row)} of type {type(row).__name__}{hint}",
            code="invalid-row",
        )

    # --- codes to rows ----------------------------------------------------------------------------

    def decode_rows(self, codes: Codes, interner: Interner) -> list[tuple[Any, ...]]:
        """Return the rows of the codes int64[n, arity], as tuples."""
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
        """Return the row of `arity` codes."""
        return tuple([decode(code, interner) for code, decode in zip(codes, self._decoders, strict=True)])

    # --- errors -----------------------------------------------------------------------------------

    def _numbered(self, convert: Callable[[Any], Sequence[Any]], number: int, row: Any) -> Sequence[Any]:
        try:
            return convert(row)
        except DbspError as error:
            raise at_place(error, f"row {number}") from None

    def _wrong_length(self, row: Sequence[Any]) -> InputError:
        return InputError(
            f"expected {counted(self.arity, 'value')} ({self.describe()}), got {len(row)}: "
            f"{shorten(tuple(row))}",
            code="wrong-arity",
        )

    def match(self, given: Sequence[str]) -> list[int] | None:
        """Return the places in `given` of the columns of this schema; None to match by position.

        Columns match by name. They match by position if the names are c0, c1 and so on, which
        columns without names have. Matching other names by position could swap columns.

        Raises:
            InputError: some names are different.
        """
        if tuple(given) == self.names or len(given) != self.arity:
            return None
        if all(name in self._positions for name in given) and len(set(given)) == self.arity:
            return [given.index(name) for name in self.names]
        if _positional_names(self.arity) in (tuple(given), self.names):
            return None
        if not self._positions.keys().isdisjoint(given):
            raise self.wrong_names(given)
        quoted = ", ".join(map(repr, self.names))
        raise InputError(
            f"expected the columns ({self.describe()}), got ({', '.join(given)}); to match them by position, "
            f"rename them: zset.renamed({quoted}), table.rename_columns([{quoted}]) for an Arrow table, or "
            f"frame.columns = [{quoted}] for a data frame",
            code="unknown-column",
        )

    def wrong_names(self, given: Iterable[Any]) -> InputError:
        """Return the error for other names of columns, with the missing and the unknown names."""
        names = list(map(str, given))
        missing = [name for name in self.names if name not in names]
        extra = [name for name in names if name not in self._positions]
        text = f"expected the columns ({self.describe()}), got ({', '.join(names)})"
        if missing:
            text += f"; missing: {', '.join(map(repr, missing))}"
        if extra:
            hint = suggestion(extra[0], missing or self.names)
            text += f"; unknown: {', '.join(map(repr, extra))}{hint}"
        return InputError(text, code="unknown-column" if extra else "wrong-arity")

    def _explain(self, row: Sequence[Any], interner: Interner) -> DbspError:
        """Return the error of a row that has one, with the column in its message."""
        for name, encode, value in zip(self.names, self._encoders, row, strict=True):
            try:
                encode(value, interner)
            except DbspError as error:
                return at_place(error, f"row {shorten(tuple(row))}, column {name!r}")
        raise AssertionError("expected an error in one of the columns")


def named_twice(names: Sequence[Any]) -> SchemaError:
    """Return the error for columns of which two have one name."""
    twice = next(name for name in names if list(names).count(name) > 1)
    return SchemaError(
        f"column {twice!r} occurs twice in ({', '.join(map(str, names))}); rename one of the two",
        code="duplicate-column",
    )


def _positional_names(arity: int) -> tuple[str, ...]:
    """Return the names of columns without names: c0, c1 and so on."""
    return tuple(f"c{i}" for i in range(arity))


_encode_int = encoder(INT)


def as_schema(spec: Any) -> Schema:
    """Return the schema given as a schema, a mapping from names to types, or an annotated class.

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
            "expected a schema, such as Schema.of(x=int, y=str) or {'x': int, 'y': str}, "
            f"got {shorten(spec)}",
            code="invalid-argument",
        )
    types = []
    for name, column in columns.items():
        if not isinstance(name, str) or not name:
            raise SchemaError(
                f"expected a non-empty string as the name of a column, got {shorten(name)}",
                code="invalid-argument",
            )
        try:
            types.append(as_type(column))
        except SchemaError as error:
            raise at_place(error, f"column {name!r}") from None
    return Schema(tuple(columns), tuple(types))


def infer_schema(rows: Sequence[Any]) -> Schema:
    """Infer a schema from rows.

    The type of a column is the narrowest that holds all of its values. The names are the keys or
    fields of the first row if it has any, else `c0`, `c1`, ... Without rows there are no columns.
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
        names = _positional_names(len(first))
    else:
        raise InputError(
            f"expected rows, such as tuples or dicts, got {shorten(first)} of type {type(first).__name__}; "
            f"write a row of one column as ({shorten(first)},)",
            code="invalid-row",
        )
    by_name = Schema(names, tuple(as_type(object).optional() for _ in names))
    plain = [
        row if type(row) in _POSITIONAL else by_name._numbered(by_name.positional, i, row)
        for i, row in enumerate(rows)
    ]
    for number, row in enumerate(plain):
        if len(row) != len(names):
            raise InputError(
                f"row {number}: expected {counted(len(names), 'value')} as in row 0, got {len(row)}: "
                f"{shorten(tuple(row))}",
                code="wrong-arity",
            )
    return Schema(names, tuple(infer_type(row[j] for row in plain) for j in range(len(names))))


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for a message if a known name is close, else ""."""
    near = difflib.get_close_matches(name, list(known), n=1) if isinstance(name, str) else []
    return f"; did you mean {near[0]!r}?" if near else ""
