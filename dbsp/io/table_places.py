"""Rows of a relation in Parquet, CSV and NDJSON files that directives name."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from dbsp.data.schema import Schema
from dbsp.data.zset import ZSet
from dbsp.errors import InputError, SchemaError
from dbsp.io.csv_rows import CsvFormat, CsvRows
from dbsp.io.file_rows import FileRows
from dbsp.io.json_rows import write_json_lines
from dbsp.io.line_layout import an_arrow_file
from dbsp.io.ndjson_rows import NdjsonRows
from dbsp.io.parquet_rows import ParquetRows
from dbsp.io.problems import missing_file
from dbsp.io.sorted_pieces import sorted_pieces

if TYPE_CHECKING:
    import pyarrow as pa

_PIECE = 1 << 20
"""Rows are written by so many; Arrow divides a table into row groups of this size."""

TABLE_FILES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
}
"""The format of a file by the ending of its name."""
_ARROW_FILES = (".arrow", ".arrows", ".feather", ".ipc")


def open_table(
    format_: str, path: Path, schema: Schema, relation: str, delimiter: str, header: bool
) -> FileRows:
    """Return the rows of a file, glob or folder, which are read when a tick needs them.

    Raises InputError if there is no such file, SchemaError if the relation has records or branches.
    """
    _refuse_terms(format_, schema, relation)
    rows: FileRows
    if format_ == "parquet":
        rows = ParquetRows(path, None, None, None)
    elif format_ == "ndjson":
        rows = NdjsonRows(path, None, None, None)
    else:
        rows = CsvRows(path, None, None, None, CsvFormat(delimiter, header=header))
    rows.relation = relation
    return rows


def write_table_file(
    format_: str, zset: ZSet, relation: str, delimiter: str, header: Sequence[str] | None, file: IO[bytes]
) -> None:
    """Write the rows of `zset` in a format, sorted, each once. `header` is the first line of CSV.

    Cost: O(n log n) for n rows. Raises SchemaError for records and branches, and for a relation
    without columns.
    """
    _refuse_terms(format_, zset.schema, relation)
    if not zset.schema.arity:
        raise SchemaError(
            f"the relation has no columns, which {format_} files do not support; use IO=file",
            where=f"relation '{relation}'",
            code="invalid-type",
        )
    if format_ == "ndjson":
        write_json_lines(zset, file)
        return
    from dbsp.data.frames import decode_table

    empty = decode_table(zset.stored.rows[:0], zset.schema, zset.interner)
    tables = (decode_table(piece, zset.schema, zset.interner) for piece in sorted_pieces(zset, _PIECE))
    if format_ == "parquet":
        _write_parquet(empty, tables, file)
    else:
        _write_csv(empty, tables, delimiter, header, file)


def _write_parquet(empty: pa.Table, tables: Iterable[pa.Table], file: IO[bytes]) -> None:
    """Write tables with the columns of `empty`, each as a row group."""
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetWriter(pa.PythonFile(file, mode="w"), empty.schema) as writer:
        for table in tables:
            writer.write_table(table)


def _write_csv(
    empty: pa.Table, tables: Iterable[pa.Table], delimiter: str, header: Sequence[str] | None, file: IO[bytes]
) -> None:
    """Write tables with the columns of `empty`; `header` is the first line."""
    import pyarrow as pa
    from pyarrow import csv

    if header is not None:
        tables = itertools.chain([empty.rename_columns(list(header))], tables)
    for number, table in enumerate(tables):
        text = pa.BufferOutputStream()
        is_head = header is not None and number == 0
        options = csv.WriteOptions(include_header=is_head, delimiter=delimiter, quoting_style="needed")
        csv.write_csv(table, text, options)
        file.write(text.getvalue())


def found_beside(path: Path, relation: str) -> tuple[Path, str] | None:
    """Return the table beside a missing fact file, and its format; None if there is none.

    Raises InputError if there are several, or only an Arrow file.
    """
    if path.exists():
        return None
    found = [beside for ending in TABLE_FILES if (beside := path.with_suffix(ending)).exists()]
    if len(found) > 1:
        names = ", ".join(str(beside) for beside in found)
        raise InputError(
            f"found several files: {names}; keep one of them, or name one as in "
            f'.input {relation}(IO={TABLE_FILES[found[0].suffix]}, filename="{found[0].name}")',
            where=f"relation '{relation}'",
            code="several-files",
        )
    if not found:
        arrow = [beside for ending in _ARROW_FILES if (beside := path.with_suffix(ending)).exists()]
        if arrow:
            advice = f"{arrow[0].name} beside it is {an_arrow_file(relation)}"
            raise missing_file(str(path), f"fact file (for relation '{relation}')", advice)
        return None
    if found[0].suffix == ".csv" and _has_tabs(found[0]):
        raise missing_file(
            str(path),
            f"fact file (for relation '{relation}')",
            f"{found[0].name} beside it has tabs and no commas, as a result file of dbsp; to read it as "
            f'facts, write .input {relation}(filename="{found[0].name}")',
        )
    return found[0], TABLE_FILES[found[0].suffix]


def _has_tabs(path: Path) -> bool:
    """Return whether the first line of a file has tabs and no commas."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        line = file.readline(10_000)
    return b"\t" in line and b"," not in line


def _refuse_terms(format_: str, schema: Schema, relation: str) -> None:
    for name, type_ in zip(schema.names, schema.types, strict=True):
        if type_.structure is not None:
            raise SchemaError(
                f"column '{name}' has type {type_}, which {format_} files do not support; use IO=file or "
                "IO=jsonfile",
                where=f"relation '{relation}'",
                code="invalid-type",
            )
