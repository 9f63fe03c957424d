"""Bound expressions: nodes that know their types and evaluate.

Every operation has one meaning, its `scalar` function over Python values. That is what runs for a
handful of rows, for strings (once per distinct value), and to find and word an error. Where it matters
an operation also has a `vector` kernel over numpy arrays. A kernel gives the same results bit for bit (a
row inserted by a bulk load must be retracted by a single-row tick) or raises `GiveUp`, and then the
scalar function decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from dbsp.data.columns import code_floats, decode_column, encode_column, float_codes
from dbsp.data.interner import Interner
from dbsp.data.types import Type
from dbsp.data.values import decode_value, encode_value
from dbsp.errors import DbspError, ValueOutOfRangeError
from dbsp.expressions.expression import Call
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import NULL

Array: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_]
Scalar: TypeAlias = Callable[[Sequence[Any]], Any]
"""From the row's values to the result; None stands for None."""


class GiveUp(Exception):
    """A kernel met values it does not handle: overflow, a zero divisor."""


class CallFailed(Exception):
    """A call has no value for a row; `error` has the reason."""

    def __init__(self, error: DbspError, call: Call) -> None:
        super().__init__(error.message)
        self.error = error
        self.call = call


class Vector(NamedTuple):
    """Values of many rows: int64 (ints, days, microseconds, ids), float64 or bool; garbage where `null`."""

    values: Array
    null: Mask | None


VectorFn: TypeAlias = Callable[[Codes], Vector]
Apply: TypeAlias = Callable[..., Any]
Kernel: TypeAlias = Callable[[Sequence[Array]], Array]


@dataclass(frozen=True)
class Operation:
    """What a function does for operands of certain types.

    `fallible`: some values have no result (an error is raised). `with_interner`: the scalar function
    takes the interner as its first argument.
    """

    scalar: Callable[..., Any]
    vector: Callable[..., Array] | None = None
    fallible: bool = False
    with_interner: bool = False

    def scalar_for(self, interner: Interner) -> Callable[..., Any]:
        """The scalar function, ready to be called with values only."""
        return partial(self.scalar, interner) if self.with_interner else self.scalar


class ExpressionNode:
    """A typed expression over the columns of one schema."""

    type: Type
    columns: frozenset[int] = frozenset()
    fallible = False

    def scalar(self, interner: Interner) -> Scalar:
        """The evaluator of one row of values."""
        raise TypeError(f"{type(self).__name__} has no scalar evaluator")

    def vector(self, interner: Interner) -> VectorFn:
        """The evaluator of int64[n, k] code rows, n > 0."""
        raise TypeError(f"{type(self).__name__} has no vector evaluator")


class ColumnNode(ExpressionNode):
    """The column at a position."""

    def __init__(self, type_: Type, position: int) -> None:
        self.type = type_
        self.position = position
        self.columns = frozenset({position})

    def scalar(self, interner: Interner) -> Scalar:
        position = self.position
        return lambda row: row[position]

    def vector(self, interner: Interner) -> VectorFn:
        position, nullable, kind = self.position, self.type.nullable, self.type.kind

        def run(rows: Codes) -> Vector:
            codes = rows[:, position]
            return Vector(from_codes(codes, kind), some(codes == NULL) if nullable else None)

        return run


class ConstantNode(ExpressionNode):
    """The same value for every row."""

    def __init__(self, type_: Type, value: Any) -> None:
        self.type = type_
        self.value = value

    def scalar(self, interner: Interner) -> Scalar:
        constructed = self.type.structure is not None and self.value is not None
        value = self.operand(interner) if constructed else self.value
        return lambda row: value

    def operand(self, interner: Interner) -> Any:
        """The value as a kernel's operand; numpy spreads it over the rows."""
        if self.type.kind in ("int", "float", "bool"):
            return self.value
        return encode_value(self.type, self.value, interner)

    def vector(self, interner: Interner) -> VectorFn:
        if self.value is None:
            dtype = from_codes(np.zeros(0, np.int64), self.type.kind).dtype
            return lambda rows: Vector(np.zeros(len(rows), dtype), np.ones(len(rows), np.bool_))
        operand = self.operand(interner)
        return lambda rows: Vector(np.full(len(rows), operand), None)


