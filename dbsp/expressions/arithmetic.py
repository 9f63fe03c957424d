"""Arithmetic on ints (exact, checked) and floats (IEEE 754)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dbsp.data.types import FLOAT, INT, STR
from dbsp.errors import EvaluationError, ValueOutOfRangeError
from dbsp.expressions.functions import Overload, define, overloads
from dbsp.expressions.nodes import Array, GiveUp, Operation
from dbsp.kernels.limits import INT64_MAX, INT64_MIN

# --- ints: the meaning ----------------------------------------------------------------------------


def _fit(result: int) -> int:
    if INT64_MIN <= result <= INT64_MAX:
        return result
    raise ValueOutOfRangeError("the result does not fit in 64 bits")


def _nonzero(divisor: float) -> None:
    if divisor == 0:
        raise EvaluationError("division by zero", code="division-by-zero")


def _add(a: int, b: int) -> int:
    return _fit(a + b)


def _sub(a: int, b: int) -> int:
    return _fit(a - b)


def _mul(a: int, b: int) -> int:
    return _fit(a * b)


def _floordiv(a: int, b: int) -> int:
    _nonzero(b)
    return _fit(a // b)


def _mod(a: int, b: int) -> int:
    _nonzero(b)
    return a % b


def truncdiv(a: int, b: int) -> int:
    """Return the quotient of ints, rounded toward zero."""
    _nonzero(b)
    quotient = abs(a) // abs(b)
    return _fit(quotient if (a < 0) == (b < 0) else -quotient)


def truncmod(a: int, b: int) -> int:
    """Return the remainder of ints, with the sign of the dividend."""
    _nonzero(b)
    remainder = abs(a) % abs(b)
    return -remainder if a < 0 else remainder


def _pow(a: int, b: int) -> int:
    if b < 0:
        reason = "an int to a negative power is not an int; convert the base with cast(float)"
        raise EvaluationError(reason, code="unsupported-value")
    if b > 63 and abs(a) > 1:  # not computed: it could have any number of digits
        raise ValueOutOfRangeError("the result does not fit in 64 bits")
    return _fit(a**b)


def _neg(a: int) -> int:
    return _fit(-a)


def _abs(a: int) -> int:
    return _fit(abs(a))


# --- ints: the kernels ---------------------------------------------------------------------------
# The bounds of the operands prove most columns safe; otherwise each result is checked.


def _bounds(values: Any) -> tuple[int, int]:
    if isinstance(values, np.ndarray):
        return int(values.min()), int(values.max())
    return values, values


def _safe(*results: int) -> bool:
    return min(results) >= INT64_MIN and max(results) <= INT64_MAX


def add_vector(a: Any, b: Any) -> Array:
    """Return the sums. Gives up if one does not fit."""
    (a_low, a_high), (b_low, b_high) = _bounds(a), _bounds(b)
    result: Array = a + b
    if not _safe(a_low + b_low, a_high + b_high) and (((a ^ result) & (b ^ result)) < 0).any():
        raise GiveUp
    return result


def sub_vector(a: Any, b: Any) -> Array:
    """Return the differences. Gives up if one does not fit."""
    (a_low, a_high), (b_low, b_high) = _bounds(a), _bounds(b)
    result: Array = a - b
    if not _safe(a_low - b_high, a_high - b_low) and (((a ^ b) & (a ^ result)) < 0).any():
        raise GiveUp
    return result


def mul_vector(a: Any, b: Any) -> Array:
    """Return the products. Gives up if one does not fit."""
    (a_low, a_high), (b_low, b_high) = _bounds(a), _bounds(b)
    if not _safe(a_low * b_low, a_low * b_high, a_high * b_low, a_high * b_high):
        # The float product has a relative error below 2**-51; near the limit `_mul` decides.
        about = np.abs(np.multiply(a, b, dtype=np.float64))
        if (about > 2.0**63 * (1 - 2.0**-50)).any():
            raise GiveUp
    result: Array = a * b
    return result


def _divisible(a: Any, b: Any) -> None:
    """Raise GiveUp unless every division is defined: no zero divisor, and not -2**63 by -1."""
    b_low, b_high = _bounds(b)
    if b_low <= 0 <= b_high and np.any(np.equal(b, 0)):
        raise GiveUp
    if b_low <= -1 <= b_high and _bounds(a)[0] == INT64_MIN:
        raise GiveUp


def floordiv_vector(a: Any, b: Any) -> Array:
    """Return the quotients, rounded down. Gives up if one does not fit."""
    _divisible(a, b)
    result: Array = np.floor_divide(a, b)
    return result


def mod_vector(a: Any, b: Any) -> Array:
    """Return the remainders, with the sign of the divisor. Gives up if one does not fit."""
    _divisible(a, b)
    result: Array = np.remainder(a, b)
    return result


def truncdiv_vector(a: Any, b: Any) -> Array:
    """Return the quotients, rounded toward zero. Gives up if one does not fit."""
    _divisible(a, b)
    result: Array = np.floor_divide(a - np.fmod(a, b), b)
    return result


def truncmod_vector(a: Any, b: Any) -> Array:
    """Return the remainders, with the sign of the dividend. Gives up if one does not fit."""
    _divisible(a, b)
    result: Array = np.fmod(a, b)
    return result


def _pow_vector(a: Any, b: Any) -> Array:
    b_low, b_high = _bounds(b)
    if b_low < 0 or b_high > 63:
        raise GiveUp
    low, high = _bounds(a)
    if max(abs(low), abs(high)) ** b_high > INT64_MAX:
        raise GiveUp
    result: Array = np.power(a, b)
    return result


def _neg_vector(a: Any) -> Array:
    if _bounds(a)[0] == INT64_MIN:
        raise GiveUp
    result: Array = -a
    return result


def _abs_vector(a: Any) -> Array:
    if _bounds(a)[0] == INT64_MIN:
        raise GiveUp
    result: Array = np.abs(a)
    return result


# --- floats ---------------------------------------------------------------------------------------
# Overflow results in an infinity, as in IEEE 754; division by zero is an error, as in Python.


def _float_div(a: float, b: float) -> float:
    _nonzero(b)
    return a / b


def _float_floordiv(a: float, b: float) -> float:
    _nonzero(b)
    return a // b


def _float_mod(a: float, b: float) -> float:
    _nonzero(b)
    return a % b


def _float_truncdiv(a: float, b: float) -> float:
    _nonzero(b)
    quotient = a / b
    return float(math.trunc(quotient)) if math.isfinite(quotient) else quotient


def _float_truncmod(a: float, b: float) -> float:
    _nonzero(b)
    return math.nan if math.isinf(a) else math.fmod(a, b)


def _float_pow(a: float, b: float) -> float:
    try:
        result = a**b
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf
    except ZeroDivisionError:
        raise EvaluationError("division by zero", code="division-by-zero") from None
    if isinstance(result, complex):
        raise EvaluationError("the result is not a real number", code="unsupported-value")
    return float(result)


def _float_div_vector(a: Any, b: Any) -> Array:
    if np.any(np.equal(b, 0.0)):
        raise GiveUp
    result: Array = np.divide(a, b)
    return result


# --- the table ------------------------------------------------------------------------------------


def _concat(a: str, b: str) -> str:
    return a + b


def _two(scalar: Callable[..., Any], vector: Callable[..., Array]) -> Overload:
    return Overload((INT, INT), INT, Operation(scalar, vector, fallible=True))


def _two_floats(scalar: Callable[..., Any], vector: Callable[..., Array] | None = None) -> Overload:
    return Overload((FLOAT, FLOAT), FLOAT, Operation(scalar, vector, fallible=True))


def _exact(scalar: Callable[..., Any]) -> Overload:
    """Return an operation that is one IEEE 754 instruction in both numpy and Python."""
    return Overload((FLOAT, FLOAT), FLOAT, Operation(scalar, scalar))


define(
    "add",
    "+ expects two numbers, two strings, or a time and a duration",
    overloads(
        _two(_add, add_vector),
        _exact(lambda a, b: a + b),
        Overload((STR, STR), STR, Operation(_concat)),
    ),
)
define(
    "sub",
    "- expects two numbers, two times, or a time and a duration",
    overloads(_two(_sub, sub_vector), _exact(lambda a, b: a - b)),
)
define("mul", "* expects two numbers", overloads(_two(_mul, mul_vector), _exact(lambda a, b: a * b)))
define("truediv", "/ expects two numbers", overloads(_two_floats(_float_div, _float_div_vector)))
define(
    "floordiv",
    "// expects two numbers",
    overloads(_two(_floordiv, floordiv_vector), _two_floats(_float_floordiv)),
)
define("mod", "% expects two numbers", overloads(_two(_mod, mod_vector), _two_floats(_float_mod)))
define(
    "truncdiv",
    "truncdiv expects two numbers",
    overloads(_two(truncdiv, truncdiv_vector), _two_floats(_float_truncdiv)),
)
define(
    "truncmod",
    "truncmod expects two numbers",
    overloads(_two(truncmod, truncmod_vector), _two_floats(_float_truncmod)),
)
# Powers of floats use the C library one by one, since numpy's may differ in the last bit.
define("pow", "** expects two numbers", overloads(_two(_pow, _pow_vector), _two_floats(_float_pow)))
define(
    "neg",
    "unary - expects a number",
    overloads(
        Overload((INT,), INT, Operation(_neg, _neg_vector, fallible=True)),
        Overload((FLOAT,), FLOAT, Operation(lambda a: -a, lambda a: -a)),
    ),
)
define(
    "abs",
    "abs expects a number",
    overloads(
        Overload((INT,), INT, Operation(_abs, _abs_vector, fallible=True)),
        Overload((FLOAT,), FLOAT, Operation(abs, np.abs)),
    ),
)
