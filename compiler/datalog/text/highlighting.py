"""Program text in colours: comments, strings, numbers, directives and the names of relations."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dbsp.display.document import Line, Span, Style, printable

_TOKEN = re.compile(
    r"""
    (?P<comment>//.*|/\*(?:.|\n)*?(?:\*/|\Z))
  | (?P<string>"(?:\\.|[^"\\\n])*"?)
  | (?P<keyword>(?:(?<=\s)|^)[.#][a-z_]+|:-|\b(?:count|sum|min|max|mean)\b(?=\s*[:\w({])|!(?!=))
  | (?P<number>\b(?:0[xb][0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\b)
  | (?P<name>[A-Za-z_?][\w?.]*(?=\())
    """,
    re.VERBOSE | re.MULTILINE,
)


def highlighted(text: str) -> list[Line]:
    """Return the lines of a program text in colours; any text has some, also one with errors.

    >>> [span.text for span in highlighted("p(x) :- q(x).")[0] if span.style == "name"]
    ['p', 'q']
    """
    lines: list[list[Span]] = [[]]
    for span in _spans(text):
        first, *others = span.text.split("\n")
        lines[-1].append(Span(printable(first), span.style))
        lines += [[Span(printable(other), span.style)] for other in others]
    return [tuple(span for span in spans if span.text) for spans in lines]


def _spans(text: str) -> Iterator[Span]:
    at = 0
    for found in _TOKEN.finditer(text):
        if found.start() > at:
            yield Span(text[at : found.start()])
        yield Span(found[0], Style(str(found.lastgroup)))
        at = found.end()
    if at < len(text):
        yield Span(text[at:])
