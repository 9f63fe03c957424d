"""The regular expressions of Soufflé: those of ECMAScript, as in C++'s `std::regex`.

A pattern is translated to the notations of Python's `re` and of RE2 (see `regex_matching`). Syntax
that only these two support is refused, so a pattern is valid here if it is valid in Soufflé.
Differences that remain: text is compared by code points, not by bytes (`.` is one character, of any
length in UTF-8), and classes such as `\\w` and `[[:alpha:]]` contain only ASCII, as in C's locale.
"""

from __future__ import annotations

import functools
import math
import re
import warnings
from collections.abc import Callable

from dbsp.data.types import BOOL, STR
from dbsp.errors import expect_present, shorten
from dbsp.expressions.functions import Overload, define, overloads
from dbsp.expressions.nodes import Operation
from dbsp.expressions.regex_matching import Pattern
from dbsp.lazy_dataclass import dataclass


class RegexError(ValueError):
    """A pattern is not a regular expression; the message is the reason."""


class RegexWarning(UserWarning):
    """A pattern in the rows of a relation is not a regular expression."""


_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "d": "0-9",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~",
    "s": r" \t\n\r\f\v",
    "space": r" \t\n\r\f\v",
    "upper": "A-Z",
    "w": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_ESCAPED_CONTROLS = {"f": r"\f", "n": r"\n", "r": r"\r", "t": r"\t", "v": r"\v", "0": r"\x00"}
_QUANTIFIER = re.compile(r"\*|\+|\?|\{([0-9]+)(?:,([0-9]*))?\}")
_CODE = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})")
_MOST_REPEATS = 100_000
_ANY = "[^\\n\\r\u2028\u2029]"
_EVERY = f"\\x00-{chr(0x10FFFF)}"
_NEGATED = {
    "D": rf"\x00-/:-{chr(0x10FFFF)}",
    "S": rf"\x00-\x08\x0e-\x1f!-{chr(0x10FFFF)}",
    "W": rf"\x00-/:-@\[-\^`\{{-{chr(0x10FFFF)}",
}
"""The characters outside a class, as members of a bracket."""


@dataclass(frozen=True)
class _Notation:
    """The syntax in which the two notations differ."""

    end: str
    boundary: str


_PYTHON, _RE2 = _Notation(r"\Z", r"(?a:\{})"), _Notation(r"\z", r"\{}")


@dataclass
class _Group:
    """An open group: whether it is a look-ahead, and the number of ways to match it."""

    ahead: bool = False
    degree: float = 0
    inside: float = 0


