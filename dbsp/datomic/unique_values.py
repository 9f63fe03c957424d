"""Checks that each value of a unique attribute belongs to one entity after the transaction."""

from __future__ import annotations

import numpy as np

from dbsp.datomic.database_facts import Facts
from dbsp.datomic.net_changes import NetChange
from dbsp.datomic.operation_places import OperationPlaces, value_text
from dbsp.datomic.value_codes import decode_one
from dbsp.errors import DbspError


def check_unique(facts: Facts, change: NetChange, places: OperationPlaces) -> None:
    """Raise InputError if a value of a unique attribute would belong to two entities."""
    added = change.added
    if not len(added):
        return
    order = np.argsort(added.codes, kind="stable")
    same = np.flatnonzero(added.codes[order[1:]] == added.codes[order[:-1]])
    if len(same):
        first, second = sorted(order[same[0] : same[0] + 2].tolist(), key=lambda row: int(added.places[row]))
        owner = f"entity {added.entities[first]} in {places.path(int(added.places[first]))}"
        raise _conflict(facts, change, second, owner, places)
    positions, owners = facts.entities_of_many(added.codes, added.attribute)
    if not len(positions):
        return
    removed = set(zip(change.removed.entities.tolist(), change.removed.codes.tolist(), strict=True))
    for row, owner_id in zip(positions.tolist(), owners.tolist(), strict=True):
        if (owner_id, int(added.codes[row])) not in removed:
            raise _conflict(facts, change, row, f"entity {owner_id}", places)


def _conflict(facts: Facts, change: NetChange, row: int, owner: str, places: OperationPlaces) -> DbspError:
    added = change.added
    value = decode_one(added.attribute, int(added.codes[row]), facts.interner)
    return places.error(
        int(added.places[row]),
        f"the value {value_text(value)} of the unique attribute {added.attribute} cannot belong to entity "
        f"{added.entities[row]}: it belongs to {owner}",
        code="unique-conflict",
        part=value,
        attribute=added.attribute.ident,
    )
