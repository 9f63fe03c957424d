"""Entities of a transaction that have no id yet: tempids, lookup refs, maps without `:db/id`.

While a transaction is prepared, a column of entities holds ids and placeholders. A placeholder is
a negative int, -1 - n for the placeholder with number n. Once all of them have an id,
`Placeholders.ids` replaces them in whole columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dbsp.datomic.database_facts import Facts
from dbsp.datomic.database_schema import Attribute
from dbsp.datomic.value_codes import decode_one
from dbsp.errors import DbspError
from dbsp.kernels.arrays import Codes

Located = Callable[[int, DbspError, Any], DbspError]
"""Names the operation at a place, and a part of it, in an error."""


class Placeholders:
    """The placeholders of one transaction, and the ids that they stand for.

    Attributes:
        tempids: the placeholders of the tempids of the user.
        places: the place of the operation that uses a placeholder first.
    """

    def __init__(self) -> None:
        self.tempids: dict[Any, int] = {}
        self.places: list[int] = []
        self._lookups: dict[tuple[int, int], int] = {}
        self._waiting: dict[int, tuple[Attribute, list[int], list[int]]] = {}
        self._lookup_of: dict[int, tuple[Attribute, int]] = {}
        # The representative of each placeholder that is joined with another one, or with an id.
        self._parents: dict[int, int] = {}
        self._targets = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.places)

    def new(self, place: int) -> int:
        """Return a new placeholder."""
        self.places.append(place)
        return -len(self.places)

    def new_rows(self, count: int) -> Codes:
        """Return new placeholders for the entities of the rows of a table."""
        first = len(self)
        self.places.extend(range(count))
        return -1 - np.arange(first, first + count)

    def tempid(self, key: Any, place: int) -> int:
        """Return the placeholder of a tempid of the user."""
        found = self.tempids.get(key)
        if found is None:
            found = self.tempids[key] = self.new(place)
        return found

    def lookup(self, attribute: Attribute, code: int, place: int) -> int:
        """Return the placeholder of the entity with a value of a unique attribute.

        The value is given by its code, since 1, 1.0 and True are equal in Python.
        """
        key = (attribute.id, code)
        found = self._lookups.get(key)
        if found is None:
            found = self._lookups[key] = self.new(place)
            self._lookup_of[found] = attribute, code
            _, placeholders, codes = self._waiting.setdefault(attribute.id, (attribute, [], []))
            placeholders.append(found)
            codes.append(code)
        return found

    def find_lookups(
        self, facts: Facts, located: Located, missing: Callable[[Attribute, Any], DbspError]
    ) -> None:
        """Find the entities of all lookup refs, in one look-up per attribute."""
        self._targets = -1 - np.arange(len(self))
        for attribute, placeholders, codes in self._waiting.values():
            positions, entities = facts.entities_of_many(np.array(codes, np.int64), attribute)
            numbers = -1 - np.array(placeholders)
            self._targets[numbers[positions]] = entities
            for at in np.flatnonzero(self._targets[numbers] < 0).tolist():
                value = decode_one(attribute, codes[at], facts.interner)
                error = missing(attribute, value)
                raise located(self.places[int(numbers[at])], error, (attribute.ident, value))

    def ids(self, column: Codes) -> Codes:
        """Return a column with the id, or the representative, of each placeholder."""
        if not len(self._targets):
            return column
        unknown = column < 0
        if not unknown.any():
            return column
        column = column.copy()
        column[unknown] = self._targets[-1 - column[unknown]]
        return column

    def lookup_of(self, placeholder: int) -> tuple[Attribute, int]:
        """Return the attribute and the code of the value of a lookup ref by its placeholder."""
        return self._lookup_of[placeholder]

    def id(self, entity: int) -> int:
        """Return the id of one entity or placeholder."""
        return int(self._targets[-1 - entity]) if entity < 0 else entity

    def join(self, first: int, second: int) -> bool:
        """Make two placeholders, or a placeholder and an id, the same entity.

        Returns False if both have ids that differ. `settle` must follow.
        """
        one, other = self._root(first), self._root(second)
        if one == other:
            return True
        if one >= 0 and other >= 0:
            return False
        if one >= 0 or (other < 0 and one > other):
            one, other = other, one  # `one` becomes the child of `other`
        self._parents[one] = other
        return True

    def settle(self) -> None:
        """Give each placeholder the id or the representative of its class, after `join`."""
        for placeholder in self._parents:
            self._targets[-1 - placeholder] = self._root(placeholder)

    def assign(self, numbers: Codes, ids: Codes) -> None:
        """Set the ids of placeholders without one, given by their numbers."""
        self._targets[numbers] = ids

    def unknown(self) -> Codes:
        """Return the numbers of the placeholders without an id that represent their class."""
        return np.flatnonzero(self._targets == -1 - np.arange(len(self)))

    def finish(self) -> None:
        """Give each placeholder the id of the representative of its class."""
        unknown = self._targets < 0
        if unknown.any():
            self._targets[unknown] = self._targets[-1 - self._targets[unknown]]

    def joined_id(self, entity: int) -> int:
        """Return the id of a placeholder after joins that are not settled."""
        return self._root(entity)

    def _root(self, entity: int) -> int:
        while entity < 0:
            target = int(self._targets[-1 - entity])
            if target >= 0:
                return target
            parent = self._parents.get(entity, entity)
            if parent == entity:
                return entity
            entity = parent
        return entity
