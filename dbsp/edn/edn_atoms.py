"""From the text of one token to its value: numbers, strings, chars, names, and tagged values."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any
from uuid import UUID

from dbsp.edn.edn_values import KEYWORD_TEXT, SYMBOL_TEXT, TAG_TEXT, Char, Keyword, Symbol, Tagged
from dbsp.edn.edn_writer import CHAR_NAMES, display_text
from dbsp.errors import shorten


class Problem(Exception):
    """A token is not valid. The reader turns it into an `EdnError` with the place of the token.

    `start` and `length` are the part of the token in question. `at` and `first` are indexes of two
    elements of a collection; the reader knows their places.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        hint: str | None = None,
        start: int = 0,
        length: int | None = None,
        at: int | None = None,
        first: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.start = start
        self.length = length
        self.at = at
        self.first = first


CONSTANTS: dict[str, Any] = {
    "nil": None,
    "true": True,
    "false": False,
    "##Inf": math.inf,
    "##-Inf": -math.inf,
    "##NaN": math.nan,
}

_DIGITS = r"[+-]?(?:0|[1-9][0-9]*)"
_INTEGER = re.compile(rf"({_DIGITS})N?")
_FLOAT = re.compile(rf"{_DIGITS}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_RATIO = re.compile(rf"({_DIGITS})/([0-9]+)")
_NUMBER_START = re.compile(r"[+\-]?\.?[0-9]")
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([tbnrf\"\\])|u([0-9a-fA-F]{4})|([0-7]{1,3})|(.))", re.DOTALL)
_SIMPLE = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "\\": "\\"}
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_HALF = re.compile("[\ud800-\udfff]")
_NAMED = {name: char for char, name in CHAR_NAMES.items()}
_INSTANT = re.compile(
    r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2})"
    r"(?:[Tt]([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?)?)?)?)?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))?"
)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def atom_value(token: str) -> Any:
    """Return the value of a token that is not a bracket. Raises Problem."""
    first = token[0]
    if "1" <= first <= "9" and len(token) < 19 and token.isascii() and token.isdigit():
        return int(token)
    if token in CONSTANTS:
        return CONSTANTS[token]
    if first == ":":
        if KEYWORD_TEXT.fullmatch(token, 1):
            return Keyword(token[1:])
        raise _bad_keyword(token)
    if first == '"':
        return _string(token)
    if first == "\\":
        return _char(token)
    if token.startswith('#"'):
        return _pattern(token)
    if _NUMBER_START.match(token):
        return _number(token)
    if SYMBOL_TEXT.fullmatch(token):
        return Symbol(token)
    raise _bad_name(token)


def _number(token: str) -> Any:
    try:
        if match := _INTEGER.fullmatch(token):
            return int(match[1])
        if token[-1] == "M" and _FLOAT.fullmatch(token, 0, len(token) - 1):
            return Decimal(token[:-1])
        if match := _RATIO.fullmatch(token):
            return Fraction(int(match[1]), int(match[2]))
    except ValueError:
        raise Problem("expected a number of at most 4300 digits", code="edn-number") from None
    except ZeroDivisionError:
        raise Problem("expected a denominator other than 0", code="edn-number") from None
    except InvalidOperation:
        raise Problem("the exponent is outside the range of a decimal", code="edn-number") from None
    if _FLOAT.fullmatch(token):
        value = float(token)
        if math.isinf(value):
            hint = "write ##Inf, or a decimal with the suffix M"
            raise Problem("the number is outside the range of a float", code="edn-number", hint=hint)
        return value
    raise Problem(f"expected a number, got {shorten(token)}", code="edn-number", hint=_number_hint(token))


def _number_hint(token: str) -> str | None:
    """Return what to write for a number of Clojure, Java or Python that EDN does not have."""
    sign = token[0] if token[0] in "+-" else ""
    digits = token[len(sign) :]
    if re.fullmatch(r"0[0-9]+[NM]?|0[0-9]+\.[0-9].*", digits):
        return f"numbers do not start with 0: write {sign}{digits.lstrip('0') or '0'}"
    if re.fullmatch(r"\.[0-9]+", digits):
        return f"write {sign}0{digits}"
    if re.fullmatch(r"[0-9]+\.", digits):
        return f"write {sign}{digits}0"
    if re.fullmatch(r"0[xX][0-9a-fA-F]+", digits):
        return f"write a decimal number: {sign}{int(digits, 16)}" if len(digits) < 60 else None
    if re.fullmatch(r"[0-9]+(_[0-9]+)+", digits):
        return f"write {sign}{digits.replace('_', '')}"
    if re.fullmatch(r"[0-9]+(-[0-9]+){1,2}.*", digits):
        return 'write instants as #inst "2024-01-31", other texts in quotes'
    return None


