"""Ids for the new entities of a transaction, and the check of ids that the user gives."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dbsp.datomic.attribute_rows import AttributeRows
from dbsp.datomic.database_facts import Facts
from dbsp.datomic.entity_ranges import DB0, TX0
from dbsp.datomic.operation_places import WHOLE, OperationPlaces, value_text
from dbsp.datomic.placeholders import Placeholders
from dbsp.datomic.schema_checks import DEFINING
from dbsp.errors import DbspError
from dbsp.kernels.arrays import Codes


def allocate_ids(
    facts: Facts,
    asserted: Mapping[int, AttributeRows],
    placeholders: Placeholders,
    places: OperationPlaces,
    new_attributes: int,
) -> tuple[int, int]:
    """Give ids to all placeholders, and return the next ids of users' entities and of the schema.

    New entities get ids after all known ids and those in the transaction, in the order of their
    first use. An entity with the definition of an attribute gets an id of the schema.

    Parameters:
        new_attributes: the number of ids of the schema that the transaction uses already.
    """
    next_entity = _after_given_ids(facts, asserted, places)
    next_schema_entity = facts.next_schema_entity + new_attributes
    unknown = placeholders.unknown()
    if not len(unknown):
        placeholders.finish()
        return next_entity, next_schema_entity
    in_schema, described = np.zeros((2, len(placeholders)), np.bool_)
    for id_, rows in asserted.items():
        entities = placeholders.ids(rows.entities)
        numbers = -1 - entities[entities < 0]
        described[numbers] = True
        if id_ in DEFINING:
            in_schema[numbers] = True
    if not described[unknown].all():
        raise _nothing_asserted(int(unknown[~described[unknown]][0]), placeholders, places)
    of_schema, of_user = unknown[in_schema[unknown]], unknown[~in_schema[unknown]]
    left = TX0 - next_entity
    if len(of_user) > left:
        raise places.error(
            placeholders.places[int(of_user[left])],
            "no id is left for this new entity: new ids follow the largest one in use and end at 2**42 - 1; "
            "use smaller ids in :db/id",
            code="value-out-of-range",
        )
    placeholders.assign(of_schema, next_schema_entity + np.arange(len(of_schema)))
    placeholders.assign(of_user, next_entity + np.arange(len(of_user)))
    placeholders.finish()
    return next_entity + len(of_user), next_schema_entity + len(of_schema)


def _nothing_asserted(number: int, placeholders: Placeholders, places: OperationPlaces) -> DbspError:
    keys = [key for key, placeholder in placeholders.tempids.items() if placeholder == -1 - number]
    place = placeholders.places[number]
    about, what = (f"the tempid {value_text(keys[0])}", "its entity") if keys else ("a new entity", "it")
    message = f"nothing is asserted about {about}; give {what} a value of an attribute"
    return places.error(place, message, code="invalid-tempid", part=keys[0] if keys else WHOLE)


def _after_given_ids(facts: Facts, asserted: Mapping[int, AttributeRows], places: OperationPlaces) -> int:
    """Return the first id after all known ids and those that the transaction asserts."""
    next_entity = facts.next_entity
    for rows in asserted.values():
        for column in (rows.entities, rows.codes) if rows.attribute.is_ref else (rows.entities,):
            if not len(column):
                continue
            largest = int(column.max())
            if largest < next_entity:
                continue
            if largest >= TX0:
                _check_reserved(facts, column, rows, places)
                users = column[column < TX0]
                largest = int(users.max()) if len(users) else 0
            next_entity = max(next_entity, largest + 1)
    return next_entity


def _check_reserved(facts: Facts, column: Codes, rows: AttributeRows, places: OperationPlaces) -> None:
    """Raise InputError for an id in the ranges of transactions and of the schema without entity."""
    past = (column >= TX0) & (column <= TX0 + facts.basis_t + 1)
    schema = (column >= DB0) & (column < facts.next_schema_entity)
    wrong = (column >= TX0) & ~past & ~schema
    if wrong.any():
        at = int(np.argmax(wrong))
        raise places.error(
            int(rows.places[at]),
            f"expected the id of an entity, from 1 to 2**42 - 1, got {column[at]}",
            code="unknown-entity",
            part=int(column[at]),
        )
