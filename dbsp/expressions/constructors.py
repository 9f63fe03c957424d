"""Construct values (records, branches of algebraic data types) and read their fields.

Within expressions such a value is its code. Constructing looks up rows of field codes in the table
of the constructor, reading a field looks up a row: neither builds a Python object per value.

A field of nil or of another branch is a filler of the field's type: 0, an empty text, nil.
Conditions with `made_by` must exclude such rows; they may be evaluated before or after the field.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dbsp.data.interner import Interner
from dbsp.data.type_inference import as_type
from dbsp.data.types import BOOL, INT, NIL, STR, Constructor, Type, read_structure, structure_type
from dbsp.data.values import decode_value, encode_value
from dbsp.expressions.expression import Expression, call
from dbsp.expressions.functions import convert, define, fits
from dbsp.expressions.nodes import (
    ConstantNode,
    ExpressionNode,
    Scalar,
    Vector,
    VectorFn,
    from_codes,
    to_codes,
)
from dbsp.kernels.arrays import Codes

_FILLERS: dict[str, Any] = {"int": 0, "float": 0.0, "bool": False, "str": "", "bytes": b""}


def construct(type_: Type, constructor: str, *fields: Any) -> Expression:
    """Return the value of a constructor with these fields; the constructor of a record is ""."""
    return call("construct", type_.written, constructor, *fields)


def nil(type_: Type) -> Expression:
    """Return the record nil."""
    return call("nil", type_.written)


def made_by(value: Expression, constructor: str) -> Expression:
    """Return whether this constructor made a value."""
    return call("made_by", value, constructor)


def field_of(value: Expression, constructor: str, position: int) -> Expression:
    """Return a field of a value that this constructor made; a filler for other values."""
    return call("field", value, constructor, position)


def code_of(value: Expression) -> Expression:
    """Return a number that differs for different values of a type; 0 for nil."""
    return call("code_of", value)


class ConstructNode(ExpressionNode):
    """The constructor of a structure applied to fields."""

    def __init__(self, type_: Type, constructor: Constructor, arguments: Sequence[ExpressionNode]) -> None:
        self.type = type_
        self.constructor = constructor
        self.arguments = tuple(arguments)
        self.columns = frozenset[int]().union(*(argument.columns for argument in arguments))
        self.fallible = any(argument.fallible for argument in arguments)

    def scalar(self, interner: Interner) -> Scalar:
        layout = self.constructor.layout
        parts = [argument.scalar(interner) for argument in self.arguments]
        types = [argument.type for argument in self.arguments]

        def run(row: Sequence[Any]) -> int:
            codes = [
                value if type_.kind in ("int", "record") else encode_value(type_, value, interner)
                for value, type_ in zip((part(row) for part in parts), types, strict=True)
            ]
            return interner.construct_one(layout, codes)

        return run

    def vector(self, interner: Interner) -> VectorFn:
        layout = self.constructor.layout
        parts = [argument.vector(interner) for argument in self.arguments]
        types = [argument.type for argument in self.arguments]

        def run(rows: Codes) -> Vector:
            fields = np.empty((len(rows), len(parts)), np.int64)
            for column, (part, type_) in enumerate(zip(parts, types, strict=True)):
                fields[:, column] = to_codes(part(rows), type_)
            return Vector(interner.construct(layout, fields), None)

        return run


class NilNode(ExpressionNode):
    """The record nil, for every row."""

    def __init__(self, type_: Type) -> None:
        self.type = type_

    def scalar(self, interner: Interner) -> Scalar:
        return lambda row: NIL

    def vector(self, interner: Interner) -> VectorFn:
        return lambda rows: Vector(np.full(len(rows), NIL, np.int64), None)


class CodeNode(ExpressionNode):
    """The code of a constructed value as a number."""

    type = INT

    def __init__(self, value: ExpressionNode) -> None:
        self.value = value
        self.columns = value.columns
        self.fallible = value.fallible

    def scalar(self, interner: Interner) -> Scalar:
        value = self.value.scalar(interner)
        return lambda row: value(row) - NIL

    def vector(self, interner: Interner) -> VectorFn:
        value = self.value.vector(interner)
        return lambda rows: Vector(value(rows).values - NIL, None)


class MadeByNode(ExpressionNode):
    """Whether a constructor made a value."""

    type = BOOL

    def __init__(self, value: ExpressionNode, constructor: Constructor) -> None:
        self.value = value
        self.layout = constructor.layout
        self.columns = value.columns
        self.fallible = value.fallible

    def scalar(self, interner: Interner) -> Scalar:
        value, layout, cells = self.value.scalar(interner), self.layout, interner.cells

        def run(row: Sequence[Any]) -> bool:
            code = value(row)
            return cells.is_cell(code) and cells.cell(code)[0] == layout

        return run

    def vector(self, interner: Interner) -> VectorFn:
        value, layout, cells = self.value.vector(interner), self.layout, interner.cells
        return lambda rows: Vector(cells.has_layout(layout, value(rows).values), None)


class FieldNode(ExpressionNode):
    """A field of a value, or the filler of its type."""

    def __init__(self, value: ExpressionNode, constructor: Constructor, position: int) -> None:
        self.value = value
        self.layout = constructor.layout
        self.position = position
        self.type = constructor.fields[position].type
        self.columns = value.columns
        self.fallible = value.fallible

    def _filler(self, interner: Interner) -> int:
        if self.type.structure is not None:
            return NIL
        return encode_value(self.type, _FILLERS[self.type.kind], interner)

    def scalar(self, interner: Interner) -> Scalar:
        value, layout, position, cells = (
            self.value.scalar(interner),
            self.layout,
            self.position,
            interner.cells,
        )
        filler, type_ = self._filler(interner), self.type
        plain = type_.kind in ("int", "record")

        def run(row: Sequence[Any]) -> Any:
            code = value(row)
            field = filler
            if cells.is_cell(code):
                code_layout, fields = cells.cell(code)
                field = fields[position] if code_layout == layout else filler
            return field if plain else decode_value(type_, field, interner)

        return run

    def vector(self, interner: Interner) -> VectorFn:
        value, layout, position, cells = (
            self.value.vector(interner),
            self.layout,
            self.position,
            interner.cells,
        )
        filler, kind = self._filler(interner), self.type.kind
        return lambda rows: Vector(
            from_codes(cells.field(layout, value(rows).values, position, filler), kind), None
        )


def _resolve_construct(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    if len(arguments) < 2:
        return None
    text, name = map(_constant, arguments[:2])
    if not isinstance(text, str) or not isinstance(name, str):
        return None
    structure = read_structure(text)
    constructor = structure.by_name.get(name)
    fields = arguments[2:]
    if constructor is None or len(fields) != len(constructor.fields):
        return None
    types = [field.type for field in constructor.fields]
    if not all(map(_fits_exactly, fields, types)):
        return None
    return ConstructNode(structure_type(structure), constructor, list(map(convert, fields, types)))


def _fits_exactly(argument: ExpressionNode, type_: Type) -> bool:
    return fits(argument, type_) and argument.type.structure == type_.structure and not argument.type.nullable


def _resolve_nil(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    if len(arguments) != 1 or not isinstance(text := _constant(arguments[0]), str):
        return None
    type_ = as_type(text)
    return NilNode(type_) if type_.structure is not None and type_.structure.is_record else None


def _constructor_of(value: ExpressionNode, name: ExpressionNode) -> Constructor | None:
    structure = value.type.structure
    return None if structure is None or value.type.nullable else structure.by_name.get(_constant(name))


def _resolve_made_by(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    if len(arguments) != 2:
        return None
    constructor = _constructor_of(*arguments)
    return None if constructor is None else MadeByNode(arguments[0], constructor)


def _resolve_field(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    if len(arguments) != 3:
        return None
    constructor, position = _constructor_of(*arguments[:2]), _constant(arguments[2])
    if constructor is None or not isinstance(position, int) or not 0 <= position < len(constructor.fields):
        return None
    return FieldNode(arguments[0], constructor, position)


def _resolve_code(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
    if len(arguments) != 1 or arguments[0].type.structure is None or arguments[0].type.nullable:
        return None
    return CodeNode(arguments[0])


def _constant(node: ExpressionNode) -> Any:
    return node.value if isinstance(node, ConstantNode) and node.type.kind in (STR.kind, "int") else None


define("construct", "construct expects a structure, a constructor and its fields", _resolve_construct)
define("nil", "nil expects a type of records", _resolve_nil)
define("made_by", "made_by expects a constructed value and one of its constructors", _resolve_made_by)
define("code_of", "code_of expects a constructed value", _resolve_code)
define(
    "field",
    "field expects a struct and the name of a field, or a constructed value, a constructor and a position",
    _resolve_field,
)
