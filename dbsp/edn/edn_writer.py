"""Writes Python values as EDN text.

>>> write({Keyword("name"): "Ada", Keyword("born"): 1815})
'{:name "Ada", :born 1815}'
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

from dbsp.edn.edn_values import Char, EdnList, EdnMap, Keyword, ReprIsEdn, Symbol, Tagged
from dbsp.errors import EdnError, shorten

MAX_DEPTH = 128
"""How deep collections, tags and discards may be nested: code that visits values may recurse."""

CHAR_NAMES = {
    "\n": "newline",
    " ": "space",
    "\t": "tab",
    "\r": "return",
    "\f": "formfeed",
    "\b": "backspace",
}

# Texts stay on one line, also for programs that end lines at the separators of Unicode.
_UNSAFE = re.compile(r"[\"\\\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def write(value: Any) -> str:
    """Return the EDN text of a value, on one line. `dbsp.edn.read` returns an equal value.

    Lists and tuples are vectors, dicts are maps. The elements of a set are sorted by their text, so
    that equal sets have equal texts. Ints of more than 64 bits end with N.

    Parameters:
        value: a value of the classes in the table of `docs/reference/edn.md`.

    Raises:
        EdnError: a value has another class, or EDN has no text for it: a naive datetime, half of a
            surrogate pair, an int of more than 4300 digits, more than 128 nested collections.

    Examples:
        >>> from decimal import Decimal
        >>> write([None, True, 2**70, Decimal("1.50"), "a\\nb", Keyword("a"), {1, 2}])
        '[nil true 1180591620717411303424N 1.50M "a\\\\nb" :a #{1 2}]'
    """
    return _text(value, 0, None)


def write_pretty(value: Any, width: int = 80) -> str:
    """Return the EDN text of a value, on several lines if it is wider than `width`.

    A wide collection has one element per line, and a wide map one key with its value; elements
    that are not collections fill the lines.

    Parameters:
        value: a value, as for `write`.
        width: the number of columns. A single wide text or name may exceed it.

    Raises:
        EdnError: as `write`.

    Examples:
        >>> print(write_pretty({Keyword("name"): "Ada", Keyword("friends"): [Keyword("a")] * 4}, width=28))
        {:name "Ada"
         :friends [:a :a :a :a]}
    """
    return _pretty(value, write(value), 0, width)


def display_text(value: Any) -> str:
    """Return the EDN text of any value for `repr`. Values without EDN text show their `repr`."""
    return _text(value, 0, repr)


def _text(value: Any, depth: int, other: Callable[[Any], str] | None) -> str:
    """Return the text of a value.

    `other` writes values without EDN text; with None they are errors.
    """
    kind = type(value)
    plain = _PLAIN.get(kind)
    if plain is None and kind not in _BRACKETS:
        kind = next((base for base in kind.__mro__ if base in _PLAIN or base in _BRACKETS), object)
        plain = _PLAIN.get(kind)
    if plain is not None:
        try:
            return plain(value)
        except EdnError:
            if other is not None:
                return other(value)
            raise
    if kind is object:
        if other is not None:
            return other(value)
        raise _not_writable(value, "which EDN does not have; convert it to a value of EDN")
    if depth == MAX_DEPTH:
        if other is not None:
            return "..."
        raise EdnError(f"expected at most {MAX_DEPTH} nested collections, got more", code="edn-depth")
    if kind is Tagged:
        return f"#{value.tag.text} {_text(value.value, depth + 1, other)}"
    opener, closer = _BRACKETS[kind]
    inner = depth + 1
    parts: list[str] = []
    # Without comprehensions, which take a second frame of Python's stack for every level.
    if kind is dict or kind is EdnMap:
        for key, item in value.items():
            parts.append(f"{_text(key, inner, other)} {_text(item, inner, other)}")
        return f"{{{', '.join(parts)}}}"
    for item in value:
        parts.append(_text(item, inner, other))
    if opener == "#{":
        parts.sort()
    return f"{opener}{' '.join(parts)}{closer}"


def _not_writable(value: Any, why: str) -> EdnError:
    """Return the error for a value without EDN text."""
    return EdnError(
        f"expected a value of EDN, got {shorten(value)} of type {type(value).__name__}, {why}",
        code="edn-not-writable",
    )


def _int_text(value: int) -> str:
    try:
        text = int.__repr__(value)
    except ValueError:  # the limit of Python, which reading has as well
        raise _not_writable(value, "which has more than 4300 digits") from None
    return text if -(2**63) <= value < 2**63 else text + "N"


def _float_text(value: float) -> str:
    if math.isfinite(value):
        return float.__repr__(value)
    return "##NaN" if math.isnan(value) else "##Inf" if value > 0 else "##-Inf"


def _decimal_text(value: Decimal) -> str:
    if not value.is_finite():
        raise _not_writable(value, "which EDN does not have; use a float")
    return f"{value}M"


def _fraction_text(value: Fraction) -> str:
    try:
        return f"{value.numerator}/{value.denominator}"
    except ValueError:
        raise _not_writable(value, "which has more than 4300 digits") from None


def _string_text(value: str) -> str:
    if _UNSAFE.search(value) is None:
        return f'"{value}"'
    return f'"{_UNSAFE.sub(lambda match: _escape(match[0]), value)}"'


def _escape(char: str) -> str:
    if "\ud800" <= char <= "\udfff":
        raise _not_writable(char, "which is half of a surrogate pair; correct the text")
    return _SHORT_ESCAPES.get(char) or f"\\u{ord(char):04x}"


def _char_text(value: Char) -> str:
    char = value.text
    if "\ud800" <= char <= "\udfff":
        raise _not_writable(char, "which is half of a surrogate pair; correct the text")
    if char.isprintable() or ord(char) > 0xFFFF:  # there is no escape of more than four digits
        return f"\\{CHAR_NAMES.get(char, char)}"
    return f"\\{CHAR_NAMES.get(char) or f'u{ord(char):04x}'}"


def _instant_text(value: datetime) -> str:
    if value.utcoffset() is None:
        raise _not_writable(value, "which has no zone; add one: value.replace(tzinfo=UTC)")
    try:
        utc = value.astimezone(UTC)
    except OverflowError:
        raise _not_writable(value, "which is outside the years 1 to 9999 in UTC") from None
    exact = "milliseconds" if utc.microsecond % 1000 == 0 else "microseconds"
    return f'#inst "{utc.replace(tzinfo=None).isoformat(timespec=exact)}Z"'


_PLAIN: dict[type, Callable[[Any], str]] = {
    type(None): lambda value: "nil",
    bool: lambda value: "true" if value else "false",
    int: _int_text,
    float: _float_text,
    Decimal: _decimal_text,
    Fraction: _fraction_text,
    str: _string_text,
    Char: _char_text,
    Keyword: repr,
    Symbol: repr,
    datetime: _instant_text,
    UUID: lambda value: f'#uuid "{value}"',
    bytes: lambda value: f'#bytes "{base64.b64encode(value).decode("ascii")}"',
}

_BRACKETS: dict[type, tuple[str, str]] = {
    tuple: ("[", "]"),
    list: ("[", "]"),
    EdnList: ("(", ")"),
    frozenset: ("#{", "}"),
    set: ("#{", "}"),
    dict: ("{", "}"),
    EdnMap: ("{", "}"),
    Tagged: ("#", ""),
}


def _pretty(value: Any, text: str, column: int, width: int) -> str:
    """Return a value, whose text on one line is `text`, on several lines from a column on."""
    if column + len(text) <= width or not isinstance(value, _COLLECTIONS):
        return text
    if isinstance(value, Tagged):
        start = f"#{value.tag.text} "
        return start + _pretty(value.value, write(value.value), column + len(start), width)
    opener, closer = next(_BRACKETS[base] for base in type(value).__mro__ if base in _BRACKETS)
    inner = column + len(opener)
    if isinstance(value, dict):
        lines = []
        for key, item in value.items():
            key_text = write(key)
            item_text = _pretty(item, write(item), inner + len(key_text) + 1, width - 1)
            lines.append(f"{key_text} {item_text}")
    else:
        texts = [(write(item), item) for item in value]
        if opener == "#{":
            texts.sort(key=lambda pair: pair[0])
        lines = []
        for item_text, item in texts:
            lines.append(_pretty(item, item_text, inner, width - 1))
        if not any(isinstance(item, _COLLECTIONS) for item in value):
            lines = _filled(lines, width - 1 - inner)
    return opener + ("\n" + " " * inner).join(lines) + closer


_COLLECTIONS = (tuple, list, frozenset, set, dict, Tagged)


def _filled(words: list[str], width: int) -> list[str]:
    """Return lines with as many words as their width allows."""
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


ReprIsEdn.text_of = staticmethod(display_text)