class _Reader:
    """Reads a pattern once, from left to right, and translates it to a notation."""

    def __init__(self, pattern: str, notation: _Notation) -> None:
        self.pattern = pattern
        self.notation = notation
        self.at = 0
        self.out: list[str] = []
        self.regular = True
        """Whether the pattern has neither look-ahead nor back references."""
        self.groups = [_Group()]
        self.closed: _Group | None = None
        """The group that ends at the current position."""

    @property
    def degree(self) -> float:
        """The degree of a polynomial of the text's length that bounds the number of ways to match.

        Infinite if no polynomial is a bound.
        """
        return self.groups[0].degree + self.groups[0].inside

    def translated(self) -> str:
        depth = 0
        repeatable = False  # whether a quantifier may follow
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            quantifier = _QUANTIFIER.match(self.pattern, self.at)
            if quantifier:
                if not repeatable:
                    raise RegexError(f"'{quantifier.group()}' has nothing to repeat")
                self._quantifier(quantifier)
                repeatable = False
                continue
            repeatable = True
            self.closed = None
            if char == "(":
                depth += 1
                repeatable = False
                self._open()
            elif char == ")":
                depth -= 1
                if depth < 0:
                    raise RegexError("a ')' has no '('")
                self._plain(")")
                self._close()
            elif char == "[":
                self.out.append(self._bracket())
            elif char == "\\":
                repeatable = self._escape()
            elif char in "^$|":
                repeatable = False
                self.groups[-1].degree += char == "|"
                self._plain({"$": self.notation.end, "^": r"\A"}.get(char, char))
            elif char == ".":
                self._plain(_ANY)
            elif char == "{":
                raise RegexError("a '{' does not start a number of repetitions")
            else:
                self._plain(re.escape(char))
        if depth:
            raise RegexError("a '(' is never closed")
        return "".join(self.out)

    def _plain(self, text: str) -> None:
        self.out.append(text)
        self.at += 1

    def _quantifier(self, quantifier: re.Match[str]) -> None:
        low, high = quantifier.groups()
        if low is not None and any(int(n[:9]) > _MOST_REPEATS for n in (low, high or "0")):
            raise RegexError(f"'{quantifier.group()}' repeats too often")
        if high and int(low) > int(high):
            raise RegexError(f"'{quantifier.group()}' has its numbers in the wrong order")
        ways = self.closed.degree + self.closed.inside if self.closed else 0
        self.groups[-1].degree += 1 + (ways * _most_repeats(quantifier) if ways else 0)
        self.closed = None
        self.at = quantifier.end()
        lazy = self.pattern[self.at : self.at + 1] == "?"
        self.at += lazy
        self.out.append(quantifier.group() + "?" * lazy)

    def _open(self) -> None:
        for start in ("(?:", "(?=", "(?!"):
            if self.pattern.startswith(start, self.at):
                self.out.append(start)
                self.at += 3
                self.groups.append(_Group(ahead=start != "(?:"))
                self.regular = self.regular and start == "(?:"
                return
        if self.pattern.startswith("(?", self.at):
            raise RegexError("expected a group that starts with '(', '(?:', '(?=' or '(?!'")
        self._plain("(")
        self.groups.append(_Group())

    def _close(self) -> None:
        """Close a group. A look-ahead is not retried if a later part fails: its ways add up."""
        self.closed = self.groups.pop()
        around = self.groups[-1]
        if self.closed.ahead:
            around.inside = max(around.inside, self.closed.degree + self.closed.inside)
        else:
            around.degree += self.closed.degree
            around.inside = max(around.inside, self.closed.inside)

    def _escape(self) -> bool:
        """Read an escape outside of brackets; return whether it may be repeated."""
        char = self.pattern[self.at + 1 : self.at + 2]
        if char in ("b", "B"):
            self.at += 2
            self.out.append(self.notation.boundary.format(char))
            return False
        if char.isdigit() and char != "0":
            found = re.compile("[0-9]+").match(self.pattern, self.at + 1)
            number = expect_present(found, "the number of a group")
            self.at = number.end()
            self.out.append(rf"(?:\{number.group()})")
            self.regular = False
            return True
        members = self._member()
        self.out.append(f"[{members}]")
        return True

    def _member(self) -> str:
        """Read an escape for a character or a class of characters, as a member of a bracket."""
        char = self.pattern[self.at + 1 : self.at + 2]
        if not char:
            raise RegexError("a '\\' is the last character")
        code = _CODE.match(self.pattern, self.at + 1)
        if code:
            self.at = code.end()
            return re.escape(chr(int(code.group(1) or code.group(2), 16)))
        if char == "c" and (letter := self.pattern[self.at + 2 : self.at + 3]).isalpha() and letter.isascii():
            self.at += 3
            return rf"\x{ord(letter) % 32:02x}"
        self.at += 2
        if char in _ESCAPED_CONTROLS:
            return _ESCAPED_CONTROLS[char]
        if char in "dsw":
            return _POSIX[char]
        if char in "DSW":
            return _NEGATED[char]
        if char.isalnum() or char == "_":
            raise RegexError(f"unknown escape '\\{char}'")
        return re.escape(char)

    def _bracket(self) -> str:
        """Read `[...]`; negated classes such as `\\D` become ranges."""
        self.at += 1
        negated = self.pattern.startswith("^", self.at)
        self.at += negated
        members: list[str] = []
        while True:
            if self.at >= len(self.pattern):
                raise RegexError("a '[' is never closed")
            if self.pattern[self.at] == "]":
                self.at += 1
                break
            low = self._in_bracket()
            dash = self.pattern.startswith("-", self.at) and not self.pattern.startswith("-]", self.at)
            if dash and self.at + 1 < len(self.pattern):
                self.at += 1
                high = self._in_bracket()
                if not (_is_character(low) and _is_character(high)) or _code(low) > _code(high):
                    raise RegexError(f"'{low}-{high}' is not a range of characters")
                members.append(f"{low}-{high}")
            else:
                members.append(low)
        inside = "".join(members)
        if not inside:
            return f"[{_EVERY}]" if negated else f"[^{_EVERY}]"
        return f"[^{inside}]" if negated else f"[{inside}]"

    def _in_bracket(self) -> str:
        char = self.pattern[self.at]
        if char == "\\":
            if self.pattern[self.at + 1 : self.at + 2] == "b":
                self.at += 2
                return r"\x08"
            return self._member()
        if char == "[" and self.pattern[self.at + 1 : self.at + 2] in (":", ".", "="):
            mark = self.pattern[self.at + 1]
            end = self.pattern.find(f"{mark}]", self.at + 2)
            name = self.pattern[self.at + 2 : end]
            if end < 0 or (mark == ":" and name not in _POSIX) or (mark != ":" and len(name) != 1):
                raise RegexError(f"'[{mark}' does not start a class of characters")
            self.at = end + 2
            return _POSIX[name] if mark == ":" else re.escape(name)
        self.at += 1
        return re.escape(char)


def _most_repeats(quantifier: re.Match[str]) -> float:
    low, high = quantifier.groups()
    if low is None:
        return 1 if quantifier.group() == "?" else math.inf
    if high is None:
        return int(low)
    return int(high) if high else math.inf


def _is_character(member: str) -> bool:
    """Whether a member of a bracket is a single character."""
    return len(member) == 1 or (
        member[0] == "\\" and (len(member) == 2 or (len(member) == 4 and member[1] == "x"))
    )


def _code(member: str) -> int:
    if len(member) == 4:
        return int(member[2:], 16)
    return ord({"f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}.get(member[1:], member[-1]))


@functools.lru_cache(maxsize=1024)
def compiled(pattern: str) -> Pattern:
    """Compile a pattern of ECMAScript. Raises RegexError.

    >>> compiled("fo{2}b.*").fullmatch("foobar")
    True
    """
    reader = _Reader(pattern, _PYTHON)
    try:
        plain = re.compile(reader.translated())
        for_re2 = _Reader(pattern, _RE2).translated() if reader.regular else None
        return Pattern(pattern, plain, for_re2, reader.degree)
    except (re.error, OverflowError, RecursionError) as error:
        raise RegexError(str(error)) from None


def _test(wanted: bool) -> Callable[[str, str], bool]:
    def test(text: str, pattern: str) -> bool:
        try:
            return compiled(pattern).fullmatch(text) is wanted
        except RegexError as error:
            _warn(pattern, str(error))
            return False

    return test


def _warn(pattern: str, problem: str) -> None:
    warnings.warn(
        f"{shorten(pattern)} is not a regular expression, so match and !match are both false: {problem}",
        RegexWarning,
        stacklevel=2,
    )


for _name, _wanted in (("ecmascript_match", True), ("ecmascript_mismatch", False)):
    define(
        _name,
        f"{_name} expects a string and a pattern",
        overloads(Overload((STR, STR), BOOL, Operation(_test(_wanted), fallible=True))),
    )
