"""The values that a binding takes from a value: the parts of tuples, the items of collections.

A nil matches no variable. A value of another form than its binding is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from itertools import product
from typing import Any

from dbsp.compiler.datomic.meaning.clojure_order import total_order
from dbsp.compiler.datomic.tree.query_tree import (
    BindBlank,
    BindCollection,
    Binding,
    BindRelation,
    BindScalar,
    BindTuple,
)
from dbsp.edn.edn_values import Keyword
from dbsp.errors import EvaluationError, counted, shorten


def binding_text(binding: Binding) -> str:
    """Return a binding as EDN text."""
    match binding:
        case BindScalar(variable):
            return variable.name
        case BindBlank():
            return "_"
        case BindCollection(part):
            return f"[{binding_text(part)} ...]"
        case BindTuple(parts):
            return f"[{' '.join(map(binding_text, parts))}]"
        case BindRelation(parts):
            return f"[[{' '.join(map(binding_text, parts))}]]"


def binding_rows(binding: Binding, value: Any, *, nil: bool = False) -> Iterator[tuple[Any, ...]]:
    """Yield the values of the binding's variables, in their order, for each way to match a value.

    A nil matches no variable, unless `nil` is true. Raises EvaluationError if the value has another
    form.

    >>> from dbsp.compiler.datomic.text.query_parser import parse_query
    >>> binding = parse_query("[:find ?a :in [[?a [?b ...]]]]").inputs[0].binding
    >>> list(binding_rows(binding, [("x", [1, 2]), ("y", [3])]))
    [('x', 1), ('x', 2), ('y', 3)]
    """
    match binding:
        case BindBlank():
            yield ()
        case BindScalar():
            if nil or value is not None:
                yield (value,)
        case BindCollection(part):
            for item in _items(binding, value, nil):
                yield from binding_rows(part, item, nil=nil)
        case BindTuple(parts):
            yield from _tuple_rows(binding, parts, value, nil)
        case BindRelation(parts):
            for item in _items(binding, value, nil):
                yield from _tuple_rows(binding, parts, item, nil)


def _tuple_rows(
    binding: Binding, parts: tuple[Binding, ...], value: Any, nil: bool
) -> Iterator[tuple[Any, ...]]:
    if value is None and not nil:
        return
    items = _tuple(binding, parts, value)
    rows = (list(binding_rows(part, item, nil=nil)) for part, item in zip(parts, items, strict=False))
    for combined in product(*rows):
        yield tuple(found for row in combined for found in row)


def _tuple(binding: Binding, parts: tuple[Binding, ...], value: Any) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise _mismatch(binding, f"a tuple of {len(parts)}", value)
    if len(value) < len(parts):
        raise _mismatch(binding, f"a tuple of at least {counted(len(parts), 'value')}", value)
    return value


def _items(binding: Binding, value: Any, nil: bool) -> Iterator[Any]:
    if value is None and not nil:
        return
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, Set):
        yield from _sorted(value)
    elif isinstance(value, (list, tuple, range)):
        yield from value
    else:
        raise _mismatch(binding, "a collection", value)


def _mismatch(binding: Binding, expected: str, value: Any) -> EvaluationError:
    return EvaluationError(
        f"the binding {binding_text(binding)} expects {expected}, got {shorten(value)}",
        code="binding-mismatch",
    )


def _sorted(items: Set[Any]) -> list[Any]:
    """The items of a set, in an order that does not depend on how it was built."""
    kinds = set(map(type, items))
    simple = len(kinds) == 1 and kinds < {int, str, Keyword}
    return sorted(items) if simple else sorted(items, key=total_order)
