"""Counts of the relations that a query reads, for its plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from dbsp.compiler.datomic.meaning.base_relations import BaseRelation
from dbsp.datomic.query_sources import TracedFacts, relation_key
from dbsp.kernels.arrays import StoredRows

_SAMPLE = 65_536
"""At most this many rows of a relation are read to count the distinct values of a column."""


class RelationCounts:
    """Counts the rows of relations in their indices, and the fan-out of their columns."""

    def __init__(self, bases: Mapping[str, BaseRelation], facts: Mapping[str, TracedFacts]) -> None:
        self._bases = bases
        self._facts = facts
        self._fan_outs: dict[tuple[str, int], float] = {}

    def rows(self, relation: str) -> float | None:
        """Return the number of rows; None for a relation of the circuit. O(sorted runs)."""
        base = self._bases.get(relation)
        if base is None:
            return None
        return float(self._facts[base.source].trace(relation_key(base), base.columns).rows)

    @property
    def total(self) -> float:
        """The number of rows of all relations."""
        return sum(self.rows(relation) or 0.0 for relation in self._bases)

    def fan_out(self, relation: str, given: Collection[int]) -> float:
        """Return the mean number of rows for values of these columns that occur in the relation.

        With several columns it is that of the most selective one.
        """
        if not given:
            return self.rows(relation) or 0.0
        return min(self._fan_out(relation, column) for column in given)

    def _fan_out(self, relation: str, column: int) -> float:
        known = self._fan_outs.get((relation, column))
        if known is None:
            base = self._bases[relation]
            name = base.columns[column]
            order = (name, *(other for other in base.columns if other != name))
            runs = self._facts[base.source].trace(relation_key(base), order).runs
            known = _mean_group(max((run.codes for run in runs), key=len, default=None))
            self._fan_outs[relation, column] = known
        return known


def _mean_group(rows: StoredRows | None) -> float:
    """Return the mean size of the groups of equal values in the first column of sorted rows."""
    if rows is None or not len(rows):
        return 1.0
    values = rows[:_SAMPLE, 0]
    return len(values) / (1 + np.count_nonzero(values[1:] != values[:-1]))
