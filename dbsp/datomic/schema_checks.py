"""Checks of the attributes that a transaction defines or alters.

An attribute may get another name, cardinality, uniqueness, documentation, and become a component or
cease to be one. Its value type and the parts of its tuples never change, and it is never removed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dbsp.datomic import system_idents as system
from dbsp.datomic.attribute_rows import AttributeRows
from dbsp.datomic.database_facts import Facts
from dbsp.datomic.database_schema import Attribute, Schema
from dbsp.datomic.entity_ranges import DB0
from dbsp.datomic.net_changes import NetChange
from dbsp.datomic.operation_places import OperationPlaces, value_text
from dbsp.datomic.operations import is_reserved
from dbsp.datomic.value_codes import MOST_ELEMENTS, decode_one
from dbsp.errors import DbspError
from dbsp.kernels.arrays import Codes

DEFINING = frozenset(system.SYSTEM_ATTRIBUTES) - {system.IDENT, system.DOC, system.TX_INSTANT}
"""The attributes that only attributes have."""

_ALLOWED_VALUES = {
    system.VALUE_TYPE: (system.TYPE_NAMES, "a value type such as :db.type/string"),
    system.CARDINALITY: (
        (system.CARDINALITY_ONE, system.CARDINALITY_MANY),
        ":db.cardinality/one or :db.cardinality/many",
    ),
    system.UNIQUE: (system.UNIQUE_NAMES, ":db.unique/identity or :db.unique/value"),
}
_NO_PARTS = frozenset({"tuple"})


def check_definitions(facts: Facts, changes: Mapping[int, NetChange], places: OperationPlaces) -> None:
    """Raise InputError for definitions of anything but attributes, and for wrong values in them."""
    for id_, change in changes.items():
        if id_ not in system.SYSTEM_ATTRIBUTES:
            continue
        for rows in (change.added, change.removed):
            _check_owners(facts, rows, places)
        if id_ in _ALLOWED_VALUES:
            allowed, expected = _ALLOWED_VALUES[id_]
            for code, place in zip(change.added.codes.tolist(), change.added.places.tolist(), strict=True):
                if code not in allowed:
                    got = facts.schema.ident(code) or code
                    raise _error(
                        places, place, f"{change.added.attribute} expects {expected}, got {value_text(got)}"
                    )
        if id_ == system.IDENT:
            _check_idents(facts, change, places)


def _check_owners(facts: Facts, rows: AttributeRows, places: OperationPlaces) -> None:
    defining = rows.attribute.id in DEFINING
    for entity, place in zip(rows.entities.tolist(), rows.places.tolist(), strict=True):
        if DB0 <= entity < system.FIRST_ATTRIBUTE:
            name = facts.schema.ident(entity) or entity
            raise _error(places, place, f"{name} belongs to the system and cannot be altered")
        if defining and entity < DB0:
            raise _error(
                places,
                place,
                f"entity {entity} cannot become an attribute, because its id is given or it exists; "
                "define the attribute in a map without :db/id, or with a tempid",
            )


def _check_idents(facts: Facts, change: NetChange, places: OperationPlaces) -> None:
    added = change.added
    for code, place in zip(added.codes.tolist(), added.places.tolist(), strict=True):
        ident = facts.interner.decode(code)
        if is_reserved(ident):
            raise _error(places, place, f"the namespace of {ident} is reserved for the system")
    named = set(added.entities.tolist())
    for entity, place in zip(change.removed.entities.tolist(), change.removed.places.tolist(), strict=True):
        if entity >= DB0 and entity not in named:
            raise _error(places, place, "an attribute cannot be removed, and keeps its :db/ident")


def check_schema(
    facts: Facts, after: Schema, changes: Mapping[int, NetChange], places: OperationPlaces
) -> None:
    """Raise InputError if the schema after a transaction is not acceptable."""
    before = facts.schema
    places_of: dict[int, int] = {}
    for id_, change in changes.items():
        if id_ in system.SYSTEM_ATTRIBUTES:
            for rows in (change.added, change.removed):
                for entity, place in zip(rows.entities.tolist(), rows.places.tolist(), strict=True):
                    places_of.setdefault(entity, place)
    for id_, attribute in after.by_id.items():
        old = before.by_id.get(id_)
        if old == attribute or id_ not in places_of:
            continue
        place = places_of[id_]
        if old is None:
            problem = _problem(attribute, after)
        else:
            problem = _illegal_change(old, attribute, before) or _problem(attribute, after)
            problem = problem or _data_problem(facts, old, attribute, changes.get(id_))
        if problem is not None:
            raise _error(places, place, problem)


def _problem(attribute: Attribute, schema: Schema) -> str | None:
    """Return what is wrong with the definition of an attribute."""
    if attribute.ident.text == "db/unnamed":
        return "the attribute has no name; give it a :db/ident"
    if attribute.component and not attribute.is_ref:
        return f"{attribute} is a component and needs :db/valueType :db.type/ref"
    given = [
        name
        for name, value in (
            (":db/tupleAttrs", attribute.tuple_attributes),
            (":db/tupleTypes", () if attribute.tuple_attributes else attribute.tuple_types),
            (":db/tupleType", attribute.tuple_type),
        )
        if value
    ]
    if attribute.value_type != "tuple":
        return f"{attribute} has {given[0]} and needs :db/valueType :db.type/tuple" if given else None
    if len(given) != 1:
        return (
            f"{attribute} is a tuple and needs exactly one of :db/tupleAttrs, :db/tupleTypes and "
            f":db/tupleType, got {' and '.join(given) if given else 'none'}"
        )
    return _tuple_problem(attribute, schema)


def _tuple_problem(attribute: Attribute, schema: Schema) -> str | None:
    types = (attribute.tuple_type,) if attribute.tuple_type else attribute.tuple_types
    if not attribute.tuple_attributes:
        for type_ in types:
            if type_ not in system.TYPE_IDS or type_ in _NO_PARTS:
                return f"{attribute}: the elements of a tuple cannot have the type {type_}"
    elif attribute.many:
        return f"{attribute} is a composite tuple and needs cardinality one"
    for name in attribute.tuple_attributes:
        part = schema.by_ident.get(name)
        if part is None:
            return f"{attribute} is composed of {value_text(name)}, which is not an attribute"
        if part.many or part.value_type == "tuple":
            return f"{attribute} is composed of {name}, which must have cardinality one and not be a tuple"
    if attribute.tuple_type is None:
        count = len(attribute.tuple_attributes or types)
        if not 2 <= count <= MOST_ELEMENTS:
            return f"{attribute}: expected a tuple of 2 to {MOST_ELEMENTS} elements, got {count}"
    return None


def _illegal_change(old: Attribute, new: Attribute, before: Schema) -> str | None:
    """Return what is wrong with an alteration of an attribute, whatever the data."""
    if old.value_type != new.value_type:
        return (
            f"the value type of {old} is {old.value_type or 'not declared'} and cannot change to "
            f"{new.value_type or 'none'}; define another attribute"
        )
    parts = (old.tuple_attributes, old.tuple_type, old.tuple_attributes or old.tuple_types)
    if parts != (new.tuple_attributes, new.tuple_type, new.tuple_attributes or new.tuple_types):
        return f"the parts of the tuple {old} cannot change; define another attribute"
    if before.composites.get(old.id):
        composite = before.composites[old.id][0]
        if old.ident is not new.ident:
            return f"{old} is part of the composite tuple {composite} and keeps its name"
        if new.many:
            return f"{old} is part of the composite tuple {composite} and keeps cardinality one"
    return None


def _data_problem(facts: Facts, old: Attribute, new: Attribute, change: NetChange | None) -> str | None:
    """Return why the facts of an attribute prevent its alteration."""
    to_one = old.many and not new.many
    to_unique = old.unique is None and new.unique is not None
    if not (to_one or to_unique):
        return None
    entities, codes = _facts_after(facts, old, change)
    if to_one and (repeated := _repeated(entities)) is not None:
        return f"{old} cannot get cardinality one: entity {repeated} has several values"
    if to_unique and (repeated := _repeated(codes)) is not None:
        value = value_text(decode_one(old, repeated, facts.interner))
        owners = entities[codes == repeated][:2].tolist()
        return f"{old} cannot become unique: entities {owners[0]} and {owners[1]} have the value {value}"
    return None


def _facts_after(facts: Facts, attribute: Attribute, change: NetChange | None) -> tuple[Codes, Codes]:
    entities, codes = facts.all_values(attribute)
    if change is None:
        return entities, codes
    pairs = set(zip(entities.tolist(), codes.tolist(), strict=True))
    pairs -= set(zip(change.removed.entities.tolist(), change.removed.codes.tolist(), strict=True))
    pairs |= set(zip(change.added.entities.tolist(), change.added.codes.tolist(), strict=True))
    columns = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]


def _repeated(column: Codes) -> int | None:
    """Return a number that occurs twice in a column."""
    ordered = np.sort(column)
    same = np.flatnonzero(ordered[1:] == ordered[:-1])
    return int(ordered[same[0]]) if len(same) else None


def _error(places: OperationPlaces, place: int, message: str) -> DbspError:
    return places.error(place, message, code="invalid-schema")
