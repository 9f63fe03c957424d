"""Documents: the description of a display, which the writers turn into HTML or terminal output.

A document holds text only, already shortened; the writers escape it. So a class that describes its
values bounds the size of their display, and cannot put markup into a page.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from itertools import islice
from typing import Any, TypeAlias
from uuid import UUID

from dbsp.errors import DbspError, shorten
from dbsp.lazy_dataclass import dataclass

_WRITTEN = (str, dt.date, dt.datetime, dt.time, dt.timedelta, Decimal, UUID)
"""The classes whose `str` is how a reader writes a value."""
WIDEST_CELL = 80
"""The number of characters of a value that a display shows."""


class Style(StrEnum):
    """The meaning of a piece of text; each writer has its colours."""

    PLAIN = "plain"
    MUTED = "muted"
    STRONG = "strong"
    ADDED = "added"
    REMOVED = "removed"
    KEYWORD = "keyword"
    NAME = "name"
    STRING = "string"
    NUMBER = "number"
    COMMENT = "comment"


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of text in one style."""

    text: str
    style: Style = Style.PLAIN


Line: TypeAlias = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """The head of a column: its name, its type, and whether its values are aligned to the right."""

    name: str
    type: str = ""
    numeric: bool = False
    key: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a row, and its style: `ADDED` and `REMOVED` colour the whole row."""

    cells: tuple[Span, ...]
    style: Style = Style.PLAIN


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns; `note` says what is not shown."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Code:
    """Lines in a font of fixed width."""

    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """A remark."""

    text: str


@dataclass(frozen=True, slots=True)
class Tree:
    """A line with the lines below it."""

    line: Line
    children: tuple[Tree, ...] = ()


@dataclass(frozen=True)
class Picture:
    """A drawing, made when a writer needs it; and the lines to show in its place."""

    draw: Callable[[], str] = field(repr=False)
    instead: Code

    @cached_property
    def drawn(self) -> tuple[str | None, str]:
        """The SVG text, or None and the reason, such as that Graphviz is missing."""
        try:
            return self.draw(), ""
        except DbspError as error:
            return None, error.message


@dataclass(frozen=True, slots=True)
class Section:
    """A part with a heading; a `folded` one is closed at first."""

    title: Line
    blocks: tuple[Block, ...]
    folded: bool = False


Block: TypeAlias = Table | Code | Note | Tree | Picture | Section


@dataclass(frozen=True, slots=True)
class Document:
    """The display of a value."""

    title: Line
    blocks: tuple[Block, ...] = ()

    def pictures(self) -> Iterator[Picture]:
        """Yield the pictures that are not within a section."""
        return (block for block in self.blocks if isinstance(block, Picture))


def line(*parts: str | Span) -> Line:
    """Return a line of spans; a string is a plain span.

    >>> line("a", Span("b", Style.MUTED))[1].style
    <Style.MUTED: 'muted'>
    """
    return tuple(Span(part) if isinstance(part, str) else part for part in parts)


def muted(text: str) -> Span:
    return Span(text, Style.MUTED)


def strong(text: str) -> Span:
    return Span(text, Style.STRONG)


def value_span(value: Any) -> Span:
    """Return a value as the text of a cell: strings and dates as written, None muted.

    >>> value_span("a\\nb").text, value_span(2.5).text, value_span(None).style
    ('a\\\\nb', '2.5', <Style.MUTED: 'muted'>)
    """
    if value is None:
        return muted("None")
    text = str(value) if type(value) in _WRITTEN else safe_repr(value)
    return Span(printable(text, WIDEST_CELL))


def printable(text: str, width: int | None = None) -> str:
    """Return text without invisible characters, cut to `width` characters."""
    if width is not None and len(text) > width:
        text = f"{text[: width - 3]}..."
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def safe_repr(value: Any) -> str:
    """Return `repr(value)` on one line, or the class if the `repr` of a caller's class raises."""
    try:
        return shorten(value, WIDEST_CELL)
    except Exception:  # any code of the caller's class; a display shows the other values all the same
        return f"<{type(value).__name__}>"


def code_of(text: str, limit: int) -> Code:
    """Return the first `limit` lines of a text, and how many more there are."""
    return Code(tuple(limited([line(printable(each)) for each in text.splitlines()], limit)))


def limited(lines: Sequence[Line], limit: int) -> Iterable[Line]:
    """Yield at most `limit` lines, and then the number of the others."""
    yield from islice(lines, limit)
    if len(lines) > limit:
        yield (muted(f"... and {len(lines) - limit:,} more lines"),)
