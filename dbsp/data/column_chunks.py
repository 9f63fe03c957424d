"""Rows that arrive by column: a chunk of columns, and its encoding as code rows.

Columns match those of the relation by name (see `Schema.match`). Whole columns are converted; only
after an error the row with the wrong value is searched for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dbsp.data.columns import encode_column, float_codes
from dbsp.data.interner import Interner
from dbsp.data.plain_codes import out_of_int_range
from dbsp.data.recode import recode_rows
from dbsp.data.schema import Schema, named_twice
from dbsp.data.types import BOOL, FLOAT, INT, Type
from dbsp.data.weights import weight_name
from dbsp.errors import (
    DbspError,
    InputError,
    at_place,
    counted,
)
from dbsp.kernels import narrow_rows
from dbsp.kernels.arrays import Codes, StoredRows
from dbsp.kernels.limits import INT64_MAX
from dbsp.kernels.narrow_rows import empty_rows, fit_narrow, widened
from dbsp.lazy_dataclass import dataclass

Column: TypeAlias = Any
"""An Arrow array or chunked array, a NumPy array, or a sequence of Python values."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows by column. All columns have the same length."""

    names: tuple[str, ...] | None
    """The names of the columns; None if they match by position."""
    columns: Sequence[Column]
    rows: int
    first: int = 0
    """The number of the first row, for errors."""
    place: str | None = None
    """The file of the rows, for errors."""


class RowSource(ABC):
    """Rows that are read by chunks whenever they are needed, such as those of a file.

    `Run.step`, `Program.start` and `InputHandle.insert` read it. At most one chunk of the source is
    in memory at a time, besides the encoded rows.
    """

    repeatable = True
    """Whether the rows can be read several times."""

    @abstractmethod
    def chunks(self, schema: Schema) -> Iterator[Chunk]:
        """Read the rows from the start. `schema` has the columns of the relation."""

    @abstractmethod
    def __repr__(self) -> str: ...


def encode_chunks(chunks: Iterable[Chunk], schema: Schema, interner: Interner) -> tuple[Codes, Codes, bool]:
    """Return the code rows and the weights of all chunks, and whether a chunk has weights."""
    rows, weights, weighted = encode_narrow(chunks, schema, interner, narrow=False)
    return widened(rows), weights, weighted


def encode_narrow(
    chunks: Iterable[Chunk], schema: Schema, interner: Interner, *, narrow: bool
) -> tuple[StoredRows, Codes, bool]:
    """As `encode_chunks`; `narrow` allows int32 rows with a single weight for all of them.

    They are narrow if there are many rows, no chunk has weights, and all codes fit.
    """
    parts: list[tuple[StoredRows, Codes | None]] = []
    try:
        for chunk in chunks:
            try:
                part = _encode_chunk(chunk, schema, interner, narrow)
            except DbspError as error:
                if chunk.place is not None:
                    error.where = chunk.place
                raise
            if chunk.rows:
                parts.append(part)
    finally:
        if isinstance(chunks, Generator):
            chunks.close()  # closes files, and ends a progress bar before the error is shown
    weighted = any(given is not None for _, given in parts)
    count = sum(len(codes) for codes, _ in parts)
    fits = bool(parts) and not weighted and all(codes.itemsize == 4 for codes, _ in parts)
    weights = np.ones(1 if fits else count, np.int64)
    if len(parts) == 1:
        codes, given = parts[0]
        return codes if fits else widened(codes), weights if given is None else given, weighted
    rows = empty_rows(count, schema.arity, True) if fits else np.empty((count, schema.arity), np.int64)
    end = count
    while parts:  # each part is released after its copy: at most one exists twice
        codes, given = parts.pop()
        rows[end - len(codes) : end] = codes
        if given is not None:
            weights[end - len(codes) : end] = given
        end -= len(codes)
    return rows, weights, weighted


def _encode_chunk(
    chunk: Chunk, schema: Schema, interner: Interner, narrow: bool
) -> tuple[StoredRows, Codes | None]:
    """Return the rows of a chunk, as int32 if they may be `narrow`, are many, and fit."""
    places, weight = _places(chunk, schema)
    narrow = narrow and weight is None and chunk.rows >= narrow_rows.LOAD and schema.arity > 0
    codes = empty_rows(chunk.rows, schema.arity, narrow)
    if not chunk.rows:  # columns without values often have another type
        return codes, None
    for j, (place, name, type_) in enumerate(zip(places, schema.names, schema.types, strict=True)):
        column = _encode_column(chunk.columns[place], name, type_, interner, chunk.first)
        if codes.itemsize == 4 and not fit_narrow(column):
            codes = widened(codes)
        codes[:, j] = column
    if weight is None:
        return codes, None
    try:
        given = _encode_column(chunk.columns[weight], weight_name(schema), INT, interner, chunk.first)
    except DbspError as error:
        error.code = "invalid-weight"
        error.message = error.message.partition("; to allow None")[0]
        raise
    return codes, np.array(given)


