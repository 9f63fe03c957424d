"""Operations on the bits of ints.

Two's complement; shift counts are modulo 64, and bits shifted out are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dbsp.data.types import INT
from dbsp.expressions.functions import Overload, define, overloads
from dbsp.expressions.nodes import Array, Operation


def _signed(bits: int) -> int:
    return (bits + 2**63) % 2**64 - 2**63


def _shl(a: int, count: int) -> int:
    return _signed(a << (count & 63))


def _shr_unsigned(a: int, count: int) -> int:
    return _signed((a % 2**64) >> (count & 63))


def _shl_vector(a: Any, count: Any) -> Array:
    return _unsigned(a, count, np.left_shift)


def _shr_unsigned_vector(a: Any, count: Any) -> Array:
    return _unsigned(a, count, np.right_shift)


def _unsigned(a: Any, count: Any, shift: Callable[..., Any]) -> Array:
    bits = np.asarray(a, np.int64).view(np.uint64)
    result: Array = shift(bits, (np.asarray(count, np.int64) & 63).view(np.uint64)).view(np.int64)
    return result


def _two(scalar: Callable[..., Any], vector: Callable[..., Array]) -> Overload:
    return Overload((INT, INT), INT, Operation(scalar, vector))


define("band", "band expects two ints", overloads(_two(lambda a, b: a & b, lambda a, b: a & b)))
define("bor", "bor expects two ints", overloads(_two(lambda a, b: a | b, lambda a, b: a | b)))
define("bxor", "bxor expects two ints", overloads(_two(lambda a, b: a ^ b, lambda a, b: a ^ b)))
define("bnot", "bnot expects an int", overloads(Overload((INT,), INT, Operation(lambda a: ~a, lambda a: ~a))))
define("shl", "shl expects two ints", overloads(_two(_shl, _shl_vector)))
define(
    "shr",
    "shr expects two ints",
    overloads(_two(lambda a, n: a >> (n & 63), lambda a, n: a >> (n & 63))),
)
define(
    "shr_unsigned",
    "shr_unsigned expects two ints",
    overloads(_two(_shr_unsigned, _shr_unsigned_vector)),
)
