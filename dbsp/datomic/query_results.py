"""The form of a query's result: a relation, a collection, a tuple, a scalar, or maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from dbsp.compiler.datomic.meaning.checked_rules import NIL
from dbsp.compiler.datomic.meaning.clojure_order import total_order
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.data.zset import ZSet
from dbsp.datomic.entity_ids import entity_id
from dbsp.edn.edn_values import Keyword, Symbol
from dbsp.errors import InputError, SchemaError

if TYPE_CHECKING:
    from dbsp.datomic.database_facts import Facts

Row: TypeAlias = tuple[Any, ...]
Pull: TypeAlias = Callable[[tree.FindPull, Any], Any]
"""Returns the pulled value for an element of `:find` and its value in a row."""


def plain_rows(found: ZSet) -> list[Row]:
    """Return the rows of a result with nil as None."""
    rows = found.rows()
    return list(map(_plain, rows)) if _may_have_nil(found) else rows


def weighted_rows(delta: ZSet) -> list[tuple[Row, int]]:
    """Return the rows of a change with their weights, with nil as None."""
    rows = delta.items()
    return [(_plain(row), weight) for row, weight in rows] if _may_have_nil(delta) else list(rows)


def _may_have_nil(found: ZSet) -> bool:
    return any(type_.kind == "object" for type_ in found.schema.types)


def _plain(row: Row) -> Row:
    return tuple(None if value is NIL else value for value in row) if NIL in row else row


def pulled_row(find: tree.Find, row: Row, pull: Pull) -> Row:
    """Return a row with the pulled values in place of entities."""
    return tuple(
        pull(element, value) if isinstance(element, tree.FindPull) else value
        for element, value in zip(find.elements, row, strict=True)
    )


def pulled_entity(facts: Facts, element: tree.FindPull, value: Any) -> int | None:
    """Return the entity of a row whose facts a pull expression selects.

    Returns None for an ident or a lookup ref without an entity. Raises InputError for a value that
    does not name an entity.
    """
    try:
        return entity_id(facts, value)
    except (InputError, SchemaError) as error:
        message = f"{element.span}: the value of {element.variable.name}: {error.message}"
        raise type(error)(message, code=error.code) from None


def has_pull(find: tree.Find) -> bool:
    """Whether an element of `:find` is a pull expression."""
    return any(isinstance(element, tree.FindPull) for element in find.elements)


def selected_rows(query: tree.Query, rows: list[Row]) -> list[Row]:
    """Return the rows in the order of `:order-by`, without those that `:offset` and `:limit`
    drop."""
    for ordering in reversed(query.order_by):
        key = partial(_key, ordering.position)
        rows = sorted(rows, key=key, reverse=ordering.descending)
    end = None if query.limit is None else query.offset + query.limit
    return rows[query.offset : end] if query.offset or end is not None else rows


def _key(position: int, row: Row) -> Any:
    return total_order(row[position])


def result_of(query: tree.Query, rows: Sequence[Row]) -> Any:
    """Return the result in the form of `:find`.

    A tuple and a scalar are those of the first row, None if there is none.
    """
    if query.labels is not None:
        names: Sequence[Any] = query.labels.names
        if query.labels.kind != "strs":
            make = Keyword if query.labels.kind == "keys" else Symbol
            names = list(map(make, names))
        maps = [dict(zip(names, row, strict=True)) for row in rows]
        return maps if query.find.kind == "relation" else next(iter(maps), None)
    match query.find.kind:
        case "collection":
            return [row[0] for row in rows]
        case "tuple":
            return rows[0] if rows else None
        case "scalar":
            return rows[0][0] if rows else None
    return list(rows)
