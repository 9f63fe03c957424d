"""Decimals of 18 digits with a fixed number of digits after the point.

The code of a decimal of scale s is value * 10^s, an int below 10^18 in absolute value. So codes
compare like their values, and arithmetic on columns is arithmetic on ints.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from dbsp.data.types import MOST_DIGITS
from dbsp.errors import InputError, ValueOutOfRangeError, shorten

LIMIT = 10**MOST_DIGITS
"""The first int that is too large for the code of a decimal."""

# Independent of the context of the caller, which may round. `Inexact` finds lost digits.
_EXACT = decimal.Context(
    prec=2 * MOST_DIGITS + 4, traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow]
)
_UNITS = tuple(Decimal(1).scaleb(-scale, _EXACT) for scale in range(MOST_DIGITS + 1))


def decimal_code(value: Any, scale: int) -> int:
    """Return the code of a Decimal or an int.

    Raises InputError for a value of another class and for NaN and infinities, ValueOutOfRangeError
    for a value with too many digits before or after the point.
    """
    if type(value) is not Decimal:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise _misfit(value)
        if isinstance(value, int):
            if abs(value) >= LIMIT:
                raise too_many_digits(value, scale)
            return checked_code(int(value) * 10**scale, scale, value)
    if not value.is_finite():
        raise InputError(f"expected a decimal number, got {value}", code="wrong-type")
    if not value:
        return 0
    if value.adjusted() >= MOST_DIGITS:
        raise too_many_digits(value, scale)
    try:
        code = int(_EXACT.scaleb(_EXACT.quantize(value, _UNITS[scale]), scale))
    except decimal.Inexact:
        raise ValueOutOfRangeError(
            f"expected a decimal with at most {scale} digits after the point, got {shorten(value)}; round it,"
            f' or declare the column as "decimal({MOST_DIGITS}, {_digits_after(value, scale)})"'
        ) from None
    return checked_code(code, scale, value)


def checked_code(code: int, scale: int, value: Any = None) -> int:
    """Return the code. Raises ValueOutOfRangeError if it has more than 18 digits."""
    if -LIMIT < code < LIMIT:
        return code
    raise too_many_digits(decimal_of(code, scale) if value is None else value, scale)


def decimal_of(code: int, scale: int) -> Decimal:
    """Return the decimal of a code, with `scale` digits after the point."""
    return _EXACT.scaleb(Decimal(code), -scale) if scale else Decimal(code)


def decimals_of(codes: Iterable[int], scale: int) -> list[Decimal]:
    """Return the decimals of many codes."""
    if not scale:
        return list(map(Decimal, codes))
    scaleb, down = _EXACT.scaleb, Decimal(-scale)
    return [scaleb(value, down) for value in map(Decimal, codes)]


def scale_of(values: Iterable[Decimal]) -> int | None:
    """Return the fewest digits after the point that all values need; None if no type holds them."""
    scale, values = 0, list(values)
    for value in values:
        if not value.is_finite():
            return None
        exponent = value.as_tuple().exponent
        scale = max(scale, -exponent if isinstance(exponent, int) else 0)
    if scale > MOST_DIGITS:
        return None
    if any(abs(value) and value.adjusted() >= MOST_DIGITS - scale for value in values):
        return None
    return scale


def half_even(numerator: int, denominator: int) -> int:
    """Return the quotient, rounded to the nearest int; to the even one in the middle."""
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    quotient, rest = divmod(numerator, denominator)
    return quotient + (2 * rest > denominator or (2 * rest == denominator and quotient % 2 == 1))


def _digits_after(value: Decimal, scale: int) -> int:
    exponent = value.as_tuple().exponent
    needed = -exponent if isinstance(exponent, int) else scale
    return min(needed, MOST_DIGITS)


def _misfit(value: Any) -> InputError:
    if value is None:
        return InputError(
            "expected decimal, got None; to allow None, declare the column optional", code="missing-value"
        )
    hint = f"; write Decimal({str(value)!r})" if isinstance(value, float) else ""
    return InputError(
        f"expected decimal, got {shorten(value)} of type {type(value).__name__}{hint}", code="wrong-type"
    )


def too_many_digits(value: Any, scale: int) -> ValueOutOfRangeError:
    """Return the error for a decimal that does not fit in 18 digits."""
    return ValueOutOfRangeError(
        f"expected a decimal with at most {MOST_DIGITS - scale} digits before the point and {scale} after "
        f"it, got {shorten(value)}"
    )
