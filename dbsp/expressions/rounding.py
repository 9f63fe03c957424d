"""Rounding of numbers: to digits after the point, down and up.

round(x, s)    half to even: the float nearest to the rounded decimal number, as in Python
floor, ceil    a float stays a float; a decimal becomes one without digits after the point
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dbsp.data.types import FLOAT, INT, decimal_type
from dbsp.expressions import decimal_arithmetic  # its functions are extended
from dbsp.expressions.coded import coded
from dbsp.expressions.functions import convert, define, extend, fits
from dbsp.expressions.nodes import Array, ExpressionNode, Operation, StrictNode, fold


def _whole(meaning: Callable[[float], int], kernel: Callable[[Any], Array]) -> Operation:
    """Return the operation of floats that rounds to a whole number."""
    return Operation(lambda value: float(meaning(value)) if math.isfinite(value) else value, kernel)


def _rounded(digits: int) -> Operation:
    def scalar(value: float) -> float:
        return round(value, digits) if math.isfinite(value) else value

    unit = 10.0**digits  # exact up to 10**22

    def kernel(values: Any) -> Array:
        scaled = values * unit
        whole = np.rint(scaled)
        # The product is off by less than half a unit in its last place, so the choice between two
        # whole numbers is certain unless the product is that close to the middle between them. From
        # 2**52 on every product is that close, and a comparison with NaN is false.
        middle = np.abs(np.abs(scaled - np.floor(scaled)) - 0.5)
        doubtful = ~(middle > np.spacing(np.abs(scaled)))
        result: Array = whole / unit
        if doubtful.any():
            result[doubtful] = [scalar(value) for value in values[doubtful].tolist()]
        return result

    return Operation(scalar, np.rint if digits == 0 else kernel)


def _round(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    if len(arguments) != 2 or not fits(arguments[0], FLOAT):
        return None
    digits = decimal_arithmetic.digits_of(arguments[1])
    if arguments[0].type.kind == "int":
        return StrictNode(INT, Operation(_same, _same), arguments[:1])
    return fold(StrictNode(FLOAT, _rounded(digits), [convert(arguments[0], FLOAT)]))


def _same(value: Any) -> Any:
    return value


def _to_whole(
    floats: Operation, meaning: Callable[[int, int], int]
) -> Callable[[Sequence[ExpressionNode]], ExpressionNode | None]:
    """Return the resolver of floor or ceil; `meaning` divides the codes of decimals."""

    def resolve(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
        (argument,) = arguments
        kind = argument.type.kind
        if kind == "int":
            return StrictNode(INT, Operation(_same, _same), arguments)
        if kind == "decimal":
            result, unit = decimal_type(0), 10**argument.type.scale
            divided: Callable[[Any], Any] = lambda codes: meaning(codes, unit)  # noqa: E731
            operation = coded([argument.type], result, divided, divided, fallible=False)
            return StrictNode(result, operation, arguments)
        if not fits(argument, FLOAT):
            return None
        return fold(StrictNode(FLOAT, floats, [convert(argument, FLOAT)]))

    return resolve


extend("round", _round)
define("floor", "floor expects a number", _to_whole(_whole(math.floor, np.floor), lambda a, b: a // b))
define("ceil", "ceil expects a number", _to_whole(_whole(math.ceil, np.ceil), lambda a, b: -(-a // b)))
