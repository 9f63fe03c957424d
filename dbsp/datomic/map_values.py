"""The values of map forms: collections, nested maps and reverse attributes.

{:person/name "Ada"
 :person/aliases ["Countess" "Enchantress"]      ; cardinality many
 :person/address {:address/city "London"}        ; a nested map, a component
 :person/_friend [17 "charles"]}                 ; reverse: these have Ada as a friend
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from dbsp.datomic.database_schema import Attribute
from dbsp.datomic.entity_references import EntityReferences
from dbsp.datomic.operation_places import as_ident
from dbsp.errors import DbspError


class AssertedColumn(Protocol):
    """The assertions of one attribute: entities, values and the places of their operations."""

    @property
    def attribute(self) -> Attribute: ...

    @property
    def reverse(self) -> bool: ...

    def append(self, entity: int, value: Any, place: int) -> None: ...


class MapOperations(Protocol):
    """The operations of a transaction that nested maps add to."""

    @property
    def references(self) -> EntityReferences: ...

    def column(self, attribute: Attribute) -> AssertedColumn: ...

    def read_map(self, form: Mapping[Any, Any], place: int) -> int: ...

    def error(self, place: int, message: str, *, part: Any) -> DbspError: ...


def assert_value(
    operations: MapOperations, column: AssertedColumn, entity: int, value: Any, place: int
) -> None:
    """Assert the value of a key of a map form."""
    attribute = column.attribute
    references = operations.references
    if column.reverse:
        target = operations.column(attribute)
        for each in _members(operations, column, value):
            if isinstance(each, Mapping):
                owner = operations.read_map(each, place)
            else:
                owner = references.entity(each, place)
            target.append(owner, entity, place)
    elif attribute.is_ref:
        if type(value) is int and value > 0:
            column.append(entity, value, place)
            return
        for each in _members(operations, column, value):
            if isinstance(each, Mapping):
                column.append(entity, _nested(operations, column, each, place), place)
            else:
                column.append(entity, references.entity(each, place), place)
    else:
        for each in _members(operations, column, value):
            column.append(entity, references.plain_value(attribute, each, place), place)


def _members(operations: MapOperations, column: AssertedColumn, value: Any) -> Iterable[Any]:
    """Return the values that the value of a key stands for: its elements, or itself alone."""
    attribute = column.attribute
    if not (attribute.many or column.reverse) or isinstance(value, Mapping):
        return (value,)
    if isinstance(value, set | frozenset):
        return value
    if isinstance(value, np.ndarray):
        return list(value)
    if not isinstance(value, list | tuple):
        return (value,)
    if (attribute.is_ref or column.reverse) and operations.references.is_lookup(value):
        return (value,)
    if attribute.value_type == "tuple" and not all(isinstance(each, list | tuple) for each in value):
        return (value,)
    return value


def _nested(operations: MapOperations, column: AssertedColumn, form: Mapping[Any, Any], place: int) -> int:
    """Read a nested map, whose entity is the value of a ref, and return the entity."""
    attribute = column.attribute
    if not attribute.component and not any(
        (ident := as_ident(name)) is not None
        and (ident.text == "db/id" or operations.references.is_unique(ident))
        for name in form
    ):
        raise operations.error(
            place,
            f"the nested map of {attribute} would be an entity that nothing identifies; give it a "
            f":db/id or a unique attribute, or make {attribute} a component (:db/isComponent true)",
            part=form,
        )
    return operations.read_map(form, place)
