"""Operations on the int codes of values: of times, durations and decimals.

The meaning of such an operation is a function of Python ints. For a row the values are encoded, for
a column a kernel computes the same on the codes; both check the range of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dbsp.data.decimals import LIMIT, half_even
from dbsp.data.interner import Interner
from dbsp.data.timestamps import TIME_RANGES
from dbsp.data.types import Type
from dbsp.data.values import decoder, encoder
from dbsp.errors import EvaluationError, ValueOutOfRangeError
from dbsp.expressions.nodes import Array, ExpressionNode, GiveUp, Operation, StrictNode
from dbsp.kernels.limits import INT64_MAX, INT64_MIN

_PLAIN = ("int", "float", "bool")
_NO_INTERNER = Interner()
"""The types of this module have codes without an interner."""

LARGEST_EXACT = 2**53
"""Ints up to here are floats without rounding."""


def limits(type_: Type) -> tuple[int, int]:
    """Return the smallest and the largest code of a type."""
    if type_.kind == "decimal":
        return 1 - LIMIT, LIMIT - 1
    return TIME_RANGES.get(type_.kind, (INT64_MIN, INT64_MAX))


def checked(type_: Type, code: int) -> int:
    """Return the code of a result. Raises ValueOutOfRangeError if no value of the type has it."""
    low, high = limits(type_)
    if low <= code <= high:
        return code
    if type_.kind == "decimal":
        raise ValueOutOfRangeError(f"the result does not fit in {type_}; round the operands to fewer digits")
    if type_.kind in ("int", "duration"):
        raise ValueOutOfRangeError("the result does not fit in 64 bits")
    raise ValueOutOfRangeError(f"the result is outside of the range of type {type_}")


def coded(
    operands: Sequence[Type],
    result: Type,
    meaning: Callable[..., Any],
    kernel: Callable[..., Array] | None,
    *,
    fallible: bool = True,
) -> Operation:
    """Return the operation of a function of codes; ints, floats and booleans are themselves."""
    encode = [None if type_.kind in _PLAIN else encoder(type_.required()) for type_ in operands]
    plain = result.kind in _PLAIN and result.kind != "int"
    decode = None if result.kind in _PLAIN else decoder(result.required())
    low, high = limits(result)

    def scalar(*values: Any) -> Any:
        codes = [
            value if inner is None else inner(value, _NO_INTERNER)
            for inner, value in zip(encode, values, strict=True)
        ]
        found = meaning(*codes)
        if plain:
            return found
        code = checked(result, found)
        return code if decode is None else decode(code, _NO_INTERNER)

    if kernel is None:
        return Operation(scalar, fallible=fallible)
    inner_kernel = kernel

    def vector(*arrays: Any) -> Array:
        found = inner_kernel(*arrays)
        if not plain and len(found) and (found.min() < low or found.max() > high):
            raise GiveUp
        return found

    return Operation(scalar, vector, fallible)


def coded_node(
    result: Type,
    meaning: Callable[..., Any],
    kernel: Callable[..., Array] | None,
    arguments: Sequence[ExpressionNode],
) -> ExpressionNode:
    """Return the node of an operation on the codes of the arguments."""
    types = [argument.type.required() for argument in arguments]
    return StrictNode(result, coded(types, result, meaning, kernel), arguments)


# --- division -------------------------------------------------------------------------------------


def nonzero(divisor: int) -> int:
    """Return the divisor. Raises EvaluationError for 0."""
    if divisor == 0:
        raise EvaluationError("division by zero", code="division-by-zero")
    return divisor


def rounded(a: int, b: int) -> int:
    """Return the quotient, rounded half to even."""
    return half_even(a, nonzero(b))


def rounded_vector(a: Any, b: Any) -> Array:
    """Return the quotients, rounded half to even. Gives up for divisors of 0 and huge operands."""
    if np.any(np.equal(b, 0)) or _largest(a) >= 2**62 or _largest(b) >= 2**61:
        raise GiveUp
    sign = np.where(np.less(b, 0), -1, 1)
    quotient, rest = np.divmod(np.multiply(a, sign), np.abs(b))
    twice, size = 2 * rest, np.abs(b)
    up = (twice > size) | ((twice == size) & (quotient % 2 == 1))
    result: Array = quotient + up
    return result


def ratio(a: int, b: int) -> float:
    """Return the quotient as the nearest float."""
    return a / nonzero(b)


def ratio_vector(a: Any, b: Any) -> Array:
    """Return the quotients as floats. Gives up where the operands are not exact floats."""
    if np.any(np.equal(b, 0)) or max(_largest(a), _largest(b)) > LARGEST_EXACT:
        raise GiveUp
    result: Array = np.true_divide(a, b)
    return result


def _largest(values: Any) -> int:
    if isinstance(values, np.ndarray):
        return max(-int(values.min()), int(values.max()))
    return abs(int(values))
