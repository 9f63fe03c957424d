"""When two values are the same value, and their order.

`1`, `1.0`, `1M` and `true` are four values, although Python takes them as equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from decimal import Decimal
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

from dbsp.edn import Keyword, Symbol

NUMBERS = (int, float, Fraction, Decimal)


_KINDS = {bool: "boolean", int: "integer", float: "float", str: "str", Keyword: "Keyword"}
"""The names of the frequent types."""


def identity(value: Any) -> Any:
    """Return a key that is equal for the same values only."""
    kind = _KINDS.get(type(value))
    if kind is not None:
        return (kind, value)
    if isinstance(value, Mapping):
        return ("map", frozenset((identity(key), identity(item)) for key, item in value.items()))
    if isinstance(value, Set):
        return ("set", frozenset(map(identity, value)))
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return ("sequence", tuple(map(identity, value)))
    return (type(value).__name__, value)


def same(left: Any, right: Any) -> bool:
    return bool(identity(left) == identity(right))


def compare(left: Any, right: Any) -> int:
    """Return -1, 0 or 1; numbers are compared across types, other values within their type."""
    if is_number(left) and is_number(right):
        exact = [Fraction(value) for value in (left, right)]
        return (exact[0] > exact[1]) - (exact[0] < exact[1])
    if type(left) is not type(right):
        raise TypeError(f"cannot compare {left!r} with {right!r}")
    if isinstance(left, (Keyword, Symbol)):
        left, right = ((value.namespace or "", value.name) for value in (left, right))
    if isinstance(left, tuple):
        if len(left) != len(right):
            return compare(len(left), len(right))
        return next((order for order in map(compare, left, right) if order), 0)
    return (left > right) - (left < right)


def is_number(value: Any) -> bool:
    return isinstance(value, NUMBERS) and not isinstance(value, bool)


order = cmp_to_key(compare)
"""The key of `sorted` for values of one type."""
