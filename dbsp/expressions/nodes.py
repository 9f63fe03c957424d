"""Bound expressions: typed nodes that evaluate rows.

The `scalar` function of an operation, over Python values, defines its meaning. It runs for a few
rows, for strings (once per distinct value), and to find the row of an error. For speed an operation
may also have a `vector` kernel over numpy arrays. A kernel returns exactly the same results, since
a tick of one row must be able to retract a row of a bulk load; or it raises `GiveUp`, and the
scalar function decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from dbsp.data.columns import code_floats, decode_column, encode_column, float_codes
from dbsp.data.distinct_codes import distinct_codes
from dbsp.data.interner import Interner
from dbsp.data.types import Type
from dbsp.data.values import decode_value, encode_value
from dbsp.errors import DbspError, ValueOutOfRangeError
from dbsp.expressions.expression import Call
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import NULL
from dbsp.lazy_dataclass import dataclass

Array: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_]
Scalar: TypeAlias = Callable[[Sequence[Any]], Any]
"""Returns the result for the values of a row."""


class GiveUp(Exception):
    """A kernel does not support these values: overflow, a zero divisor."""


class CallFailed(Exception):
    """A call has no value for a row; `error` has the reason."""

    def __init__(self, error: DbspError, call: Call) -> None:
        super().__init__(error.message)
        self.error = error
        self.call = call


class Vector(NamedTuple):
    """Values of many rows: int64 (ints, days, microseconds, ids), float64 or bool.

    The values of rows marked by `null` are undefined.
    """

    values: Array
    null: Mask | None


VectorFn: TypeAlias = Callable[[Codes], Vector]
Apply: TypeAlias = Callable[..., Any]
Kernel: TypeAlias = Callable[[Sequence[Array]], Array]


@dataclass(frozen=True)
class Operation:
    """The operation of a function for operands of certain types.

    `fallible`: it raises an error for some values. `with_interner`: the interner is the first
    argument of the scalar function.
    """

    scalar: Callable[..., Any]
    vector: Callable[..., Array] | None = None
    fallible: bool = False
    with_interner: bool = False

    def scalar_for(self, interner: Interner) -> Callable[..., Any]:
        """Return the scalar function with only values as arguments."""
        return partial(self.scalar, interner) if self.with_interner else self.scalar


class ExpressionNode:
    """A typed expression over the columns of one schema."""

    type: Type
    columns: frozenset[int] = frozenset()
    fallible = False

    def scalar(self, interner: Interner) -> Scalar:
        """Return the evaluator of one row of values."""
        raise TypeError(f"{type(self).__name__} has no scalar evaluator")

    def vector(self, interner: Interner) -> VectorFn:
        """Return the evaluator of int64[n, k] code rows, n > 0."""
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
        """Return the value as a kernel's operand; numpy broadcasts it over the rows."""
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
    """An operation whose result is None if any operand is None."""

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
        # Nested operations on strings become part of this one, so their results are not interned.
        apply = self._compose(operands, interner)
        return _strict(operands, apply, self._kernel(operands, interner), self.type, interner)

    def _compose(self, operands: list[ExpressionNode], interner: Interner) -> Apply:
        """Return the scalar function over `operands`; fill `operands` with the varying arguments.

        An argument that a scalar function computes, and that is a string or an object, becomes part
        of the returned function.
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
        """Return the kernel over the arrays of `operands`, with the constants as operands."""
        kernel = self.operation.vector
        varying = [a for a in self.arguments if not isinstance(a, ConstantNode) or a.value is None]
        if kernel is None or not varying or any(argument not in operands for argument in varying):
            return None
        # The source of each argument: a position among the operands, or a constant.
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
    """Return the evaluator of an operation over its varying operands: `kernel`, or else `apply`."""
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
        # Only rows without None are computed, since the undefined values could overflow.
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
            distinct, inverse = distinct_values(arrays[0])
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
    """Return the operand of a kernel: floats and booleans as values, other kinds as codes."""
    if kind == "float":
        return code_floats(codes)
    if kind == "bool":
        return np.not_equal(codes, 0)
    return codes


def to_codes(vector: Vector, type_: Type) -> Codes:
    """Return the codes of a result. Raises ValueOutOfRangeError if an int has the code of None."""
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
    """Return the Python values of a kernel's operand."""
    values: list[Any]
    if type_.kind in ("int", "float", "bool", "record"):
        values = array.tolist()  # a constructed value is its code here
    else:
        values = decode_column(type_, array, interner)
    return values


def distinct_values(array: Array) -> tuple[Array, Array]:
    """Return the distinct elements, and for each element its position among them."""
    return distinct_codes(array) if array.dtype == np.int64 else np.unique(array, return_inverse=True)


def some(mask: Mask) -> Mask | None:
    """Return the mask, or None if no row is marked."""
    return mask if mask.any() else None


def either(a: Mask | None, b: Mask | None) -> Mask | None:
    """Return the union of two masks, where None is the empty mask."""
    if a is None or b is None:
        return a if b is None else b
    return a | b


def fold(node: ExpressionNode) -> ExpressionNode:
    """Replace an operation on constants by its value; keep an operation without a value.

    An operation without a value raises its error for the first row, if there is a row.
    """
    if not isinstance(node, StrictNode):
        return node
    if any(isinstance(argument, ConstantNode) and argument.value is None for argument in node.arguments):
        return ConstantNode(node.type.optional(), None)
    if node.operation.with_interner or not all(isinstance(a, ConstantNode) for a in node.arguments):
        return node
    interner = Interner()
    try:
        value = node.scalar(interner)(())
        # Encoded and decoded, so that the value equals the value that a column would store.
        value = decode_value(node.type, encode_value(node.type, value, interner), interner)
    except DbspError:
        return node
    return ConstantNode(node.type, value)
