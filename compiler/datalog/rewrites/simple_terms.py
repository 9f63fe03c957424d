"""Which terms and literals may be moved or left out: those with one value, that cannot fail."""

from __future__ import annotations

from typing import Any

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.signatures import PARTIAL
from dbsp.compiler.datalog.meaning.traversal import parts, walk


def is_simple(node: Any) -> bool:
    """Whether it has a single value, no aggregate in it, and can only fail to have one by its size."""
    match node:
        case checked.Variable() | checked.Wildcard() | checked.Constant() | checked.Truth():
            return True
        case checked.Construct():
            return all(map(is_simple, parts(node)))
        case checked.Call(function=function) if function in PARTIAL or function not in SINGLE_VALUED:
            return False
        case checked.Atom() | checked.Negation() | checked.Comparison() | checked.Call():
            return all(map(is_simple, parts(node)))
        case _:
            return False


def is_total(node: Any) -> bool:
    """Whether it is simple and has a value for all arguments."""
    calls = (one for one in walk(node) if isinstance(one, checked.Call))
    return is_simple(node) and all(
        one.kind is checked.Kind.SYMBOL or one.function not in ("+", "-", "*") for one in calls
    )


SINGLE_VALUED = frozenset(
    {"+", "-", "*", "/", "%", "^", "cat", "strlen", "substr", "ord", "min", "max"}
    | {"to_string", "to_number", "to_unsigned", "to_float", "as"}
    | {"itof", "itou", "ftoi", "ftou", "utoi", "utof"}
    | {"band", "bor", "bxor", "bnot", "bshl", "bshr", "bshru", "land", "lor", "lxor", "lnot", "wrap"}
)
"""Functions of their arguments alone, that need nothing else and change nothing."""
