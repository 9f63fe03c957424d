"""The indices of a database: sorted traces that every transaction keeps up to date.

`apply` appends the change of a transaction to all traces; then `commit` or `rollback` decides it.
Each attribute has a trace of its current facts (e, v); other relations and orders are built at
their first use and are kept up to date from then on. `snapshot` returns the current facts, which
later transactions do not change: a snapshot shares the sorted runs, which are immutable.
"""

from __future__ import annotations

import datetime as dt
import itertools
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.timestamps import MICROSECOND
from dbsp.datomic.datom_log import DatomLog
from dbsp.datomic.frozen_facts import BuiltTraces, FilteredFacts, FrozenFacts, Runs, SharedFacts
from dbsp.datomic.live_relation import LiveRelation, trace_of
from dbsp.datomic.relation_key import Order, RelationKey, current_facts
from dbsp.datomic.relation_rows import boxed, canonical, datoms_of, rows_of_relation
from dbsp.datomic.shared_values import SHARED_LOCK
from dbsp.errors import InvariantError
from dbsp.kernels.arrays import Codes
from dbsp.parallel.range_sort import consolidate
from dbsp.runtime.scope_state import MERGE_FACTOR, MERGE_FUEL
from dbsp.state.journal import Journalled
from dbsp.state.sorted_run import SortedRun
from dbsp.state.trace import Trace

if TYPE_CHECKING:
    from dbsp.datomic.database_schema import Schema
    from dbsp.datomic.transaction import PreparedTransaction

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class _Before(NamedTuple):
    """The state before a transaction that is not decided."""

    transactions: int
    schema: Schema
    next_entity: int
    next_schema_entity: int