class StrictNode(ExpressionNode):
    """An operation whose result is None as soon as one operand is."""

    def __init__(self, result: Type, operation: Operation, arguments: Sequence[ExpressionNode]) -> None:
        nullable = any(argument.type.nullable for argument in arguments)
        self.type = result.optional() if nullable else result
        self.operation = operation
        self.arguments = tuple(arguments)
        self.columns = frozenset[int]().union(*(argument.columns for argument in arguments))
        self.fallible = operation.fallible or any(argument.fallible for argument in arguments)
        self.call: Call | None = None
        """The call that this operation computes, to be named by an error."""

    def _failed(self, error: DbspError) -> Exception:
        return error if self.call is None else CallFailed(error, self.call)

    def scalar(self, interner: Interner) -> Scalar:
        apply, failed = self.operation.scalar_for(interner), self._failed
        parts = [argument.scalar(interner) for argument in self.arguments]
        if len(parts) == 1:
            (only,) = parts

            def unary(row: Sequence[Any]) -> Any:
                a = only(row)
                try:
                    return None if a is None else apply(a)
                except DbspError as error:
                    raise failed(error) from error.__cause__

            return unary
        if len(parts) == 2:
            left, right = parts

            def binary(row: Sequence[Any]) -> Any:
                a, b = left(row), right(row)
                try:
                    return None if a is None or b is None else apply(a, b)
                except DbspError as error:
                    raise failed(error) from error.__cause__

            return binary

        def several(row: Sequence[Any]) -> Any:
            values = [part(row) for part in parts]
            try:
                return None if any(value is None for value in values) else apply(*values)
            except DbspError as error:
                raise failed(error) from error.__cause__

        return several

    def vector(self, interner: Interner) -> VectorFn:
        operands: list[ExpressionNode] = []
        # Operations on strings within this one become part of it, so that their results are never interned.
        apply = self._compose(operands, interner)
        return _strict(operands, apply, self._kernel(operands, interner), self.type, interner)

    def _compose(self, operands: list[ExpressionNode], interner: Interner) -> Apply:
        """The scalar function over the values of `operands`, which this fills: arguments that vary.

        An argument that is itself computed by value and yields a string or object is composed in.
        """

        def place(node: ExpressionNode) -> ExpressionNode:
            if isinstance(node, ConstantNode) and node.value is not None:
                return node
            if isinstance(node, StrictNode) and node.operation.vector is None and node.type.interned:
                return StrictNode(node.type, node.operation, [place(inner) for inner in node.arguments])
            if node not in operands:
                operands.append(node)
            return ColumnNode(node.type, operands.index(node))

        tree = StrictNode(self.type, self.operation, [place(argument) for argument in self.arguments])
        if all(isinstance(argument, ColumnNode) for argument in tree.arguments) and len(operands) == len(
            tree.arguments
        ):
            return self.operation.scalar_for(interner)
        composed = tree.scalar(interner)
        return lambda *values: composed(values)

    def _kernel(self, operands: Sequence[ExpressionNode], interner: Interner) -> Kernel | None:
        """The kernel over the arrays of `operands`, with the constants put in."""
        kernel = self.operation.vector
        varying = [a for a in self.arguments if not isinstance(a, ConstantNode) or a.value is None]
        if kernel is None or not varying or any(argument not in operands for argument in varying):
            return None
        # Where each argument comes from: a constant, or the place among the operands.
        slots = [
            (None, a.operand(interner))
            if isinstance(a, ConstantNode) and a.value is not None
            else (operands.index(a), None)
            for a in self.arguments
        ]
        return lambda arrays: kernel(*(value if at is None else arrays[at] for at, value in slots))


