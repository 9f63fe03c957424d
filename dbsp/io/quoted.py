"""Split lines into cells that may be quoted, as in RFC 4180.

A cell that starts with a quotation mark ends at the next quotation mark that is not doubled;
delimiters and line ends within the cell are text. A cell that does not start with a quotation mark
is read without changes.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

Cell: TypeAlias = tuple[str, int, int, int]
"""The text of a cell, the number of its line, and in that line its column (from 0) and length."""

_QUOTE = '"'


class Unbalanced(ValueError):
    """The text cannot be split into cells: the number and text of the line, and the column."""

    def __init__(self, message: str, number: int, line: str, start: int, code: str = "invalid-line") -> None:
        super().__init__(message)
        self.code = code
        self.number = number
        self.line = line
        self.start = start


def lines_of(data: bytes) -> list[bytes]:
    """Return the lines without line ends and byte order mark; the last line may lack its end."""
    lines = data.removeprefix(codecs.BOM_UTF8).split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix(b"\r") for line in lines]


def is_plainly_quoted(data: bytes, delimiter: bytes) -> bool:
    """Return whether every quotation mark begins or ends a cell on one line, or is doubled within.

    All readers of RFC 4180 read such lines in the same way. `delimiter` is one byte. O(bytes).
    """
    if delimiter == _QUOTE.encode():
        return False
    text = np.frombuffer(b"\n" + data + b"\n", np.uint8)
    marks = np.flatnonzero(text == ord(_QUOTE))
    if len(marks) % 2:
        return False
    first, last = marks[::2], marks[1::2]
    doubled = first[1:] == last[:-1] + 1
    separates = np.zeros(256, np.bool_)
    separates[[ord("\n"), ord("\r"), ord(delimiter)]] = True
    begins, ends = separates[text[first - 1]], separates[text[last + 1]]
    begins[1:] |= doubled
    ends[:-1] |= doubled
    line_ends = np.flatnonzero(text == ord("\n"))
    on_one_line = np.searchsorted(line_ends, first) == np.searchsorted(line_ends, last)
    return bool(begins.all() and ends.all() and on_one_line.all())


def quoted_lines(data: bytes, delimiter: str, headers: bool) -> Iterator[tuple[int, str, list[Cell]]]:
    """Yield of each row the number and the text of its first line, and its cells.

    Cost: O(bytes). Raises Unbalanced for a quotation mark that is not closed, for text behind a
    closing quotation mark, and for text that is not UTF-8.
    """
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        line = before.rpartition("\n")[2]
        number, message = before.count("\n") + 1, "expected UTF-8 text"
        raise Unbalanced(message, number, line, len(line), "invalid-encoding") from None
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    number = 0
    while number < len(lines):
        first, shown = number + 1, lines[number].removesuffix("\r")
        cells, start = [], 0
        while True:
            cell, number, end = _cell(lines, number, start, delimiter)
            cells.append(cell)
            line = lines[number].removesuffix("\r")
            if end >= len(line):
                break
            if not line.startswith(delimiter, end):
                message = f"expected {delimiter!r} or the end of the line after the closing quotation mark"
                raise Unbalanced(message, number + 1, line, end)
            start = end + len(delimiter)
        number += 1
        if not (headers and first == 1):
            yield first, shown, cells


def _cell(lines: list[str], number: int, start: int, delimiter: str) -> tuple[Cell, int, int]:
    """Return the cell that starts here, the line in which it ends, and the column behind it."""
    line = lines[number].removesuffix("\r")
    if not line.startswith(_QUOTE, start):
        end = line.find(delimiter, start)
        end = len(line) if end < 0 else end
        return (line[start:end], number + 1, start, end - start), number, end
    parts: list[str] = []
    at, position = number, start + 1
    while True:
        text = lines[at]
        end = text.find(_QUOTE, position)
        if end < 0:
            parts.append(text[position:] + "\n")
            at, position = at + 1, 0
            if at == len(lines):
                raise Unbalanced("this quotation mark is not closed", number + 1, line, start)
            continue
        parts.append(text[position:end])
        if text.startswith(_QUOTE, end + 1):
            parts.append(_QUOTE)
            position = end + 2
            continue
        length = end + 1 - start if at == number else len(line) - start
        return ("".join(parts), number + 1, start, length), at, end + 1
