"""The arithmetic of queries: Clojure's functions of numbers on Python numbers.

Integers are exact at any size, and `/` of integers is exact too: a `Fraction`, or an int if the
quotient is whole. A float makes the result a float. Decimals are exact; a quotient without an exact
decimal is an error. Every division by zero is an error, also of floats.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation, Overflow
from fractions import Fraction
from functools import reduce
from typing import Any, cast

from dbsp.compiler.datomic.meaning.clojure_order import Number, compare_values, is_number, type_name
from dbsp.errors import EvaluationError, shorten

_MAX_DIGITS = 1000
_EXACT = Context(prec=_MAX_DIGITS, traps=[Inexact, InvalidOperation, Overflow])

_DECIMAL: Mapping[Callable[..., Any], Callable[[Decimal, Decimal], Decimal]] = {
    operator.add: _EXACT.add,
    operator.sub: _EXACT.subtract,
    operator.mul: _EXACT.multiply,
    operator.truediv: _EXACT.divide,
}


def add(*values: Any) -> Number:
    """Return the sum; 0 without values.

    >>> add(1, 2), add(1, 0.5), add(1, Fraction(1, 2))
    (3, 1.5, Fraction(3, 2))
    """
    zero: Number = 0
    return reduce(_operation("+", operator.add), values, zero)


def subtract(first: Any, *others: Any) -> Number:
    """Return the difference; the negative of a single value."""
    minus = _operation("-", operator.sub)
    return reduce(minus, others, first) if others else minus(0, first)


def multiply(*values: Any) -> Number:
    """Return the product; 1 without values."""
    one: Number = 1
    return reduce(_operation("*", operator.mul), values, one)


def divide(first: Any, *others: Any) -> Number:
    """Return the quotient; the reciprocal of a single value.

    >>> divide(6, 2), divide(7, 2), divide(7.0, 2)
    (3, Fraction(7, 2), 3.5)
    """
    return reduce(_quotient, others, first) if others else _quotient(1, first)


def quotient(dividend: Any, divisor: Any) -> Number:
    """Return the quotient without its fraction, rounded toward zero."""
    left, right = _numbers("quot", dividend, divisor)
    _refuse_zero("quot", left, right)
    if isinstance(left, int) and isinstance(right, int):
        return _truncated(left, right)
    if isinstance(left, float) or isinstance(right, float):
        return float(math.trunc(_finite("quot", float(left) / float(right))))
    whole = math.trunc(Fraction(left) / Fraction(right))
    return Decimal(whole) if isinstance(left, Decimal) or isinstance(right, Decimal) else whole


def remainder(dividend: Any, divisor: Any) -> Number:
    """Return the remainder of `quot`; it has the sign of the dividend.

    >>> quotient(-7, 2), remainder(-7, 2), modulus(-7, 2)
    (-3, -1, 1)
    """
    left, right = _numbers("rem", dividend, divisor)
    _refuse_zero("rem", left, right)
    if isinstance(left, float) or isinstance(right, float):
        return math.fmod(_finite("rem", float(left)), float(right))
    return subtract(left, multiply(right, quotient(left, right)))


def modulus(dividend: Any, divisor: Any) -> Number:
    """Return the remainder with the sign of the divisor."""
    left, right = _numbers("mod", dividend, divisor)
    _refuse_zero("mod", left, right)
    rest = remainder(left, right)
    return add(rest, right) if rest and (rest < 0) != (right < 0) else rest


def increment(value: Any) -> Number:
    """Return the value plus 1."""
    return add(*_numbers("inc", value), 1)


def decrement(value: Any) -> Number:
    """Return the value minus 1."""
    return subtract(*_numbers("dec", value), 1)


def absolute(value: Any) -> Number:
    """Return the value without its sign."""
    (number,) = _numbers("abs", value)
    return abs(cast(int, number))


def least(*values: Any) -> Any:
    """Return the least of the values, which are all numbers or all of one type."""
    return reduce(lambda best, value: value if compare_values(value, best) < 0 else best, values)


def greatest(*values: Any) -> Any:
    """Return the greatest of the values, which are all numbers or all of one type."""
    return reduce(lambda best, value: value if compare_values(value, best) > 0 else best, values)


def is_even(value: Any) -> bool:
    """Whether an integer is even."""
    return _integer("even?", value) % 2 == 0


def is_odd(value: Any) -> bool:
    """Whether an integer is odd."""
    return _integer("odd?", value) % 2 == 1


def is_positive(value: Any) -> bool:
    """Whether a number is greater than 0."""
    return bool(_numbers("pos?", value)[0] > 0)


def is_negative(value: Any) -> bool:
    """Whether a number is less than 0."""
    return bool(_numbers("neg?", value)[0] < 0)


def is_zero(value: Any) -> bool:
    """Whether a number is 0."""
    return bool(_numbers("zero?", value)[0] == 0)


def integers(first: Any, end: Any = None, step: Any = 1) -> tuple[int, ...]:
    """Return the integers from `first` to `end`, without `end`; from 0 with one argument.

    >>> integers(3), integers(5, 0, -2)
    ((0, 1, 2), (5, 3, 1))
    """
    start, stop = (0, first) if end is None else (first, end)
    bounds = [_integer("range", value) for value in (start, stop, step)]
    if bounds[2] == 0:
        raise EvaluationError("range: expected a step other than 0", code="wrong-value-type")
    found = range(*bounds)
    if len(found) > _MAX_RANGE:
        message = f"range: expected at most {_MAX_RANGE:,} integers, got {len(found):,}"
        raise EvaluationError(message, code="wrong-value-type")
    return tuple(found)


_MAX_RANGE = 10_000_000


def _operation(name: str, exact: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Number]:
    """Return the operation of two numbers of any categories."""

    def apply(left: Any, right: Any) -> Number:
        left, right = _numbers(name, left, right)
        if isinstance(left, float) or isinstance(right, float):
            return float(exact(_as_float(name, left), _as_float(name, right)))
        if isinstance(left, Decimal) or isinstance(right, Decimal):
            return _decimal(name, _DECIMAL[exact], left, right)
        return _simplified(exact(left, right))

    return apply


def _quotient(left: Any, right: Any) -> Number:
    left, right = _numbers("/", left, right)
    _refuse_zero("/", left, right)
    if isinstance(left, float) or isinstance(right, float):
        return _as_float("/", left) / _as_float("/", right)
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        return _decimal("/", _DECIMAL[operator.truediv], left, right)
    return _simplified(Fraction(left) / Fraction(right))


def _decimal(name: str, exact: Callable[[Decimal, Decimal], Decimal], left: Number, right: Number) -> Decimal:
    try:
        parts = [
            _EXACT.divide(Decimal(value.numerator), Decimal(value.denominator))
            if isinstance(value, Fraction)
            else Decimal(value)
            for value in (left, right)
        ]
        return exact(*parts)
    except DecimalException:
        raise EvaluationError(
            f"({name} {left} {right}) has no exact decimal of at most {_MAX_DIGITS} digits; "
            "convert one argument to a float",
            code="inexact-decimal",
        ) from None


def _simplified(value: int | Fraction) -> int | Fraction:
    """A ratio that is whole is an integer."""
    whole = isinstance(value, Fraction) and value.denominator == 1
    return value.numerator if whole else value


def _as_float(name: str, value: Number) -> float:
    try:
        return float(value)
    except OverflowError:
        message = f"{name}: {shorten(value)} is beyond the range of a double"
        raise EvaluationError(message, code="value-out-of-range") from None


def _truncated(left: int, right: int) -> int:
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def _finite(name: str, value: float) -> float:
    if math.isfinite(value):
        return value
    raise EvaluationError(f"{name}: expected finite numbers, got {value}", code="value-out-of-range")


def _refuse_zero(name: str, left: Number, right: Number) -> None:
    if right == 0:
        raise EvaluationError(f"division by zero: ({name} {left} {right})", code="division-by-zero")


def _numbers(name: str, *values: Any) -> tuple[Any, ...]:
    for value in values:
        if not is_number(value):
            message = f"{name}: expected a number, got {shorten(value)} of type {type_name(value)}"
            raise EvaluationError(message, code="wrong-value-type")
    return values


def _integer(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        message = f"{name}: expected an integer, got {shorten(value)} of type {type_name(value)}"
        raise EvaluationError(message, code="wrong-value-type")
    return value
