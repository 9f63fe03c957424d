"""Read files of one JSON object per line by chunks."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from dbsp.data.schema import Schema
from dbsp.data.types import Type
from dbsp.errors import InputError, shorten
from dbsp.io.data_files import DataFile, Source
from dbsp.io.file_rows import ColumnChoice, FileRows, Part, parsed_texts
from dbsp.io.unpacking_stream import UnpackingStream

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK = 2**24
_LARGE = 2**20
"""Smaller blocks are read line by line without a warning."""


def read_ndjson(
    source: Source,
    *,
    columns: ColumnChoice | None = None,
    filesystem: Any = None,
    max_unpacked: int | None = None,
) -> FileRows:
    """Return the rows of files with one JSON object per line (NDJSON, JSON Lines) as a change.

    `Run.step`, `insert` and `Program.start` take it. The rows are read when they are needed, by
    chunks: the files are never in memory as a whole. A read of more than a second shows a progress
    bar on a terminal. An absent member is a missing value. Compressed files are detected.

    Parameters:
        source: a path, a URL, a glob, a folder (its `.ndjson` and `.jsonl` files), or a list of
            them; see `read_parquet`.
        columns: the members to read, all by default. A mapping from names in the file to names in
            the relation also renames them.
        filesystem: the file system of the paths, of PyArrow or fsspec; by default that of the URL.
        max_unpacked: the most bytes to which a compressed file may grow; by default 256 MB, or 100
            times its size if that is more.

    Raises:
        InputError: there is no such file.
        ArgumentError: an argument has another type.
        SetupError: the URL needs a package that is not installed.

    Examples:
        >>> import pathlib
        >>> _ = pathlib.Path("sale.ndjson").write_text('{"id": 1, "shop": "north"}\\n{"id": 2}\\n')
        >>> circuit = Circuit("shop")
        >>> circuit.output("all", circuit.input("sale", id=int, shop=str | None))
        >>> circuit.start().step({"sale": dbsp.read_ndjson("sale.ndjson")})["all"].rows()
        [(1, 'north'), (2, None)]
    """
    return NdjsonRows(source, columns, filesystem, max_unpacked)


class NdjsonRows(FileRows):
    """The rows of files with one JSON object per line."""

    format = "NDJSON"
    endings = (".ndjson", ".jsonl")

    def parts(self, file: DataFile, fields: Schema, advance: Callable[[int], None]) -> Iterator[Part]:
        stream = UnpackingStream(file, self.max_unpacked, advance)
        if file.partition:
            fields = fields.select(j for j, name in enumerate(fields.names) if name not in file.partition)
        first = 1
        warned = False
        for block in _blocks(stream):
            part = self._in_bulk(block, fields)
            if part is None:
                part = self._by_line(block, fields, file, first)
                if len(block) >= _LARGE and not warned:
                    warned = True
                    warnings.warn(
                        f"{file.shown}: reading line by line, which is 20 times slower, because PyArrow "
                        "refuses a value, such as values of several types in one column, or takes a text "
                        "in a list for a time; Parquet files are always read by column",
                        UserWarning,
                        stacklevel=2,
                    )
            yield _without_absent(part, fields)
            first += part[2]

    def _in_bulk(self, block: bytes, fields: Schema) -> Part | None:
        """Return the rows of some lines, or None if PyArrow refuses or may misread one of them."""
        import pyarrow as pa
        from pyarrow import json as arrow_json

        from dbsp.data.arrow_types import parsed_type

        expected = self._expected(fields)
        texts = {name: type_ for name, type_ in expected.items() if type_.kind in _PARSED_LATER}
        types = {
            name: pa.string() if name in texts else parsed
            for name, type_ in expected.items()
            if name in texts or (parsed := parsed_type(type_)) is not None
        }
        if _NULL_FIRST.match(block) or _NULL_LATER.search(block):
            return None  # PyArrow reads such a line as an object, or ends the process
        try:
            table = arrow_json.read_json(
                pa.BufferReader(block),
                read_options=arrow_json.ReadOptions(block_size=2**22),
                parse_options=arrow_json.ParseOptions(
                    explicit_schema=pa.schema(list(types.items())),
                    unexpected_field_behavior="infer",
                    newlines_in_values=False,
                ),
            )
            table.validate(full=True)  # PyArrow does not check that texts are UTF-8
            for name, type_ in texts.items():
                place = table.schema.get_field_index(name)
                table = table.set_column(place, name, parsed_texts(table.column(place), type_))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        for name, type_ in expected.items():
            place = table.schema.get_field_index(name)
            if place < 0:  # no row of the block has this member
                table = table.append_column(name, pa.nulls(table.num_rows))
            elif name not in types and _may_differ(table.schema.field(place).type, type_):
                return None
        return tuple(table.column_names), table.columns, table.num_rows

    def _by_line(self, block: bytes, fields: Schema, file: DataFile, first: int) -> Part:
        """Return the rows of some lines as Python values. Raises InputError for a wrong line."""
        rows: list[dict[str, Any]] = []
        expected = self._expected(fields)
        names: dict[str, None] = dict.fromkeys(expected)
        decoder = json.JSONDecoder(object_pairs_hook=_members)
        for line in block.splitlines():
            if not line.strip():
                continue
            where = f"row {first + len(rows)}"
            try:
                row = decoder.decode(line.decode("utf-8"))
            except UnicodeDecodeError:
                raise InputError(
                    f"{where}: expected UTF-8 text", where=file.shown, code="invalid-encoding"
                ) from None
            except _MemberTwice as error:
                raise InputError(f"{where}: {error}", where=file.shown, code="invalid-json") from None
            except (ValueError, RecursionError) as error:
                raise InputError(
                    f"{where}: invalid JSON: {_problem(error)}", where=file.shown, code="invalid-json"
                ) from None
            if not isinstance(row, dict):
                raise InputError(
                    f"{where}: expected a JSON object, got {shorten(row)}",
                    where=file.shown,
                    code="invalid-json",
                )
            names.update(dict.fromkeys(row))
            rows.append(row)
        columns = [[_value(expected.get(name), row.get(name)) for row in rows] for name in names]
        return tuple(names), columns, len(rows)

    def _expected(self, fields: Schema) -> dict[str, Type]:
        """Return the members that the relation needs, with their types."""
        pairs = zip(fields.names, fields.types, strict=True)
        return {name: type_ for name, type_ in pairs if self.wanted is None or name in self.wanted}


_NULL_FIRST = re.compile(rb"\s*null")
_NULL_LATER = re.compile(rb"\n[ \t\r]*null")
"""The beginning of a line with `null` instead of an object."""

_PARSED_LATER = ("date", "time", "timestamp", "timestamptz")
"""The kinds that PyArrow parses in texts; in JSON it takes numbers for some, and ignores zones."""
_IN_TEXTS = ("date", "time", "timestamp", "timestamptz", "decimal", "bytes")


class _MemberTwice(ValueError):
    """An object has two members of the same name."""


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object. Raises `_MemberTwice`: which of them counts is a guess."""
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _MemberTwice(f"member {twice!r} occurs twice in an object")
    return members