def _string(token: str) -> str:
    if "\\" not in token and token[-1] == '"' and len(token) > 1:
        return token[1:-1]
    if not _STRING.fullmatch(token):
        raise Problem("the string does not end", code="edn-bracket", hint='end it with "', length=1)
    try:
        text = _ESCAPE.sub(_unescaped, token[1:-1])
    except _BadEscape as error:
        raise error.problem from None
    if "\\u" in token and _HALF.search(text):
        text = _PAIR.sub(_joined, text)
        if _HALF.search(text):
            raise Problem(
                "the string has half of a surrogate pair",
                code="edn-escape",
                hint="write characters above \\uFFFF as they are, or as two \\u escapes",
            )
    return text


class _BadEscape(Exception):
    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def _unescaped(match: re.Match[str]) -> str:
    simple, unicode, octal, bad = match.groups()
    if simple:
        return _SIMPLE[simple]
    if unicode:
        return chr(int(unicode, 16))
    if octal and int(octal, 8) <= 0o377:
        return chr(int(octal, 8))
    hint = 'write \\\\ for a backslash; the escapes are \\t \\r \\n \\b \\f \\" \\\\ \\uFFFF and octal \\377'
    if bad == "u":
        hint = "\\u has four hexadecimal digits"
    shown = f"\\{bad}" if bad and bad.isprintable() else f"\\{octal}" if octal else "at the end of a line"
    start = match.start() + 1  # after the quote
    raise _BadEscape(
        Problem(f"unknown escape {shown}", code="edn-escape", hint=hint, start=start, length=len(match[0]))
    )


def _joined(match: re.Match[str]) -> str:
    return match[0].encode("utf-16", "surrogatepass").decode("utf-16")


def _char(token: str) -> Char:
    text = token[1:]
    if len(text) == 1:
        return Char(text)
    if text in _NAMED:
        return Char(_NAMED[text])
    if re.fullmatch(r"u[0-9a-fA-F]{4}", text):
        char = chr(int(text[1:], 16))
        if not _HALF.match(char):
            return Char(char)
        raise Problem(f"\\{text} is half of a surrogate pair", code="edn-escape")
    if re.fullmatch(r"o[0-3]?[0-7]{1,2}", text):
        return Char(chr(int(text[1:], 8)))
    if not text:
        hint = "write \\space, \\newline, \\tab or \\return"
        raise Problem("expected a character after the backslash", code="edn-token", hint=hint)
    raise Problem(
        f"expected a character, got {shorten(text)} after the backslash",
        code="edn-token",
        hint=f"the names of characters are {', '.join(_NAMED)}, and u00e9 or o351 for a code",
    )


def _pattern(token: str) -> Tagged:
    """Return the value of Clojure's `#"..."`, whose backslashes are part of the text."""
    if not _STRING.fullmatch(token, 1):
        raise Problem(
            "the regular expression does not end", code="edn-bracket", hint='end it with "', length=2
        )
    return Tagged("regex", token[2:-1])


def _bad_keyword(token: str) -> Problem:
    hint = None
    if token.startswith("::"):
        hint = f"EDN has no current namespace: write it out, such as :my.app/{token[2:] or 'name'}"
    elif token.count("/") > 1:
        hint = "a keyword has at most one slash; write dots in the namespace"
    elif token == ":":
        hint = "write the name immediately after the colon"
    return Problem(f"expected a keyword, got {shorten(token)}", code="edn-token", hint=hint)


def _bad_name(token: str) -> Problem:
    hint = None
    if token.startswith("##"):
        hint = "the values after ## are ##Inf, ##-Inf and ##NaN"
    elif token[0] in "'`":
        hint = f"EDN has no quote: leave out the {token[0]}"
    elif token[0] in "@^~":
        hint = f"{token[0]} is a sign of Clojure, which EDN does not have; leave it out"
    elif token.count("/") > 1:
        hint = "a symbol has at most one slash"
    return Problem(f"expected a symbol, got {shorten(token)}", code="edn-token", hint=hint)


