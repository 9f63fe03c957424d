"""Splits EDN text into tokens, and combines their values.

One regular expression finds the tokens, and an explicit stack holds the open collections. A builder
creates the results: values alone, or forms with their places (see `edn_builders`). Since the parser
is the same, both accept the same texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Protocol

from dbsp.edn.edn_atoms import Problem, check_tag
from dbsp.edn.edn_values import READ_TAGS
from dbsp.edn.edn_writer import MAX_DEPTH

# White space and comments, then a token, or nothing at the end of the text. The quantifiers are
# possessive, so that no text takes more than linear time. A string without end is a token too.
_BLANK = r"[\s,\ufeff]"
_REST = r"[^\s,()\[\]{}\"\\;\ufeff]*+"
TOKEN = re.compile(
    rf"{_BLANK}*+(?:;[^\n]*+{_BLANK}*+)*+("
    rf"[^\s,()\[\]{{}}\"\\;#\ufeff]{_REST}"
    r"|[()\[\]{}]"
    r'|"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
    r'|\#(?:_|\{|"[^"\\]*+(?:\\.[^"\\]*+)*+"?|' + _REST + ")"
    rf"|\\\S?{_REST}"
    r"|\Z)",
    re.DOTALL,
)
STRING_END = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)

_OPENERS = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_CLOSERS = {"]", ")", "}"}
_MISSING = object()
_NAMES = {"[": "vector", "(": "list", "{": "map", "#{": "set"}


class Builder(Protocol):
    """Creates the results of a parser. Its methods raise what `error` returns."""

    start: int
    """The offset of the current token, if the builder needs offsets."""

    known: dict[str, Any]
    """Results of tokens that occurred before."""

    def atom(self, token: str) -> Any:
        """The result of the current token, which is not a bracket."""

    def collection(self, opener: str, items: list[Any], start: int) -> Any:
        """The result of a collection that starts at an offset and ends with the current token."""

    def tagged(self, tag: str, item: Any, start: int) -> Any:
        """The result of `#tag item` or `#:namespace{...}`."""

    def error(self, problem: Problem, token: str, start: int, opened: int | None = None) -> Exception:
        """The exception for a problem of a token at an offset; `opened` is that of a bracket."""


class Parser:
    """Reads tokens; `results` are the values, or forms, outside all collections."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.results: list[Any] = []
        self._items = self.results
        self._opener = ""
        self._start = 0  # the offset of the opener
        self._prefix = False  # whether the opener is a tag or `#_`, which ends after one value
        self._depth = 0
        self._stack: list[tuple[str, list[Any], int, bool]] = []

    @property
    def is_open(self) -> bool:
        """Whether a collection, tag or discard has not ended yet."""
        return bool(self._stack)

    def feed(self, tokens: Iterable[str]) -> None:
        """Read tokens to the empty one, which ends the text. Raises the builder's exception."""
        builder, known, stack = self.builder, self.builder.known, self._stack
        atom, collection = builder.atom, builder.collection
        items, opener, start = self._items, self._opener, self._start
        prefix, depth = self._prefix, self._depth
        for token in tokens:
            value = known.get(token, _MISSING)
            if value is _MISSING:
                if token in _OPENERS:
                    stack.append((opener, items, start, prefix))
                    opener, items, start, prefix = token, [], builder.start, False
                    depth += 1
                    if depth > MAX_DEPTH:
                        raise self._too_deep(token)
                    continue
                if token in _CLOSERS:
                    if _OPENERS.get(opener) != token:
                        raise self._unmatched(opener, start, token)
                    value = collection(opener, items, start)
                    opener, items, start, prefix = stack.pop()
                    depth -= 1
                elif not token:
                    break
                elif token[0] == "#" and token[1:2] not in ("#", '"'):
                    if token != "#_":
                        self._check(token)
                        depth += token[1:] not in READ_TAGS
                        if depth > MAX_DEPTH:
                            raise self._too_deep(token)
                    stack.append((opener, items, start, prefix))
                    opener, items, start, prefix = token, [], builder.start, True
                    continue
                else:
                    value = atom(token)
            items.append(value)
            while prefix and items:
                if opener != "#_":
                    value = builder.tagged(opener, value, start)
                    depth -= opener[1:] not in READ_TAGS
                    opener, items, start, prefix = stack.pop()
                    items.append(value)
                else:
                    opener, items, start, prefix = stack.pop()
        self._items, self._opener, self._start = items, opener, start
        self._prefix, self._depth = prefix, depth

    def finish(self) -> None:
        """Raise an exception if a collection, tag or discard is open at the end of the text."""
        opener = self._opener
        if self._prefix:
            message = f"expected a value after {opener}, got the end of the text"
            raise self.builder.error(Problem(message, code="edn-bracket"), opener, self._start)
        if self._stack:
            message = f"the {_NAMES[opener]} that starts here does not end"
            problem = Problem(message, code="edn-bracket", hint=f"end it with {_OPENERS[opener]}")
            raise self.builder.error(problem, opener, self._start)

    def _check(self, tag: str) -> None:
        try:
            check_tag(tag)
        except Problem as problem:
            raise self.builder.error(problem, tag, self.builder.start) from None

    def _too_deep(self, token: str) -> Exception:
        message = f"expected at most {MAX_DEPTH} nested collections, got more"
        return self.builder.error(Problem(message, code="edn-depth"), token, self.builder.start)

    def _unmatched(self, opener: str, start: int, token: str) -> Exception:
        opened = None
        hint = None
        if not opener:
            message, hint = f"{token} closes nothing", f"remove the {token}"
        elif opener in _OPENERS:
            message, opened = f"expected {_OPENERS[opener]}, got {token}", start
        else:
            message = f"expected a value after {opener}, got {token}"
            hint = "#_ discards the value after it" if opener == "#_" else None
        problem = Problem(message, code="edn-bracket", hint=hint)
        return self.builder.error(problem, token, self.builder.start, opened)
