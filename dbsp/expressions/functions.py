"""The table of functions, and how a call finds the operation for the types of its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dbsp.data.types import FLOAT, OBJECT, Type
from dbsp.errors import SchemaError
from dbsp.expressions.nodes import Array, ConstantNode, ExpressionNode, Operation, StrictNode, fold

Resolver: TypeAlias = Callable[[Sequence[ExpressionNode]], "ExpressionNode | None"]
"""From bound operands to the node of the call; None if their types do not fit."""


@dataclass(frozen=True)
class Function:
    """A function by name: what it expects (for messages), and how it is bound."""

    name: str
    expects: str
    resolve: Resolver


FUNCTIONS: dict[str, Function] = {}


def define(name: str, expects: str, resolve: Resolver) -> None:
    """Enter a function into the table. Raises SchemaError if the name is taken."""
    if name in FUNCTIONS:
        raise SchemaError(f"there is a function {name!r} already")
    FUNCTIONS[name] = Function(name, expects, resolve)


@dataclass(frozen=True)
class Overload:
    """One signature: the types of the operands, the type of the result, what to do."""

    operands: tuple[Type, ...]
    result: Type
    operation: Operation


def overloads(*signatures: Overload) -> Resolver:
    """Resolve by the first signature that fits; an int fits where a float is expected, None fits anywhere."""

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
    """Whether a node may stand where a type is expected."""
    return (
        is_none(node) or node.type.kind == type_.kind or (node.type.kind == "int" and type_.kind == "float")
    )


def is_none(node: ExpressionNode) -> bool:
    """Whether the node is the constant None, which takes any type."""
    return isinstance(node, ConstantNode) and node.value is None


def convert(node: ExpressionNode, type_: Type) -> ExpressionNode:
    """The node as a value of another kind: int to float, anything to object."""
    if node.type.kind == type_.kind:
        return node
    if is_none(node):
        return ConstantNode(type_.optional(), None)
    return fold(StrictNode(type_.required(), _CONVERSIONS[type_.kind], [node]))


def unify(nodes: Sequence[ExpressionNode]) -> Type | None:
    """The type in which all nodes meet (optional if one is); None if there is none.

    Equal kinds meet in themselves, int and float in float, and anything meets an object in object, except
    for constructed values, which meet those of their own structure only.
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
    """The error for operands that do not fit; `written` is their text."""
    actual = " and ".join(
        "None" if is_none(argument) else f"{text} ({argument.type})"
        for text, argument in zip(written, arguments, strict=True)
    )
    return SchemaError(f"{function.expects}, not {actual}")


def _int_to_float(value: int) -> float:
    return float(value)


def _ints_to_floats(values: Array) -> Array:
    return values.astype("float64")


_CONVERSIONS: dict[str, Operation] = {
    FLOAT.kind: Operation(_int_to_float, _ints_to_floats),
    OBJECT.kind: Operation(lambda value: value),
}
