"""Upserts: a tempid with a unique identity that the database knows is the known entity.

Two tempids of a transaction with the same identity are one entity. An identity may be a reference
to another tempid, so the look-ups repeat until nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbsp.datomic.attribute_rows import AttributeRows
from dbsp.datomic.database_facts import Facts
from dbsp.datomic.database_schema import Attribute
from dbsp.datomic.operation_places import OperationPlaces, value_text
from dbsp.datomic.placeholders import Placeholders
from dbsp.datomic.value_codes import decode_one
from dbsp.errors import DbspError


def resolve_upserts(
    facts: Facts, assertions: Sequence[AttributeRows], placeholders: Placeholders, places: OperationPlaces
) -> None:
    """Give ids to the placeholders that have the identity of a known entity, and join equal ones.

    Raises InputError if a placeholder has the identities of two entities.
    """
    identities = [
        each for each in assertions if each.attribute.unique == "identity" and bool((each.entities < 0).any())
    ]
    conflicts = _Conflicts(facts, identities, placeholders, places)
    changed = bool(identities)
    while changed:
        changed = False
        for each in identities:
            changed |= _resolve(facts, each, placeholders, conflicts)
        if changed:
            placeholders.settle()
        # Other values are the same in the next round.
        identities = [each for each in identities if each.attribute.is_ref]


def _resolve(facts: Facts, given: AttributeRows, placeholders: Placeholders, conflicts: _Conflicts) -> bool:
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
                raise conflicts.error(given, row, first, owner)
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
                raise conflicts.error(given, second, one, other)
    return changed


class _Conflicts:
    """Makes the errors for placeholders that have the identities of two entities."""

    def __init__(
        self,
        facts: Facts,
        identities: Sequence[AttributeRows],
        placeholders: Placeholders,
        places: OperationPlaces,
    ) -> None:
        self._facts = facts
        self._identities = identities
        self._placeholders = placeholders
        self._places = places

    def error(self, given: AttributeRows, row: int, first: int, second: int) -> DbspError:
        """Return the error for the entity of a row: it is `first`, and has a value of `second`."""
        attribute, code = given.attribute, self._code(given, row)
        own = self._text(attribute, code)
        by_first = self._identity(first) or own
        by_second = own if self._owned(attribute, code, second) else self._identity(second) or own
        both = "" if own in (by_first, by_second) else f"; both have {own}"
        return self._places.error(
            int(given.places[row]),
            f"the entity is {first} by {by_first}, and {second} by {by_second}{both}",
            code="upsert-conflict",
            part=decode_one(attribute, code, self._facts.interner),
            attribute=attribute.ident,
        )

    def _identity(self, entity: int) -> str | None:
        """Return the attribute and the value by which a placeholder is an entity."""
        for given in self._identities:
            for row in np.flatnonzero(given.entities < 0).tolist():
                code = self._code(given, row)
                if self._placeholders.joined_id(int(given.entities[row])) == entity and (
                    self._owned(given.attribute, code, entity)
                ):
                    return self._text(given.attribute, code)
        return None

    def _owned(self, attribute: Attribute, code: int, entity: int) -> bool:
        """Whether an entity has a value: in the database, or by an operation with its id."""
        return entity in self._facts.entities(attribute, code) or any(
            entity == given.entities[row] and code == self._code(given, row)
            for given in self._identities
            if given.attribute is attribute
            for row in range(len(given))
        )

    def _code(self, given: AttributeRows, row: int) -> int:
        code = int(given.codes[row])
        return self._placeholders.joined_id(code) if given.attribute.is_ref else code

    def _text(self, attribute: Attribute, code: int) -> str:
        if attribute.is_ref and code < 0:
            return f"{attribute} of a new entity"
        return f"{attribute} {value_text(decode_one(attribute, code, self._facts.interner))}"