def _strict(
    operands: Sequence[ExpressionNode], apply: Apply, kernel: Kernel | None, result: Type, interner: Interner
) -> VectorFn:
    """The evaluator of an operation over its varying operands: by `kernel` if it can, else by `apply`."""
    parts = [operand.vector(interner) for operand in operands]
    types = [operand.type.required() for operand in operands]
    result = result.required()
    dtype = from_codes(np.zeros(0, np.int64), result.kind).dtype

    def run(rows: Codes) -> Vector:
        vectors = [part(rows) for part in parts]
        null: Mask | None = None
        for vector in vectors:
            null = either(null, vector.null)
        arrays = [vector.values for vector in vectors]
        if null is None:
            return Vector(compute(arrays, len(rows)), None)
        # Only rows without None are computed: what stands in the others could overflow.
        keep = ~null
        values = np.zeros(len(rows), dtype)
        if keep.any():
            values[keep] = compute([array[keep] for array in arrays], int(keep.sum()))
        return Vector(values, null)

    def compute(arrays: list[Array], count: int) -> Array:
        if kernel is not None:
            try:
                return kernel(arrays)
            except GiveUp:
                pass
        if len(arrays) == 1:
            distinct, inverse = distinct_values(arrays[0], types[0], interner)
            values = list(map(apply, to_values(distinct, types[0], interner)))
        else:
            lists = [to_values(array, type_, interner) for array, type_ in zip(arrays, types, strict=True)]
            values = list(map(apply, *lists)) if lists else [apply()] * count
            inverse = None
        codes = np.array(values, np.int64) if result.structure else encode_column(result, values, interner)
        array = from_codes(codes, result.kind)
        return array if inverse is None else array[inverse]

    return run


# --- representations ------------------------------------------------------------------------------


def from_codes(codes: Codes, kind: str) -> Array:
    """What kernels compute on: floats and booleans as such, everything else as its codes."""
    if kind == "float":
        return code_floats(codes)
    if kind == "bool":
        return np.not_equal(codes, 0)
    return codes


def to_codes(vector: Vector, type_: Type) -> Codes:
    """The codes of a result. Raises ValueOutOfRangeError if an int would read as None."""
    values, null = vector
    codes = float_codes(values) if type_.kind == "float" else np.asarray(values, np.int64)
    if not type_.nullable:
        return codes
    if type_.kind == "int":
        lowest = codes == NULL
        if (lowest if null is None else lowest & ~null).any():
            raise ValueOutOfRangeError(
                "the result is -2**63, which represents None in an optional int column"
            )
    if null is not None:
        codes = np.where(null, NULL, codes)
    return codes


def to_values(array: Array, type_: Type, interner: Interner) -> list[Any]:
    """The Python values of a kernel's operand."""
    values: list[Any]
    if type_.kind in ("int", "float", "bool", "record"):
        values = array.tolist()  # a constructed value is its code here
    else:
        values = decode_column(type_, array, interner)
    return values


def distinct_values(array: Array, type_: Type, interner: Interner) -> tuple[Array, Array]:
    """The distinct elements, and for each element its place among them."""
    if type_.interned and type_.structure is None and len(interner) <= 4 * len(array):
        # Ids are dense: marking them in a table beats sorting.
        present = np.zeros(len(interner), np.bool_)
        present[array] = True
        distinct = np.flatnonzero(present)
        place = np.empty(len(interner), np.int64)
        place[distinct] = np.arange(len(distinct))
        return distinct, place[array]
    distinct, inverse = np.unique(array, return_inverse=True)
    return distinct, inverse


def some(mask: Mask) -> Mask | None:
    """The mask, or None if nothing is marked."""
    return mask if mask.any() else None


def either(a: Mask | None, b: Mask | None) -> Mask | None:
    """The union of two masks, where None is the empty one."""
    if a is None or b is None:
        return a if b is None else b
    return a | b


def fold(node: ExpressionNode) -> ExpressionNode:
    """A constant in place of an operation on constants; unchanged if it has no value (the rows will tell)."""
    if not isinstance(node, StrictNode):
        return node
    if any(isinstance(argument, ConstantNode) and argument.value is None for argument in node.arguments):
        return ConstantNode(node.type.optional(), None)
    if node.operation.with_interner or not all(isinstance(a, ConstantNode) for a in node.arguments):
        return node
    interner = Interner()
    try:
        value = node.scalar(interner)(())
        # Through its code, so that it is what a column of the type would hold.
        value = decode_value(node.type, encode_value(node.type, value, interner), interner)
    except DbspError:
        return node
    return ConstantNode(node.type, value)