def _places(chunk: Chunk, schema: Schema) -> tuple[Sequence[int], int | None]:
    """Return the places of the schema's columns in a chunk, and the place of the weights."""
    if chunk.names is None:
        if len(chunk.columns) != schema.arity:
            raise InputError(
                f"expected {counted(schema.arity, 'column')} ({schema.describe()}), got {len(chunk.columns)}",
                code="wrong-arity",
            )
        return range(schema.arity), None
    names = chunk.names
    if len(set(names)) != len(names):
        raise named_twice(names)
    weight = names.index(weight_name(schema)) if weight_name(schema) in names else None
    rest = [place for place in range(len(names)) if place != weight]
    given = [names[place] for place in rest]
    if len(given) != schema.arity:
        raise schema.wrong_names(given)
    order = schema.match(given)
    return (rest if order is None else [rest[place] for place in order]), weight


# --- one column -----------------------------------------------------------------------------------


def _encode_column(column: Column, name: str, type_: Type, interner: Interner, first: int) -> Codes:
    try:
        return _codes(column, type_, interner)
    except DbspError:
        raise _located(column, name, type_, interner, first) from None


def _located(column: Column, name: str, type_: Type, interner: Interner, first: int) -> DbspError:
    """Return the error of a column, with the first row that has it if the values are the cause."""
    if (error := _error(column[:0], type_, interner)) is not None:
        if type_.kind == "int" and error.message.endswith("one of type float"):
            error.message += "; convert it to ints, in pandas by .astype('Int64')"
        return at_place(error, f"column {name!r}")
    start, end = 0, len(column)
    while end - start > 1:
        middle = (start + end) // 2
        if _error(column[start:middle], type_, interner) is None:
            start = middle
        else:
            end = middle
    error = _error(column[start:end], type_, interner)
    if error is None:
        raise AssertionError(f"expected an error in row {start} of column {name!r}")
    error.message = error.message.removeprefix("row 0: ")
    return at_place(error, f"row {first + start}, column {name!r}")


def _error(column: Column, type_: Type, interner: Interner) -> DbspError | None:
    try:
        _codes(column, type_, interner)
    except DbspError as error:
        return error
    return None


def _codes(column: Column, type_: Type, interner: Interner) -> Codes:
    """Return the codes of a column, int64[n]."""
    if isinstance(column, np.ndarray):
        if (numbers := _number_codes(column, type_)) is not None:
            return _recoded(*numbers, type_, interner)
        if column.dtype.kind == "O":
            return encode_column(type_, column.tolist(), interner)
        return _arrow_codes(_arrow_of(column), type_, interner)
    if isinstance(column, list | tuple | range):
        return encode_column(type_, column, interner)
    return _arrow_codes(column, type_, interner)


def _recoded(codes: Codes, source: Type, type_: Type, interner: Interner) -> Codes:
    if source == type_:
        return codes
    names = ("",)
    rows = codes.reshape(-1, 1)
    try:
        return recode_rows(rows, Schema(names, (source,)), interner, Schema(names, (type_,)), interner)[:, 0]
    except DbspError as error:
        error.message = error.message.removeprefix("column '': ")
        raise


def _number_codes(column: npt.NDArray[Any], wanted: Type) -> tuple[Codes, Type] | None:
    """Return the codes and the type of an array of numbers; None for other arrays."""
    kind = column.dtype.kind
    if isinstance(column, np.ma.MaskedArray) or kind not in "iufb":
        return None
    if kind == "f" or (kind == "u" and wanted.kind == "float"):
        return float_codes(column.astype(np.float64)), FLOAT
    if kind == "u" and column.size and int(column.max()) > INT64_MAX:
        raise out_of_int_range(int(column.max()))
    return column.astype(np.int64), BOOL if kind == "b" else INT


def _arrow_of(column: npt.NDArray[Any]) -> Any:
    import pyarrow as pa

    mask = None
    if isinstance(column, np.ma.MaskedArray):
        column, mask = np.asarray(column.data), np.ma.getmaskarray(column)
    try:
        return pa.array(column, mask=mask)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise InputError(
            f"expected values of a type of dbsp, got an array of {column.dtype}",
            code="wrong-type",
        ) from None


def _arrow_codes(column: Any, type_: Type, interner: Interner) -> Codes:
    from dbsp.data.frames import encode_arrow

    return _recoded(*encode_arrow(column, type_, interner), type_, interner)