def _problem(error: Exception) -> str:
    """Return why a line is not JSON, without advice for programmers of Python."""
    if isinstance(error, json.JSONDecodeError):
        return str(error)
    return "nested too deeply" if isinstance(error, RecursionError) else "a number has too many digits"


def _may_differ(arrow: pa.DataType, type_: Type) -> bool:
    """Return whether PyArrow may have read other values than the file has, at any depth.

    It takes texts for times if all texts of a column have that form, and among objects ints for
    floats if one number is a float.
    """
    import pyarrow as pa

    if pa.types.is_timestamp(arrow) or (type_.kind == "object" and pa.types.is_floating(arrow)):
        return True
    return any(_may_differ(arrow.field(at).type, type_) for at in range(arrow.num_fields))


def _value(type_: Type | None, value: Any) -> Any:
    """Return a JSON value as a value of the type; the value itself if it does not fit."""
    if type_ is None:
        return value
    if type_.kind == "object":
        from dbsp.data.frames import frozen

        return frozen(value)
    if type_.kind == "list" and isinstance(value, list):
        return [_value(type_.element, each) for each in value]
    if type_.kind == "struct" and isinstance(value, dict):
        types = {part.name: part.type for part in type_.parts}
        return {name: _value(types.get(name), each) for name, each in value.items()}
    if type_.kind not in _IN_TEXTS:
        return value
    if type_.kind == "decimal" and type(value) in (int, float):
        value = repr(value)
    if not isinstance(value, str):
        return value
    import pyarrow as pa

    try:
        return parsed_texts(pa.array([value]), type_)[0].as_py()
    except (pa.ArrowInvalid, UnicodeEncodeError):
        return value


def _without_absent(part: Part, fields: Schema) -> Part:
    """Return the rows without the columns that no row has, if the rows have others instead.

    So a misspelt name is reported, and not its missing value in every row.
    """
    names, columns, rows = part
    if names is None or rows == 0 or all(name in fields.names for name in names):
        return part
    kept = [place for place, column in enumerate(columns) if _present(column)]
    return tuple(names[place] for place in kept), [columns[place] for place in kept], rows


def _present(column: Any) -> bool:
    if isinstance(column, list):
        return any(value is not None for value in column)
    return bool(column.null_count < len(column))


def _blocks(stream: UnpackingStream) -> Iterator[bytes]:
    """Return the bytes of a stream in blocks of whole lines."""
    rest = b""
    while data := stream.read(_BLOCK):
        end = data.rfind(b"\n") + 1
        if end:
            yield rest + data[:end]
            rest = data[end:]
        else:
            rest += data
    if rest.strip():
        yield rest