def check_tag(token: str) -> None:
    """Raise Problem if `#tag` is not a tag, or `#:name` not the namespace of a map."""
    if token.startswith("#:"):
        if SYMBOL_TEXT.fullmatch(token, 2) and "/" not in token:
            return
        hint = 'write the name of a namespace, such as #:person{:name "Ada"}'
        raise Problem(f"expected a namespace, got {shorten(token)}", code="edn-tag", hint=hint)
    if TAG_TEXT.fullmatch(token, 1):
        return
    hints = {
        "#": "a tag starts with a letter immediately after the #",
        "#'": "EDN has no references to variables",
        "#?": "EDN has no reader conditionals",
        "##": "the values after ## are ##Inf, ##-Inf and ##NaN",
        "#!": "comments start with ;",
    }
    raise Problem(
        f"expected a tag, got {shorten(token)}", code="edn-tag", hint=hints.get(token[:2], hints["#"])
    )


def tagged_value(tag: str, value: Any) -> Any:
    """Return the value of a tag (without its #) with the value after it. Raises Problem."""
    if tag == "inst":
        return _instant(value)
    if tag == "uuid":
        if isinstance(value, str) and _UUID.fullmatch(value):
            return UUID(value)
        expected = 'text such as "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"'
        raise Problem(f"expected {expected} after #uuid, got {shown(value)}", code="edn-tag")
    if tag == "bytes":
        try:
            if isinstance(value, str):
                return base64.b64decode(value, validate=True)
            raise ValueError
        except ValueError:  # and its subclass of Base64
            message = f"expected text in Base64 after #bytes, got {shown(value)}"
            raise Problem(message, code="edn-tag") from None
    return Tagged(tag, value)


def _instant(value: Any) -> datetime:
    match = _INSTANT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        expected = 'a time of RFC 3339, such as "2024-01-31T10:20:30.123Z" or "2024-01-31"'
        raise Problem(f"expected {expected} after #inst, got {shown(value)}", code="edn-tag")
    year, month, day, hour, minute, second, fraction, sign, hours, minutes = match.groups()
    fraction = (fraction or "").ljust(6, "0")
    if fraction[6:].strip("0"):
        message = f"expected at most microseconds after #inst, got {shown(value)}"
        raise Problem(message, code="edn-tag", hint="leave out the digits after the sixth")
    date = int(year), int(month or "1"), int(day or "1")
    time = int(hour or "0"), int(minute or "0"), int(second or "0")
    try:
        zone: timezone = UTC
        if sign:
            if int(minutes) > 59:
                raise ValueError("offset minute must be in 0..59")
            offset = timedelta(hours=int(hours), minutes=int(minutes))
            zone = timezone(-offset if sign == "-" else offset)
        return datetime(*date, *time, int(fraction[:6]), zone).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        reason = _out_of_range(*date, *time) or error
        raise Problem(f"{shown(value)} after #inst is not a time: {reason}", code="edn-tag") from None


def _out_of_range(year: int, month: int, day: int, hour: int, minute: int, second: int) -> str | None:
    """Return which part of a time does not exist, or None, in the same words in every Python."""
    from calendar import monthrange  # imports the module `locale`

    days = monthrange(year, month)[1] if year and 1 <= month <= 12 else 31
    for name, number, least, most in (
        ("year", year, 1, 9999),
        ("month", month, 1, 12),
        ("day", day, 1, days),
        ("hour", hour, 0, 23),
        ("minute", minute, 0, 59),
        ("second", second, 0, 59),
    ):
        if not least <= number <= most:
            return f"{name} must be in {least}..{most}, not {number}"
    return None


def shown(value: Any) -> str:
    """Return the EDN text of a value, cut for messages."""
    text = display_text(value)
    return text if len(text) <= 60 else text[:57] + "..."


def duplicate(items: Sequence[Any], what: str, step: int = 1) -> Problem:
    """Return the Problem of the first key of a map, or element of a set, that occurs twice."""
    seen: dict[Any, int] = {}
    for index in range(0, len(items), step):
        value = items[index]
        if value in seen:
            earlier = items[seen[value]]
            break
        seen[value] = index
    hint: str | None = None
    if shown(value) == shown(earlier):
        message = f"duplicate {what} {shown(value)}"
    else:
        message = f"the {what}s {shown(earlier)} and {shown(value)} are equal"
        hint = "Python compares numbers and booleans by their value, and lists like vectors"
    return Problem(message, code="edn-duplicate", hint=hint, at=index, first=seen[value])
