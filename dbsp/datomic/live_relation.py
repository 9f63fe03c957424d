"""A relation that transactions keep up to date: one trace per column order in use."""

from __future__ import annotations

import numpy as np

from dbsp.data.batch import Batch
from dbsp.datomic.relation_key import Order, RelationKey
from dbsp.kernels import gather
from dbsp.kernels.arrays import Codes
from dbsp.parallel.range_sort import consolidate
from dbsp.state.journal import Journalled
from dbsp.state.sorted_run import SortedRun
from dbsp.state.trace import Trace


class LiveRelation:
    """The rows of a relation, in the order of its columns and in other orders.

    `built_at` is the number of the latest transaction when it was built. Its traces use the journal
    of the indices.
    """

    __slots__ = ("_journal", "built_at", "key", "traces")

    def __init__(self, key: RelationKey, trace: Trace, built_at: int, journal: list[Journalled]) -> None:
        self.key = key
        self.traces: dict[Order, Trace] = {key.columns: trace}
        self.built_at = built_at
        self._journal = journal

    def trace(self, order: Order) -> Trace:
        """Return the trace in this order; build it at its first use. O(n) then."""
        found = self.traces.get(order)
        if found is None:
            first = self.traces[self.key.columns]
            found = arranged(self.key, first.runs, order, self._journal)
            for run in first.current:
                self._append(found, order, Batch(run.rows, run.weights))
            self.traces[order] = found
        return found

    def append(self, change: Batch) -> None:
        """Append a change, in the order of the columns of the key, to all traces."""
        for order, trace in self.traces.items():
            self._append(trace, order, change)

    def _append(self, trace: Trace, order: Order, change: Batch) -> None:
        if order != self.key.columns:
            change = change.rearranged(np.array(self.key.permutation(order), np.int64))
        trace.append(change.rows, change.weights)

    def change_of(self, datoms: Codes, coded: Codes) -> Batch:
        """Return the change that the datoms of one transaction make.

        `coded` are the datoms with the codes of the key.
        """
        columns = self.key.columns
        rows = np.ascontiguousarray(coded[:, self.key.places])
        if "added" in columns:
            return Batch(*consolidate(rows, np.ones(len(rows), np.int64)))
        signs = 2 * datoms[:, 4] - 1
        if "tx" not in columns:
            return Batch(*consolidate(rows, signs))
        # A retracted fact leaves with the transaction that asserted it.
        facts, _ = consolidate(np.ascontiguousarray(rows.compress(signs < 0, 0)[:, :-1]), -signs[signs < 0])
        trace = self.traces[columns]
        width = len(columns)
        old, counts, _ = gather(facts, width - 1, trace.table, trace.count, width, 0)
        rows = np.concatenate((rows.compress(signs > 0, 0), old))
        return Batch(*consolidate(rows, np.concatenate((signs[signs > 0], -counts))))


def arranged(key: RelationKey, runs: list[SortedRun], order: Order, journal: list[Journalled]) -> Trace:
    """Return a trace with the rows of these runs, of the columns of the key, in another order."""
    whole = Trace.of_runs(len(key.columns), runs, []).contents()
    if order != key.columns:
        whole = whole.rearranged(np.array(key.permutation(order), np.int64))
    return trace_of(whole, journal)


def trace_of(batch: Batch, journal: list[Journalled]) -> Trace:
    """Return a trace with these committed rows."""
    trace = Trace(batch.arity, journal)
    if len(batch):
        trace.restore([SortedRun.of(batch.rows, batch.weights)])
    return trace
