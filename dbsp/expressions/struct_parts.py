"""Parts of structs and lists: a field, an element, the number of elements, membership."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from dbsp.data.interner import Interner
from dbsp.data.nested_values import list_elements, struct_layout
from dbsp.data.schema import suggestion
from dbsp.data.types import BOOL, INT, Type
from dbsp.data.values import encoder
from dbsp.errors import SchemaError
from dbsp.expressions import constructors, strings  # noqa: F401  (their functions are extended)
from dbsp.expressions.functions import convert, define, extend, is_none, unify
from dbsp.expressions.nodes import (
    ConstantNode,
    ExpressionNode,
    Operation,
    Scalar,
    StrictNode,
    Vector,
    VectorFn,
    either,
    from_codes,
    some,
)
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import NULL


class StructFieldNode(ExpressionNode):
    """A field of a struct; None where the struct is None."""

    def __init__(self, value: ExpressionNode, position: int) -> None:
        self.value = value
        self.position = position
        self.layout = struct_layout(value.type)
        type_ = value.type.parts[position].type
        self.type = type_.optional() if value.type.nullable else type_
        self.columns = value.columns
        self.fallible = value.fallible

    def scalar(self, interner: Interner) -> Scalar:
        value, position = self.value.scalar(interner), self.position

        def run(row: Sequence[Any]) -> Any:
            struct = value(row)
            return None if struct is None else struct[position]

        return run

    def vector(self, interner: Interner) -> VectorFn:
        value, layout, cells = self.value.vector(interner), self.layout, interner.cells
        position, type_ = self.position, self.type

        def run(rows: Codes) -> Vector:
            ids, null = value(rows)
            # The ids of rows marked by `null` are undefined.
            codes = cells.field(layout, ids if null is None else np.where(null, NULL, ids), position, 0)
            missing = some(codes == NULL) if type_.nullable else None
            return Vector(from_codes(codes, type_.kind), either(null, missing))

        return run


class ElementNode(ExpressionNode):
    """The element of a list at a position; None outside of the list."""

    def __init__(self, value: ExpressionNode, position: ExpressionNode) -> None:
        self.value, self.position = value, position
        self.type = value.type.element.optional()
        self.columns = value.columns | position.columns
        self.fallible = value.fallible or position.fallible

    def scalar(self, interner: Interner) -> Scalar:
        value, position = self.value.scalar(interner), self.position.scalar(interner)

        def run(row: Sequence[Any]) -> Any:
            elements, at = value(row), position(row)
            if elements is None or at is None or not -len(elements) <= at < len(elements):
                return None
            return elements[at]

        return run

    def vector(self, interner: Interner) -> VectorFn:
        value, position = self.value.vector(interner), self.position.vector(interner)
        type_ = self.type

        def run(rows: Codes) -> Vector:
            ids, null = value(rows)
            at, no_position = position(rows)
            null = either(null, no_position)
            codes = np.full(len(rows), NULL, np.int64)
            keep = np.ones(len(rows), np.bool_) if null is None else ~null
            elements, counts = list_elements(ids[keep], interner)
            places = np.broadcast_to(at, len(rows))[keep]
            inside = (places >= -counts) & (places < counts)
            starts = np.cumsum(counts) - counts
            found = np.full(len(counts), NULL, np.int64)
            chosen = (starts + np.where(places < 0, places + counts, places))[inside]
            found[inside] = elements[chosen]
            codes[keep] = found
            return Vector(from_codes(codes, type_.kind), some(codes == NULL))

        return run


def _field(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    if len(arguments) != 2 or arguments[0].type.kind != "struct":
        return None
    node, name = arguments
    names = [part.name for part in node.type.parts]
    if not isinstance(name, ConstantNode) or name.value not in names:
        given = repr(name.value) if isinstance(name, ConstantNode) else "an expression"
        hint = suggestion(name.value, names) if isinstance(name, ConstantNode) else ""
        raise SchemaError(
            f"unknown field {given} of a struct{f'{hint} The' if hint else '; the'} fields are "
            f"{', '.join(names)}",
            code="unknown-column",
        )
    return StructFieldNode(node, names.index(name.value))


def _element(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    node, position = arguments
    if node.type.kind != "list" or position.type.kind != "int":
        return None
    return ElementNode(node, position)


def _length(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    (node,) = arguments
    return StrictNode(INT, Operation(len), [node]) if node.type.kind == "list" else None


def _contains(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    node, element = arguments
    if node.type.kind != "list":
        return None
    wanted = node.type.element
    if unify([ConstantNode(wanted, _ANY), element]) != _with_null(wanted, element):
        return None
    if is_none(element):
        return ConstantNode(BOOL.optional(), None)
    if wanted.kind == "decimal":  # not converted, since an int may have too many digits for the type
        return StrictNode(BOOL, _MEMBER, arguments)
    membership = _member_by_code(wanted) if wanted.kind in _EQUAL_BY_CODE else _MEMBER
    return StrictNode(BOOL, membership, [node, convert(element, wanted)])


def _member_by_code(element: Type) -> Operation:
    """Return the test for an element with the code of a value: for Python, NaN differs from NaN."""
    encode = encoder(element)

    def scalar(interner: Interner, elements: Sequence[Any], value: Any) -> bool:
        wanted = encode(value, interner)
        return any(encode(found, interner) == wanted for found in elements)

    return Operation(scalar, with_interner=True)


_MEMBER = Operation(operator.contains)
_EQUAL_BY_CODE = ("float", "timestamptz", "list", "struct")
"""Types with values that are equal here and not in Python, or in Python and not here."""
_ANY = object()


def _with_null(type_: Type, node: ExpressionNode) -> Type:
    return type_.optional() if node.type.nullable else type_


extend("field", _field)
extend("length", _length)
define(
    "contains_element",
    "contains expects a list and an element; write x.str.contains(part) for a part of a string",
    _contains,
)
extend("contains", _contains)  # circuits of earlier versions have it for lists, too
define("element", "element expects a list and a position", _element)
