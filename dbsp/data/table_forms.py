"""The forms of tables that callers pass as changes, each as chunks of columns.

A table is a data frame, any object with `__arrow_c_stream__` or `__arrow_c_array__`, a data set of
PyArrow or Hugging Face, a two-dimensional or structured NumPy array, a mapping from names to
columns, or a `RowSource`. Libraries of data frames are recognised by the names of their classes, so
that none of them is imported here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from dbsp.data.column_chunks import Chunk, Column, RowSource
from dbsp.data.schema import Schema
from dbsp.data.zset import ZSet
from dbsp.errors import DbspError, InputError, cause_text, shorten


class ArrowStream(Protocol):
    """A table of a library that exports Arrow data, such as a data frame."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


class ArrowArray(Protocol):
    """A record batch of a library that exports Arrow data."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object: ...


ArrowTable: TypeAlias = ArrowStream | ArrowArray

_BATCH_ROWS = 2**20
"""Smaller batches of a stream are joined up to about this many rows."""
_DATASET_ROWS = 2**16
_ROW_TYPES = frozenset({tuple, list, dict, str, int})


def is_table(value: Any) -> bool:
    """Return whether a value is one of the forms of a table, except a mapping."""
    if type(value) in _ROW_TYPES or isinstance(value, ZSet):
        return False
    if isinstance(value, np.ndarray):
        return value.ndim > 1 or value.dtype.names is not None
    return (
        isinstance(value, RowSource)
        or hasattr(value, "__arrow_c_stream__")
        or hasattr(value, "__arrow_c_array__")
        or (_class_of(value)[0] == "pyarrow" and hasattr(value, "count_rows"))  # a dataset, a scanner
        or _class_of(value) in (_PANDAS, _LAZY, *_HUGGING_FACE, *_COLUMN_CLASSES)
    )


def chunks_of(table: Any, schema: Schema) -> Iterator[Chunk]:
    """Return the chunks of a table. Raises InputError if it cannot be read."""
    if isinstance(table, RowSource):
        return table.chunks(schema)
    if isinstance(table, Mapping):
        return iter([_mapping_chunk(table, schema)])
    if isinstance(table, np.ndarray):
        return iter([_array_chunk(table)])
    kind = _class_of(table)
    if kind in _ARROW:
        return arrow_chunks([table])
    if kind == _PANDAS:
        return iter([_pandas_chunk(_with_names(table), schema)])
    if kind in _COLUMN_CLASSES:
        raise _single_column(table)
    if kind in _HUGGING_FACE:
        batches = table.with_format("arrow").iter(batch_size=_DATASET_ROWS)
        return _read(arrow_chunks(_joined(batches)), table)
    if kind == _LAZY:
        table = table.collect()
    return _stream_chunks(table)


class _TableSequence(RowSource):
    """The rows of several tables, such as those of an iterator over a large file."""

    repeatable = False

    def __init__(self, tables: Iterable[Any]) -> None:
        self._tables = tables

    def __repr__(self) -> str:
        return "<rows of several tables>"

    def chunks(self, schema: Schema) -> Iterator[Chunk]:
        first = 0
        for table in self._tables:
            if not is_table(table):
                raise InputError(
                    f"expected another table after the first, got {shorten(table)} of type "
                    f"{type(table).__name__}",
                    code="invalid-change",
                )
            for chunk in chunks_of(table, schema):
                yield chunk if chunk.place else replace(chunk, first=first)
                first += chunk.rows


class ListedRows(RowSource):
    """Python rows as a table, to be read with other tables."""

    def __init__(self, rows: Sequence[Sequence[Any]]) -> None:
        self._rows = rows

    def __repr__(self) -> str:
        return f"<{len(self._rows)} rows>"

    def chunks(self, schema: Schema) -> Iterator[Chunk]:
        columns = [[row[j] for row in self._rows] for j in range(schema.arity)]
        yield Chunk(None, columns, len(self._rows))


def gathered(change: Any) -> Any:
    """Return a table for a table and for a collection of tables, and otherwise a list of rows.

    A list of arrays of one type and length is the table of these rows.
    """
    if is_table(change) or isinstance(change, Mapping):
        return change
    if not isinstance(change, list | tuple):
        change = iter(change)
        start = list(itertools.islice(change, 1))
        if start and is_table(start[0]):
            return _TableSequence(itertools.chain(start, change))
        change = [*start, *change]
    if not change or type(change[0]) in _ROW_TYPES:
        return change if isinstance(change, list) else list(change)
    if is_table(change[0]):
        return _TableSequence(change)
    array = _stacked(change)
    return list(change) if array is None else array


def _mapping_chunk(columns: Mapping[Any, Any], schema: Schema) -> Chunk:
    """Return the chunk of a mapping from names to columns.

    Raises InputError if a value is not a column, or the columns have different lengths.
    """
    found: dict[str, Column] = {}
    for name, values in columns.items():
        if not isinstance(name, str):
            raise InputError(
                f"expected the name of a column after {next(iter(columns))!r}, got {shorten(name)} of type "
                f"{type(name).__name__}",
                code="invalid-change",
            )
        try:
            found[name] = _column(name, values, schema)
        except DbspError as error:
            error.message = f"column {name!r}: {error.message}"
            raise
    lengths = {name: len(column) for name, column in found.items()}
    if len(set(lengths.values())) > 1:
        described = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise InputError(f"expected columns of one length, got {described}", code="wrong-arity")
    return Chunk(tuple(found), list(found.values()), next(iter(lengths.values()), 0))


def _stacked(rows: Sequence[Any]) -> npt.NDArray[Any] | None:
    """Return a list of arrays of one type, a row each, as one array; None for another list."""
    first = rows[0]
    if not isinstance(first, np.ndarray | np.void) or first.ndim > 1:
        return None
    if any(type(row) is not type(first) or row.dtype != first.dtype for row in rows):
        return None
    if isinstance(first, np.void):
        return np.array(rows, first.dtype) if first.dtype.names else None
    return np.stack(rows) if all(row.shape == first.shape for row in rows) else None


def arrow_chunks(tables: Iterable[Any], first: int = 0, place: str | None = None) -> Iterator[Chunk]:
    """Return a chunk per Arrow table or record batch."""
    for table in tables:
        yield Chunk(tuple(table.schema.names), table.columns, table.num_rows, first, place)
        first += table.num_rows


def reader_chunks(reader: Any, first: int = 0, place: str | None = None) -> Iterator[Chunk]:
    """Return the chunks of a `pyarrow.RecordBatchReader`, at least one."""
    names = tuple(reader.schema.names)
    yield Chunk(names, [[]] * len(names), 0, first, place)  # so that the names are checked
    yield from arrow_chunks(_joined(iter(reader)), first, place)


# --- arrays ---------------------------------------------------------------------------------------


def _array_chunk(array: npt.NDArray[Any]) -> Chunk:
    if array.dtype.names is not None:
        if array.ndim != 1:
            raise InputError(
                f"expected a structured array of one dimension, got one of shape {array.shape}",
                code="wrong-arity",
            )
        return Chunk(array.dtype.names, [array[name] for name in array.dtype.names], len(array))
    if array.ndim != 2:
        raise InputError(
            f"expected an array of shape (rows, columns), got one of shape {array.shape}",
            code="wrong-arity",
        )
    return Chunk(None, [array[:, j] for j in range(array.shape[1])], len(array))


def _column(name: str, values: Any, schema: Schema) -> Column:
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise InputError(
                f"expected an array of one dimension, got one of shape {values.shape}", code="wrong-arity"
            )
        return values
    if isinstance(values, list | tuple | range):
        return values
    if _class_of(values) == ("pandas", "Series"):
        narrow = schema.select([schema.names.index(name)]) if name in schema.names else None
        return _pandas_chunk(values.to_frame(name), narrow).columns[0]
    if hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        import pyarrow as pa

        stream = hasattr(values, "__arrow_c_stream__")
        return pa.chunked_array(values) if stream else pa.array(values)
    if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping):
        return list(values)
    raise InputError(
        f"expected an array or a list of values, got {shorten(values)} of type {type(values).__name__}; "
        "write a single row as [{'column': value, ...}]",
        code="invalid-change",
    )


# --- frames and streams ---------------------------------------------------------------------------

_ARROW = (("pyarrow", "Table"), ("pyarrow", "RecordBatch"))
_PANDAS = ("pandas", "DataFrame")
_LAZY = ("polars", "LazyFrame")
_HUGGING_FACE = (("datasets", "Dataset"), ("datasets", "IterableDataset"))
_COLUMN_CLASSES = (("pandas", "Series"), ("polars", "Series"), ("pyarrow", "ChunkedArray"))


def _class_of(value: Any) -> tuple[str, str]:
    """Return the library and the name of the class of a value."""
    class_ = type(value)
    return class_.__module__.partition(".")[0], class_.__name__


def _with_names(frame: Any) -> Any:
    """Return a pandas frame whose columns are numbered with the names of columns without names."""
    if list(frame.columns) == list(range(len(frame.columns))):
        return frame.set_axis([f"c{j}" for j in range(len(frame.columns))], axis=1)
    return frame


def _pandas_chunk(frame: Any, schema: Schema | None) -> Chunk:
    """Return the chunk of a pandas frame.

    Columns of objects that do not fit one Arrow type are converted value by value, so that an error
    names the row.
    """
    from dbsp.data.frames import pandas_table

    try:
        table = pandas_table(frame, schema)
        return Chunk(tuple(table.schema.names), table.columns, table.num_rows)
    except InputError:
        if not any(frame.iloc[:, j].dtype == object for j in range(frame.shape[1])):
            raise
    columns: list[Column] = []
    for j in range(frame.shape[1]):
        series = frame.iloc[:, j]
        try:
            columns.append(pandas_table(series.to_frame(), schema).column(0))
        except InputError:
            if series.dtype != object:
                raise
            columns.append(series.where(series.notna(), None).tolist())
    return Chunk(tuple(map(str, frame.columns)), columns, len(frame))


def _stream_chunks(table: Any) -> Iterator[Chunk]:
    """Return the chunks of an Arrow stream, batch, table or dataset."""
    import pyarrow as pa

    with _reading(table):
        try:
            if hasattr(table, "__arrow_c_stream__"):
                reader = pa.RecordBatchReader.from_stream(table)
            elif hasattr(table, "__arrow_c_array__"):
                batch = pa.record_batch(table)
                reader = pa.RecordBatchReader.from_batches(batch.schema, [batch])
            else:
                scanner = table if hasattr(table, "to_reader") else table.scanner()
                reader = scanner.to_reader()
        except pa.ArrowInvalid as error:
            if "struct" not in str(error):
                raise
            raise _single_column(table) from None
    return _read(reader_chunks(reader), table)


def _read(chunks: Iterator[Chunk], table: Any) -> Iterator[Chunk]:
    """Return the chunks of a stream. Raises InputError if its producer fails."""
    while True:
        with _reading(table):
            chunk = next(chunks, None)
        if chunk is None:
            return
        yield chunk


@contextmanager
def _reading(table: Any) -> Iterator[None]:
    """Raise InputError, with the cause, if the library of a table raises any error."""
    try:
        yield
    except (DbspError, MemoryError):
        raise
    except Exception as error:
        raise InputError(
            f"the {type(table).__name__} failed while it was read: {cause_text(error)}",
            code="unreadable-stream",
        ) from error


def _joined(batches: Iterator[Any]) -> Iterator[Any]:
    """Return the rows of the batches in tables of about `_BATCH_ROWS` rows or more."""
    import pyarrow as pa

    open_batches: list[Any] = []
    rows = 0
    for batch in batches:
        open_batches += batch.to_batches() if isinstance(batch, pa.Table) else [batch]
        rows += batch.num_rows
        if rows >= _BATCH_ROWS:
            yield pa.Table.from_batches(open_batches)
            open_batches, rows = [], 0
    if open_batches:
        yield pa.Table.from_batches(open_batches)


def _single_column(table: Any) -> InputError:
    return InputError(
        f"expected a table, got one column, a {type(table).__name__}; pass columns by name, as in "
        "{'name': column}",
        code="invalid-change",
    )
