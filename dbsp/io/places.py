"""Read and write the rows of a relation in files, databases and standard streams."""

from __future__ import annotations

import enum
import gzip
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, cast

from dbsp.data.int_range import NO_RANGES, IntRange
from dbsp.data.schema import Schema
from dbsp.data.zset import ZSet
from dbsp.errors import expect_present
from dbsp.io.facts import Facts, parse_facts
from dbsp.io.json_rows import parse_json_rows, write_json_rows
from dbsp.io.problems import read_file
from dbsp.io.replaced_file import replaced_file
from dbsp.io.sqlite_rows import read_table, write_table
from dbsp.io.table_places import open_table, write_table_file
from dbsp.io.unpack import unpacked
from dbsp.io.written_lines import write_lines
from dbsp.lazy_dataclass import dataclass


class Medium(enum.Enum):
    """The kind of place that stores rows."""

    TEXT = "a file of lines"
    JSON = "a JSON array of rows"
    SQLITE = "a table of an SQLite database"
    PARQUET = "parquet"
    CSV = "csv"
    NDJSON = "ndjson"
    SIZE = "the number of rows"


TABLES = (Medium.PARQUET, Medium.CSV, Medium.NDJSON)
"""The media whose columns have names; the value of each is the name of its format."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of the rows of a relation, and their format.

    A `path` of None is standard input or output. `name` is the table of a database, or the heading
    of printed rows; `columns` has for each column of the relation its position in a line.
    """

    medium: Medium
    path: Path | None
    name: str
    delimiter: str = "\t"
    headers: bool = False
    title: str | None = None
    quoted: bool = False
    compressed: bool = False
    columns: tuple[int, ...] | None = None
    objects: bool = False


_STDIN = "<stdin>"
_LINE = b"---------------\n"
_DOUBLE_LINE = b"===============\n"


def read_place(
    place: Place,
    schema: Schema,
    relation: str,
    ranges: Mapping[str, IntRange] = NO_RANGES,
    type_names: Mapping[str, str] | None = None,
) -> Facts:
    """Return the rows of a place, in a form that `Run.step` takes as a change.

    `type_names` has by column the declared type, which messages of fact files show.

    Raises InputError if the place cannot be read, and DataError, with file, line and column, for
    rows that do not fit the relation. Parquet, CSV and NDJSON files are read by the tick, which
    raises InputError with file, row and column.
    """
    if place.medium in TABLES:
        path = expect_present(place.path, "the path of a table")
        return open_table(place.medium.value, path, schema, relation, place.delimiter, place.headers)
    if place.medium is Medium.SQLITE:
        return read_table(
            expect_present(place.path, "the path of a database"), place.name, schema, relation, ranges
        )
    kind = "JSON file" if place.medium is Medium.JSON else "fact file"
    if place.path is None:
        file, data = _STDIN, unpacked(sys.stdin.buffer.read(), _STDIN)
    else:
        file, data = str(place.path), read_file(place.path, f"{kind} (for relation '{relation}')")
    if place.medium is Medium.JSON:
        return parse_json_rows(data, file, schema, relation, ranges)
    return parse_facts(
        data,
        file,
        schema,
        relation,
        place.delimiter,
        place.headers,
        ranges,
        place.quoted,
        place.columns,
        type_names,
    )


def write_place(place: Place, zset: ZSet) -> int:
    """Write the rows of `zset` to a place; return the number of texts that cannot be read back.

    A reader never sees half of a file or of a table. Rows are written by pieces, so the memory does
    not grow with their number, but for the order of rows with texts: 16 bytes for each row and
    8 more for each column. Raises InputError if the place cannot be written.
    """
    if place.medium is Medium.SQLITE:
        write_table(expect_present(place.path, "the path of a database"), place.name, zset)
        return 0
    if place.path is None:
        sys.stdout.flush()
        ambiguous = _write(place, zset, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return ambiguous
    with replaced_file(place.path) as file:
        if not place.compressed:
            return _write(place, zset, file)
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed:
            return _write(place, zset, cast(IO[bytes], compressed))


def _write(place: Place, zset: ZSet, file: IO[bytes]) -> int:
    """Write the rows to an open file; return the number of texts that cannot be read back."""
    header = _header(place, zset.schema.names)
    match place.medium:
        case Medium.SIZE:
            file.write(f"{place.name}\t{len(zset)}\n".encode())
        case Medium.PARQUET | Medium.CSV | Medium.NDJSON:
            names = header.split(place.delimiter) if place.headers else None
            write_table_file(place.medium.value, zset, place.name, place.delimiter, names, file)
        case Medium.JSON:
            write_json_rows(zset, file, objects=place.objects)
        case _:
            is_printed = place.path is None
            if is_printed:
                file.write(_LINE + f"{place.name}\n".encode())
            if place.headers:
                file.write(f"{header}\n".encode())
            if is_printed:
                file.write(_DOUBLE_LINE)
            ambiguous = write_lines(zset, file, delimiter=place.delimiter, quoted=place.quoted)
            if is_printed:
                file.write(_DOUBLE_LINE)
            return ambiguous
    return 0


def _header(place: Place, names: Sequence[str]) -> str:
    """Return the line with the names of the columns."""
    return place.delimiter.join(names) if place.title is None else place.title
