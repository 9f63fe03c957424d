"""Facts that do not change any more: after some transaction, or of a range of transactions."""

from __future__ import annotations

import threading
from abc import abstractmethod
from typing import TYPE_CHECKING

from dbsp.datomic.fact_lookups import FactLookups
from dbsp.datomic.live_relation import arranged, trace_of
from dbsp.datomic.relation_key import Order, RelationKey
from dbsp.datomic.relation_rows import boxed, canonical, datoms_of, rows_of_relation
from dbsp.kernels.arrays import Codes
from dbsp.state.sorted_run import SortedRun
from dbsp.state.trace import Trace

if TYPE_CHECKING:
    from dbsp.datomic.datom_log import DatomLog

Runs = dict[Order, tuple[SortedRun, ...]]
"""The sorted runs of a relation, by the order of their columns."""


class SharedFacts(FactLookups):
    """Facts that change, and the parts of them that facts of the past share."""

    log: DatomLog
    """All datoms."""

    lock: threading.RLock
    """Held while traces or the interner change."""

    @abstractmethod
    def runs(self, key: RelationKey, order: Order, basis_t: int) -> tuple[SortedRun, ...] | None:
        """Return the runs of a relation that has not changed since a transaction, else None."""

    @abstractmethod
    def traces_of(self, after: int, until: int, history: bool) -> BuiltTraces:
        """Return the traces of a range of transactions, which all its users share."""


class BuiltTraces(dict[tuple[RelationKey, Order], Trace]):
    """The traces of facts that do not change, by relation and order."""

    __slots__ = ("__weakref__",)


class _UnchangingFacts(FactLookups):
    """Facts with the schema and the ids of `origin`; each trace is found once."""

    def __init__(self, indices: SharedFacts, origin: FactLookups, traces: BuiltTraces) -> None:
        self.indices = indices
        self.schema = origin.schema
        self.interner = origin.interner
        self.basis_t = origin.basis_t
        self.next_entity = origin.next_entity
        self.next_schema_entity = origin.next_schema_entity
        self._traces = traces

    @property
    def log(self) -> DatomLog:
        """All datoms, also those of later transactions."""
        return self.indices.log

    def trace(self, key: RelationKey, order: Order) -> Trace:
        """Return the rows of a relation, sorted by a permutation of its columns; never changes.

        O(n log n) at the first use of a relation that transactions do not keep up to date, O(number
        of sorted runs) at the first use of another one, else O(1).
        """
        key = canonical(key, self.schema)
        found = self._traces.get((key, order))
        if found is None:
            found = self._traces[key, order] = self._find(key, order)
        return found

    def _find(self, key: RelationKey, order: Order) -> Trace:
        if order != key.columns:
            return arranged(key, self.trace(key, key.columns).runs, order, [])
        return self._build(key)

    @abstractmethod
    def _build(self, key: RelationKey) -> Trace:
        """Return the rows of a relation, in the order of its columns."""

    def _rows(self, key: RelationKey, after: int, until: int, history: bool) -> Trace:
        """Return the rows of a relation over the datoms of transactions in (after, until]."""
        datoms = datoms_of(self.log, key, self.log.start(after + 1), self.log.start(until + 1))
        return trace_of(rows_of_relation(key, datoms, self._coded, history=history, whole=after < 0), [])

    def _coded(self, key: RelationKey, datoms: Codes) -> Codes:
        if not key.boxed:
            return datoms
        with self.indices.lock:
            return boxed(datoms, key.boxed, self.schema, self.interner)


class FrozenFacts(_UnchangingFacts):
    """The facts after the transaction that was the latest one when this object was made.

    It reads the traces of the indices as long as a relation does not change. Before it changes, the
    indices put the runs into `frozen`.
    """

    def __init__(self, indices: SharedFacts) -> None:
        super().__init__(indices, indices, BuiltTraces())
        self.frozen: dict[RelationKey, Runs] = {}

    def _find(self, key: RelationKey, order: Order) -> Trace:
        with self.indices.lock:
            frozen = self.frozen.get(key)
            runs = self.indices.runs(key, order, self.basis_t) if frozen is None else frozen.get(order)
        if runs is not None:
            return Trace.of_runs(len(order), runs, [])
        return super()._find(key, order)

    def _build(self, key: RelationKey) -> Trace:
        return self._rows(key, -1, self.basis_t, history=False)


class FilteredFacts(_UnchangingFacts):
    """The facts of the datoms of some transactions only.

    Parameters:
        indices: the log.
        origin: the facts to filter.
        after: the datoms are of transactions after this one; -1 for all.
        until: the datoms are of transactions up to this one.
        history: whether the facts are the datoms themselves, also the retracted ones.
    """

    def __init__(
        self, indices: SharedFacts, origin: FactLookups, after: int, until: int, history: bool
    ) -> None:
        super().__init__(indices, origin, indices.traces_of(after, until, history))
        self.after = after
        self.until = until
        self.history = history

    def _build(self, key: RelationKey) -> Trace:
        return self._rows(key, self.after, self.until, self.history)
