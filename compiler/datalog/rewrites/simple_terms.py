"""Terms and literals that may be moved or removed: they have one value and cannot fail."""

from __future__ import annotations

from typing import Any

from dbsp.compiler.datalog.meaning.signatures import PARTIAL
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.kinds import Kind
from dbsp.compiler.datalog.tree.traversal import children, walk


def is_simple(node: Any) -> bool:
    """Whether a node has a single value, contains no aggregate, and fails by overflow at most."""
    match node:
        case syntax.Variable() | syntax.Wildcard() | syntax.Constant() | syntax.Truth():
            return True
        case syntax.Construct():
            return all(map(is_simple, children(node)))
        case syntax.Call(function=function) if function in PARTIAL or function not in SINGLE_VALUED:
            return False
        case syntax.Atom() | syntax.Negation() | syntax.Comparison() | syntax.Call():
            return all(map(is_simple, children(node)))
        case _:
            return False


def is_total(node: Any) -> bool:
    """Whether a node is simple and has a value for all arguments."""
    calls = (call for call in walk(node) if isinstance(call, syntax.Call))
    return is_simple(node) and all(
        call.kind is Kind.SYMBOL or call.function not in ("+", "-", "*") for call in calls
    )


SINGLE_VALUED = frozenset(
    {"+", "-", "*", "/", "%", "^", "cat", "strlen", "substr", "ord", "min", "max"}
    | {"to_string", "to_number", "to_unsigned", "to_float", "as"}
    | {"itof", "itou", "ftoi", "ftou", "utoi", "utof"}
    | {"band", "bor", "bxor", "bnot", "bshl", "bshr", "bshru", "land", "lor", "lxor", "lnot", "wrap"}
)
"""Functions that depend on their arguments only and have no side effect."""
