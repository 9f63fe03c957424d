"""Upserts: a tempid with a unique identity that the database knows is the known entity.

Two tempids of a transaction with the same identity are one entity. An identity may be a reference
to another tempid, so the look-ups repeat until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dbsp.datomic.attribute_rows import AttributeRows
from dbsp.datomic.database_facts import Facts
from dbsp.datomic.database_schema import Attribute
from dbsp.datomic.placeholders import Placeholders
from dbsp.errors import DbspError

Conflict = Callable[[int, Attribute, int, int, int], DbspError]
"""The error for a placeholder, at the place of an operation, that is two entities.

Its arguments: the place, the attribute, the value, the first entity, the entity with this value.
"""


def resolve_upserts(
    facts: Facts, assertions: Sequence[AttributeRows], placeholders: Placeholders, conflict: Conflict
) -> None:
    """Give ids to the placeholders that have the identity of a known entity, and join equal ones.

    Raises the error of `conflict` if a placeholder has the identities of two entities.
    """
    identities = [
        each for each in assertions if each.attribute.unique == "identity" and bool((each.entities < 0).any())
    ]
    changed = bool(identities)
    while changed:
        changed = False
        for each in identities:
            changed |= _resolve(facts, each, placeholders, conflict)
        if changed:
            placeholders.settle()
        # Other values are the same in the next round.
        identities = [each for each in identities if each.attribute.is_ref]


def _resolve(facts: Facts, given: AttributeRows, placeholders: Placeholders, conflict: Conflict) -> bool:
    """Resolve the placeholders by one attribute. Returns whether anything changed."""
    entities = placeholders.ids(given.entities)
    codes = placeholders.ids(given.codes) if given.attribute.is_ref else given.codes
    tempids = given.entities < 0
    known = np.flatnonzero(tempids & (codes >= 0) if given.attribute.is_ref else tempids)
    positions, owners = facts.entities_of_many(codes[known], given.attribute)
    changed = False
    in_database = np.zeros(len(codes), np.bool_)
    if len(positions):
        rows = known[positions]
        in_database[rows] = True
        differs = entities[rows] != owners
        for row, owner in zip(rows[differs].tolist(), owners[differs].tolist(), strict=True):
            changed = True
            tempid = int(given.entities[row])
            if not placeholders.join(tempid, owner):
                first = placeholders.joined_id(tempid)
                raise conflict(int(given.places[row]), given.attribute, int(codes[row]), first, owner)
    # Equal values that the database does not have: the same new entity.
    new = np.flatnonzero(~in_database)
    order = new[np.argsort(codes[new], kind="stable")]
    same = codes[order[1:]] == codes[order[:-1]]
    if same.any():
        before, after = order[:-1][same], order[1:][same]
        different = (entities[before] != entities[after]) & (tempids[before] | tempids[after])
        for first, second in zip(before[different].tolist(), after[different].tolist(), strict=True):
            changed = True
            if not placeholders.join(int(given.entities[first]), int(given.entities[second])):
                one = placeholders.joined_id(int(given.entities[first]))
                other = placeholders.joined_id(int(given.entities[second]))
                raise conflict(int(given.places[second]), given.attribute, int(codes[second]), one, other)
    return changed
