"""Equality and order of EDN values, as Clojure's `=`, `==` and `compare` define them.

Python differs in three points: `True == 1`, `1 == 1.0`, and a `Decimal` has no sum with a
`Fraction`. A number is equal only to a number of its category: integer, float, ratio or decimal.
`==` compares numbers across categories, and so does the order.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Collection, Mapping, Sequence, Set
from decimal import Decimal
from fractions import Fraction
from functools import cmp_to_key
from typing import Any, TypeGuard

from dbsp.edn.edn_values import Char, Keyword, Symbol, Tagged
from dbsp.errors import EvaluationError, shorten

Number = int | float | Fraction | Decimal


def is_number(value: object) -> TypeGuard[Number]:
    """Whether a value is a number; a boolean is not."""
    return isinstance(value, (int, float, Fraction, Decimal)) and not isinstance(value, bool)


def is_true(value: object) -> bool:
    """Whether Clojure takes a value as true: everything but nil and false."""
    return value is not None and value is not False


def type_name(value: object) -> str:
    """Return the name of a value's type in messages, as in `:db.type/long`.

    >>> type_name(True), type_name(3), type_name((1, 2))
    ('boolean', 'long', 'vector')
    """
    if value is None:
        return "nil"
    for types, name in _TYPE_NAMES:
        if isinstance(value, types):
            return name
    return type(value).__name__


_TYPE_NAMES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "boolean"),
    (int, "long"),
    (float, "double"),
    (Fraction, "ratio"),
    (Decimal, "bigdec"),
    (Keyword, "keyword"),
    (Symbol, "symbol"),
    (Char, "char"),
    (str, "string"),
    ((bytes, bytearray), "bytes"),
    (datetime.datetime, "instant"),
    (uuid.UUID, "uuid"),
    (Tagged, "tagged value"),
    ((list, tuple), "vector"),
    (Set, "set"),
    (Mapping, "map"),
)
_RANKS = {name: rank for rank, (_, name) in enumerate(_TYPE_NAMES)}


def equal_values(left: object, right: object) -> bool:
    """Return whether two values are equal, as by Clojure's `=`.

    >>> equal_values(1, 1.0), equal_values(True, 1), equal_values((1, 2), [1, 2])
    (False, False, True)
    """
    if left is None or right is None:
        return left is right
    kind = type_name(left)
    if kind != type_name(right):
        return False
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(equal_values, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return len(left) == len(right) and all(
            _among(key, right) and equal_values(value, right[key]) for key, value in left.items()
        )
    if isinstance(left, Set) and isinstance(right, Set):
        return len(left) == len(right) and all(_among(item, right) for item in left)
    return bool(left == right)


def _among(value: object, items: Collection[Any]) -> bool:
    """Whether one of the items equals the value; a lookup alone would take 1 for 1.0."""
    return value in items and any(equal_values(value, item) for item in items)


def same_numbers(left: object, right: object) -> bool:
    """Return whether two numbers are equal across categories, as by Clojure's `==`."""
    if not is_number(left) or not is_number(right):
        raise _not_comparable(left, right)
    # NaN is not equal to itself.
    return compare_numbers(left, right) == 0 and left == left and right == right


def compare_numbers(left: Number, right: Number) -> int:
    """Return -1, 0 or 1. The comparison is exact, also between a float and an integer.

    NaN is neither before nor after any number, as in Clojure.
    """
    if left != left or right != right:
        return 0
    if isinstance(left, Fraction) and isinstance(right, Decimal):
        right = Fraction(right)
    elif isinstance(left, Decimal) and isinstance(right, Fraction):
        left = Fraction(left)
    return (left > right) - (left < right)


def compare_values(left: Any, right: Any) -> int:
    """Return -1, 0 or 1, as by Clojure's `compare`.

    nil is before everything. Vectors are ordered by length, then by their items; keywords and
    symbols by namespace, then by name. Raises EvaluationError for values of unlike types.

    >>> compare_values(1, 1.5), compare_values("b", "a"), compare_values((9,), (1, 2))
    (-1, 1, -1)
    """
    if left is None or right is None:
        return (left is not None) - (right is not None)
    if is_number(left) and is_number(right):
        return compare_numbers(left, right)
    kind = type_name(left)
    if kind != type_name(right) or kind in ("set", "map", "tagged value"):
        raise _not_comparable(left, right)
    if isinstance(left, (list, tuple)):
        return _compare_sequences(left, right)
    if isinstance(left, (Keyword, Symbol)):
        return _three_way((left.namespace or "", left.name), (right.namespace or "", right.name))
    try:
        return _three_way(left, right)
    except TypeError:
        raise _not_comparable(left, right) from None


def _compare_sequences(left: Sequence[Any], right: Sequence[Any]) -> int:
    if len(left) != len(right):
        return _three_way(len(left), len(right))
    return next((order for order in map(compare_values, left, right) if order), 0)


def _three_way(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


def _not_comparable(left: object, right: object) -> EvaluationError:
    return EvaluationError(
        f"cannot compare {shorten(left)} of type {type_name(left)} "
        f"with {shorten(right)} of type {type_name(right)}",
        code="not-comparable",
    )


def _total_order(left: Any, right: Any) -> int:
    """An order of all values, for results that do not depend on the order of the input.

    NaN is after all other numbers, as in the order of the engine.
    """
    if is_number(left) and is_number(right) and (left != left or right != right):
        return _three_way(left != left, right != right) or _three_way(type_name(left), type_name(right))
    names = type_name(left), type_name(right)
    if names[0] == names[1] and names[0] in ("vector", "set", "map", "tagged value"):
        left, right = _items(left), _items(right)
        order = _three_way(len(left), len(right))
        return order or next((order for order in map(_total_order, left, right) if order), 0)
    ranks = [(_RANKS.get(name, len(_RANKS)), name) for name in names]
    try:
        order = compare_values(left, right)
    except EvaluationError:
        return _three_way(*ranks) or _three_way(repr(left), repr(right))
    # 1 and 1.0 have the same place as numbers, but are two values.
    return order or _three_way(*ranks)


def _items(value: Any) -> list[Any]:
    """The parts of a value, in an order that does not depend on how it was built."""
    if isinstance(value, Tagged):
        return [value.tag, value.value]
    if isinstance(value, Mapping):
        return sorted(value.items(), key=total_order)
    return sorted(value, key=total_order) if isinstance(value, Set) else list(value)


total_order = cmp_to_key(_total_order)
"""The key of `sorted` for values of any types; equal only for equal values."""