class Indices(SharedFacts):
    """The current facts of a database and all its datoms.

    Parameters:
        schema: the attributes.
        interner: the values of all codes.
        base: facts to start from, for indices of a transaction that is only tried.
    """

    def __init__(
        self, schema: Schema, interner: Interner, base: FrozenFacts | FilteredFacts | None = None
    ) -> None:
        self.schema = schema
        self.interner = interner
        self._base = base
        self._first = 0 if base is None else base.basis_t + 1
        """The first transaction that is not in the base."""
        self.log = DatomLog() if base is None else base.log.fork(self._first)
        self.basis_t = self._first - 1
        self.next_entity = 1 if base is None else base.next_entity
        self.next_schema_entity = 0 if base is None else base.next_schema_entity
        self.lock = SHARED_LOCK
        """Held while traces or the interner change; a reader in another thread needs it, too."""
        self._journal: list[Journalled] = []
        self._unmerged: set[Trace] = set()
        self._relations: dict[RelationKey, LiveRelation] = {}
        self._by_attribute: dict[int | None, list[LiveRelation]] = {}
        self._snapshots: list[weakref.ref[FrozenFacts]] = []
        """By age."""
        self._living = 0
        """The number of snapshots in use when they were counted last."""
        self._filtered: weakref.WeakValueDictionary[tuple[int, int, bool], BuiltTraces]
        self._filtered = weakref.WeakValueDictionary()
        self._before: _Before | None = None
        """What to restore while a transaction is not decided."""

    # --- transactions -----------------------------------------------------------------------------

    @property
    def undecided(self) -> bool:
        """Whether a transaction is applied that is neither committed nor rolled back."""
        return self._before is not None

    @property
    def _committed(self) -> int:
        """The number of committed transactions."""
        return self.log.transactions if self._before is None else self._before.transactions

    def apply(self, prepared: PreparedTransaction) -> dict[int, Batch]:
        """Append a transaction to the log and to all traces; return the changes by attribute.

        A change has the columns e and v. Until `commit`, the traces that change are `fresh` and the
        transaction can be rolled back. Cost: O(datoms log datoms) per order in use.
        """
        if prepared.t != self.basis_t + 1 or self.undecided:
            raise InvariantError(
                f"expected transaction {self.basis_t + 1} after a decided one, got {prepared.t}; "
                "this is a defect of dbsp"
            )
        with self.lock:
            self._before = _Before(
                self.log.transactions, self.schema, self.next_entity, self.next_schema_entity
            )
            datoms = prepared.datoms
            ends, times = np.array([len(datoms)], np.int64), np.array([microseconds(prepared.instant)])
            self.log.append(datoms, ends, times)
            self.schema = prepared.schema
            self.next_entity = prepared.next_entity
            self.next_schema_entity = prepared.next_schema_entity
            self.basis_t = prepared.t
            changes = {}
            for attribute, rows in _grouped(datoms):
                current = self._build(current_facts(attribute))
                for relation in self._by_attribute[attribute]:
                    change = self._append(relation, rows)
                    if relation is current:
                        changes[attribute] = change
            for relation in self._by_attribute.get(None, ()):
                self._append(relation, datoms)
            return changes

    def _append(self, relation: LiveRelation, datoms: Codes) -> Batch:
        """Append the change of the undecided transaction to a relation."""
        change = relation.change_of(datoms, self._coded(relation.key, datoms))
        if len(change):
            self._freeze(relation)
            relation.append(change)
        return change

    def commit(self) -> None:
        """Make the transaction final, and merge sorted runs. If interrupted, call it again."""
        with self.lock:
            self._unmerged.update(state for state in self._journal if isinstance(state, Trace))
            for state in self._journal:
                state.commit()
            self._journal.clear()
            self._before = None
            for trace in list(self._unmerged):
                trace.repair()  # after a merge that an interrupt has ended
                try:
                    trace.maintain(MERGE_FUEL + MERGE_FACTOR * trace.grown)
                except MemoryError:
                    trace.repair()
                    continue
                trace.grown = 0
                self._unmerged.discard(trace)

    def rollback(self) -> None:
        """Undo the transaction. If this is interrupted, call it again."""
        before = self._before
        if before is None:
            return
        with self.lock:
            for state in self._journal:
                state.rollback()
            self._journal.clear()
            self.log.truncate(before.transactions)
            self.schema = before.schema
            self.next_entity, self.next_schema_entity = before.next_entity, before.next_schema_entity
            self.basis_t = before.transactions - 1
            self._before = None

    # --- relations --------------------------------------------------------------------------------

    def trace(self, key: RelationKey, order: Order) -> Trace:
        """Return the rows of a relation, sorted by a permutation of its columns.

        A relation and an order have one trace, always the same object. A transaction that changes
        the relation makes the trace `fresh` until it is committed. O(n log n) at the first use.
        """
        key = canonical(key, self.schema)
        with self.lock:
            relation = self._relations.get(key)
            if relation is None:
                relation = self._build(key)
                if self._before is not None:
                    # A listener reads it first while the transaction is not decided.
                    self._append(relation, self._datoms(key, self._committed, self.log.transactions))
            return relation.trace(order)

    def runs(self, key: RelationKey, order: Order, basis_t: int) -> tuple[SortedRun, ...] | None:
        """Return the sorted runs of a relation that has not changed since transaction `basis_t`.

        The caller holds the lock, and has not got its runs by `FrozenFacts.freeze`. Returns None if
        the relation was built later.
        """
        relation = self._relations.get(key)
        if relation is None and basis_t == self.basis_t and self._before is None:
            relation = self._build(key)
        if relation is None or relation.built_at > basis_t:
            return None
        return tuple(relation.trace(order).runs)

    def _build(self, key: RelationKey) -> LiveRelation:
        """Return a relation; build it from the committed transactions if it does not exist."""
        relation = self._relations.get(key)
        if relation is not None:
            return relation
        base, committed = self._base, self._committed
        if base is None:
            datoms = self._datoms(key, 0, committed)
            batch = rows_of_relation(key, datoms, self._coded, history=False, whole=True)
            relation = LiveRelation(key, trace_of(batch, self._journal), committed - 1, self._journal)
        else:
            trace = Trace.of_runs(len(key.columns), base.trace(key, key.columns).runs, self._journal)
            relation = LiveRelation(key, trace, committed - 1, self._journal)
            if committed > self._first:
                # The transaction that was tried on the base.
                datoms = self._datoms(key, self._first, committed)
                change = relation.change_of(datoms, self._coded(key, datoms))
                if len(change):
                    trace.append(change.rows, change.weights)
                    trace.commit()
                    self._journal.remove(trace)
        self._add(relation)
        return relation

    def _add(self, relation: LiveRelation) -> None:
        self._by_attribute.setdefault(relation.key.attribute, []).append(relation)
        self._relations[relation.key] = relation

    def _datoms(self, key: RelationKey, first: int, end: int) -> Codes:
        """Return the datoms of transactions that a relation reads."""
        return datoms_of(self.log, key, self.log.start(first), self.log.start(end))

    def _coded(self, key: RelationKey, datoms: Codes) -> Codes:
        """Return datoms with the codes of a relation."""
        return boxed(datoms, key.boxed, self.schema, self.interner) if key.boxed else datoms

    # --- snapshots --------------------------------------------------------------------------------

    def snapshot(self) -> FrozenFacts:
        """Return the committed facts, which later transactions do not change. O(1)."""
        facts = FrozenFacts(self)
        with self.lock:
            if len(self._snapshots) > 2 * self._living + 8:
                self._snapshots = [each for each in self._snapshots if each() is not None]
                self._living = len(self._snapshots)
            self._snapshots.append(weakref.ref(facts))
        return facts

    def traces_of(self, after: int, until: int, history: bool) -> BuiltTraces:
        """Return the traces of a range of transactions, which all its users share."""
        return self._filtered.setdefault((after, until, history), BuiltTraces())

    def _freeze(self, relation: LiveRelation) -> None:
        """Give the runs of a relation that will change to the snapshots that may read it."""
        runs: Runs | None = None
        # A relation that has changed after a snapshot has also changed after all older ones.
        for each in reversed(self._snapshots):
            facts = each()
            if facts is None:
                continue
            if facts.basis_t < relation.built_at or relation.key in facts.frozen:
                break
            if runs is None:
                runs = {order: tuple(trace.runs) for order, trace in relation.traces.items()}
            facts.frozen[relation.key] = runs

    # --- loading ----------------------------------------------------------------------------------

    def load(self, datoms: Codes, ends: Codes, instants: Codes) -> None:
        """Append committed transactions in bulk, to indices without snapshots; build their traces.

        The caller sets the schema and the next ids. O(n log n).
        """
        with self.lock:
            self._relations.clear()
            self._by_attribute.clear()
            self.log.append(datoms, ends, instants)
            self.basis_t = self.log.transactions - 1
            whole = self.log.rows(0, self.log.count)
            rows = np.ascontiguousarray(whole[:, [1, 0, 2]])
            rows, weights = consolidate(rows, 2 * whole[:, 4] - 1)
            for start, end in _ranges(rows[:, 0]):
                batch = Batch(np.ascontiguousarray(rows[start:end, 1:]), weights[start:end].copy())
                trace = trace_of(batch, self._journal)
                key = current_facts(int(rows[start, 0]))
                self._add(LiveRelation(key, trace, self.basis_t, self._journal))


def microseconds(instant: dt.datetime) -> int:
    """Return a time with a zone as microseconds since 1970."""
    return (instant - _EPOCH) // MICROSECOND


def _grouped(datoms: Codes) -> list[tuple[int, Codes]]:
    """Return each attribute with its datoms."""
    by_attribute = datoms[np.argsort(datoms[:, 1], kind="stable")]
    return [
        (int(by_attribute[start, 1]), by_attribute[start:end]) for start, end in _ranges(by_attribute[:, 1])
    ]


def _ranges(keys: Codes) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each group of equal, adjacent keys."""
    starts = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    bounds = [0, *starts.tolist(), len(keys)]
    return itertools.pairwise(bounds) if len(keys) else iter(())
