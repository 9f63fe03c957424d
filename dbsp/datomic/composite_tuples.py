"""Composite tuples: attributes whose value is the tuple of the values of other attributes.

A transaction that touches one of those attributes, even by asserting a known fact, computes the
tuple. An entity without any of the values has no tuple; a missing value is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dbsp.data.columns import decode_column
from dbsp.datomic.attribute_rows import AttributeRows, no_rows
from dbsp.datomic.database_facts import Facts
from dbsp.datomic.database_schema import Attribute
from dbsp.datomic.net_changes import NetChange
from dbsp.datomic.operation_places import OperationPlaces, value_text

Rows = Mapping[int, AttributeRows]


def composite_changes(
    facts: Facts,
    changes: Mapping[int, NetChange],
    asserted: Rows,
    retracted: Rows,
    places: OperationPlaces,
) -> list[NetChange]:
    """Return the net changes of the composite tuples of all entities that a transaction touches.

    Raises InputError if the transaction asserts another tuple than the computed one.
    """
    schema = facts.schema
    touched: dict[int, dict[int, int]] = {}  # composite -> entity -> place
    for rows_by_attribute in (asserted, retracted):
        for id_, rows in rows_by_attribute.items():
            composites = schema.composites.get(id_, ())
            if id_ in schema.by_id and schema.by_id[id_].tuple_attributes:
                composites = (schema.by_id[id_],)
            for composite in composites:
                known = touched.setdefault(composite.id, {})
                for entity, place in zip(rows.entities.tolist(), rows.places.tolist(), strict=True):
                    known.setdefault(entity, place)
    result = []
    for id_, places_of in sorted(touched.items()):
        composite = schema.by_id[id_]
        computed = _computed(facts, composite, list(places_of), changes)
        if id_ in asserted:
            _check(facts, asserted[id_], computed, places)
        result.append(_change(facts, composite, computed, places_of))
    return result


def _computed(
    facts: Facts, composite: Attribute, entities: list[int], changes: Mapping[int, NetChange]
) -> dict[int, tuple[Any, ...]]:
    """Return the tuple of each entity after the transaction; all None if it has no value."""
    columns = [
        _values_after(facts, facts.schema.by_ident[name], entities, changes)
        for name in composite.tuple_attributes
    ]
    return {entity: tuple(column.get(entity) for column in columns) for entity in entities}


def _values_after(
    facts: Facts, attribute: Attribute, entities: list[int], changes: Mapping[int, NetChange]
) -> dict[int, Any]:
    """Return the values of an attribute of cardinality one after the transaction, by entity."""
    positions, codes = facts.values_of_many(np.array(entities, np.int64), attribute)
    found = {entities[at]: code for at, code in zip(positions.tolist(), codes.tolist(), strict=True)}
    change = changes.get(attribute.id)
    if change is not None:
        for entity in change.removed.entities.tolist():
            found.pop(entity, None)
        found.update(zip(change.added.entities.tolist(), change.added.codes.tolist(), strict=True))
    values = decode_column(attribute.type, np.fromiter(found.values(), np.int64, len(found)), facts.interner)
    return dict(zip(found, values, strict=True))


def _change(
    facts: Facts, composite: Attribute, computed: Mapping[int, tuple[Any, ...]], places_of: Mapping[int, int]
) -> NetChange:
    entities = np.fromiter(computed, np.int64, len(computed))
    places = np.fromiter((places_of[entity] for entity in computed), np.int64, len(computed))
    present = np.fromiter(
        (any(each is not None for each in value) for value in computed.values()), np.bool_, len(computed)
    )
    codes = facts.interner.encode_many(list(computed.values()))
    positions, old = facts.values_of_many(entities, composite)
    before = AttributeRows(composite, entities[positions], old, places[positions])
    unchanged = (old == codes[positions]) & present[positions]
    present[positions[unchanged]] = False
    added = AttributeRows(composite, entities, codes, places).select(present)
    removed = before.select(~unchanged)
    return NetChange(added if len(added) else no_rows(composite), removed)


def _check(
    facts: Facts, rows: AttributeRows, computed: Mapping[int, tuple[Any, ...]], places: OperationPlaces
) -> None:
    """Raise InputError if an asserted tuple is not the computed one, or if there is none."""
    names = " ".join(map(str, rows.attribute.tuple_attributes))
    for entity, code, place in zip(
        rows.entities.tolist(), rows.codes.tolist(), rows.places.tolist(), strict=True
    ):
        tuple_ = computed[entity]
        asserted = facts.interner.decode(code)
        if all(each is None for each in tuple_):
            problem = f"the entity has none of them after the transaction, so it has no {rows.attribute}"
        elif facts.interner.encode(tuple_) != code:
            problem = (
                f"which are {value_text(tuple_)} after the transaction, and cannot be {value_text(asserted)}"
            )
        else:
            continue
        raise places.error(
            place,
            f"{rows.attribute} is computed from [{names}], {problem}; assert the values of those attributes",
            code="invalid-transaction",
            part=asserted,
            attribute=rows.attribute.ident,
        )
