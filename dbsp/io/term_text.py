"""Read records and branches of algebraic data types: `[1, [2, nil]]`, `$Add($Number(1), $Nothing)`.

The type determines how a text is read. In files, symbols end at the next comma or closing bracket,
or are in quotation marks, as in Soufflé. In change scripts they are always in quotation marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from dbsp.data.terms import Branch, Record
from dbsp.data.types import Constructor, Field, Structure, Type
from dbsp.errors import expect_present
from dbsp.io.cell_text import CELLS, code_of, in_range

_BLANKS = re.compile(r"[ \t]*")
_NAME = re.compile(r"\$[ \t]*([A-Za-z_?][A-Za-z0-9_?.]*)")
_NIL = re.compile(r"nil(?![A-Za-z0-9_?])")
_PLAIN = re.compile(r"[^,\[\]()]*")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)

Unquote: TypeAlias = Callable[[str, int], str]
"""From a text in quotation marks and its position to its value."""


class TermTextError(ValueError):
    """A text is not a value of the type: the expected form, and the columns, counted from 0."""

    def __init__(self, expected: str, start: int, end: int, code: str = "wrong-type") -> None:
        super().__init__(expected)
        self.code = code
        self.start = start
        self.end = max(end, start + 1)


def read_term(type_: Type, text: str, start: int = 0, unquote: Unquote | None = None) -> tuple[Any, int]:
    """Return the value that starts at `start`, and its end. O(length), however deep it is nested.

    With `unquote`, symbols are in quotation marks. Raises TermTextError.
    """
    structure = expect_present(type_.structure, "a type of constructed values")
    return _Reader(text, unquote).read(structure, start)


def read_cell(type_: Type, text: str) -> Any:
    """Return the value of a whole cell of a file. Raises TermTextError."""
    value, end = read_term(type_, text)
    end = _skip(text, end)
    if end < len(text):
        raise TermTextError("the end of the value", end, len(text))
    return value


def value_of(type_: Type, text: str) -> Any:
    """Return the value of a cell of any type. Raises ValueError with the expected form."""
    return CELLS[type_.kind](text) if type_.structure is None else read_cell(type_, text)


def cell_end(text: str, start: int, delimiter: str) -> int:
    """Return the end of a cell with a record or a branch: the next delimiter outside brackets."""
    depth = 0
    for at in range(start, len(text)):
        mark = text[at]
        if mark in "[(":
            depth += 1
        elif mark in "])":
            depth -= 1
        if depth <= 0 and text.startswith(delimiter, at):
            return at
    return len(text)


def _skip(text: str, position: int) -> int:
    found = _BLANKS.match(text, position)
    return found.end() if found is not None else position


class _Open:
    """A partly read value."""

    __slots__ = ("closing", "constructor", "parts", "structure")

    def __init__(self, structure: Structure, constructor: Constructor, closing: str) -> None:
        self.structure = structure
        self.constructor = constructor
        self.closing = closing
        self.parts: list[Any] = []

    def value(self) -> Any:
        return Branch(self.constructor.name, *self.parts) if self.constructor.name else Record(self.parts)


class _Reader:
    def __init__(self, text: str, unquote: Unquote | None) -> None:
        self.text = text
        self.unquote = unquote
        self.open: list[_Open] = []

    def read(self, structure: Structure, position: int) -> tuple[Any, int]:
        value, position = self.begin(structure, position)
        while self.open:
            top = self.open[-1]
            if value is not _NO_VALUE:
                top.parts.append(value)
                value = _NO_VALUE
            fields = top.constructor.fields
            position = _skip(self.text, position)
            if len(top.parts) == len(fields):
                position = self.expect(top.closing, position)
                value = self.open.pop().value()
                continue
            if top.parts:
                position = _skip(self.text, self.expect(",", position))
            field = fields[len(top.parts)]
            if field.type.structure is not None:
                value, position = self.begin(field.type.structure, position)
            else:
                value, position = self.plain(field, position)
        return value, position

    def begin(self, structure: Structure, position: int) -> tuple[Any, int]:
        """Read a value without parts, or start to read a value with parts, which is then open."""
        position = _skip(self.text, position)
        if structure.is_record:
            if nil := _NIL.match(self.text, position):
                return None, nil.end()
            if not self.text.startswith("[", position):
                shape = ", ".join(field.name for field in structure.constructors[0].fields)
                raise self.error(f"a record [{shape}] of type {structure.name}, or nil", position)
            self.open.append(_Open(structure, structure.constructors[0], "]"))
            return _NO_VALUE, position + 1
        name = _NAME.match(self.text, position)
        constructor = structure.by_name.get(name[1]) if name else None
        if name is None or constructor is None:
            known = ", ".join(f"${branch}" for branch in structure.by_name)
            raise self.error(f"a branch of {structure.name} ({known})", position)
        bracket = _skip(self.text, name.end())
        if not self.text.startswith("(", bracket):
            if constructor.fields:
                raise self.error(f"'(' and the arguments of ${constructor.name}", bracket)
            return Branch(constructor.name), name.end()
        self.open.append(_Open(structure, constructor, ")"))
        return _NO_VALUE, bracket + 1

    def plain(self, field: Field, position: int) -> tuple[Any, int]:
        """Read a part that is a number or a symbol."""
        end = self.plain_end(field, position)
        text = self.text[position:end]
        try:
            if field.type.kind != "str":
                value = in_range(field.range, value_of, field.type, text.strip())
            elif self.unquote is None:
                quoted = text.startswith('"') and _QUOTED.fullmatch(text)
                value = _ESCAPED.sub(r"\1", text[1:-1]) if quoted else text
            elif text.startswith('"'):
                value = self.unquote(text[1:-1], position + 1)
            else:
                raise ValueError("a text in double quotes")
        except ValueError as error:
            message = f"{error} in field '{field.name}'"
            raise TermTextError(message, position, end, code_of(error)) from None
        return value, end

    def plain_end(self, field: Field, position: int) -> int:
        quoted = _QUOTED.match(self.text, position)
        if quoted is not None and (self.unquote is not None or self._ends(quoted.end())):
            return quoted.end()
        if field.type.kind == "str" and self.unquote is None:
            found_at = [self.text.find(mark, position) for mark in (",", self.open[-1].closing)]
            return min((at for at in found_at if at >= 0), default=len(self.text))
        found = _PLAIN.match(self.text, position)
        return found.end() if found is not None else position

    def _ends(self, position: int) -> bool:
        """Whether a field may end here."""
        return self.text.startswith((",", self.open[-1].closing), _skip(self.text, position))

    def expect(self, mark: str, position: int) -> int:
        if not self.text.startswith(mark, position):
            raise self.error(f"'{mark}'", position)
        return position + len(mark)

    def error(self, expected: str, position: int) -> TermTextError:
        match = _PLAIN.match(self.text, position)
        return TermTextError(expected, position, match.end() if match else position)


_NO_VALUE = object()
