"""Fact files in: one row per line, columns separated by tabs, nothing quoted or escaped.

The file is parsed in bulk, column by column, text by way of its distinct values. Only when that refuses
the file, or might take it differently from how it is meant, is it read line by line: to find out which
line is wrong, or to accept spellings the bulk parser does not know (`+5`). Both ways give the same rows.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

from dbsp.diagnostics import Diagnostic, SourceSpan, did_you_mean
from dbsp.errors import InputError, SchemaError
from dbsp.io.problems import MAX_PROBLEMS, DataError, missing_file
from dbsp.schema import Schema
from dbsp.values import INT64_MAX, INT64_MIN, Type, shorten

Facts: TypeAlias = Any
"""What `Run.step` takes as a change of one relation: an Arrow table, or a list of rows."""

_EMPTY_ROW = "()"
_TAB = "\t"
_INTEGER = re.compile(r"[ ]*([+-]?)(?:(0[xX][0-9a-fA-F]+)|(0[bB][01]+)|([0-9]+))[ ]*")
_FLOAT = re.compile(
    r"[ ]*[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan)[ ]*",
    re.I,
)


def read_facts(
    path: str | Path,
    schema: Schema,
    *,
    relation: str | None = None,
    delimiter: str = _TAB,
    headers: bool = False,
    unsigned: Iterable[str] = (),
) -> Facts:
    """The rows of a fact file, in a form that `Run.step` takes as a change.

    `relation` is the name used in errors (the file's stem if not given). With `headers` the first line is
    skipped. The columns named in `unsigned` refuse negative numbers. A relation without columns holds its
    one row if the file has a line `()`. Cost: O(bytes), about 10 M rows of three columns a second and core.

    Raises InputError if there is no such file, and DataError (naming file, line and text) for a line with
    too few or too many columns, a value that is not of the column's type or does not fit it, and text that
    is not UTF-8.
    """
    path = Path(path)
    reader = _Reader(path, schema, relation or path.stem, delimiter, headers, frozenset(unsigned))
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        siblings = [p.name for p in path.parent.glob(f"*{path.suffix}")] if path.parent.is_dir() else []
        hint = did_you_mean(path.name, siblings)
        if not path.parent.is_dir():
            hint = f"the folder {path.parent} does not exist"
        raise missing_file(str(path), f"fact file (for relation '{reader.relation}')", hint) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from error
    return reader.read(data)


class _Reader:
    """One file being read: its bytes to a table."""

    def __init__(
        self,
        path: Path,
        schema: Schema,
        relation: str,
        delimiter: str,
        headers: bool,
        unsigned: frozenset[str],
    ) -> None:
        self.file = str(path)
        self.schema = schema
        self.relation = relation
        self.delimiter = delimiter
        self.headers = headers
        self.unsigned = unsigned
        self.problems: list[Diagnostic] = []
        for name, type_ in zip(schema.names, schema.types, strict=True):
            if type_.kind not in _CELLS:
                raise SchemaError(
                    f"column '{name}' has type {type_}, which fact files cannot hold",
                    where=f"relation '{relation}'",
                )

    def read(self, data: bytes) -> Facts:
        if not self.schema.arity:
            return self._read_without_columns(data)
        # The bulk parser ends a line at a lone carriage return; here that is a character like any other.
        plain = data.count(b"\r") == data.count(b"\r\n") if b"\r" in data else True
        table = self._read_in_bulk(data) if plain and len(self.delimiter) == 1 else None
        return self._read_by_line(data) if table is None else table

    def _read_in_bulk(self, data: bytes) -> Any | None:
        """The table, or None where the line by line way has to decide."""
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyarrow import csv

        wanted = {n: _arrow_type(t) for n, t in zip(self.schema.names, self.schema.types, strict=True)}
        if not data:
            return pa.table({name: pa.array([], type_) for name, type_ in wanted.items()})
        # The bulk parser would take 0xffffffffffffffff for -1; such columns are looked at as text first.
        parsed = wanted
        hexadecimal = b"0x" in data or b"0X" in data
        if hexadecimal:
            parsed = {
                name: pa.string() if pa.types.is_integer(type_) else type_ for name, type_ in wanted.items()
            }
        try:
            table = csv.read_csv(
                pa.BufferReader(data),
                read_options=csv.ReadOptions(column_names=list(wanted), skip_rows=int(self.headers)),
                parse_options=csv.ParseOptions(
                    delimiter=self.delimiter, quote_char=False, escape_char=False, ignore_empty_lines=False
                ),
                convert_options=csv.ConvertOptions(
                    column_types=parsed, null_values=[], strings_can_be_null=False
                ),
            )
            for position, (name, type_) in enumerate(wanted.items()):
                column = table.column(position)
                if pa.types.is_integer(type_):
                    if hexadecimal:
                        if pc.any(pc.match_substring_regex(column, "[xX]")).as_py():
                            return None
                        table = table.set_column(position, name, pc.cast(column, type_))
                        column = table.column(position)
                    if name in self.unsigned and len(column) and pc.min(column).as_py() < 0:
                        return None
        except pa.ArrowInvalid:
            return None
        return table

    def _read_by_line(self, data: bytes) -> Facts:
        """The same, slowly, with an error for every line that does not fit."""
        import pyarrow as pa

        cells = [_CELLS[type_.kind] for type_ in self.schema.types]
        columns: list[list[Any]] = [[] for _ in cells]
        for number, raw in enumerate(_lines(data), 1):
            if number == 1 and self.headers:
                continue
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                shown = raw.decode("utf-8", "replace")
                before = len(raw[: error.start].decode("utf-8"))
                self._problem(number, shown, "this is not UTF-8 text", before, before + 1)
                continue
            texts = line.split(self.delimiter)
            if len(texts) != len(cells):
                self._wrong_count(number, line, len(texts))
                continue
            start = 0
            for name, text, parse, column in zip(self.schema.names, texts, cells, columns, strict=True):
                try:
                    value = parse(text)
                    if name in self.unsigned and value < 0:
                        raise ValueError("an unsigned number, which is not negative")
                    column.append(value)
                except ValueError as error:
                    message = (
                        f"column '{name}' of relation '{self.relation}' expects {error}, got {shorten(text)}"
                    )
                    self._problem(number, line, message, start, start + len(text))
                start += len(text) + len(self.delimiter)
        if self.problems:
            raise DataError(self.problems)
        arrays = [pa.array(c, _arrow_type(t)) for c, t in zip(columns, self.schema.types, strict=True)]
        return pa.table(arrays, names=list(self.schema.names))

    def _read_without_columns(self, data: bytes) -> Facts:
        rows: list[tuple[()]] = []
        for number, raw in enumerate(_lines(data), 1):
            line = raw.decode("utf-8", "replace")
            if line.strip() == _EMPTY_ROW:
                rows.append(())
            else:
                message = f"relation '{self.relation}' has no columns; its only row is written {_EMPTY_ROW}"
                self._problem(number, line, message, 0, len(line))
        if self.problems:
            raise DataError(self.problems)
        return rows[:1]

    def _wrong_count(self, number: int, line: str, found: int) -> None:
        expected = self.schema.arity
        between = "tabs" if self.delimiter == _TAB else f"{self.delimiter!r}"
        message = (
            f"relation '{self.relation}' has {_count(expected, 'column')} ({', '.join(self.schema.names)}), "
            f"this line has {found}"
        )
        hint = f"columns are separated by {between}"
        if not line:
            message = f"relation '{self.relation}' has {_count(expected, 'column')}, this line is empty"
            hint = "remove the empty line"
        elif found == 1 and self.delimiter == _TAB and len(re.split(r"[ ,;]+", line.strip())) == expected:
            hint += "; these look separated by something else"
        self._problem(number, line, message, 0, len(line), hint)

    def _problem(
        self, number: int, line: str, message: str, start: int, end: int, hint: str | None = None
    ) -> None:
        span = SourceSpan(self.file, number, start + 1, number, max(end, start + 1) + 1)
        shown = line if len(line) <= 200 else line[:200] + "..."
        self.problems.append(Diagnostic(message, span, hint=hint, line_text=shown))
        if len(self.problems) >= MAX_PROBLEMS:
            raise DataError(self.problems, more=True)


def _lines(data: bytes) -> list[bytes]:
    """The lines without their ends; the last one may lack its end, and a byte order mark is no text."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix(b"\r") for line in lines]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


# --- one cell: text to value, or ValueError saying what was expected ---------------------------------


def _integer(text: str) -> int:
    match = _INTEGER.fullmatch(text)
    if match is None:
        raise ValueError("a whole number")
    sign, hexadecimal, binary, decimal = match.groups()
    if hexadecimal:
        value = int(hexadecimal, 16)
    elif binary:
        value = int(binary, 2)
    elif len(decimal) > 4000:  # int() refuses to read more; no such number fits anyway
        value = INT64_MAX + 1
    else:
        value = int(decimal)
    value = -value if sign == "-" else value
    if not INT64_MIN <= value <= INT64_MAX:
        raise ValueError("a whole number of 64 bits (-2^63 to 2^63-1)")
    return value


def _float(text: str) -> float:
    if _FLOAT.fullmatch(text) is None:
        raise ValueError("a number")
    return float(text)


def _boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered in ("true", "1"):
        return True
    if lowered in ("false", "0"):
        return False
    raise ValueError("true or false")


def _date(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise ValueError("a date such as 2024-01-31") from None


def _timestamp(text: str) -> dt.datetime:
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("a time such as 2024-01-31T12:00:00") from None


_CELLS: dict[str, Callable[[str], Any]] = {
    "int": _integer,
    "float": _float,
    "bool": _boolean,
    "str": str,
    "date": _date,
    "timestamp": _timestamp,
}


def _arrow_type(type_: Type) -> Any:
    import pyarrow as pa

    types = {
        "int": pa.int64(),
        "float": pa.float64(),
        "bool": pa.bool_(),
        "str": pa.dictionary(pa.int32(), pa.string()),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us"),
    }
    return types[type_.kind]
