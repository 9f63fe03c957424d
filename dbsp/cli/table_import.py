"""Reads tables for an import: CSV and Parquet files whose columns have the names of attributes."""

from __future__ import annotations

import csv
import itertools
import re
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from dbsp.cli.attribute_cells import cell_values
from dbsp.cli.transaction_files import open_text
from dbsp.datomic import Connection
from dbsp.datomic.database_schema import Attribute
from dbsp.edn import Keyword
from dbsp.errors import DbspError, InputError, counted, shorten
from dbsp.io.csv_rows import CsvFormat, expect_closed
from dbsp.io.problems import missing_file
from dbsp.lazy_dataclass import dataclass

ENTITY = "db/id"
"""The column with the ids of the entities, or with other forms that name an entity."""

_FORMATS = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}
_ROW = re.compile(r"(?P<before>.*?)\brow (?P<row>\d+): (?P<rest>.*)", re.DOTALL)
_OTHER_ROW = re.compile(r"(?:(?<=\()|(?<= in ))row (?P<row>\d+)\b")


@dataclass(frozen=True, slots=True)
class TableBatch:
    """Rows of a table: the values of each attribute, and the entities if the table names them.

    Attributes:
        columns: the column of each attribute.
        entities: the column of entities, or None.
        first_row: the number of rows before these.
        size: about the number of bytes of these rows in the file.
    """

    columns: Mapping[Keyword, Any]
    entities: Any
    first_row: int
    size: int


def is_table(path: Path) -> bool:
    """Whether a file is a table, by the ending of its name."""
    return _format(path) is not None


def _format(path: Path) -> str | None:
    name = path.with_suffix("") if path.suffix == ".gz" else path
    return _FORMATS.get(name.suffix)


def read_table_batches(path: Path, connection: Connection, size: int) -> Iterator[TableBatch]:
    """Yield the rows of a table in batches of a size.

    In a database with an open schema, columns without attribute define one.
    """
    if not path.is_file():
        raise missing_file(str(path), "file")
    try:
        yield from _batches(path, connection, size)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        if _format(path) == "csv":
            _check_lines(path)
        raise InputError(f"cannot be read: {error}", where=str(path), code="unreadable-file") from None


def _batches(path: Path, connection: Connection, size: int) -> Iterator[TableBatch]:
    is_csv = _format(path) == "csv"
    attributes: dict[str, Attribute | None] = {}
    first_row = 0
    for table in _csv(path, size) if is_csv else _parquet(path, size):
        attributes = attributes or _attributes(table.column_names, connection, path)
        columns: dict[Keyword, Any] = {}
        entities = None
        try:
            for name, attribute in attributes.items():
                column = cell_values(table[name], attribute, is_csv)
                if attribute is None:
                    entities = column
                else:
                    columns[attribute.ident] = column
        except DbspError as error:
            raise table_error(error, path, first_row) from None
        yield TableBatch(columns, entities, first_row, table.nbytes)
        first_row += len(table)


def _parquet(path: Path, size: int) -> Iterator[pa.Table]:
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=size):
            yield pa.table(batch)


def _csv(path: Path, size: int) -> Iterator[pa.Table]:
    """Yield the rows of a CSV file as texts; empty cells without quotes are null."""
    with open_text(path) as lines:  # before the first rows are in a transaction
        expect_closed(lines, CsvFormat(), str(path))
    with pa.input_stream(str(path), compression="detect") as stream:
        names = _header(path)
        try:
            reader = arrow_csv.open_csv(
                stream,
                parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    null_values=[""],
                ),
            )
        except pa.ArrowInvalid as error:
            # PyArrow refuses a file of one line, the names, if this line has no end.
            if "cannot infer number of columns" in str(error) and names:
                return
            raise
        table: pa.Table | None = None
        for batch in reader:
            table = pa.Table.from_batches([*(() if table is None else table.to_batches()), batch])
            while len(table) >= size:
                yield table.slice(0, size)
                table = table.slice(size)
        if table is not None and len(table):
            yield table


def _check_lines(path: Path) -> None:
    """Raise InputError for the first line of a CSV file that PyArrow refuses."""
    width = 0
    for line, cells in _numbered_rows(path):
        width = width or len(cells)
        if len(cells) != width:
            message = f"expected {counted(width, 'column')}, got {len(cells)}: {shorten(','.join(cells))}"
            raise InputError(message, where=f"{path}:{line}", code="invalid-line")
        _check_encoding(cells, f"{path}:{line}")
    if not width:
        message = "expected a line with the names of the columns"
        raise InputError(message, where=f"{path}:1", code="invalid-line")


def _check_encoding(cells: list[str], where: str) -> None:
    for place, cell in enumerate(cells):
        try:
            cell.encode()
        except UnicodeEncodeError:
            message = f"column {place + 1}: expected UTF-8 text"
            raise InputError(message, where=where, code="invalid-encoding") from None


def _header(path: Path) -> list[str]:
    """Return the names of the columns of a CSV file."""
    with closing(_numbered_rows(path)) as rows:
        line, names = next(rows, (1, []))
    _check_encoding(names, f"{path}:{line}")
    return names


def _attributes(names: list[str], connection: Connection, path: Path) -> dict[str, Attribute | None]:
    """Return the attribute of each column; None for the column of entities."""
    try:
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"column {twice} occurs twice", code="duplicate-column")
        idents = {name: Keyword(name.removeprefix(":")) for name in names}
        schema = connection.db().schema
        new = [ident for ident in idents.values() if ident.text != ENTITY and ident not in schema.by_ident]
        if schema.open and new:
            one = ":db.cardinality/one"
            connection.transact([{":db/ident": ident, ":db/cardinality": one} for ident in new])
            schema = connection.db().schema
        return {
            name: None if ident.text == ENTITY else schema.attribute(ident) for name, ident in idents.items()
        }
    except DbspError as error:
        where = f"{path}:1" if _format(path) == "csv" else str(path)
        raise type(error)(error.message, where=where, code=error.code) from None


def table_error(error: DbspError, path: Path, first_row: int) -> DbspError:
    """Return an error about a row of a batch with the line of the file, or with the row."""
    found = _ROW.fullmatch(error.message)
    if found is None:
        return type(error)(error.message, where=str(path), code=error.code)
    row = first_row + int(found["row"])
    column = found["before"].removesuffix(", ")
    message = f"{column}: {found['rest']}" if column else found["rest"]
    is_csv = _format(path) == "csv"

    def named(match: re.Match[str]) -> str:
        other = first_row + int(match["row"])
        return f"line {_line(path, other)}" if is_csv else f"row {other + 1}"

    message = _OTHER_ROW.sub(named, message)
    if not is_csv:
        return type(error)(f"row {row + 1}: {message}", where=str(path), code=error.code)
    return type(error)(message, where=f"{path}:{_line(path, row)}", code=error.code)


def _line(path: Path, row: int) -> int:
    """Return the line on which a row of a CSV file starts; the first row has the number 0."""
    return next(itertools.islice(_numbered_rows(path), row + 1, None))[0]


def _numbered_rows(path: Path) -> Generator[tuple[int, list[str]], None, None]:
    """Yield the rows of a CSV file, from that of the names, and the line on which each starts."""
    limit = csv.field_size_limit(sys.maxsize)
    try:
        with open_text(path) as lines:
            rows = csv.reader(lines)
            start = 1
            for cells in rows:
                if cells:
                    yield start, cells
                start = rows.line_num + 1
    finally:
        csv.field_size_limit(limit)
