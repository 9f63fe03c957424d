"""Lines and their cells where cells may be quoted, as RFC 4180 has it.

A cell that begins with a quotation mark ends at the next one that is not doubled; within it delimiters and
line ends are text. A cell that does not begin with one is taken as it stands.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import TypeAlias

Cell: TypeAlias = tuple[str, int, int, int]
"""A cell's text, and where it stands: its line, and in it the column and the length, counted from 0."""

_QUOTE = '"'


class Unbalanced(ValueError):
    """The text cannot be cut into cells from a place on: the number and the text of its line, the column."""

    def __init__(self, message: str, number: int, line: str, start: int) -> None:
        super().__init__(message)
        self.number = number
        self.line = line
        self.start = start


def lines_of(data: bytes) -> list[bytes]:
    """The lines without their ends; the last one may lack its end, and a byte order mark is no text."""
    lines = data.removeprefix(codecs.BOM_UTF8).split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix(b"\r") for line in lines]


def quoted_lines(data: bytes, delimiter: str, headers: bool) -> Iterator[tuple[int, str, list[Cell]]]:
    """Each row: the number and the text of its first line, and its cells.

    Cost: O(bytes). Raises Unbalanced where a quotation mark is left open, where a cell goes on behind the one
    that closes it, and where the text is not UTF-8.
    """
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        line = before.rpartition("\n")[2]
        raise Unbalanced("this is not UTF-8 text", before.count("\n") + 1, line, len(line)) from None
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
                raise Unbalanced("the cell goes on behind its closing quotation mark", number + 1, line, end)
            start = end + len(delimiter)
        number += 1
        if not (headers and first == 1):
            yield first, shown, cells


def _cell(lines: list[str], number: int, start: int, delimiter: str) -> tuple[Cell, int, int]:
    """The cell from there on, the line in which it ends, and the column behind it."""
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
                raise Unbalanced("this quotation mark is never closed", number + 1, line, start)
            continue
        parts.append(text[position:end])
        if text.startswith(_QUOTE, end + 1):
            parts.append(_QUOTE)
            position = end + 2
            continue
        length = end + 1 - start if at == number else len(line) - start
        return ("".join(parts), number + 1, start, length), at, end + 1
