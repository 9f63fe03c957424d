"""Read fact files: one row per line, columns separated by tabs, no quotes or escapes by default.

The file is parsed in bulk, column by column, and texts by their distinct values. If the bulk parser
refuses the file or might misread it, the file is read line by line: to find the wrong line, or to
accept forms that the bulk parser does not know (`+5`). A small file is always read line by line,
which takes less time than loading Arrow. Both ways return the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from dbsp.data.int_range import NO_RANGES, IntRange
from dbsp.data.schema import Schema
from dbsp.diagnostics import Diagnostic, SourceSpan
from dbsp.errors import SchemaError, counted, shorten
from dbsp.io.cell_text import CELLS, arrow_type, code_of, in_range
from dbsp.io.line_layout import has_empty_line, is_header, layout_hint, refuse_binary, typed_columns
from dbsp.io.problems import MAX_PROBLEMS, DataError, read_file
from dbsp.io.quoted import Cell, Unbalanced, is_plainly_quoted, lines_of, quoted_lines
from dbsp.io.term_text import TermTextError, cell_end, value_of

Facts: TypeAlias = Any
"""A change of one relation as `Run.step` takes it: an Arrow table, or a list of rows."""

_SMALL = 32_768
"""Up to so many bytes, reading line by line takes less time than loading Arrow."""

_EMPTY_ROW = "()"
_TAB = "\t"


def read_facts(
    path: str | Path,
    schema: Schema,
    *,
    relation: str | None = None,
    delimiter: str = _TAB,
    headers: bool = False,
    ranges: Mapping[str, IntRange] = NO_RANGES,
    quoted: bool = False,
    columns: Sequence[int] | None = None,
) -> Facts:
    """Return the rows of a fact file, in a form that `Run.step` takes as a change.

    `relation` is the name used in errors (by default the stem of the file). With `headers` the
    first line is skipped. `ranges` has by name the columns with a smaller range than 64 bits. With
    `quoted` cells may be in quotation marks, as in RFC 4180. `columns` has for each column of the
    relation its position in a line, counted from 0; other positions are ignored. A relation without
    columns has its row if the file has a line `()`. Files compressed by gzip are detected.
    Cost: O(bytes), about 10 M rows of three columns per second and core; a tenth of that if a
    quoted cell has a line end.

    Raises InputError if there is no such file or it is an Arrow or a Parquet file, and DataError
    (with file, line and text) for a line with too few or too many columns, a value that does not
    fit its column, and text that is not UTF-8.
    """
    path = Path(path)
    name = relation or path.stem
    reader = _Reader(str(path), schema, name, delimiter, headers, ranges, quoted, columns)
    return reader.read(read_file(path, f"fact file (for relation '{name}')"))


def parse_facts(
    data: bytes,
    file: str,
    schema: Schema,
    relation: str,
    delimiter: str = _TAB,
    headers: bool = False,
    ranges: Mapping[str, IntRange] = NO_RANGES,
    quoted: bool = False,
    columns: Sequence[int] | None = None,
    type_names: Mapping[str, str] | None = None,
) -> Facts:
    """Return the rows of a fact file whose bytes have been read; otherwise as `read_facts`.

    `type_names` has by column the declared type, which messages show.
    """
    reader = _Reader(file, schema, relation, delimiter, headers, ranges, quoted, columns, type_names)
    return reader.read(data)


class _Reader:
    """Reads one file: from its bytes to a table."""

    def __init__(
        self,
        file: str,
        schema: Schema,
        relation: str,
        delimiter: str,
        headers: bool,
        ranges: Mapping[str, IntRange],
        quoted: bool = False,
        columns: Sequence[int] | None = None,
        type_names: Mapping[str, str] | None = None,
    ) -> None:
        self.file = file
        self.schema = schema
        self.relation = relation
        self.delimiter = delimiter
        self.headers = headers
        self.ranges = ranges
        self.quoted = quoted
        self.columns = None if columns is None else tuple(columns)
        self.type_names = type_names or {}
        self.problems: list[Diagnostic] = []
        # Positions of records and branches, which may contain the delimiter within their brackets.
        places = range(schema.arity) if columns is None else columns
        self.nested = {
            place for place, type_ in zip(places, schema.types, strict=True) if type_.structure is not None
        }
        for name, type_ in zip(schema.names, schema.types, strict=True):
            if type_.kind not in CELLS and type_.structure is None:
                raise SchemaError(
                    f"column '{name}' has type {type_}, which fact files do not support",
                    where=f"relation '{relation}'",
                    code="invalid-type",
                )

    def read(self, data: bytes) -> Facts:
        refuse_binary(data, self.file, self.relation)
        if not self.schema.arity:
            return self._read_without_columns(data)
        # The bulk parser ends a line at a lone carriage return; here that is an ordinary character.
        plain = data.count(b"\r") == data.count(b"\r\n") if b"\r" in data else True
        plain = plain and len(data) > _SMALL and not self.nested and len(self.delimiter.encode()) == 1
        if plain and self.quoted and b'"' in data:
            plain = is_plainly_quoted(data, self.delimiter.encode())
        table = self._read_in_bulk(data) if plain else None
        return self._read_by_line(data) if table is None else table

    def _read_in_bulk(self, data: bytes) -> Any | None:
        """Return the table, or None if the file must be read line by line."""
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyarrow import csv

        wanted = {n: arrow_type(t) for n, t in zip(self.schema.names, self.schema.types, strict=True)}
        if not data:
            return pa.table({name: pa.array([], type_) for name, type_ in wanted.items()})
        # The bulk parser reads 0xffffffffffffffff as -1; such columns are read as text first.
        parsed = wanted
        hexadecimal = b"0x" in data or b"0X" in data
        if hexadecimal:
            parsed = {
                name: pa.string() if pa.types.is_integer(type_) else type_ for name, type_ in wanted.items()
            }
        names, included = list(wanted), None
        if self.columns is not None:
            first = data.split(b"\n", 2)[int(self.headers and b"\n" in data)]
            names = [f" {place}" for place in range(first.count(self.delimiter.encode()) + 1)]
            if max(self.columns) >= len(names):
                return None
            for place, name in zip(self.columns, wanted, strict=True):
                names[place] = name
            included = list(wanted)
        if len(names) > 1 and has_empty_line(data):
            return None  # the bulk parser would make a row of empty texts of it
        try:
            table = csv.read_csv(
                pa.BufferReader(data),
                read_options=csv.ReadOptions(column_names=names, skip_rows=int(self.headers)),
                parse_options=csv.ParseOptions(
                    delimiter=self.delimiter,
                    quote_char='"' if self.quoted else False,
                    escape_char=False,
                    ignore_empty_lines=False,
                ),
                convert_options=csv.ConvertOptions(
                    column_types=parsed,
                    null_values=[],
                    strings_can_be_null=False,
                    include_columns=included,
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
                    if name in self.ranges and len(column):
                        least, most = pc.min_max(column).as_py().values()
                        if least < self.ranges[name].low or most > self.ranges[name].high:
                            return None
        except pa.ArrowInvalid:
            return None
        return table

    def _read_by_line(self, data: bytes) -> Facts:
        """Read the file line by line, which is slower, and report every line that does not fit."""
        columns: list[list[Any]] = [[] for _ in self.schema.types]
        first: tuple[str, list[str]] | None = None
        for number, line, texts in self._split(data):
            if self.columns is None:
                if len(texts) != len(columns):
                    self._wrong_count(number, line, len(texts))
                    continue
            elif len(texts) <= max(self.columns):
                self._too_few(number, line, len(texts))
                continue
            else:
                texts = [texts[place] for place in self.columns]
            if number == 1:
                first = line, [text for text, *_ in texts]
            for name, type_, (text, row, start, length), column in zip(
                self.schema.names, self.schema.types, texts, columns, strict=True
            ):
                try:
                    column.append(in_range(self.ranges.get(name), value_of, type_, text))
                except ValueError as error:
                    message = (
                        f"column '{name}' of relation '{self.relation}' expects {error}, got {shorten(text)}"
                    )
                    if isinstance(error, TermTextError):
                        start, length = start + error.start, error.end - error.start
                    self._problem(row, line, message, start, start + length, code=code_of(error))
        if self.problems:
            if first is not None and all(problem.span.line == 1 for problem in self.problems):
                self._check_header(*first, alone=number == 1)
            raise DataError(self.problems)
        if self.nested or len(data) <= _SMALL:
            return list(zip(*columns, strict=True))
        import pyarrow as pa

        arrays = [pa.array(c, arrow_type(t)) for c, t in zip(columns, self.schema.types, strict=True)]
        return pa.table(arrays, names=list(self.schema.names))

    def _split(self, data: bytes) -> Iterator[tuple[int, str, list[Cell]]]:
        """Yield of each line its number, its text, and its cells."""
        if self.quoted:
            try:
                yield from quoted_lines(data, self.delimiter, self.headers)
            except Unbalanced as error:
                at = error.start
                self._problem(error.number, error.line, str(error), at, at + 1, code=error.code)
            return
        for number, raw in enumerate(lines_of(data), 1):
            if number == 1 and self.headers:
                continue
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                shown = raw.decode("utf-8", "replace")
                before = len(raw[: error.start].decode("utf-8"))
                message = "expected UTF-8 text"
                self._problem(number, shown, message, before, before + 1, code="invalid-encoding")
                continue
            yield number, line, self._cells(number, line)

    def _cells(self, number: int, line: str) -> list[Cell]:
        cells: list[Cell] = []
        start = 0
        if "," not in self.delimiter or not self.nested:
            for text in line.split(self.delimiter):
                cells.append((text, number, start, len(text)))
                start += len(text) + len(self.delimiter)
            return cells
        while True:
            if len(cells) in self.nested:
                end = cell_end(line, start, self.delimiter)
            else:
                end = line.find(self.delimiter, start)
                end = len(line) if end < 0 else end
            cells.append((line[start:end], number, start, end - start))
            start = end + len(self.delimiter)
            if end >= len(line):
                return cells

    def _read_without_columns(self, data: bytes) -> Facts:
        rows: list[tuple[()]] = []
        for number, raw in enumerate(lines_of(data), 1):
            line = raw.decode("utf-8", "replace")
            if line.strip() in ("", _EMPTY_ROW):
                rows.append(())
            else:
                message = f"relation '{self.relation}' has no columns; write its only row as {_EMPTY_ROW}"
                self._problem(number, line, message, 0, len(line))
        if self.problems:
            raise DataError(self.problems)
        return rows[:1]

    def _wrong_count(self, number: int, line: str, actual: int) -> None:
        expected = self.schema.arity
        between = "tabs" if self.delimiter == _TAB else f"{self.delimiter!r}"
        columns = f"relation '{self.relation}' has {counted(expected, 'column')}"
        message = f"{columns} ({', '.join(self.schema.names)}), got {actual}"
        hint = f"columns are separated by {between}"
        if not line:
            message = f"{columns}, got an empty line"
            hint = "remove the empty line"
        elif number == 1 + self.headers:
            layout = layout_hint(line, self.schema, self.delimiter, self.relation)
            if layout is not None:  # all lines have this layout: one error is enough
                self._problem(number, line, message, 0, len(line), layout, code="wrong-arity")
                raise DataError(self.problems)
        self._problem(number, line, message, 0, len(line), hint, code="wrong-arity")

    def _check_header(self, line: str, cells: list[str], alone: bool) -> None:
        """Replace the errors of a first line of column names by one.

        `alone`: the file has no other line.
        """
        names = [cell.lower() for cell in cells] == [name.lower() for name in self.schema.names]
        if not names and (alone or not is_header(cells, self.schema)):
            return
        columns = typed_columns(self.schema, self.type_names)
        message = f"expected a row of relation '{self.relation}' ({columns}), got column names"
        self.problems.clear()
        hint = f"add headers=true to .input {self.relation}"
        self._problem(1, line, message, 0, len(line), hint, code="wrong-type")

    def _too_few(self, number: int, line: str, actual: int) -> None:
        places = ":".join(map(str, self.columns or ()))
        needed = counted(max(self.columns or (0,)) + 1, "column")
        message = f"expected at least {needed} for columns='{places}', got {actual}"
        self._problem(number, line, message, 0, len(line), code="wrong-arity")

    def _problem(
        self,
        number: int,
        line: str,
        message: str,
        start: int,
        end: int,
        hint: str | None = None,
        code: str = "invalid-line",
    ) -> None:
        span = SourceSpan(self.file, number, start + 1, number, max(end, start + 1) + 1)
        shown = line if len(line) <= 200 else line[:200] + "..."
        self.problems.append(Diagnostic(message, span, hint=hint, line_text=shown, code=code))
        if len(self.problems) >= MAX_PROBLEMS:
            raise DataError(self.problems, more=True)
