"""The net changes of a transaction: the facts that it really adds and removes.

All operations of a transaction speak about the database before it, so their order does not matter.
To assert a known fact, or to retract an unknown one, changes nothing. A new value of an attribute
of cardinality one replaces the known value.
"""

from __future__ import annotations

import numpy as np

from dbsp.data.key_order import key_order
from dbsp.datomic.attribute_rows import AttributeRows, no_rows
from dbsp.datomic.database_facts import Facts
from dbsp.datomic.entity_ranges import TX0
from dbsp.datomic.operation_places import OperationPlaces, value_text
from dbsp.datomic.value_codes import decode_one
from dbsp.errors import DbspError
from dbsp.kernels.arrays import Codes, Mask
from dbsp.lazy_dataclass import dataclass


@dataclass(slots=True)
class NetChange:
    """The net change of one attribute: rows that are not in the database, rows that are."""

    added: AttributeRows
    removed: AttributeRows


def net_change(
    facts: Facts, asserted: AttributeRows | None, retracted: AttributeRows | None, places: OperationPlaces
) -> NetChange:
    """Return the net change of one attribute.

    Raises InputError for two values of one entity and an attribute of cardinality one, and for a
    fact that the transaction both asserts and retracts.
    """
    if asserted is None:
        if retracted is None:
            raise AssertionError
        retracted = _distinct(retracted)
        return NetChange(no_rows(retracted.attribute), _present(facts, retracted, True))
    asserted = _distinct(asserted)
    attribute = asserted.attribute
    if not attribute.many:
        _check_one_value(facts, asserted, places)
    removed = no_rows(attribute)
    if retracted is not None:
        retracted = _distinct(retracted)
        _check_disjoint(facts, asserted, retracted, places)
        removed = _present(facts, retracted, True)
    if attribute.many:
        return NetChange(_present(facts, asserted, False), removed)
    return _replaced(facts, asserted, removed)


def is_known(facts: Facts, entities: Codes) -> Mask:
    """Return whether each entity may have facts: a new id of an entity of a user has none."""
    return (entities < facts.next_entity) | (entities >= TX0)


def _replaced(facts: Facts, asserted: AttributeRows, removed: AttributeRows) -> NetChange:
    """Return the net change of an attribute of cardinality one."""
    known = np.flatnonzero(is_known(facts, asserted.entities))
    if not len(known):
        return NetChange(asserted, removed)
    positions, values = facts.values_of_many(asserted.entities[known], asserted.attribute)
    if not len(positions):
        return NetChange(asserted, removed)
    rows = known[positions]
    differs = values != asserted.codes[rows]
    same = np.zeros(len(asserted), np.bool_)
    same[rows[~differs]] = True
    rows = rows[differs]
    replaced = AttributeRows(
        asserted.attribute, asserted.entities[rows], values[differs], asserted.places[rows]
    )
    if len(removed):
        # The transaction also retracts some of the replaced values.
        replaced = replaced.select(~np.isin(replaced.entities, removed.entities))
        replaced = replaced.joined(removed)
    return NetChange(asserted.select(~same) if same.any() else asserted, replaced)


def _present(facts: Facts, rows: AttributeRows, present: bool) -> AttributeRows:
    """Return the rows that are in the database, or those that are not."""
    known = is_known(facts, rows.entities)
    found = np.zeros(len(rows), np.bool_)
    if known.any():
        found[known] = facts.contains_many(rows.entities[known], rows.codes[known], rows.attribute)
    return rows.select(found == present)


def _distinct(rows: AttributeRows) -> AttributeRows:
    """Return the rows in the order of entities and values, each once."""
    if len(rows) < 2 or bool((rows.entities[1:] > rows.entities[:-1]).all()):
        return rows
    rows = rows.select(key_order([rows.entities, rows.codes]))
    equal = (rows.entities[1:] == rows.entities[:-1]) & (rows.codes[1:] == rows.codes[:-1])
    return rows.select(np.concatenate(([True], ~equal))) if equal.any() else rows


def _check_one_value(facts: Facts, rows: AttributeRows, places: OperationPlaces) -> None:
    same = rows.entities[1:] == rows.entities[:-1]
    if not same.any():
        return
    at = int(np.argmax(same))
    first, second = sorted((at, at + 1), key=lambda row: int(rows.places[row]))
    one, other = (decode_one(rows.attribute, int(rows.codes[row]), facts.interner) for row in (first, second))
    raise _conflict(
        places,
        rows,
        second,
        f"entity {rows.entities[at]} gets two values of {rows.attribute}, which has cardinality one: "
        f"{value_text(one)}{_elsewhere(places, rows, first, second)} and {value_text(other)}",
    )


def _check_disjoint(
    facts: Facts, asserted: AttributeRows, retracted: AttributeRows, places: OperationPlaces
) -> None:
    both = asserted.joined(retracted)
    order = key_order([both.entities, both.codes])
    entities, codes = both.entities[order], both.codes[order]
    equal = (entities[1:] == entities[:-1]) & (codes[1:] == codes[:-1])
    if not equal.any():
        return
    at = int(np.argmax(equal))
    first, second = sorted(order[at : at + 2].tolist(), key=lambda row: int(both.places[row]))
    value = decode_one(both.attribute, int(both.codes[first]), facts.interner)
    raise _conflict(
        places,
        both,
        second,
        f"the transaction both asserts and retracts {both.attribute} {value_text(value)} of entity "
        f"{both.entities[first]}{_elsewhere(places, both, first, second)}",
    )


def _elsewhere(places: OperationPlaces, rows: AttributeRows, first: int, second: int) -> str:
    """Return the place of the first of two rows, if it is another one."""
    one, other = int(rows.places[first]), int(rows.places[second])
    return "" if one == other else f" ({places.path(one)})"


def _conflict(places: OperationPlaces, rows: AttributeRows, row: int, message: str) -> DbspError:
    return places.error(int(rows.places[row]), message, code="transaction-conflict")
