"""Whether a value is one of several constants.

Equality is that of `==`: NaN equals itself, and an int equals the float of the same value.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dbsp.data.interner import Interner
from dbsp.data.types import BOOL, Type
from dbsp.data.values import encoder
from dbsp.expressions.coded import coded
from dbsp.expressions.functions import convert, define, unify
from dbsp.expressions.nodes import Array, ConstantNode, ExpressionNode, Operation, StrictNode, fold
from dbsp.kernels.limits import INT64_MAX

_NO_INTERNER = Interner()
_BY_VALUE = ("str", "bytes")


def _isin(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    value, *constants = arguments
    if not all(isinstance(constant, ConstantNode) and constant.value is not None for constant in constants):
        return None
    type_ = unify(arguments)
    if type_ is None or type_.kind == "record":
        return None
    if type_.kind == "decimal":
        return _decimals(value, _values(constants))
    wanted = [convert(constant, type_) for constant in constants]
    elements = _values(wanted)
    if len(elements) < len(wanted):  # a constant has no value of the common type, such as 10**18 cents
        return None
    operation = _among(type_.required(), elements)
    return fold(StrictNode(BOOL, operation, [convert(value, type_)]))


def _values(constants: Sequence[ExpressionNode]) -> list[Any]:
    return [constant.value for constant in constants if isinstance(constant, ConstantNode)]


def _decimals(value: ExpressionNode, elements: Sequence[Any]) -> ExpressionNode:
    """Return the test of a decimal or an int in its own scale, which holds for all values."""
    type_ = value.type.required()
    codes = [Fraction(element) * 10**type_.scale for element in elements]
    whole = [int(code) for code in codes if code.denominator == 1 and abs(code) <= INT64_MAX]
    known = np.unique(np.array(whole, np.int64))
    members = frozenset(whole)
    operation = coded(
        [type_], BOOL, members.__contains__, lambda codes: np.isin(codes, known), fallible=False
    )
    return fold(StrictNode(BOOL, operation, [value]))


def _among(type_: Type, elements: Sequence[Any]) -> Operation:
    """Return the operation that tests values of a type."""
    if type_.kind in _BY_VALUE:
        return Operation(frozenset(elements).__contains__)
    encode = encoder(type_)
    if type_.interned:
        return Operation(
            lambda interner, value: encode(value, interner) in {encode(e, interner) for e in elements},
            with_interner=True,
        )
    codes = np.unique(np.array([encode(element, _NO_INTERNER) for element in elements], np.int64))
    known = frozenset(codes.tolist())

    def scalar(value: Any) -> bool:
        return encode(value, _NO_INTERNER) in known

    if type_.kind in ("float", "bool"):
        present = np.array([np.nan if e != e else e for e in elements], np.float64)
        return Operation(scalar, lambda values: _float_kernel(values, present))
    return Operation(scalar, lambda values: np.isin(values, codes))


def _float_kernel(values: Any, present: Array) -> Array:
    found: Array = np.isin(values, present)
    return found | np.isnan(values) if np.isnan(present).any() else found


define("isin", "isin expects a value and constants of its type that are not None", _isin)
