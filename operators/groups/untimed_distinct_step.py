"""Distinct in a scope without times: a filter for large ticks, and deletions in two phases.

Every iteration is like a separate tick, so the weight of a row is the number of its derivations
from the current rows. Two rows that are derived from each other keep each other's weight positive
after their last derivation from an input row is gone. So a tick with deletions has two phases:

    removing    every row that loses a derivation leaves the set, whatever weight is left
    restoring   a removed row returns if its weight is positive: the weight counts the derivations
                from rows that were not removed

(Delete and rederive, DRed: Gupta, Mumick, Subrahmanian, "Maintaining views incrementally", SIGMOD
1993. With the weights, the second phase needs no search for other derivations.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dbsp.circuit.step_roles import Arranged, ResettingStep
from dbsp.data.batch import Batch
from dbsp.data.run_batch import RunBatch
from dbsp.kernels.arrays import Codes, Words
from dbsp.operators.groups.distinct_steps import DistinctStep
from dbsp.operators.traces.arrange import own_trace
from dbsp.parallel.probe_pieces import sum_weights
from dbsp.state.seen_rows import NO_WORDS, SeenRows
from dbsp.state.trace import Trace


class ChangedRows(NamedTuple):
    """Rows in runs, some of them also in a filter."""

    table: Codes
    committed: int
    """How many runs are older than this tick."""
    runs: int
    """The number of runs."""
    noted: Words
    """The filter of the rows of this tick, or no words (see `dbsp.state.seen_rows`)."""


class UntimedDistinctStep(DistinctStep, ResettingStep):
    """Distinct in a scope without times.

    A large tick adds a few rows in each iteration, and most of them are new. A filter of the rows
    of the tick finds these, so that only the other rows are searched in the runs of the tick.
    """

    __slots__ = ("_removed", "_returning", "_seen", "_trace", "removals")

    def __init__(self, source: Arranged) -> None:
        super().__init__(source)
        self._trace = own_trace(source)
        self._seen = SeenRows()
        self.removals = (0, 0)
        """How many rows have left the set in this tick, and how many of them had other derivations
        then."""
        self._removed: Trace | None = None
        """The rows that left the set in this tick, while rows are removed."""
        self._returning: Batch | None = None
        """The removed rows that return in the next step."""

    @property
    def starts_empty(self) -> bool:
        """Whether no earlier tick has left rows, so that the integral is the change of this one."""
        return not self._trace.runs

    def reset(self) -> None:
        self._seen.clear()
        self._removed = self._returning = None

    def start_removing(self) -> None:
        """Begin the first phase of a tick with deletions."""
        self._removed = Trace(self._trace.width, [])
        self.removals = (0, 0)

    def end_removing(self) -> tuple[int, int]:
        """End the first phase. In the next step rows return, and only insertions arrive after it.

        Returns how many rows were removed, and how many of them return.
        """
        if self._removed is None:
            return 0, 0
        removed = self._removed.contents().rows
        weights = sum_weights(removed, self._trace.table, self._trace.count)
        rows = removed[weights > 0]
        self._removed = None
        self._returning = Batch(rows, np.ones(len(rows), np.int64)) or None
        return len(removed), len(rows)

    @property
    def removing(self) -> bool:
        """Whether this is the first phase of a tick with deletions."""
        return self._removed is not None

    def changed(self, known: int) -> ChangedRows:
        """Return the rows that cannot change any more in this phase.

        These are the rows of the set; while rows are removed, those that have left it. The caller
        knows some of them: if that is all, there is no run, and no filter is made.
        """
        trace = self._trace if self._removed is None else self._removed
        if known == trace.table[: trace.count, 2].sum():
            return ChangedRows(trace.table, 0, 0, NO_WORDS)
        if self._removed is not None:
            return ChangedRows(trace.table, 0, trace.count, NO_WORDS)
        return ChangedRows(trace.table, trace.past, trace.count, self._seen.filter(trace.current))

    def receive(self, derived: RunBatch, out: Batch | None) -> None:
        """Take over what several iterations have found: the change of the input and the output."""
        trace = self._trace
        trace.append(derived.codes, derived.stored)
        if self._removed is None:
            self._seen.include(trace.current[-1])
        elif out is not None:
            self._leave(self._removed, out.rows)

    def step(self) -> None:
        if self._removed is not None:
            self._remove(self._removed)
            return
        self._change()
        returning = self._returning
        if returning is not None:
            self._returning = None
            if self.out is not None:
                # No row is in both: for `_change`, a row that returns was present before.
                returning = returning.plus(self.out)
            self.out = returning

    def _remove(self, removed: Trace) -> None:
        batch = self._source.out
        self.out = None
        if batch is None:
            return
        rows = batch.rows.compress(sum_weights(batch.rows, removed.table, removed.count) == 0, 0)
        if len(rows):
            self.out = Batch(rows, np.full(len(rows), -1, np.int64))
            self._leave(removed, rows)

    def _leave(self, removed: Trace, rows: Codes) -> None:
        removed.append(rows, np.ones(len(rows), np.int64))
        left = sum_weights(rows, self._trace.table, self._trace.count)
        earlier, supported = self.removals
        self.removals = earlier + len(rows), supported + int(np.count_nonzero(left > 0))

    def _change(self) -> None:
        batch, trace = self._source.out, self._trace
        known = None if batch is None else self._seen.note(batch.rows, trace.current[:-1])
        if batch is None or known is None or not trace.sums_fit:
            super().step()
            return
        before = np.zeros(len(batch), np.int64)
        if trace.past:
            before += sum_weights(batch.rows, trace.table, trace.past)
        if len(known):
            rows = batch.rows.take(known, 0)
            before[known] += sum_weights(rows, trace.table[trace.past :], trace.before - trace.past)
            trace.count_searches(len(known), len(batch))
        change = (before + batch.weights > 0).astype(np.int64) - (before > 0)
        changed = np.flatnonzero(change)
        if len(changed) == len(change):
            self.out = Batch(batch.rows, change)
        else:
            self.out = Batch(batch.rows.take(changed, 0), change.take(changed)) if len(changed) else None
