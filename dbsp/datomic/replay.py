"""Replay of the log: the transactions after a point in time, one by one, for a live query."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping

from dbsp.data.batch import Batch
from dbsp.datomic.entity_ranges import TX0
from dbsp.datomic.frozen_facts import FilteredFacts
from dbsp.datomic.indices import Indices
from dbsp.datomic.transaction import PreparedTransaction


class Replay:
    """Indices that start with the facts after transaction `since`, and follow the log of others.

    A relation of the past is built at its first use, from the datoms of its attribute. The schema
    is the current one, as it is for `as_of`.
    """

    def __init__(self, origin: Indices, since: int) -> None:
        self._origin = origin
        past = FilteredFacts(origin, origin.snapshot(), -1, since, False)
        past.basis_t = since
        self.indices = Indices(origin.schema, origin.interner, past)

    def transactions(self) -> Iterator[tuple[int, Mapping[int, Batch]]]:
        """Apply each transaction; yield its number and its changes by attribute before the
        commit."""
        log, indices = self._origin.log, self.indices
        while indices.basis_t < self._origin.basis_t:
            t = indices.basis_t + 1
            instant = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=log.instant(t))
            changes = indices.apply(
                PreparedTransaction(
                    t=t,
                    tx=TX0 + t,
                    instant=instant,
                    datoms=log.rows(log.start(t), log.start(t + 1)),
                    tempids={},
                    schema=indices.schema,
                    next_entity=indices.next_entity,
                    next_schema_entity=indices.next_schema_entity,
                )
            )
            yield t, changes
            indices.commit()
