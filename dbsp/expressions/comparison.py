"""Comparison, and the smallest and largest of several values.

Floats are compared in the order of their codes: NaN equals itself and is after every other float.
Strings are compared by code points, as in Python; objects by `dbsp.data.value_order.order_key`.
Timestamps with a zone are compared as instants: Python ignores `fold` between times of one zone.
"""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dbsp.data.interner import Interner
from dbsp.data.timestamps import instant
from dbsp.data.types import BOOL, Type
from dbsp.data.value_order import order_key
from dbsp.data.values import encoder
from dbsp.expressions.arithmetic import mul_vector
from dbsp.expressions.coded import coded
from dbsp.expressions.functions import convert, define, is_none, unify
from dbsp.expressions.logic import ConnectiveNode, FillNullNode, IsNullNode, WhenNode
from dbsp.expressions.nodes import Array, ConstantNode, ExpressionNode, Operation, StrictNode, fold


def _float_key(a: float) -> tuple[bool, float]:
    return (True, 0.0) if a != a else (False, a)


def _float_eq(a: float, b: float) -> bool:
    return a == b or (a != a and b != b)


def _float_eq_vector(a: Any, b: Any) -> Array:
    result: Array = np.equal(a, b)
    if np.isnan(a).any() and np.isnan(b).any():
        result = result | (np.isnan(a) & np.isnan(b))
    return result


def _float_lt(a: float, b: float) -> bool:
    return _float_key(a) < _float_key(b)


def _float_lt_vector(a: Any, b: Any) -> Array:
    result: Array = np.less(a, b)
    last = np.isnan(b)
    return result | (last & ~np.isnan(a)) if last.any() else result


def _instant_eq(a: dt.datetime, b: dt.datetime) -> bool:
    return instant(a) == instant(b)


def _instant_lt(a: dt.datetime, b: dt.datetime) -> bool:
    return instant(a) < instant(b)


def _object_eq(interner: Interner, a: Any, b: Any) -> bool:
    # Compared by id, since 1 == True == 1.0 in Python.
    return interner.encode(a) == interner.encode(b)


def _object_lt(a: Any, b: Any) -> bool:
    return order_key(a) < order_key(b)


def _negated(operation: Operation) -> Operation:
    scalar, vector = operation.scalar, operation.vector
    return Operation(
        lambda *values: not scalar(*values),
        None if vector is None else (lambda a, b: ~vector(a, b)),
        with_interner=operation.with_interner,
    )


def _swapped(operation: Operation) -> Operation:
    scalar, vector = operation.scalar, operation.vector
    return Operation(lambda a, b: scalar(b, a), None if vector is None else (lambda a, b: vector(b, a)))


_EQUAL: dict[str, Operation] = {
    "float": Operation(_float_eq, _float_eq_vector),
    "timestamptz": Operation(_instant_eq, np.equal),
    "object": Operation(_object_eq, np.equal, with_interner=True),
}
_EQUAL_CODES = Operation(operator.eq, np.equal)
_LESS: dict[str, Operation] = {
    "float": Operation(_float_lt, _float_lt_vector),
    "timestamptz": Operation(_instant_lt, np.less),
    "object": Operation(_object_lt),
    "str": Operation(operator.lt),
    "bytes": Operation(operator.lt),
}
_LESS_CODES = Operation(operator.lt, np.less)


