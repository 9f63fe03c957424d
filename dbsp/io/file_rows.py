"""The rows of data files, read by chunks: what Parquet, CSV and NDJSON have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeAlias

from dbsp.data.column_chunks import Chunk, Column, RowSource
from dbsp.data.schema import Schema, suggestion
from dbsp.data.types import Type
from dbsp.data.weights import weight_name
from dbsp.errors import InputError, SchemaError, counted, shorten, wrong_argument
from dbsp.io.data_files import DataFile, Source, find_files
from dbsp.io.reading_progress import reading

Part: TypeAlias = tuple[tuple[str, ...] | None, Sequence[Column], int]
"""Names, columns and number of rows."""

ColumnChoice: TypeAlias = Sequence[str] | Mapping[str, str]
"""The columns of the file to read; a mapping has for each of them the name in the relation."""


class FileRows(RowSource):
    """The rows of one or more files of one format."""

    format: str
    """The name of the format, for messages."""
    endings: tuple[str, ...]

    def __init__(
        self,
        source: Source,
        columns: ColumnChoice | None,
        filesystem: Any,
        max_unpacked: int | None,
    ) -> None:
        if max_unpacked is not None and (type(max_unpacked) is not int or max_unpacked < 0):
            raise wrong_argument("max_unpacked", "a number of bytes", max_unpacked)
        self.files = find_files(source, self.endings, filesystem)
        self.max_unpacked = max_unpacked
        self.watcher: Callable[[int], None] | None = None
        """Called with the number of bytes of each read, instead of a progress bar."""
        self.relation: str | None = None
        """The relation whose directive names the files; None if they are read in Python."""
        self._names = _names_of(columns)

    def __repr__(self) -> str:
        shown = self.files[0].shown if len(self.files) == 1 else counted(len(self.files), "file")
        return f"<rows of {shown}>"

    @property
    def size(self) -> int:
        """The number of bytes of all files."""
        return sum(file.size for file in self.files)

    def local_paths(self) -> list[Path]:
        """Return the paths of the files of this machine."""
        return [path for file in self.files if (path := file.local_path()) is not None]

    def chunks(self, schema: Schema) -> Iterator[Chunk]:
        watch = (
            reading(self.size, f"reading {self.format}")
            if self.watcher is None
            else nullcontext(self.watcher)
        )
        with watch as advance:
            for file in self.files:
                first = 1
                for part in self.parts(file, self._fields(schema), advance):
                    names, columns, rows = self._chosen(part, file, schema)
                    yield Chunk(names, columns, rows, first, file.shown)
                    first += rows

    @abstractmethod
    def parts(self, file: DataFile, fields: Schema, advance: Callable[[int], None]) -> Iterator[Part]:
        """Read a file. `fields` are the columns of the relation under their names in the file."""

    @property
    def wanted(self) -> tuple[str, ...] | None:
        """The columns to read, by their names in the file; None for all."""
        return None if self._names is None else tuple(self._names)

    def _fields(self, schema: Schema) -> Schema:
        if not self._names:
            return schema
        back = {new: old for old, new in self._names.items()}
        return Schema(tuple(back.get(name, name) for name in schema.names), schema.types)

    def _chosen(self, part: Part, file: DataFile, schema: Schema) -> Part:
        """Return the chosen columns under the names of the relation, with those of the folders."""
        names, columns, rows = part
        if names is None:
            if self._names is not None or file.partition:
                raise InputError(
                    "columns= and folders named key=value need names of columns; pass header=[...]",
                    where=file.shown,
                    code="invalid-argument",
                )
            return part
        found = dict(zip(names, columns, strict=True)) if len(set(names)) == len(names) else None
        if found is None:
            return part  # the names are checked, and refused, with those of the relation
        found |= {
            name: _constant(value, rows, name, schema)
            for name, value in file.partition.items()
            if name not in found
        }
        if self._names is None:
            self._check_names(tuple(found), file, schema)
            return tuple(found), list(found.values()), rows
        for name in self._names:
            if name not in found:
                raise self.unknown_column(name, tuple(found), file)
        return tuple(self._names.values()), [found[name] for name in self._names], rows

    def weight_in_file(self, fields: Schema) -> str:
        """Return the name in the file of the column of weights, which a file need not have."""
        names = self._names or {}
        relation = Schema(tuple(names.get(name, name) for name in fields.names), fields.types)
        weight = weight_name(relation)
        return next((old for old, new in names.items() if new == weight), weight)

    def _check_names(self, names: Sequence[str], file: DataFile, schema: Schema) -> None:
        """Raise InputError if no column of the file has a name of the relation."""
        given = [name for name in names if name != weight_name(schema)]
        if given and schema.arity and set(given).isdisjoint((*schema.names, "c0")):
            raise InputError(
                f"expected the columns ({schema.describe()}), got ({', '.join(given)}); "
                f"{self.names_hint(given, schema)}",
                where=file.shown,
                code="unknown-column",
            )

    def names_hint(self, given: Sequence[str], schema: Schema) -> str:
        """Return what to do if no column of a file has a name of the relation."""
        if self.relation is not None:
            return "a column of the file needs the name that .decl gives it"
        pairs = ", ".join(f"{old!r}: {new!r}" for old, new in zip(given, schema.names, strict=False))
        return f"to rename them, pass columns={{{pairs}}}"

    @staticmethod
    def unknown_column(name: str, known: Sequence[str], file: DataFile) -> SchemaError:
        """Return the error for a chosen column that the file does not have."""
        hint = suggestion(name, known)
        return SchemaError(
            f"unknown column {name!r}{f'{hint} The' if hint else '; the'} columns are ({', '.join(known)})",
            where=file.shown,
            code="unknown-column",
        )

    def unreadable(self, file: DataFile, error: Exception) -> InputError:
        """Return the error for a file that is not of this format."""
        return InputError(
            f"cannot be read as {self.format}: {error}", where=file.shown, code="unreadable-file"
        )


def _names_of(columns: ColumnChoice | None) -> dict[str, str] | None:
    """Return for each chosen column its name in the relation."""
    if columns is None:
        return None
    if isinstance(columns, str) or not isinstance(columns, Mapping | Sequence):
        raise wrong_argument("columns", "a list of names, or a mapping {name in the file: name}", columns)
    named = dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}
    for name in (*named, *named.values()):
        if not isinstance(name, str):
            raise wrong_argument("columns", "names of columns", name)
    return named


def _constant(value: str | None, rows: int, name: str, schema: Schema) -> Any:
    """Return the column of a folder named `key=value`, of the type of the relation's column."""
    import pyarrow as pa

    from dbsp.data.arrow_types import parsed_type

    column = pa.array([value], pa.string())
    if name in schema.names and parsed_type(schema.type_of(name)) is not None:
        try:
            column = parsed_texts(column, schema.type_of(name))
        except pa.ArrowInvalid:
            raise InputError(
                f"column {name!r}: expected {schema.type_of(name)}, got {shorten(value)} from the folder",
                code="wrong-type",
            ) from None
    return pa.repeat(column[0], rows)


def parsed_texts(texts: Any, type_: Type) -> Any:
    """Return Arrow texts as values of a type. Raises ArrowInvalid for a text of another form."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from dbsp.data.arrow_types import arrow_of_type

    if type_.kind == "time":  # PyArrow converts texts with a date only
        texts = pc.binary_join_element_wise("1970-01-01T", texts, "").cast(pa.timestamp("us"))
    return texts.cast(arrow_of_type(type_))
