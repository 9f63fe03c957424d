"""Change scripts: the rows to insert and to delete, tick by tick, as lines of text.

    +edge(1, 2)              insert a row
    -edge(2, 3) +edge(2, 4)  delete a row and insert another one
    +name(1, "Ada \\"A\\"")    numbers, texts in double quotes, true, false
    +list([1, [2, nil]])     records; +tree($Node($Leaf, "a")) branches of algebraic data types
    // a comment             also # a comment, and blank lines
    commit                   all changes since the last commit are one tick

Within a tick the last change of a row wins. Changes after the last `commit` are a separate tick.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, TypeAlias

from dbsp.data.int_range import IntRange
from dbsp.data.schema import Schema
from dbsp.data.types import Type
from dbsp.diagnostics import Diagnostic, SourceSpan, did_you_mean
from dbsp.errors import InputError, counted
from dbsp.io.cell_text import code_of, in_range
from dbsp.io.line_layout import refuse_binary, typed_columns
from dbsp.io.problems import MAX_PROBLEMS, DataError, missing_file, unreadable
from dbsp.io.script_literals import fit_value, read_number
from dbsp.io.term_text import TermTextError, read_term
from dbsp.lazy_dataclass import dataclass

Row: TypeAlias = tuple[Any, ...]

_HEAD = re.compile(r"\s*([+-])\s*([A-Za-z_?][\w?.]*)\s*\(")
_END = re.compile(r"\s*\.?\s*(?://.*|#.*)?")
_NEXT = re.compile(r"\s*\.?\s*(?=[+-])")
_BLANK = re.compile(r"\s*(?://.*|#.*)?")
_COMMIT = re.compile(r"\s*commit\s*;?\s*(?://.*|#.*)?")
_VALUE = re.compile(
    r"""\s*(?:
        (?P<text>"(?:[^"\\]|\\.)*")
      | (?P<number>[+-]?(?:
            0[xX][0-9a-fA-F]+ | 0[bB][01]+ | inf\b | nan\b
          | (?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?
        ))
      | (?P<word>true|false|nil)\b
    )\s*""",
    re.VERBOSE,
)
_BLANKS = re.compile(r"\s*")
_ESCAPE = re.compile(
    r"\\(?:u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|u([0-9a-f]{4})|(.))", re.DOTALL | re.IGNORECASE
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0"}


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """A change of a row in a line: `weight` is +1 or -1."""

    relation: str
    row: Row
    weight: int
    line: int


@dataclass(frozen=True, slots=True)
class CommitLine:
    """A line that ends a tick."""

    line: int


@dataclass(slots=True)
class ScriptTick:
    """The changes of one tick in the form that `Run.step` takes, and their lines."""

    first_line: int
    last_line: int
    changes: dict[str, dict[Row, int]] = field(default_factory=dict)

    def add(self, change: ChangeLine) -> None:
        """Add a change; the last change of a row wins."""
        self.changes.setdefault(change.relation, {})[change.row] = change.weight
        self.last_line = max(self.last_line, change.line)

    def __len__(self) -> int:
        return sum(map(len, self.changes.values()))

    @property
    def lines(self) -> str:
        """The lines as text: `12` or `12-15`."""
        return (
            f"{self.first_line}"
            if self.first_line == self.last_line
            else f"{self.first_line}-{self.last_line}"
        )


class ChangeScriptReader:
    """Reads a change script line by line and checks each line against the columns of its relation.

    `inputs` are the relations that may be changed; `derived` names the relations that rules
    compute; `ranges` has by relation the columns with a smaller range than 64 bits; `type_names`
    has by relation and column the declared types, which messages show.
    """

    def __init__(
        self,
        inputs: Mapping[str, Schema],
        file: str = "<changes>",
        *,
        derived: Collection[str] = (),
        ranges: Mapping[str, Mapping[str, IntRange]] | None = None,
        type_names: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.file = file
        self.line = 0
        self._inputs = inputs
        self._derived = derived
        self._ranges = ranges or {}
        self._type_names = type_names or {}

    def feed(self, text: str) -> tuple[ChangeLine, ...] | CommitLine:
        """Read the next line: its changes, or a commit. A blank line and a comment have no change.

        Raises DataError with the line, a caret and the expected form; the line counts as read.
        """
        self.line += 1
        text = text.rstrip("\r\n")
        surrogate = _SURROGATE.search(text)
        if surrogate is not None:
            shown = _SURROGATE.sub("\ufffd", text)
            raise self._error(shown, "expected UTF-8 text", surrogate.start(), code="invalid-encoding")
        head = _HEAD.match(text)
        if head is None:
            if _BLANK.fullmatch(text):
                return ()
            if _COMMIT.fullmatch(text):
                return CommitLine(self.line)
            raise self._not_a_change(text)
        changes: list[ChangeLine] = []
        while True:
            change, end = self._change(text, head)
            changes.append(change)
            if _END.fullmatch(text, end):
                return tuple(changes)
            following = _NEXT.match(text, end)
            start = end if following is None else following.end()
            head = None if following is None else _HEAD.match(text, start)
            if head is None:
                blanks = len(text[start:]) - len(text[start:].lstrip())
                message = "expected another change or the end of the line"
                hint = "for example: +edge(1, 2) -edge(2, 3)"
                raise self._error(text, message, start + blanks, len(text), hint=hint)

    def _change(self, text: str, head: re.Match[str]) -> tuple[ChangeLine, int]:
        """Read a change; return the position behind it, too."""
        sign, relation = head.groups()
        schema = self._inputs.get(relation)
        if schema is None:
            raise self._unknown(text, relation, head.start(2), head.end(2))
        row, end = self._row(text, relation, schema, head.start(2), head.end())
        return ChangeLine(relation, row, 1 if sign == "+" else -1, self.line), end

    def _row(self, text: str, relation: str, schema: Schema, start: int, position: int) -> tuple[Row, int]:
        """Read the values between the parentheses; `position` is behind the opening parenthesis.

        Return the position behind the closing one, too.
        """
        values: list[tuple[Any, int, int]] = []
        closing = re.compile(r"\s*\)").match(text, position)
        if closing is not None:
            position = closing.end()
        else:
            while True:
                type_ = schema.types[len(values)] if len(values) < schema.arity else None
                if type_ is not None and type_.structure is not None:
                    name = schema.names[len(values)]
                    value, begin, end = self._term(text, type_, position, f"column '{name}' of '{relation}'")
                    values.append((value, begin, end))
                    position = _BLANKS.match(text, end).end()  # type: ignore[union-attr]
                else:
                    match = _VALUE.match(text, position)
                    if match is None:
                        raise self._no_value(text, position)
                    kind = match.lastgroup or ""
                    values.append((self._value(text, match, kind), match.start(kind), match.end(kind)))
                    position = match.end()
                mark = text[position : position + 1]
                position += 1
                if mark == ")":
                    break
                if mark != ",":
                    actual = repr(mark) if mark else "the end of the line"
                    raise self._error(text, f"expected ',' or ')', got {actual}", position - 1)
        if len(values) != schema.arity:
            message = f"relation '{relation}' has {self._columns(relation, schema)}, got {len(values)}"
            raise self._error(text, message, start, position, code="wrong-arity")
        ranges = self._ranges.get(relation, {})
        row = []
        for (value, begin, end), name, type_ in zip(values, schema.names, schema.types, strict=True):
            try:
                if type_.structure is not None:
                    row.append(value)
                    continue
                fitted = in_range(ranges.get(name), fit_value, type_, value)
            except ValueError as error:
                message = f"column '{name}' of relation '{relation}' expects {error}"
                raise self._error(text, message, begin, end, code=code_of(error)) from None
            row.append(fitted)
        return tuple(row), position

    def _columns(self, relation: str, schema: Schema) -> str:
        """Return the columns of a relation with their types, as declared if that is known."""
        columns = counted(schema.arity, "column")
        if not schema.arity:
            return columns
        return f"{columns} ({typed_columns(schema, self._type_names.get(relation, {}))})"

    def _term(self, text: str, type_: Type, position: int, column: str) -> tuple[Any, int, int]:
        """Read a record or a branch; return its value and the positions of its start and end."""
        blanks = _BLANKS.match(text, position)
        begin = blanks.end() if blanks else position

        def unquote(inside: str, offset: int) -> str:
            return _ESCAPE.sub(lambda escape: self._unescape(text, escape, offset), inside)

        try:
            value, end = read_term(type_, text, begin, unquote)
        except TermTextError as error:
            message = f"{column} expects {error}"
            raise self._error(text, message, error.start, error.end, code=code_of(error)) from None
        return value, begin, end

    def _value(self, text: str, match: re.Match[str], kind: str) -> Any:
        token = match[kind]
        if kind == "text":
            return _ESCAPE.sub(
                lambda escape: self._unescape(text, escape, match.start(kind) + 1), token[1:-1]
            )
        if kind == "word":
            return {"true": True, "false": False, "nil": None}[token]
        return read_number(token)

    def _unescape(self, text: str, escape: re.Match[str], offset: int) -> str:
        start = offset + escape.start()
        if escape[1]:  # a character beyond 16 bits, as two halves like in JSON
            return chr(0x10000 + (int(escape[1], 16) - 0xD800 << 10) + int(escape[2], 16) - 0xDC00)
        if escape[3]:
            character = chr(int(escape[3], 16))
            if _SURROGATE.match(character):
                message = f"{escape[0]} is only half of a surrogate pair"
                raise self._error(
                    text,
                    message,
                    start,
                    start + 6,
                    hint="write both escapes of the pair, such as \ud83d\ude00",
                )
            return character
        if escape[4] not in _ESCAPES:
            known = " ".join(f"\\{letter}" for letter in _ESCAPES)
            hint = f"the escapes are {known} and \\u0041"
            raise self._error(text, f"unknown escape {escape[0]}", start, start + 2, hint=hint)
        return _ESCAPES[escape[4]]

    # --- messages ---------------------------------------------------------------------------------

    def _error(
        self,
        text: str,
        message: str,
        start: int,
        end: int | None = None,
        hint: str | None = None,
        code: str = "invalid-line",
    ) -> DataError:
        span = SourceSpan(self.file, self.line, start + 1, self.line, (start + 1 if end is None else end) + 1)
        return DataError([Diagnostic(message, span, hint=hint, line_text=text, code=code)])

    def _unknown(self, text: str, relation: str, start: int, end: int) -> DataError:
        if relation in self._derived:
            names = ", ".join(self._inputs) or "none"
            message = f"relation '{relation}' is computed by rules; only input relations can be changed"
            hint = f"the input relations are {names}"
            return self._error(text, message, start, end, hint=hint, code="not-an-input")
        message, suggested = f"unknown relation '{relation}'", did_you_mean(relation, self._inputs)
        return self._error(text, message, start, end, hint=suggested, code="unknown-relation")

    def _not_a_change(self, text: str) -> DataError:
        start = len(text) - len(text.lstrip())
        hint = 'write +relation(1, "text") to insert, -relation(...) to delete, commit to end the tick'
        word = text.strip().rstrip(".;")
        verb = re.match(
            r"\s*(insert|delete|add|remove|assert|retract)\b\s*(?:into|from)?\s*", text, re.IGNORECASE
        )
        if near := did_you_mean(word, ["commit"]):
            message = f"expected a change or commit, got '{text.strip()}'"
            hint = "write commit" if word.lower() == "commit" else near
            return self._error(text, message, start, len(text), hint=hint)
        if verb and verb.end() < len(text):
            change = "+" if verb[1].lower() in ("insert", "add", "assert") else "-"
            hint = f"write {change}{text[verb.end() :].strip()}"
        elif match := re.match(r"\s*([A-Za-z_?][\w?.]*)\s*\(", text):
            hint = f"write + or - before '{match[1]}'"
        elif match := re.match(r"\s*[+-]\s*([A-Za-z_?][\w?.]*)", text):
            return self._error(text, f"expected '(' after '{match[1]}'", match.end(), hint=hint)
        return self._error(text, "expected a change or commit", start, len(text), hint=hint)

    def _no_value(self, text: str, position: int) -> DataError:
        tail = text[position:]
        position += len(tail) - len(tail.lstrip())
        tail = tail.strip()
        if tail.startswith('"'):
            return self._error(text, "this text has no closing quote", position, len(text))
        if not tail:
            return self._error(text, "expected a value, got the end of the line", position)
        word = re.match(r"[^\s,()]+", tail)
        end = position + (len(word[0]) if word else 1)
        hint = 'write a text in double quotes: "like this"' if word else None
        return self._error(text, "expected a number or a text in quotes", position, end, hint=hint)


def parse_change_script(lines: Iterable[str], reader: ChangeScriptReader) -> list[ScriptTick]:
    """Return all ticks of a script; a `commit` without changes before it is an empty tick.

    Raises DataError with up to ten problems; the caller must not apply any part of such a script.
    """
    ticks: list[ScriptTick] = []
    problems: list[Diagnostic] = []
    tick: ScriptTick | None = None
    for text in lines:
        try:
            change = reader.feed(text)
        except DataError as error:
            problems += error.diagnostics
            if len(problems) >= MAX_PROBLEMS:
                raise DataError(problems, more=True) from None
            continue
        if isinstance(change, CommitLine):
            if tick is None:
                tick = ScriptTick(change.line, change.line)
            tick.last_line = change.line
            ticks.append(tick)
            tick = None
            continue
        for each in change:
            if tick is None:
                tick = ScriptTick(each.line, each.line)
            tick.add(each)
    if problems:
        raise DataError(problems)
    if tick is not None:
        ticks.append(tick)
    return ticks


def read_change_script(
    path: str | Path,
    inputs: Mapping[str, Schema],
    *,
    derived: Collection[str] = (),
    ranges: Mapping[str, Mapping[str, IntRange]] | None = None,
    type_names: Mapping[str, Mapping[str, str]] | None = None,
) -> list[ScriptTick]:
    """Return the ticks of the change script at `path`; see `parse_change_script`.

    Raises InputError if the file cannot be read and DataError if it does not fit `inputs`.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise missing_file(str(path), "change script") from None
    except OSError as error:
        raise unreadable(str(path), error) from error
    refuse_binary(data, str(path))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("expected UTF-8 text", where=f"{path}:{line}", code="invalid-encoding") from None
    reader = ChangeScriptReader(inputs, str(path), derived=derived, ranges=ranges, type_names=type_names)
    return parse_change_script(text.split("\n"), reader)