def _comparison(
    choose: Callable[[str], Operation], ordered: bool = True
) -> Callable[[Sequence[ExpressionNode]], ExpressionNode | None]:
    def resolve(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
        type_ = unify(arguments)
        if type_ is None or len(arguments) != 2 or (ordered and type_.kind in _UNORDERED):
            return None
        operation = choose(type_.kind)
        if type_.kind == "decimal" and not any(map(is_none, arguments)):
            return fold(_compared_decimals(operation, arguments))
        operands = [convert(argument, type_) for argument in arguments]
        if type_.kind in ("list", "struct") and not ordered:
            operation = _by_code(type_, operation)
        return fold(StrictNode(BOOL, operation, operands))

    return resolve


def _compared_decimals(operation: Operation, arguments: Sequence[ExpressionNode]) -> ExpressionNode:
    """Return the comparison of decimals and ints of any scales; it has a result for all values."""
    scale = max(argument.type.scale for argument in arguments)
    a_unit, b_unit = (10 ** (scale - argument.type.scale) for argument in arguments)
    compare, vector = operation.scalar, operation.vector
    if vector is None:
        raise AssertionError("expected a kernel for the comparison of codes")
    types = [argument.type.required() for argument in arguments]
    compared = coded(
        types,
        BOOL,
        lambda a, b: compare(a * a_unit, b * b_unit),
        lambda a, b: vector(mul_vector(a, a_unit), mul_vector(b, b_unit)),
        fallible=False,
    )
    return StrictNode(BOOL, compared, arguments)


def _by_code(type_: Type, operation: Operation) -> Operation:
    """Return an operation on codes for values, since NaN in a list equals itself here."""
    encode = encoder(type_.required())

    def scalar(interner: Interner, a: Any, b: Any) -> Any:
        return operation.scalar(encode(a, interner), encode(b, interner))

    return Operation(scalar, operation.vector, with_interner=True)


_UNORDERED = ("record", "list", "struct")


def _equal(kind: str) -> Operation:
    return _EQUAL.get(kind, _EQUAL_CODES)


def _less(kind: str) -> Operation:
    return _LESS.get(kind, _LESS_CODES)


define("eq", "== expects two values of one type", _comparison(_equal, ordered=False))
define(
    "ne",
    "!= expects two values of one type",
    _comparison(lambda kind: _negated(_equal(kind)), ordered=False),
)
define("lt", "< expects two values of one type", _comparison(_less))
define("gt", "> expects two values of one type", _comparison(lambda kind: _swapped(_less(kind))))
define("le", "<= expects two values of one type", _comparison(lambda kind: _negated(_swapped(_less(kind)))))
define("ge", ">= expects two values of one type", _comparison(lambda kind: _negated(_less(kind))))


# --- the smallest and largest ---------------------------------------------------------------------

_KEYS: dict[str, Callable[[Any], Any]] = {"float": _float_key, "timestamptz": instant, "object": order_key}
_MIN_VECTORS: dict[str, Callable[..., Array]] = {"float": np.fmin}  # fmin ignores NaN


def _extreme(
    pick: Any, vectors: dict[str, Callable[..., Array]], common: Any
) -> Callable[[Sequence[ExpressionNode]], ExpressionNode | None]:
    def resolve(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
        type_ = unify(arguments)
        if type_ is None or type_.kind in _UNORDERED:
            return None
        key = _KEYS.get(type_.kind)
        vector = None if type_.interned else vectors.get(type_.kind, common)
        operation = Operation(lambda a, b: pick(a, b, key=key), vector)
        result, *others = (convert(argument, type_) for argument in arguments)
        for other in others:
            result = fold(StrictNode(type_.required(), operation, [result, other]))
        return result

    return resolve


define("min_of", "min_of expects values of one type", _extreme(min, _MIN_VECTORS, np.minimum))
define("max_of", "max_of expects values of one type", _extreme(max, {}, np.maximum))


# --- logic ----------------------------------------------------------------------------------------


def _booleans(nodes: Sequence[ExpressionNode]) -> list[ExpressionNode] | None:
    if any(
        node.type.kind != "bool" and not (isinstance(node, ConstantNode) and node.value is None)
        for node in nodes
    ):
        return None
    return [convert(node, BOOL) for node in nodes]


def _connective(decider: bool) -> Callable[[Sequence[ExpressionNode]], ExpressionNode | None]:
    def resolve(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
        operands = _booleans(arguments)
        return None if operands is None else ConnectiveNode(decider, *operands)

    return resolve


def _not(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    operands = _booleans(arguments)
    return (
        None
        if operands is None
        else fold(StrictNode(BOOL, Operation(operator.not_, np.logical_not), operands))
    )


def _when(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    condition, chosen, other = arguments
    conditions, type_ = _booleans([condition]), unify([chosen, other])
    if conditions is None or type_ is None:
        return None
    return WhenNode(type_, conditions[0], convert(chosen, type_), convert(other, type_))


def _fill_null(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    type_ = unify(arguments)
    if type_ is None:
        return None
    value, other = (convert(argument, type_) for argument in arguments)
    return FillNullNode(type_, value, other)


define("and", "& expects two booleans (band is the bitwise and)", _connective(False))
define("or", "| expects two booleans (bor is the bitwise or)", _connective(True))
define("not", "~ expects a boolean (bnot is the bitwise not)", _not)
define("when", "when expects a boolean and two values of one type", _when)
define("is_null", "is_null expects a value", lambda arguments: IsNullNode(arguments[0]))
define("fill_null", "fill_null expects two values of one type", _fill_null)
