"""Arithmetic in words of 32 bits, stored in ints of 64 bits: an overflow wraps around, as in C.

    wrap_int32(x)        the number of -2^31 .. 2^31-1 that is equal to x modulo 2^32
    wrap_unsigned32(x)   the number of 0 .. 2^32-1 that is equal to x modulo 2^32

C does not define the conversion of a float out of range. Here it is that of x86-64: a number
becomes -2^31; an unsigned becomes the lower half of the float as a 64-bit int, or 0 if it does not
fit in 64 bits. A power is computed as a double and converted like one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dbsp.compiler.datalog.meaning.word_ranges import NUMBER_32, UNSIGNED_32, WordRange
from dbsp.data.types import FLOAT, INT
from dbsp.expressions.functions import Overload, define, overloads
from dbsp.expressions.nodes import Array, GiveUp, Operation

_MASK = 2**32 - 1
_SIGN = 2**31


def _wrap(value: Any) -> Any:
    return ((value & _MASK) ^ _SIGN) - _SIGN


def _wrap_unsigned(value: Any) -> Any:
    return value & _MASK


def _multiply(a: int, b: int) -> int:
    return (a * b + 2**63) % 2**64 - 2**63


def _multiply_vector(a: Any, b: Any) -> Array:
    result: Array = np.multiply(np.asarray(a, np.int64), np.asarray(b, np.int64))
    return result


def _convert(value: float) -> int:
    return int(value) if -_SIGN - 1 < value < _SIGN else -_SIGN


def _convert_vector(values: Any) -> Array:
    inside = (values > -_SIGN - 1) & (values < _SIGN)
    result: Array = np.where(inside, values, float(-_SIGN)).astype(np.int64)
    return result


def _convert_unsigned(value: float) -> int:
    return int(value) & _MASK if -(2.0**63) <= value < 2.0**63 else 0


def _convert_unsigned_vector(values: Any) -> Array:
    inside = (values >= -(2.0**63)) & (values < 2.0**63)
    result: Array = np.where(inside, values, 0.0).astype(np.int64) & _MASK
    return result


def _power(a: int, b: int) -> float:
    try:
        return math.pow(a, b)
    except (OverflowError, ValueError):  # the latter is 0 to a negative power
        return math.inf


def _fitting(range_: WordRange) -> Operation:
    def scalar(value: int) -> int:
        if not range_.low <= value <= range_.high:
            raise range_.refusal(value)
        return value

    def vector(values: Any) -> Array:
        if (np.less(values, range_.low) | np.greater(values, range_.high)).any():
            raise GiveUp
        result: Array = values
        return result

    return Operation(scalar, vector, fallible=True)


def _ints(name: str, count: int, scalar: Callable[..., Any], vector: Callable[..., Array] | None) -> None:
    expects = f"{name} expects {'an int' if count == 1 else 'two ints'}"
    define(name, expects, overloads(Overload((INT,) * count, INT, Operation(scalar, vector))))


def _floats(name: str, scalar: Callable[..., Any], vector: Callable[..., Array]) -> None:
    define(name, f"{name} expects a float", overloads(Overload((FLOAT,), INT, Operation(scalar, vector))))


_ints("wrap_int32", 1, _wrap, _wrap)
_ints("wrap_unsigned32", 1, _wrap_unsigned, _wrap_unsigned)
# Modulo 2^64, which is enough to wrap the product afterwards.
_ints("multiply_bits", 2, _multiply, _multiply_vector)
_ints("power_int32", 2, lambda a, b: _convert(_power(a, b)), None)
_ints("power_unsigned32", 2, lambda a, b: _convert_unsigned(_power(a, b)), None)
_floats("convert_int32", _convert, _convert_vector)
_floats("convert_unsigned32", _convert_unsigned, _convert_unsigned_vector)
for _range in (NUMBER_32, UNSIGNED_32):
    _name = f"fit_{_range.name}"
    define(_name, f"{_name} expects an int", overloads(Overload((INT,), INT, _fitting(_range))))
