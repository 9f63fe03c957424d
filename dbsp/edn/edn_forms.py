"""EDN values with their places in the text.

A `Form` is a value, the stretch of text that it was read from, and the forms of its elements, so
that a message about any part of a query or transaction can show its line:

>>> from dbsp.edn import read_forms
>>> (form,) = read_forms("[:find ?x\\n :where [?x :age 3]]", "query.edn")
>>> print(form.items[3].items[1].diagnostic("unknown attribute :age", code="unknown-attribute"))
query.edn:2:13: error: unknown attribute :age [unknown-attribute]
     :where [?x :age 3]]
                ^^^^
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from dbsp.diagnostics import Diagnostic, SourceSpan
from dbsp.edn.edn_values import EdnList, EdnMap, Tagged
from dbsp.errors import EdnError

FormKind = Literal["list", "vector", "map", "set", "tagged", "atom"]

_KINDS: dict[type, FormKind] = {
    EdnList: "list",
    tuple: "vector",
    EdnMap: "map",
    frozenset: "set",
    Tagged: "tagged",
}


class SourceText:
    """The lines of a text, and the offset of the start of each.

    A stream appends lines while it reads; `line` is the number of the first one.
    """

    __slots__ = ("file", "line", "lines", "size", "starts")

    def __init__(self, file: str, line: int = 1) -> None:
        self.file = file
        self.line = line
        self.lines: list[str] = []
        self.starts: list[int] = []
        self.size = 0

    def append(self, line: str) -> int:
        """Append a line with its end, and return the offset of its start."""
        start = self.size
        self.lines.append(line)
        self.starts.append(start)
        self.size += len(line)
        return start

    def position(self, offset: int) -> tuple[int, int]:
        """The number of a line and a column, both from 1."""
        index = max(0, bisect_right(self.starts, offset) - 1)
        return index + self.line, offset - self.starts[index] + 1 if self.starts else 1

    def span(self, start: int, end: int) -> SourceSpan:
        """The span of the text from one offset to another."""
        return SourceSpan(self.file, *self.position(start), *self.position(end))

    def line_text(self, number: int) -> str:
        """The text of a line, without its end, such that it can be printed."""
        line = self.lines[number - self.line] if self.lines else ""
        return line.rstrip("\r\n").encode("utf-8", "replace").decode("utf-8")

    def diagnostic(
        self, message: str, span: SourceSpan, *, code: str, hint: str | None = None, note: str | None = None
    ) -> Diagnostic:
        """A message about a place of this text."""
        line = self.line_text(span.line)
        return Diagnostic(message, span, hint, line_text=line, note=note, code=code)


class Form:
    """A value and its place.

    Attributes:
        value: the EDN value. A value of the same text without places is equal.
        items: the forms of the elements of a list, vector or set in the order of the text; of a map
            its keys and values in turn; of a tagged value the form after the tag. Empty for others.
    """

    __slots__ = ("_source", "end", "items", "start", "value")

    def __init__(
        self, value: Any, source: SourceText, start: int, end: int, items: tuple[Form, ...] = ()
    ) -> None:
        self.value = value
        self.items = items
        self.start = start
        self.end = end
        self._source = source

    @property
    def span(self) -> SourceSpan:
        """The place of the value, from its first character to its last."""
        return self._source.span(self.start, self.end)

    @property
    def kind(self) -> FormKind:
        """Whether the value is a list, vector, map, set, a value with a tag, or an atom."""
        return _KINDS.get(type(self.value), "atom")

    def pairs(self) -> Iterator[tuple[Form, Form]]:
        """Return the keys of a map with their values, in the order of the text.

        Examples:
            >>> from dbsp.edn import read_forms
            >>> [(key.value, value.value) for key, value in read_forms("{:a 1 :b 2}")[0].pairs()]
            [(:a, 1), (:b, 2)]
        """
        return zip(self.items[::2], self.items[1::2], strict=True)

    def diagnostic(
        self, message: str, *, code: str, hint: str | None = None, note: str | None = None
    ) -> Diagnostic:
        """Return a message about this form, with its line and a caret.

        Parameters:
            message: what is wrong.
            code: the stable name of the cause.
            hint: what to do.
            note: further facts.

        Examples:
            >>> from dbsp.edn import read_forms
            >>> print(read_forms("[1 :b]")[0].items[1].diagnostic("unknown name", code="edn-token"))
            <edn>:1:4: error: unknown name [edn-token]
                [1 :b]
                   ^^
        """
        return self._source.diagnostic(message, self.span, code=code, hint=hint, note=note)

    def error(self, message: str, *, code: str, hint: str | None = None, note: str | None = None) -> EdnError:
        """Return an error about this form, with its line and a caret.

        Parameters:
            message: what is wrong.
            code: the stable name of the cause.
            hint: what to do.
            note: further facts.

        Examples:
            >>> from dbsp.edn import read_forms
            >>> read_forms(":b")[0].error("unknown name", code="edn-token").where
            '<edn>:1:1'
        """
        return located(message, self.diagnostic(message, code=code, hint=hint, note=note), code)

    def __repr__(self) -> str:
        return f"Form({self.value!r} at {self.span})"


def form_at(value: Any, source: SourceText, start: int, end: int) -> Form:
    """Return the form of a value whose parts all have the same place, such as a line of JSON."""
    if isinstance(value, EdnMap):
        parts: Iterable[Any] = (part for pair in value.items() for part in pair)
    elif isinstance(value, Tagged):
        parts = (value.value,)
    else:
        parts = value if isinstance(value, tuple | frozenset) else ()
    items = []
    for part in parts:
        items.append(form_at(part, source, start, end))
    return Form(value, source, start, end, tuple(items))


def located(message: str, diagnostic: Diagnostic, code: str) -> EdnError:
    """Return an EdnError at the place of a diagnostic."""
    error = EdnError(message, code=code)
    error.locate(diagnostic)
    return error
