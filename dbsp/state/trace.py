"""Traces: the integral of a stream, sorted in one column order, as a stack of runs.

    I(s)[t] = sum of s[t'] for t' <= t          (integral; DBSP paper, arXiv 2203.16684, section 3)

A trace is similar to an LSM tree: each tick appends its delta as a new run before the joins of the
tick read it, and merges runs geometrically afterwards. So one trace contains both the old integral
(without the newest run) and the new one (with it).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from copy import copy

import numpy as np

from dbsp.data.batch import Batch
from dbsp.data.run_batch import RunBatch
from dbsp.kernels import consolidate_owned, narrow_rows, register_run, sum_weights
from dbsp.kernels.arrays import Codes, StoredRows
from dbsp.kernels.limits import INT64_MAX
from dbsp.kernels.narrow_rows import widened
from dbsp.state import merging_stack
from dbsp.state.journal import Journalled
from dbsp.state.memory_budget import MemoryBudget
from dbsp.state.merging_stack import MergingStack
from dbsp.state.recent_rows import copy_recent, count_recent
from dbsp.state.sorted_run import SortedRun

LEAST_FORGOTTEN = 2
"""A run is copied without its forgotten rows if these are at least one of this many rows."""


class Trace(MergingStack):
    """The integral of a stream as sorted runs; see `RunStack` and `MergingStack` for the fields."""

    __slots__ = ()

    def __init__(self, width: int, journal: list[Journalled], budget: MemoryBudget | None = None) -> None:
        super().__init__(width, journal, budget)
        if budget is not None:
            budget.watch(self)

    def release(self) -> None:
        """Release all runs."""
        self.runs, self.current, self._merge = [], [], None
        self.count = self.past = 0

    def restore(self, runs: Sequence[SortedRun]) -> None:
        """Restore an empty trace from sorted, consolidated and committed runs, oldest first.

        The weights of a run whose `largest` is known are not read, so mapped runs stay in files.
        """
        if len(runs) > len(self.table):
            self.table = np.zeros((len(runs) + 8, 3), np.int64)
        for run in runs:
            self._push(self.runs, run)
            if self._budget is not None and run.file is None:
                self._budget.add(run.nbytes)
        self.past = self.count

    @staticmethod
    def of_runs(width: int, runs: Sequence[SortedRun], journal: list[Journalled]) -> Trace:
        """Return a trace with the committed runs of another one, oldest first. O(number of runs).

        Rows never change, so the new trace keeps its contents while the other one changes. The runs
        are copies: the other trace may move the rows of its own to files.
        """
        trace = Trace(width, journal)
        trace.restore([copy(run) for run in runs])
        return trace

    def append(self, rows: StoredRows, weights: Codes) -> None:
        """Append the delta of this step, sorted in the order of the trace, as the newest run.

        Rows may be narrow, and their weights a single 1, as those of a run.

        The journal gets the trace before the trace changes, so a rollback always includes it.

        Raises OverflowError if the weight of a row is outside int64. O(delta), plus the merges of
        the runs of this tick (amortised O(log) per row).
        """
        if self._budget is not None:
            self._budget.add(rows.nbytes + weights.nbytes)
        current = self.current
        if current:
            newest = current[-1].size
            if (
                len(current) >= merging_stack.TAIL
                or newest > merging_stack.SMALL
                or newest >= narrow_rows.LARGE
                or self.deferred
            ):
                self._merge_current()
        else:
            self._journal.append(self)
        if self.count == len(self.table):
            self.table = np.concatenate((self.table, np.zeros_like(self.table)))
        # A small run is the usual case, without a function call. Deferred merges leave many runs.
        if (
            len(rows) >= (merging_stack.SMALL if self.deferred else narrow_rows.LARGE)
            and (weights == 1).all()
        ):
            run = SortedRun.of_ones(rows)
        else:
            run = SortedRun(rows, weights)
        run.born = self.searches
        if run.largest or rows.itemsize == 4:
            self._push(self.current, run)
        else:  # as `_push`, without a call
            run.largest = register_run(self.table, self.count, rows, weights)  # type: ignore[arg-type]
            self._bound += run.largest
            self.current.append(run)
            self.count += 1
        self.fresh = 1
        if self._bound > INT64_MAX:
            # The cheap bound does not prove any more that sums fit, so check the rows of the delta.
            sum_weights(widened(rows), self.table, self.count)

    def contents(self) -> Batch:
        """Return the integral as one batch, in the column order of the trace. O(n log runs)."""
        whole = self._whole()
        if whole is None:
            return Batch.empty(self.width)
        if whole.narrow:
            return RunBatch(whole.codes, whole.stored)
        return Batch(whole.rows, whole.weights)

    def since(self, iteration: int) -> Batch:
        """Return the committed rows of iterations after this one, by the last column. O(n)."""
        parts = []
        for run in self.runs:
            late = run.codes[:, -1] > iteration
            if late.any():
                parts.append((widened(run.codes[late]), run.weights[late]))
        if not parts:
            return Batch.empty(self.width)
        if len(parts) == 1:
            return Batch(*parts[0])
        rows, weights = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return Batch(*consolidate_owned(rows, weights))

    def notify(self) -> Batch | None:
        """Make all runs the delta of the current step, and return their sum.

        The trace then behaves as if this step had received the whole past, so `before` is 0.
        Returns None for an empty trace. O(n) if there are several runs, which are merged into one
        unless the step has appended a run.
        """
        if not self.current:
            self.compact()
        self.fresh = self.count
        whole = self._whole()
        return Batch(whole.rows, whole.weights) if whole else None

    def commit(self) -> None:
        current = self.current
        if current:
            runs, newest = self.runs, current[-1]
            grown = self.grown = newest.size if len(current) == 1 else sum([run.size for run in current])
            # A commit that was interrupted here has extended the runs already.
            if not runs or runs[-1] is not newest:
                runs.extend(current)
            calm = self._calm_of_few if grown <= merging_stack.FEW else self._calm
            self.due = grown > merging_stack.SMALL or grown >= narrow_rows.LARGE or len(runs) >= calm
            self.current = []
        self.past = self.count
        self.fresh = 0

    def rollback(self) -> None:
        self._bound = sum(run.largest for run in self.runs)
        self.current = []
        self.count = self.past
        self.fresh = 0

    def rewind(self, runs: Sequence[SortedRun]) -> None:
        """Return to the committed runs of an earlier time; if this is interrupted, call it again.

        A merge in progress is dropped. O(number of runs) if they are the committed runs still, else
        as `repair`.
        """
        self.rollback()
        if len(self.runs) == len(runs) and all(map(operator.is_, self.runs, runs)):
            return
        self._replacing = True
        self.runs = list(runs)
        self.grown = 0
        self.repair()

    def forget(self, column: int, threshold: int) -> None:
        """Drop committed rows whose `column` is below a threshold, between ticks. O(n).

        A run is copied only if enough of its rows go. So the weight of such a row may lack some of
        its changes afterwards: the caller promises that no step reads it again. Raises
        CheckpointError if the memory limit leaves no room for the copies.
        """
        kept = []
        for run in self.runs:
            size = count_recent(run, column, threshold)
            if LEAST_FORGOTTEN * (run.size - size) < max(run.size, 1):
                kept.append(run)
            elif size:
                kept.append(copy_recent(run, column, threshold, size, self._budget))
        if len(kept) < len(self.runs) or any(a is not b for a, b in zip(kept, self.runs, strict=True)):
            self._replacing = True
            self.runs = kept
            self.repair()
