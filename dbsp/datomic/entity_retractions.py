"""Retractions of all values: `[:db/retract e a]` and `[:db/retractEntity e]`.

An entity is retracted with its facts, the facts that refer to it, and its components.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dbsp.datomic.attribute_rows import AttributeRows
from dbsp.datomic.database_facts import Facts
from dbsp.datomic.database_schema import Attribute
from dbsp.datomic.entity_ranges import DB0, TX0
from dbsp.datomic.operation_places import OperationPlaces


def all_retractions(
    facts: Facts, given: Iterable[tuple[int, Attribute | None, int]], places: OperationPlaces
) -> dict[int, AttributeRows]:
    """Return the facts that retractions of all values remove, by attribute.

    Parameters:
        given: the entity, the attribute (None for all of them) and the place of each operation.
    """
    rows: dict[int, list[tuple[int, int, int]]] = {}
    for entity, attribute, place in given:
        if attribute is None:
            _retract_entity(facts, entity, place, rows, places)
        else:
            found = rows.setdefault(attribute.id, [])
            found += [(entity, code, place) for code in facts.values(entity, attribute)]
    result = {}
    for id_, found in rows.items():
        columns = np.array(found, np.int64).reshape(-1, 3)
        result[id_] = AttributeRows(facts.schema.by_id[id_], *np.ascontiguousarray(columns.T))
    return result


def _retract_entity(
    facts: Facts,
    entity: int,
    place: int,
    rows: dict[int, list[tuple[int, int, int]]],
    places: OperationPlaces,
) -> None:
    if entity >= TX0:
        what = "the schema" if entity >= DB0 else "the log of transactions"
        raise places.error(
            place,
            f"entity {entity} belongs to {what} and cannot be retracted",
            code="invalid-transaction",
            part=places.form(place)[1],
        )
    waiting, seen = [entity], {entity}
    while waiting:
        entity = waiting.pop()
        for id_, code in facts.entity_datoms(entity):
            attribute = facts.schema.by_id[id_]
            if attribute.tuple_attributes:
                continue  # computed
            rows.setdefault(id_, []).append((entity, code, place))
            if attribute.component and attribute.is_ref and code < TX0 and code not in seen:
                seen.add(code)
                waiting.append(code)
        for owner, id_ in facts.references_to(entity):
            rows.setdefault(id_, []).append((owner, entity, place))
