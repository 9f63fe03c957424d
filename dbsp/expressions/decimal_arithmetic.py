"""Arithmetic of decimals, exact: a result that needs more than 18 digits is an error.

    a + b, a - b       the larger number of digits after the point
    a * b              the sum of the numbers of digits after the point
    a // b             no digits after the point: the quotient, rounded toward zero
    a % b              the larger number of digits after the point, with the sign of a
    a.divide(b, s)     s digits after the point, rounded half to even
    a.round(s)         likewise

Ints count as decimals without digits after the point. Floats are never mixed with decimals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from dbsp.data.decimals import decimal_code, half_even
from dbsp.data.types import FLOAT, INT, MOST_DIGITS, STR, decimal_type
from dbsp.errors import EvaluationError, SchemaError, ValueOutOfRangeError, shorten
from dbsp.expressions import arithmetic as ints
from dbsp.expressions import strings  # noqa: F401  (its functions are extended)
from dbsp.expressions.coded import LARGEST_EXACT, coded, coded_node, rounded, rounded_vector
from dbsp.expressions.functions import CONVERTERS, define, extend, is_none
from dbsp.expressions.nodes import Array, ConstantNode, ExpressionNode, GiveUp, Operation, StrictNode, fold


def rescaled(node: ExpressionNode, scale: int) -> ExpressionNode:
    """Return an int or a decimal with more digits after the point, exactly."""
    if is_none(node):
        return ConstantNode(decimal_type(scale).optional(), None)
    by = 10 ** (scale - node.type.scale)
    if node.type.kind == "decimal" and by == 1:
        return node
    type_ = decimal_type(scale)
    return fold(coded_node(type_, lambda a: a * by, lambda a: ints.mul_vector(a, by), [node]))


CONVERTERS["decimal"] = lambda node, type_: rescaled(node, type_.scale)


def _numbers(arguments: Sequence[ExpressionNode], count: int = 2) -> bool:
    """Return whether the arguments are decimals and ints, one at least a decimal."""
    kinds = {argument.type.kind for argument in arguments if not is_none(argument)}
    return len(arguments) == count and "decimal" in kinds and kinds <= {"decimal", "int"}


def _scale(arguments: Sequence[ExpressionNode]) -> int:
    return max(argument.type.scale for argument in arguments)


def _add(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    if not _numbers(arguments):
        return None
    scale = _scale(arguments)
    operands = [rescaled(argument, scale) for argument in arguments]
    return coded_node(decimal_type(scale), lambda a, b: a + b, ints.add_vector, operands)


def _sub(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    if not _numbers(arguments):
        return None
    scale = _scale(arguments)
    operands = [rescaled(argument, scale) for argument in arguments]
    return coded_node(decimal_type(scale), lambda a, b: a - b, ints.sub_vector, operands)


def _mul(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    if not _numbers(arguments):
        return None
    scale = sum(argument.type.scale for argument in arguments)
    if scale > MOST_DIGITS:
        raise SchemaError(
            f"the product of {' and '.join(str(a.type) for a in arguments)} has {scale} digits after the "
            f"point, and a decimal at most {MOST_DIGITS}; round the operands with round()",
            code="invalid-expression",
        )
    operands = [rescaled(argument, argument.type.scale) for argument in arguments]
    return coded_node(decimal_type(scale), lambda a, b: a * b, ints.mul_vector, operands)


def _truediv(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    if not _numbers(arguments):
        return None
    raise SchemaError(
        "a quotient of decimals may have digits without end; write a.divide(b, 2) for two digits after "
        "the point, or convert both with cast(float)",
        code="invalid-expression",
    )


def _floordiv(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    if not _numbers(arguments):
        return None
    operands = [rescaled(argument, _scale(arguments)) for argument in arguments]
    return coded_node(decimal_type(0), ints.truncdiv, ints.truncdiv_vector, operands)


def _mod(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    if not _numbers(arguments):
        return None
    scale = _scale(arguments)
    operands = [rescaled(argument, scale) for argument in arguments]
    return coded_node(decimal_type(scale), ints.truncmod, ints.truncmod_vector, operands)


def _unary(meaning: Any, kernel: Any) -> Any:
    def resolve(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
        (argument,) = arguments
        if argument.type.kind != "decimal":
            return None
        type_ = argument.type.required()
        return StrictNode(type_, coded([type_], type_, meaning, kernel, fallible=False), arguments)

    return resolve


extend("add", _add)
extend("sub", _sub)
extend("mul", _mul)
extend("truediv", _truediv)
extend("floordiv", _floordiv)
extend("mod", _mod)
extend("neg", _unary(lambda a: -a, np.negative))
extend("abs", _unary(abs, np.abs))


# --- rounding and conversion ----------------------------------------------------------------------


def digits_of(node: ExpressionNode) -> int:
    """Return the number of digits after the point that a constant gives."""
    value = node.value if isinstance(node, ConstantNode) else None
    if type(value) is not int or not 0 <= value <= MOST_DIGITS:
        raise SchemaError(
            f"expected 0 to {MOST_DIGITS} digits after the point of a number, got {shorten(value)}",
            code="invalid-expression",
        )
    return value


def _divide(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    if len(arguments) != 3 or any(argument.type.kind not in ("decimal", "int") for argument in arguments[:2]):
        return None
    scale = digits_of(arguments[2])
    operands = [rescaled(argument, argument.type.scale) for argument in arguments[:2]]
    shift = scale - operands[0].type.scale + operands[1].type.scale
    over, under = 10 ** max(shift, 0), 10 ** max(-shift, 0)

    def kernel(a: Any, b: Any) -> Array:
        if under > 2**60:
            raise GiveUp
        return rounded_vector(ints.mul_vector(a, over), ints.mul_vector(b, under))

    return coded_node(decimal_type(scale), lambda a, b: rounded(a * over, b * under), kernel, operands)


def _round(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    if len(arguments) != 2 or arguments[0].type.kind != "decimal":
        return None
    node, scale = arguments[0], digits_of(arguments[1])
    if scale >= node.type.scale:
        return rescaled(node, scale)
    by = 10 ** (node.type.scale - scale)
    return coded_node(
        decimal_type(scale), lambda a: half_even(a, by), lambda a: rounded_vector(a, by), [node]
    )


def _to_decimal(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    if len(arguments) != 2:
        return None
    node, scale = arguments[0], digits_of(arguments[1])
    type_ = decimal_type(scale)
    if node.type.kind in ("int", "decimal") and scale >= node.type.scale:
        return rescaled(node, scale)
    if node.type.kind == "decimal":
        by = int(10 ** (node.type.scale - scale))

        def exact(code: int) -> int:
            if code % by:
                raise ValueOutOfRangeError(
                    f"the value has more than {scale} digits after the point; round it with round({scale})"
                )
            return code // by

        return coded_node(type_, exact, lambda a: _exact_vector(a, by), [node])
    if node.type.kind not in ("float", "str"):
        return None
    read: Callable[[Any, int], Decimal] = _of_float if node.type.kind == "float" else _of_text
    return StrictNode(type_, Operation(lambda value: read(value, scale), fallible=True), [node])


def _exact_vector(codes: Any, by: int) -> Array:
    if np.remainder(codes, by).any():
        raise GiveUp
    result: Array = codes // by
    return result


def _of_float(value: float, scale: int) -> Decimal:
    if not math.isfinite(value):
        raise EvaluationError(f"{value} is not a decimal number", code="invalid-conversion")
    numerator, denominator = value.as_integer_ratio()
    code = half_even(numerator * 10**scale, denominator)
    return _checked(Decimal(code).scaleb(-scale) if abs(code) < 10**MOST_DIGITS else Decimal(value), scale)


def _of_text(text: str, scale: int) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or "_" in text:
        raise EvaluationError("the string is not a decimal number", code="invalid-conversion")
    return _checked(value, scale)


def _checked(value: Decimal, scale: int) -> Decimal:
    decimal_code(value, scale)
    return value


def _to_float(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    (node,) = arguments
    if node.type.kind != "decimal":
        return None
    unit = 10**node.type.scale

    def kernel(codes: Any) -> Array:
        # Both the code and the power of ten are exact floats, so the quotient is rounded once.
        if np.abs(codes).max() > LARGEST_EXACT:
            raise GiveUp
        result: Array = codes / float(unit)
        return result

    return coded_node(FLOAT, lambda code: code / unit, kernel, [node])


def _to_int(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    (node,) = arguments
    if node.type.kind != "decimal":
        return None
    unit = 10**node.type.scale
    return coded_node(
        INT,
        lambda code: code // unit if code >= 0 else -(-code // unit),
        lambda codes: np.where(codes >= 0, codes // unit, -(-codes // unit)),
        [node],
    )


def _to_string(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    if arguments[0].type.kind != "decimal":
        return None
    return StrictNode(STR, Operation(lambda value: f"{value:f}"), arguments)


define("divide", "divide expects two decimals or ints, and the number of digits after the point", _divide)
define("round", "round expects a number, and the number of digits after the point", _round)
define(
    "to_decimal",
    "cast to a decimal expects a number or a string, and the number of digits after the point",
    _to_decimal,
)
extend("to_float", _to_float)
extend("to_int", _to_int)
extend("to_string", _to_string)
