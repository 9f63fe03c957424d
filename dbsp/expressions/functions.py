"""The table of functions, and the choice of an operation by the types of its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dbsp.data.types import FLOAT, OBJECT, Type
from dbsp.errors import SchemaError
from dbsp.expressions.nodes import Array, ConstantNode, ExpressionNode, Operation, StrictNode, fold

Resolver: TypeAlias = Callable[[Sequence[ExpressionNode]], "ExpressionNode | None"]
"""Returns the node of a call with these bound operands; None if their types do not fit."""


@dataclass(frozen=True)
class Function:
    """A named function: the text of its expected operands for messages, and its resolver."""

    name: str
    expects: str
    resolve: Resolver


FUNCTIONS: dict[str, Function] = {}


def define(name: str, expects: str, resolve: Resolver) -> None:
    """Add a function to the table. Raises SchemaError if the name exists."""
    if name in FUNCTIONS:
        raise SchemaError(f"a function {name!r} exists already; choose another name", code="duplicate-name")
    FUNCTIONS[name] = Function(name, expects, resolve)


@dataclass(frozen=True)
class Overload:
    """One signature: the types of the operands, the type of the result, the operation."""

    operands: tuple[Type, ...]
    result: Type
    operation: Operation


def overloads(*signatures: Overload) -> Resolver:
    """Return a resolver that uses the first fitting signature.

    An int fits where a float is expected, and None fits any type.
    """

    def resolve(arguments: Sequence[ExpressionNode]) -> ExpressionNode | None:
        for signature in signatures:
            if len(signature.operands) == len(arguments) and all(
                fits(argument, type_) for argument, type_ in zip(arguments, signature.operands, strict=True)
            ):
                operands = [convert(a, type_) for a, type_ in zip(arguments, signature.operands, strict=True)]
                return fold(StrictNode(signature.result, signature.operation, operands))
        return None

    return resolve


def fits(node: ExpressionNode, type_: Type) -> bool:
    """Whether a node is acceptable where a type is expected."""
    return (
        is_none(node) or node.type.kind == type_.kind or (node.type.kind == "int" and type_.kind == "float")
    )


def is_none(node: ExpressionNode) -> bool:
    """Whether the node is the constant None, which fits any type."""
    return isinstance(node, ConstantNode) and node.value is None


def convert(node: ExpressionNode, type_: Type) -> ExpressionNode:
    """Convert a node to another kind: int to float, any kind to object."""
    if node.type.kind == type_.kind:
        return node
    if is_none(node):
        return ConstantNode(type_.optional(), None)
    return fold(StrictNode(type_.required(), _CONVERSIONS[type_.kind], [node]))


def unify(nodes: Sequence[ExpressionNode]) -> Type | None:
    """Return the common type of all nodes (optional if one is); None if there is none.

    The common kind of int and float is float. The common kind of an object and any other kind is
    object, except for constructed values, which have a common type only with their own structure.
    """
    kinds = {node.type.kind for node in nodes if not is_none(node)}
    if kinds == {"int", "float"}:
        kinds = {"float"}
    if len(kinds) > 1:
        kinds = {"object"} if "object" in kinds and "record" not in kinds else kinds
    structures = {node.type.structure for node in nodes if not is_none(node)}
    if len(kinds) > 1 or (len(structures) > 1 and "record" in kinds):
        return None
    type_ = Type(kinds.pop(), structure=structures.pop() if structures else None) if kinds else OBJECT
    return type_.optional() if any(node.type.nullable for node in nodes) else type_


def refuse(function: Function, written: Sequence[str], arguments: Sequence[ExpressionNode]) -> SchemaError:
    """Return the error for operands that do not fit; `written` is their text."""
    actual = " and ".join(
        "None" if is_none(argument) else f"{text} ({argument.type})"
        for text, argument in zip(written, arguments, strict=True)
    )
    return SchemaError(f"{function.expects}, got {actual}", code="wrong-type")


def _int_to_float(value: int) -> float:
    return float(value)


def _ints_to_floats(values: Array) -> Array:
    return values.astype("float64")


_CONVERSIONS: dict[str, Operation] = {
    FLOAT.kind: Operation(_int_to_float, _ints_to_floats),
    OBJECT.kind: Operation(lambda value: value),
}
