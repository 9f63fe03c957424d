"""Clojure's functions of vectors, sets and maps, and of values of any type, for queries."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Set
from functools import cmp_to_key
from typing import Any

from dbsp.compiler.datomic.meaning.clojure_order import (
    compare_values,
    equal_values,
    is_true,
    same_numbers,
    total_order,
    type_name,
)
from dbsp.edn.edn_values import EdnList, EdnMap, Keyword
from dbsp.edn.edn_writer import display_text
from dbsp.errors import EvaluationError, counted, shorten


def all_equal(*values: Any) -> bool:
    """Whether all values are equal."""
    return all(equal_values(left, right) for left, right in _pairs(values))


def not_all_equal(*values: Any) -> bool:
    """Whether two neighbours differ."""
    return not all_equal(*values)


def all_same_numbers(*values: Any) -> bool:
    """Whether all numbers are equal, across categories."""
    return all(same_numbers(left, right) for left, right in _pairs(values))


def all_different(*values: Any) -> bool:
    """Whether no two values are equal."""
    return not any(
        equal_values(left, right) for position, left in enumerate(values) for right in values[position + 1 :]
    )


def ascending(*values: Any) -> bool:
    """Whether each value is less than the next one: `<`."""
    return all(_order("<", left, right) < 0 for left, right in _pairs(values))


def not_descending(*values: Any) -> bool:
    """Whether each value is at most the next one: `<=`."""
    return all(_order("<=", left, right) <= 0 for left, right in _pairs(values))


def descending(*values: Any) -> bool:
    """Whether each value is greater than the next one: `>`."""
    return all(_order(">", left, right) > 0 for left, right in _pairs(values))


def not_ascending(*values: Any) -> bool:
    """Whether each value is at least the next one: `>=`."""
    return all(_order(">=", left, right) >= 0 for left, right in _pairs(values))


def _pairs(values: tuple[Any, ...]) -> Iterable[tuple[Any, Any]]:
    return itertools.pairwise(values)


def _order(name: str, left: Any, right: Any) -> int:
    for value in (left, right):
        if value is None:
            raise EvaluationError(
                f"({name} {display_text(left)} {display_text(right)}) compares nil", code="not-comparable"
            )
    # Comparisons with NaN are false.
    return compare_values(left, right) if left == left and right == right else _NAN_ORDER[name]


_NAN_ORDER: Mapping[str, int] = {"<": 1, "<=": 1, ">": -1, ">=": -1}


def logical_and(*values: Any) -> Any:
    """Return the first value that is nil or false, or the last value."""
    return next((value for value in values if not is_true(value)), values[-1] if values else True)


def logical_or(*values: Any) -> Any:
    """Return the first value that is neither nil nor false, or the last value."""
    return next((value for value in values if is_true(value)), values[-1] if values else None)


def type_keyword(value: Any) -> Keyword | None:
    """Return the type of a value as a keyword.

    >>> type_keyword(3), type_keyword("a")
    (:db.type/long, :db.type/string)
    """
    return None if value is None else Keyword("db.type/" + type_name(value).replace(" ", "-"))


def count_of(collection: Any) -> int:
    """Return the number of items; of a string the number of characters; 0 for nil."""
    return 0 if collection is None else len(_counted("count", collection))


def is_empty(collection: Any) -> bool:
    """Whether a collection or string has no items."""
    return count_of(collection) == 0


def not_empty(collection: Any) -> Any:
    """Return the collection, or nil if it is empty."""
    return collection if count_of(collection) else None


def vector(*values: Any) -> tuple[Any, ...]:
    """Return a vector of the values."""
    return values


def list_of(*values: Any) -> EdnList:
    """Return a list of the values."""
    return EdnList(values)


def set_of(collection: Any) -> frozenset[Any]:
    """Return the set of the items of a collection."""
    return frozenset(_items("set", collection))


def hash_set(*values: Any) -> frozenset[Any]:
    """Return the set of the values."""
    return frozenset(values)


def hash_map(*values: Any) -> EdnMap:
    """Return the map of alternating keys and values."""
    if len(values) % 2:
        message = f"hash-map: expected keys and values in turn, got {counted(len(values), 'argument')}"
        raise EvaluationError(message, code="wrong-value-type")
    return EdnMap(zip(values[::2], values[1::2], strict=True))


def get(collection: Any, key: Any, default: Any = None) -> Any:
    """Return the value of a key of a map, an item of a set, or an item at a position.

    Returns the default, or nil, if there is none.
    """
    if isinstance(collection, Mapping):
        return collection.get(key, default)
    if isinstance(collection, Set):
        return key if key in collection else default
    if isinstance(collection, (list, tuple, str)) and not isinstance(collection, EdnList):
        return collection[key] if _is_position(key, collection) else default
    return default


def item_at(collection: Any, position: Any, *default: Any) -> Any:
    """Return the item at a position; the default if there is none, else an error."""
    items = _sequence("nth", collection)
    if _is_position(position, items):
        return items[position]
    if default:
        return default[0]
    expected = f"a position from 0 to {len(items) - 1} of {shorten(collection)}"
    raise EvaluationError(
        f"nth: expected {expected if items else 'a collection with items'}, got {shorten(position)}",
        code="position-out-of-range",
    )


def first_item(collection: Any) -> Any:
    """Return the first item, or nil."""
    return next(iter(_items("first", collection)), None)


def second_item(collection: Any) -> Any:
    """Return the second item, or nil."""
    items = _items("second", collection)
    return items[1] if len(items) > 1 else None


def last_item(collection: Any) -> Any:
    """Return the last item, or nil."""
    items = _items("last", collection)
    return items[-1] if items else None


def rest_of(collection: Any) -> EdnList:
    """Return the items after the first one."""
    return EdnList(_items("rest", collection)[1:])


def distinct_items(collection: Any) -> EdnList:
    """Return the items without repetitions, in their order."""
    found: list[Any] = []
    for item in _items("distinct", collection):
        if not any(equal_values(item, other) for other in found):
            found.append(item)
    return EdnList(found)


def sorted_items(collection: Any) -> EdnList:
    """Return the items in ascending order."""
    return EdnList(sorted(_items("sort", collection), key=cmp_to_key(compare_values)))


def has_key(collection: Any, key: Any) -> bool:
    """Whether a map has the key, a set the item, or a vector the position."""
    if collection is None:
        return False
    if isinstance(collection, (Mapping, Set)):
        return key in collection
    if isinstance(collection, (list, tuple, str)) and not isinstance(collection, EdnList):
        return _is_position(key, collection)
    raise _wrong("contains?", "a map, set, vector or string", collection)


def _is_position(value: Any, items: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(items)


def _counted(name: str, collection: Any) -> Any:
    if isinstance(collection, (str, list, tuple, Mapping, Set)):
        return collection
    raise _wrong(name, "a collection or string", collection)


def _sequence(name: str, collection: Any) -> Any:
    if isinstance(collection, (str, list, tuple)):
        return collection
    raise _wrong(name, "a vector, list or string", collection)


def _items(name: str, collection: Any) -> list[Any]:
    """The items of a collection; those of a set or map in an order that is always the same."""
    if collection is None:
        return []
    found = _counted(name, collection)
    if isinstance(found, Mapping):
        return sorted(found.items(), key=total_order)
    return sorted(found, key=total_order) if isinstance(found, Set) else list(found)


def _wrong(name: str, expected: str, value: Any) -> EvaluationError:
    message = f"{name}: expected {expected}, got {shorten(value)} of type {type_name(value)}"
    return EvaluationError(message, code="wrong-value-type")


def is_type(*types: type) -> Any:
    """Return a function that checks the type of a value; booleans are not numbers."""

    def check(value: Any) -> bool:
        return isinstance(value, types) and (bool in types or not isinstance(value, bool))

    return check
