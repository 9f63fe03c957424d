"""The table of functions, and the choice of an operation by the types of its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from dbsp.data.types import FLOAT, INSTANT, OBJECT, Type, decimal_type
from dbsp.errors import SchemaError
from dbsp.expressions.nodes import Array, ConstantNode, ExpressionNode, Operation, StrictNode, fold
from dbsp.lazy_dataclass import dataclass

Resolver: TypeAlias = Callable[[Sequence[ExpressionNode]], "ExpressionNode | None"]
"""Returns the node of a call with these bound operands; None if their types do not fit."""


@dataclass(frozen=True)
class Function:
    """A named function: the text of its expected operands for messages, and its resolver."""

    name: str
    expects: str
    resolve: Resolver


FUNCTIONS: dict[str, Function] = {}

CONVERTERS: dict[str, Callable[[ExpressionNode, Type], ExpressionNode]] = {}
"""The conversions to types with parameters, by kind; the modules of their arithmetic add them."""


def define(name: str, expects: str, resolve: Resolver) -> None:
    """Add a function to the table. Raises SchemaError if the name exists."""
    if name in FUNCTIONS:
        raise SchemaError(f"a function {name!r} exists already; choose another name", code="duplicate-name")
    FUNCTIONS[name] = Function(name, expects, resolve)


def extend(name: str, resolve: Resolver) -> None:
    """Add signatures to a function of the table; they are tried after those that it has."""
    function = FUNCTIONS[name]
    earlier = function.resolve
    FUNCTIONS[name] = replace(function, resolve=lambda arguments: earlier(arguments) or resolve(arguments))


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
    """Convert a node to another type: int to float or decimal, any plain one to object."""
    if node.type.coding == type_.coding:
        return node
    if is_none(node):
        return ConstantNode(type_.optional(), None)
    if type_.kind in CONVERTERS:
        return fold(CONVERTERS[type_.kind](node, type_))
    return fold(StrictNode(type_.required(), _CONVERSIONS[type_.kind], [node]))


def unify(nodes: Sequence[ExpressionNode]) -> Type | None:
    """Return the common type of all nodes (optional if one is); None if there is none.

    The common kind of int and float is float. The common kind of an object and any other kind is
    object, except for constructed values, which have a common type only with their own structure.
    """
    kinds = {node.type.kind for node in nodes if not is_none(node)}
    if kinds == {"int", "float"}:
        kinds = {"float"}
    if kinds & _PARAMETRIC and "object" not in kinds:
        return _unify_parametric(nodes, kinds)
    if len(kinds) > 1:
        kinds = {"object"} if "object" in kinds and not kinds & _STRUCTURED else kinds
    structures = {node.type.structure for node in nodes if not is_none(node)}
    if len(kinds) > 1 or (len(structures) > 1 and "record" in kinds):
        return None
    type_ = Type(kinds.pop(), structure=structures.pop() if structures else None) if kinds else OBJECT
    return type_.optional() if any(node.type.nullable for node in nodes) else type_


_PARAMETRIC = frozenset({"decimal", "timestamptz", "list", "struct"})
_STRUCTURED = frozenset({"record", "list", "struct"})


def _unify_parametric(nodes: Sequence[ExpressionNode], kinds: set[str]) -> Type | None:
    """Return the common type of nodes of kinds with parameters; None if there is none."""
    types = [node.type.required() for node in nodes if not is_none(node)]
    if kinds <= {"decimal", "int"}:
        common = decimal_type(max(type_.scale for type_ in types))
    elif len({type_.coding for type_ in types}) > 1:
        return None
    else:
        common = types[0] if len(set(types)) == 1 else INSTANT
    return common.optional() if any(node.type.nullable for node in nodes) else common


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
