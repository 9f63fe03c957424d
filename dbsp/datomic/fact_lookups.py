"""Look-ups of facts by code, over the traces of a database."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dbsp.data.interner import Interner
from dbsp.datomic.relation_key import EV, VE, Order, RelationKey, current_facts
from dbsp.kernels import consolidate, join_runs, project
from dbsp.kernels.arrays import Codes, Mask
from dbsp.state.trace import Trace

if TYPE_CHECKING:
    from dbsp.datomic.database_schema import Attribute, Schema

ENTITY_FACTS = RelationKey(None, ("e", "a", "v"))
"""All current facts, with values by the type of their attribute."""

_ONE = np.ones(1, np.int64)
_KEY_AND_POSITION = np.arange(2)
_FACT_AND_POSITION = np.arange(3)
_POSITION = np.array([2], np.int64)
_POSITION_AND_MATCH = np.array([1, -2], np.int64)


@functools.cache
def _columns_after(prefix: int, width: int) -> Codes:
    """Return the columns of a run after a prefix, as `join_runs` numbers them."""
    return -1 - np.arange(prefix, width)


def rows_with_prefix(trace: Trace, prefix: Sequence[int]) -> Codes:
    """Return the rows that start with a prefix, sorted and without it. O(log n + rows)."""
    size = len(prefix)
    if not size:
        return trace.contents().rows
    keys = np.array([prefix], np.int64)
    columns = _columns_after(size, trace.width)
    rows, weights, _ = join_runs(keys, _ONE, size, trace.table, trace.count, trace.width, columns)
    # A fact that was retracted and asserted again has several rows.
    return consolidate(rows, weights)[0] if len(rows) > 1 else rows


class FactLookups(ABC):
    """Facts at one time; the look-ups that transactions, pull and entities use.

    Costs are per look-up: O(log n) for each sorted run, plus the rows that are found.
    """

    __slots__ = ()

    schema: Schema
    interner: Interner
    next_entity: int
    next_schema_entity: int
    basis_t: int

    @abstractmethod
    def trace(self, key: RelationKey, order: Order) -> Trace:
        """Return the rows of a relation, sorted by a permutation of its columns."""

    def values(self, entity: int, attribute: Attribute) -> list[int]:
        """Return the values of an attribute of an entity."""
        found: list[int] = rows_with_prefix(self.trace(current_facts(attribute.id), EV), (entity,))[
            :, 0
        ].tolist()
        return found

    def entities(self, attribute: Attribute, code: int) -> list[int]:
        """Return the entities that have the value."""
        found: list[int] = rows_with_prefix(self.trace(current_facts(attribute.id), VE), (code,))[
            :, 0
        ].tolist()
        return found

    def values_of_many(self, entities: Codes, attribute: Attribute) -> tuple[Codes, Codes]:
        """Return (positions in `entities`, values): one pair per value of each entity."""
        return _matches(entities, self.trace(current_facts(attribute.id), EV))

    def entities_of_many(self, codes: Codes, attribute: Attribute) -> tuple[Codes, Codes]:
        """Return (positions in `codes`, entities): one pair per entity that has the value."""
        return _matches(codes, self.trace(current_facts(attribute.id), VE))

    def contains_many(self, entities: Codes, codes: Codes, attribute: Attribute) -> Mask:
        """Return whether each entity has the value in the same row."""
        rows = np.column_stack((entities, codes, np.arange(len(codes))))
        rows, weights = project(rows, np.ones(len(rows), np.int64), _FACT_AND_POSITION)
        trace = self.trace(current_facts(attribute.id), EV)
        found, sums, _ = join_runs(rows, weights, 2, trace.table, trace.count, 2, _POSITION)
        positions, _ = consolidate(found, sums)
        contained = np.zeros(len(codes), np.bool_)
        contained[positions[:, 0]] = True
        return contained

    def all_values(self, attribute: Attribute) -> tuple[Codes, Codes]:
        """Return (entities, values) of all facts of an attribute, in the order of entities."""
        rows = self.trace(current_facts(attribute.id), EV).contents().rows
        return np.ascontiguousarray(rows[:, 0]), np.ascontiguousarray(rows[:, 1])

    def entity_datoms(self, entity: int) -> list[tuple[int, int]]:
        """Return (attribute id, value) of all facts about the entity."""
        rows = rows_with_prefix(self.trace(ENTITY_FACTS, ENTITY_FACTS.columns), (entity,))
        return [(attribute, value) for attribute, value in rows.tolist()]

    def references_to(self, entity: int) -> list[tuple[int, int]]:
        """Return (entity, attribute id) of all facts whose value is a reference to the entity."""
        return [
            (source, attribute.id)
            for attribute in self.schema.by_id.values()
            if attribute.value_type == "ref"
            for source in self.entities(attribute, entity)
        ]


def _matches(keys: Codes, trace: Trace) -> tuple[Codes, Codes]:
    """Return (positions in `keys`, second column) of the rows that start with each key."""
    numbered = np.empty((len(keys), 2), np.int64)
    numbered[:, 0] = keys
    numbered[:, 1] = np.arange(len(keys))
    # Sorted keys are found by galloping.
    rows, weights = project(numbered, np.ones(len(keys), np.int64), _KEY_AND_POSITION)
    found, sums, _ = join_runs(rows, weights, 1, trace.table, trace.count, 2, _POSITION_AND_MATCH)
    pairs, _ = consolidate(found, sums)
    return np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
