"""Nodes that evaluate one operand before another: and, or, when; and the tests for None."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dbsp.data.interner import Interner
from dbsp.data.types import BOOL, Type
from dbsp.expressions.nodes import (
    Array,
    ExpressionNode,
    Mask,
    Scalar,
    Vector,
    VectorFn,
    either,
    from_codes,
    some,
)
from dbsp.kernels.arrays import Codes


class ConnectiveNode(ExpressionNode):
    """`and` (decided by False) or `or` (decided by True), in the three-valued logic of SQL.

    If one side decides, the other may be None. The right side is evaluated only where the left side
    does not decide, so `(y != 0) & (x / y > 1)` never divides by zero.
    """

    def __init__(self, decider: bool, left: ExpressionNode, right: ExpressionNode) -> None:
        self.decider = decider
        self.left, self.right = left, right
        self.type = BOOL.optional() if left.type.nullable or right.type.nullable else BOOL
        self.columns = left.columns | right.columns
        self.fallible = left.fallible or right.fallible

    def scalar(self, interner: Interner) -> Scalar:
        left, right, decider = self.left.scalar(interner), self.right.scalar(interner), self.decider

        def run(row: Sequence[Any]) -> Any:
            a = left(row)
            if a is decider:
                return decider
            b = right(row)
            if b is decider:
                return decider
            return None if a is None or b is None else not decider

        return run

    def vector(self, interner: Interner) -> VectorFn:
        left, right, decider = self.left.vector(interner), self.right.vector(interner), self.decider
        careful = self.right.fallible

        def run(rows: Codes) -> Vector:
            a = left(rows)
            if careful:
                decided = _known(a, decider)
                b = on_subset(right, rows, ~decided, np.dtype(np.bool_))
            else:
                b = right(rows)
            values = a.values & b.values if not decider else a.values | b.values
            null = either(a.null, b.null)
            if null is None:
                return Vector(values, None)
            decided = _known(a, decider) | _known(b, decider)
            return Vector(np.where(decided, decider, values), some(null & ~decided))

        return run


def _known(vector: Vector, value: bool) -> Mask:
    """Return the mask of the rows where the vector is `value` and not None."""
    mask: Mask = vector.values if value else ~vector.values
    return mask if vector.null is None else mask & ~vector.null


class WhenNode(ExpressionNode):
    """The value of one of two sides; only the chosen side is evaluated. None counts as false."""

    def __init__(
        self, type_: Type, condition: ExpressionNode, chosen: ExpressionNode, other: ExpressionNode
    ) -> None:
        self.type = type_
        self.condition, self.chosen, self.other = condition, chosen, other
        self.columns = condition.columns | chosen.columns | other.columns
        self.fallible = condition.fallible or chosen.fallible or other.fallible

    def scalar(self, interner: Interner) -> Scalar:
        condition = self.condition.scalar(interner)
        chosen, other = self.chosen.scalar(interner), self.other.scalar(interner)
        return lambda row: chosen(row) if condition(row) is True else other(row)

    def vector(self, interner: Interner) -> VectorFn:
        condition = self.condition.vector(interner)
        chosen, other = self.chosen.vector(interner), self.other.vector(interner)
        dtype = from_codes(np.zeros(0, np.int64), self.type.kind).dtype

        def run(rows: Codes) -> Vector:
            mask = _known(condition(rows), True)
            a = on_subset(chosen, rows, mask, dtype) if self.chosen.fallible else chosen(rows)
            b = on_subset(other, rows, ~mask, dtype) if self.other.fallible else other(rows)
            null = None
            if a.null is not None or b.null is not None:
                null = some(np.where(mask, _filled(a.null, rows), _filled(b.null, rows)))
            return Vector(np.where(mask, a.values, b.values), null)

        return run


class FillNullNode(ExpressionNode):
    """The first operand, or the second where it is None; the second is evaluated only there."""

    def __init__(self, type_: Type, value: ExpressionNode, other: ExpressionNode) -> None:
        self.type = type_ if other.type.nullable else type_.required()
        self.value, self.other = value, other
        self.columns = value.columns | other.columns
        self.fallible = value.fallible or other.fallible

    def scalar(self, interner: Interner) -> Scalar:
        value, other = self.value.scalar(interner), self.other.scalar(interner)

        def run(row: Sequence[Any]) -> Any:
            a = value(row)
            return other(row) if a is None else a

        return run

    def vector(self, interner: Interner) -> VectorFn:
        value, other = self.value.vector(interner), self.other.vector(interner)

        def run(rows: Codes) -> Vector:
            a = value(rows)
            if a.null is None:
                return a
            b = on_subset(other, rows, a.null, a.values.dtype)
            return Vector(np.where(a.null, b.values, a.values), b.null)

        return run


class IsNullNode(ExpressionNode):
    """Whether the operand is None."""

    type = BOOL

    def __init__(self, value: ExpressionNode) -> None:
        self.value = value
        self.columns = value.columns
        self.fallible = value.fallible

    def scalar(self, interner: Interner) -> Scalar:
        value = self.value.scalar(interner)
        return lambda row: value(row) is None

    def vector(self, interner: Interner) -> VectorFn:
        value = self.value.vector(interner)
        return lambda rows: Vector(_filled(value(rows).null, rows), None)


def _filled(null: Mask | None, rows: Codes) -> Mask:
    return np.zeros(len(rows), np.bool_) if null is None else null


def on_subset(part: VectorFn, rows: Codes, mask: Mask, dtype: np.dtype[Any]) -> Vector:
    """Return the vector of `part`, evaluated on the marked rows only; zeros on the other rows."""
    if mask.all():
        return part(rows)
    values: Array = np.zeros(len(rows), dtype)
    if not mask.any():
        return Vector(values, None)
    inner = part(rows[mask])
    values[mask] = inner.values
    if inner.null is None:
        return Vector(values, None)
    null = np.zeros(len(rows), np.bool_)
    null[mask] = inner.null
    return Vector(values, null)
