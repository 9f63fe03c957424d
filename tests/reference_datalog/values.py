"""Values and functions of the language, computed in plain Python."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import AnyKind, Kind
from dbsp.data.terms import Branch

Value: TypeAlias = int | float | str | tuple[Any, ...] | Branch | None
Row: TypeAlias = tuple[Value, ...]
Relations: TypeAlias = Mapping[str, set[Row]]
Bindings: TypeAlias = dict[str, Value]
Ranges: TypeAlias = Mapping[str, syntax.Call]
Condition: TypeAlias = syntax.Literal | tuple[syntax.Term, Value]  # the pair: the term has the value


class NoValueError(Exception):
    """A term has no value: a zero divisor, text that is not a number, a result out of range."""


class EmptyError(Exception):
    """An aggregate over no bindings has no value; its rule derives nothing."""


class TooLargeError(Exception):
    """A relation has more rows than the limit; the recursion may be unbounded."""


def range_values(start: Any, end: Any, step: Any = None) -> list[Any]:
    """The values from the start in equal steps, up to the end, which is excluded."""
    step = (1 if start <= end else -1) if step is None else step
    if step == 0:
        return [start] if start != end else []
    values = []
    while start < end if step > 0 else start > end:
        values.append(start)
        start += step
        if len(values) > 1_000:
            raise TooLargeError("range")
    return values


def compare(operator: str, a: Any, b: Any) -> bool:
    if operator in ("=", "!="):
        return bool((a == b) == (operator == "="))
    return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator]


def test_text(operator: str, part: str, text: str) -> bool:
    """`contains`, and `match` for patterns with the same meaning in Python and in ECMAScript."""
    if operator.endswith("contains"):
        return (part in text) == (operator == "contains")
    try:
        return (re.fullmatch(part, text) is not None) == (operator == "match")
    except re.error:
        return False


def in_range(value: Value, kind: AnyKind, word: int = 64) -> Value:
    if kind_is_int(kind):
        assert type(value) is int
        # An unsigned of 64 bits must not have its highest bit set.
        half = 2 ** (word - 1)
        least, most = (-half, half) if kind is Kind.NUMBER else (0, half if word == 64 else 2 * half)
        if not least <= value < most:
            raise NoValueError(f"expected a {kind.value}, got {value}")
    return value


def kind_is_int(kind: AnyKind) -> bool:
    return kind in (Kind.NUMBER, Kind.UNSIGNED)


def wrapped(value: int, kind: AnyKind) -> int:
    value %= 2**32
    return value - 2**32 if kind is Kind.NUMBER and value >= 2**31 else value


def converted(value: float, kind: AnyKind) -> int:
    """The conversion of a float by x86-64: with 32 bits for a number, with 64 for an unsigned."""
    bits = 32 if kind is Kind.NUMBER else 64
    least = -(2 ** (bits - 1))
    return int(value) if math.isfinite(value) and least <= int(value) < -least else least


def call(function: str, values: list[Any], kind: AnyKind, result: AnyKind) -> Value:
    """A function of the language applied to values of a kind, without a check of the range."""
    match function, values:
        case "cat", _:
            return "".join(values)
        case "+", [a, b]:
            return a + b
        case "-", [a]:
            return -a
        case "-", [a, b]:
            return a - b
        case "*", [a, b]:
            return a * b
        case (("/" | "%" | "^"), [a, b]):
            return divide(function, a, b, result) if function != "^" else power(a, b, result)
        case "strlen", [text]:
            return len(text)
        case "substr", [text, start, count]:
            if start < 0 or start > len(text):
                return ""
            return text[start:] if count < 0 else text[start : start + count]
        case "min", _:
            return min(values)
        case "max", _:
            return max(values)
        case "to_string", [a]:
            return f"{a:f}" if kind is Kind.FLOAT else str(a)
        case "land", [a, b]:
            return int(a != 0 and b != 0)
        case "lor", [a, b]:
            return int(a != 0 or b != 0)
        case "lxor", [a, b]:
            return int((a != 0) != (b != 0))
        case "lnot", [a]:
            return int(a == 0)
        case (("to_number" | "to_unsigned" | "itou" | "ftoi" | "ftou" | "utoi"), [a]):
            try:
                return int(a)
            except (ValueError, OverflowError):
                raise NoValueError(f"expected an integer, got {a!r}") from None
        case (("to_float" | "itof" | "utof"), [a]):
            try:
                return float(a)
            except ValueError:
                raise NoValueError(f"expected a number, got {a!r}") from None
        case "ord", [a] if kind in (Kind.NUMBER, Kind.UNSIGNED):
            return a
        case "ord", [None]:
            return 0
        case "ord", [a]:
            # Any number that is different for different values: programs must not depend on it.
            return int.from_bytes(str(a).encode(), "big") % (2**61 - 1)
        case _:
            raise AssertionError(function)


def divide(function: str, a: Any, b: Any, kind: AnyKind) -> Value:
    """The quotient rounded toward zero, as in C, and the remainder that belongs to it."""
    if b == 0:
        raise NoValueError(f"{a} {function} 0")
    if kind is Kind.FLOAT:
        return a / b
    quotient = abs(a) // abs(b) if (a < 0) == (b < 0) else -(abs(a) // abs(b))
    # C does not define the remainder for a quotient out of range; here it is 0.
    return quotient if function == "/" else a - quotient * b


def power(a: Any, b: Any, kind: AnyKind) -> Value:
    if kind is Kind.FLOAT:
        return math.pow(a, b)
    if b < 0:
        return divide("/", 1, power(a, -b, kind), kind)
    if b > 64 and abs(a) > 1:
        raise NoValueError(f"{a} ^ {b}")
    return a**b
