"""Rows as a JSON array; each row is an array of values, or an object with a member per column."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from json.decoder import JSONDecodeError
from typing import IO, Any

from dbsp.data.columns import decode_column
from dbsp.data.int_range import NO_RANGES, IntRange
from dbsp.data.schema import Schema
from dbsp.data.types import Type
from dbsp.data.zset import ZSet
from dbsp.diagnostics import Diagnostic, SourceSpan
from dbsp.errors import InputError, counted, shorten
from dbsp.io.cell_text import NotInt64, OutOfRange, code_of, in_range
from dbsp.io.facts import Facts
from dbsp.io.json_terms import Members, json_column, term_of_json
from dbsp.io.problems import MAX_PROBLEMS, DataError
from dbsp.io.row_pieces import PIECE, RowPieces
from dbsp.io.sorted_pieces import sorted_pieces
from dbsp.kernels.limits import INT64_MAX, INT64_MIN

_PIECE = 1 << 14
"""Rows are decoded and written by so many."""

_BLANK = " \t\n\r"
_SURROGATE = re.compile("[\ud800-\udfff]")
_SEPARATOR = re.compile(f"[{_BLANK}]*,[{_BLANK}]*")
_DECODER = json.JSONDecoder(object_pairs_hook=Members)
_PLAIN_DECODER = json.JSONDecoder(object_pairs_hook=tuple)
"""Reads an object as a tuple of its members, which takes less time than `Members`."""


def parse_json_rows(
    data: bytes, file: str, schema: Schema, relation: str, ranges: Mapping[str, IntRange] = NO_RANGES
) -> Facts:
    """Return the rows of a JSON text: `[[1, "a"], ...]` or `[{"x": 1, "s": "a"}, ...]`, also mixed.

    An Arrow table, or a list of tuples if the rows are few or have constructed values.

    Cost: O(bytes). Raises DataError, with the line and column of the row, for a row with missing or
    unknown columns, for a value that does not fit its column, and for a text that is not JSON.
    """
    return _Reader(data, file, schema, relation, ranges).rows()


class _WrongColumns(ValueError):
    """The columns of a row are not those of the relation."""

    code = "wrong-arity"


class _Reader:
    def __init__(
        self, data: bytes, file: str, schema: Schema, relation: str, ranges: Mapping[str, IntRange]
    ) -> None:
        self.file = file
        self.schema = schema
        self.relation = relation
        self.ranges = ranges
        self.problems: list[Diagnostic] = []
        try:
            self.text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            self.text = data[: error.start].decode("utf-8", "replace")
            raise self._broken("expected UTF-8 text", len(self.text), "invalid-encoding") from None

    def rows(self) -> Facts:
        pieces = RowPieces(self.schema, self.ranges)
        at = self._expect("[", 0, "a JSON array of rows")
        if self.text.startswith("]", at):
            self._end(at + 1)
            return pieces.facts()
        more = True
        while more:
            at, more = self._taken(pieces, at) or self._added(pieces, at)
        self._end(self._expect("]", at, "',' or ']'"))
        if self.problems:
            raise DataError(self.problems)
        return pieces.facts()

    def _taken(self, pieces: RowPieces, at: int) -> tuple[int, bool] | None:
        """Take the next rows at once; return the place after them and whether others follow.

        Returns None, and takes nothing, if there is a row that may not fit.
        """
        text, decode, separate = self.text, _PLAIN_DECODER.raw_decode, _SEPARATOR.match
        rows: list[Any] = []
        more = True
        usual = ",\n"
        try:
            while more and len(rows) < PIECE:
                row, at = decode(text, at)
                rows.append(row)
                if text.startswith(usual, at):  # the decoder refuses further blanks
                    at += len(usual)
                elif separator := separate(text, at):
                    usual = separator.group()
                    at = separator.end()
                else:
                    more = False
        except (ValueError, RecursionError):
            return None
        columns = _columns_of(rows, self.schema.names)
        return (self._blank(at), more) if columns is not None and pieces.take(columns) else None

    def _added(self, pieces: RowPieces, at: int) -> tuple[int, bool]:
        """Convert the next rows one by one; the result is as that of `_taken`."""
        rows: list[tuple[Any, ...]] = []
        more = True
        for _ in range(PIECE):
            try:
                value, end = _DECODER.raw_decode(self.text, at)
            except JSONDecodeError as error:
                raise self._broken(f"invalid JSON: {error.msg}", error.pos) from None
            except ValueError:  # from `int`, which refuses texts of thousands of digits
                message = "a number of this row is too large"
                raise self._broken(message, at, "value-out-of-range") from None
            except RecursionError:
                raise self._broken("this row is nested too deeply", at) from None
            try:
                rows.append(self._row(value))
            except ValueError as error:
                self._problem(str(error), at, end, code_of(error))
            at = self._blank(end)
            more = self.text.startswith(",", at)
            if not more:
                break
            at = self._blank(at + 1)
        pieces.add(rows)
        return at, more

    def _row(self, value: Any) -> tuple[Any, ...]:
        names = self.schema.names
        columns = f"relation '{self.relation}' has {counted(len(names), 'column')} ({', '.join(names)})"
        if isinstance(value, Members):
            members = value.members
            missing = [name for name in names if name not in members]
            if missing:
                raise _WrongColumns(f"{columns}; this row has no member '{missing[0]}'")
            if len(value.names) != len(names):
                other = next((name for name in value.names if name not in names), None)
                problem = f"an unknown member '{other}'" if other is not None else "a duplicate member"
                raise _WrongColumns(f"{columns}; this row has {problem}")
            value = [members[name] for name in names]
        elif value is None and not names:
            return ()
        elif not isinstance(value, list):
            shown = shorten(json.dumps(value, ensure_ascii=False))
            raise ValueError(f"expected an array or an object as a row of '{self.relation}', got {shown}")
        if len(value) != len(names):
            raise _WrongColumns(f"{columns}, got {len(value)}")
        row = []
        for name, type_, cell in zip(names, self.schema.types, value, strict=True):
            try:
                fitted = in_range(self.ranges.get(name), _fit, type_, cell)
            except ValueError as error:
                shown = shorten(json.dumps(cell, ensure_ascii=False, default=_plain))
                message = f"column '{name}' of relation '{self.relation}' expects {error}, got {shown}"
                raise (OutOfRange if isinstance(error, OutOfRange) else ValueError)(message) from None
            row.append(fitted)
        return tuple(row)

    # --- places -----------------------------------------------------------------------------------

    def _blank(self, at: int) -> int:
        while at < len(self.text) and self.text[at] in _BLANK:
            at += 1
        return at

    def _expect(self, mark: str, at: int, expected: str) -> int:
        at = self._blank(at)
        if not self.text.startswith(mark, at):
            raise self._broken(f"expected {expected}", at)
        return self._blank(at + 1)

    def _end(self, at: int) -> None:
        at = self._blank(at)
        if at < len(self.text):
            raise self._broken("expected the end of the file", at)

    def _problem(self, message: str, start: int, end: int, code: str) -> None:
        line = self.text.count("\n", 0, start) + 1
        first = self.text.rfind("\n", 0, start) + 1
        last = self.text.find("\n", first)
        shown = self.text[first : len(self.text) if last < 0 else last].rstrip("\r")
        column = start - first
        until = max(column + 1, min(end - first, len(shown)))
        span = SourceSpan(self.file, line, column + 1, line, until + 1)
        self.problems.append(Diagnostic(message, span, line_text=shown, code=code))
        if len(self.problems) >= MAX_PROBLEMS:
            raise DataError(self.problems, more=True)

    def _broken(self, message: str, at: int, code: str = "invalid-json") -> DataError:
        self._problem(message, at, at + 1, code)
        return DataError(self.problems)


def _columns_of(rows: Sequence[Any], names: Sequence[str]) -> list[Sequence[Any]] | None:
    """Return the columns of rows that are all arrays, or all objects with members in one order.

    `_PLAIN_DECODER` has read them. Returns None for other rows, and for too few or too many values.
    """
    kinds = set(map(type, rows))
    if len(kinds) > 1 or {len(names)} != set(map(len, rows) if kinds <= {list, tuple} else ()):
        return None
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    if kinds == {list}:
        return columns
    by_name = {}
    for column in columns:
        members, values = zip(*column, strict=True)
        if members.count(members[0]) < len(members):
            return None
        by_name[members[0]] = values
    return [by_name[name] for name in names] if by_name.keys() == set(names) else None


def _plain(members: Members) -> dict[str, Any]:
    return members.members


def _fit(type_: Type, value: Any) -> Any:
    """Convert a JSON value to a value of the type. Raises ValueError with the expected form."""
    if type_.kind == "int":
        if type(value) is not int:
            raise ValueError("a whole number")
        if not INT64_MIN <= value <= INT64_MAX:
            raise NotInt64
        return value
    if type_.kind == "float":
        if type(value) not in (int, float):
            raise ValueError("a number")
        try:
            return float(value)
        except OverflowError:
            raise OutOfRange("a number within the range of a float") from None
    if type_.kind == "str":
        if not isinstance(value, str):
            raise ValueError("a text")
        if _SURROGATE.search(value):
            raise ValueError("a text without surrogates (\\ud800 to \\udfff)")
        return value
    if type_.structure is not None:
        return term_of_json(type_.structure, value, _fit)
    raise ValueError(f"a value of type {type_}, which JSON files do not support")


def write_json_rows(zset: ZSet, file: IO[bytes], *, objects: bool = False) -> None:
    """Write the rows of `zset` as a JSON array, sorted, one per line.

    A row is an array, or with `objects` an object with a member per column; the row of a relation
    without columns is null. NaN and the infinities are written as Python's json writes them, which
    other readers may refuse. Cost: O(n log n) for n rows. Raises InputError for a text with an
    unpaired surrogate.
    """
    before = "["
    for lines in _json_lines(zset, objects=objects):
        file.write(_encoded(before + ",\n".join(lines)))
        before = ",\n"
    file.write(b"]\n" if len(zset) else b"[]\n")


def write_json_lines(zset: ZSet, file: IO[bytes]) -> None:
    """Write every row of `zset` as an object on a line of its own; see `write_json_rows`."""
    for lines in _json_lines(zset, objects=True):
        file.write(_encoded("".join(f"{line}\n" for line in lines)))


def _json_lines(zset: ZSet, *, objects: bool) -> Iterator[list[str]]:
    """Yield the JSON texts of the rows, sorted, in pieces."""
    names, types = zset.schema.names, zset.schema.types
    form = _row_form(names, objects)
    for piece in sorted_pieces(zset, _PIECE):
        columns = [
            json_column(type_, decode_column(type_, piece[:, at], zset.interner), objects)
            for at, type_ in enumerate(types)
        ]
        yield [form % row for row in zip(*columns, strict=True)] if names else ["null"] * len(piece)


def _row_form(names: Sequence[str], objects: bool) -> str:
    """Return the text of a row with `%s` in the place of each value."""
    if not objects:
        return f"[{', '.join('%s' for _ in names)}]"
    members = (json.dumps(name).replace("%", "%%") + ": %s" for name in names)
    return f"{{{', '.join(members)}}}"


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        shown = text[max(0, error.start - 30) : error.end + 30]
        message = f"cannot write {shown!r}: expected valid Unicode text"
        raise InputError(message, code="invalid-encoding") from None
