"""Traces: the integral of a stream, sorted in one column order, as a stack of runs.

    I(s)[t] = sum of s[t'] for t' <= t          (integral; DBSP paper, arXiv 2203.16684, section 3)

A trace is similar to an LSM tree: each tick appends its delta as a new run before the joins of the
tick read it, and merges runs geometrically afterwards. So one trace contains both the old integral
(without the newest run) and the new one (with it).
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator, Sequence

import numpy as np

from dbsp.data.batch import Batch
from dbsp.data.types import Type
from dbsp.errors import CheckpointError
from dbsp.kernels import consolidate_owned, register_run, sum_weights
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX
from dbsp.state import narrow_rows
from dbsp.state.journal import Journalled
from dbsp.state.memory_budget import MemoryBudget
from dbsp.state.narrow_rows import widened
from dbsp.state.recent_rows import copy_recent, count_recent
from dbsp.state.run_batch import RunBatch
from dbsp.state.sorted_run import RunMerge, SortedRun
from dbsp.state.streamed_merge import StreamedMerge
from dbsp.state.wide_merge import merge_many

RATIO = 8
"""A run stays separate from the next newer run while it is more than this many times larger."""

RATIO_IN_TICK = 4
"""The same for runs of one tick in a scope, which are many and short-lived."""

SMALL = 512
"""Runs up to this many rows are collected at the newest end of the stack and merged together."""

TAIL = 8
"""This many small runs at the newest end are merged into one."""

MAX_RUNS = 24
"""Beyond this many committed runs, all pending merges are done at once."""

LEAST_FORGOTTEN = 2
"""A run is copied without its forgotten rows if these are at least one of this many rows."""


class Trace:
    """A stack of sorted runs, oldest first: `runs` are committed, `current` belong to this tick.

    `width` is the number of columns of a run row. In a nested scope it is more than the arity of
    the
    stream: the last columns hold the iterations, outermost scope first. `table` is the run table
    for kernels (see `dbsp.kernels.run_search`), `count` the number of runs in it, `past` the number
    of committed runs. `fresh` means that the newest run is the delta of the current step. With a
    `budget`, runs may be in files.

    While `deferred` is set, the runs of the tick are merged only when searches in them have cost as
    much as the merge; `searches` is the cost of all searches in a run of the tick so far.
    """

    __slots__ = (
        "__weakref__",
        "_bound",
        "_budget",
        "_calm",
        "_journal",
        "_merge",
        "_replacing",
        "count",
        "current",
        "deferred",
        "fresh",
        "grown",
        "past",
        "runs",
        "searches",
        "table",
        "types",
        "width",
    )

    def __init__(self, width: int, journal: list[Journalled], budget: MemoryBudget | None = None) -> None:
        self.width = width
        self.types: tuple[Type, ...] | None = None
        """The types of the columns, if they are known."""
        self.runs: list[SortedRun] = []
        self.current: list[SortedRun] = []
        self.table = np.zeros((MAX_RUNS + 8, 3), np.int64)
        self.count = 0
        self.past = 0
        self.fresh = False
        self.deferred = False
        self.searches = 0
        self.grown = 0
        """The number of rows that the latest committed tick added."""
        self._bound = 0
        self._calm = 0
        """Fewer runs than this, of which the newer ones are small, need no merge."""
        self._journal = journal
        self._merge: RunMerge | StreamedMerge | None = None
        self._replacing = False
        """Whether runs are being replaced: until this ends, the table may not fit them."""
        self._budget = budget
        if budget is not None:
            budget.watch(self)

    @property
    def before(self) -> int:
        """The number of runs that hold the integral without the delta of the current step."""
        return self.count - 1 if self.fresh else self.count

    @property
    def rows(self) -> int:
        """The number of rows in all runs."""
        return sum(len(run) for run in self.runs) + sum(len(run) for run in self.current)

    @property
    def nbytes(self) -> int:
        """The bytes of rows and stored weights in memory, including a merge in progress."""
        kept = sum([run.nbytes for run in self.in_memory()])
        return kept if self._merge is None else kept + self._merge.nbytes

    @property
    def file_bytes(self) -> int:
        """The bytes of rows and weights in files."""
        return sum([run.file.end for run in (*self.runs, *self.current) if run.file is not None])

    def in_memory(self) -> Iterator[SortedRun]:
        """Yield the runs that are not in files."""
        return (run for run in (*self.runs, *self.current) if run.file is None)

    def map(self, run: SortedRun, mapped: SortedRun) -> None:
        """Replace the arrays of a run by those of its file; if interrupted, call `repair`."""
        index = [id(each) for each in (*self.runs, *self.current)].index(id(run))
        self._replacing = True
        run.codes = mapped.codes
        run.stored = mapped.stored
        run.file = mapped.file
        self._register(index, run)
        self._replacing = False

    def release(self) -> None:
        """Release all runs."""
        self.runs, self.current, self._merge = [], [], None
        self.count = self.past = 0

    @property
    def merging(self) -> bool:
        """Whether a merge is in progress and continues in later ticks."""
        return self._merge is not None

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

        Runs never change, so the new trace keeps its contents while the other one changes.
        """
        trace = Trace(width, journal)
        trace.restore(runs)
        return trace

    def append(self, rows: Codes, weights: Codes) -> None:
        """Append the delta of this step, sorted in the order of the trace, as the newest run.

        The journal gets the trace before the trace changes, so a rollback always includes it.

        Raises OverflowError if the weight of a row is outside int64. O(delta), plus the merges of
        the runs of this tick (amortised O(log) per row).
        """
        if self._budget is not None:
            self._budget.add(rows.nbytes + weights.nbytes)
        current = self.current
        if current:
            newest = current[-1].size
            if len(current) >= TAIL or newest > SMALL or newest >= narrow_rows.LARGE or self.deferred:
                self._merge_current()
        else:
            self._journal.append(self)
        if self.count == len(self.table):
            self.table = np.concatenate((self.table, np.zeros_like(self.table)))
        # A small run is the usual case, without a function call. Deferred merges leave many runs.
        if len(rows) >= (SMALL if self.deferred else narrow_rows.LARGE) and (weights == 1).all():
            run = SortedRun.of_ones(rows)
        else:
            run = SortedRun(rows, weights)
        run.born = self.searches
        if run.largest:
            self._push(self.current, run)
        else:  # as `_push`, without a call
            run.largest = register_run(self.table, self.count, rows, weights)
            self._bound += run.largest
            self.current.append(run)
            self.count += 1
        self.fresh = True
        if self._bound > INT64_MAX:
            # The cheap bound does not prove any more that sums fit, so check the rows of the delta.
            sum_weights(rows, self.table, self.count)

    def contents(self) -> Batch:
        """Return the integral as one batch, in the column order of the trace. O(n log runs)."""
        whole = self._whole()
        if whole is None:
            return Batch.empty(self.width)
        if whole.narrow:
            return RunBatch(whole.codes, whole.stored)
        return Batch(whole.rows, whole.weights)

    def _whole(self) -> SortedRun | None:
        """Return the integral as one run; None without runs."""
        runs = [*self.runs, *self.current]
        if len(runs) < 2:
            return runs[0] if runs else None
        if self._bound > INT64_MAX:
            # Sums over some of the runs may be outside int64 although the totals fit.
            rows = np.concatenate([run.rows for run in runs])
            return SortedRun.of(*consolidate_owned(rows, np.concatenate([run.weights for run in runs])))
        if self._budget is not None:
            with contextlib.suppress(CheckpointError):  # without room for a file, try in memory
                return self._budget.merged(runs)
        return RunMerge.sum_of(runs)

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
        """Merge everything into one run and return it as the delta of the current step.

        While `fresh` is set, the trace behaves as if this step had received the whole past, so
        `before` is 0. Returns None for an empty trace. O(n) if there are several runs.
        """
        self.compact()
        self.fresh = bool(self.runs)
        return Batch(self.runs[0].rows, self.runs[0].weights) if self.fresh else None

    def commit(self) -> None:
        current = self.current
        if current:
            newest = current[-1]
            self.grown = newest.size if len(current) == 1 else sum([run.size for run in current])
            # A commit that was interrupted here has extended the runs already.
            if not self.runs or self.runs[-1] is not newest:
                self.runs.extend(current)
            self.current = []
        self.past = self.count
        self.fresh = False

    def rollback(self) -> None:
        self._bound = sum(run.largest for run in self.runs)
        self.current = []
        self.count = self.past
        self.fresh = False

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

    def repair(self) -> None:
        """Restore the table after an interrupted merge, between ticks; the runs are the truth."""
        self.fresh = False
        if not self._replacing:
            return
        self._merge = None
        self._calm = 0
        if len(self.runs) > len(self.table):
            self.table = np.zeros((len(self.runs) + 8, 3), np.int64)
        for index, run in enumerate(self.runs):
            self._register(index, run)
        self._bound = sum(run.largest for run in self.runs)
        self.count = self.past = len(self.runs)
        self._replacing = False

    def maintain(self, fuel: int) -> None:
        """Merge committed runs between ticks, reading at most about `fuel` rows.

        Small merges are completed at once; a large one is spread over several ticks, to keep each
        tick short.
        """
        self._replacing = True
        self._calm = 0
        self._merge_within(fuel)
        if self._merge is None or self._merge.newer is not self.runs[-1]:
            self._narrow_newest(self.runs, 0)
        if self._merge is None and self._bound <= INT64_MAX:
            self._calm = min(_tail(self.runs) + TAIL, MAX_RUNS + 1)
        self._replacing = False

    @property
    def due(self) -> bool:
        """Whether `maintain` has work after the commit of this tick; seldom after a small tick."""
        grown = self.grown
        return grown > SMALL or grown >= narrow_rows.LARGE or len(self.runs) >= self._calm

    def _merge_within(self, fuel: int) -> None:
        if self._bound > INT64_MAX:
            # Sums over some of the runs may be outside int64 although the totals fit: merge all or
            # none.
            if len(self.runs) > MAX_RUNS:
                self.compact()
            return
        self._merge_tail(self.runs, 0)
        self.past = self.count
        if len(self.runs) > MAX_RUNS:
            fuel = INT64_MAX
        if self._merge is not None:
            if not self._merge.advance(fuel):
                self._merge_newer(self._merge, fuel)
                return
            self._finish(self._merge)
        while (index := self._next_merge(0)) is not None:
            merge = self._merge = self._merge_of(index, self.runs[index], self.runs[index + 1])
            if not merge.advance(max(fuel, SMALL)):
                return
            self._finish(merge)
            fuel -= merge.size

    def _merge_of(self, index: int, older: SortedRun, newer: SortedRun) -> RunMerge | StreamedMerge:
        if self._budget is not None:
            return self._budget.merge(index, older, newer)
        return RunMerge(index, older, newer)

    def compact(self) -> None:
        """Merge everything into one run; insertions and their retractions cancel. O(n)."""
        if len(self.runs) > 1:
            whole = self._whole()
            self._replacing = True
            self.runs = [whole] if whole else []
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

    def _merge_tail(self, runs: list[SortedRun], offset: int) -> None:
        """Merge the small runs at the newest end of `runs`, which has `offset` in the table."""
        if len(runs) < TAIL:
            return
        start = _tail(runs)
        if len(runs) - start < TAIL:
            return
        small = runs[start:]
        rows, weights = consolidate_owned(
            np.concatenate([run.rows for run in small]), np.concatenate([run.weights for run in small])
        )
        merged = [SortedRun(rows, weights)] if len(weights) else []
        runs[start:] = merged  # one step: an interrupt finds either the small runs or the merged one
        self._bound -= sum(run.largest for run in small)
        self.count = offset + start
        for run in merged:
            self._register(self.count, run)
            self._bound += run.largest
            self.count += 1

    def narrow(self) -> None:
        """Store the newest run of this tick in 32 bits if it may be.

        Nobody reads its delta again.
        """
        self._narrow_newest(self.current, self.past)

    def _narrow_newest(self, runs: list[SortedRun], offset: int) -> None:
        """Store the newest of `runs`, which has `offset` in the table, in 32 bits if it may be.

        Its rows are those of the delta, which is released by now: before, they are shared.
        """
        if runs and runs[-1].size >= narrow_rows.LARGE:
            run = runs[-1].compact()
            if run is not runs[-1]:
                runs[-1] = run
                self._register(offset + len(runs) - 1, run)

    def _push(self, runs: list[SortedRun], run: SortedRun) -> None:
        """Append a run to `runs` and to the end of the table."""
        # As `_register`, whose call would be measurable here: this is once per trace and tick.
        if run.largest or run.narrow:
            self.table[self.count] = run.entry()
        else:
            run.largest = register_run(self.table, self.count, run.rows, run.stored)
        self._bound += run.largest
        runs.append(run)
        self.count += 1

    def _register(self, index: int, run: SortedRun) -> None:
        """Write a run into the table."""
        if run.largest or run.narrow:
            self.table[index] = run.entry()
        else:
            run.largest = register_run(self.table, index, run.rows, run.stored)

    def _next_merge(self, first: int) -> int | None:
        """Return the newest pair of adjacent committed runs, from `first` on, to merge."""
        runs = self.runs
        for index in range(_tail(runs) - 2, first - 1, -1):
            if runs[index].size < RATIO * runs[index + 1].size:
                return index
        return None

    def _merge_newer(self, current: RunMerge | StreamedMerge, fuel: int) -> None:
        """Merge runs that are newer than those of a large merge in progress, to keep them few."""
        while (index := self._next_merge(current.index + 2)) is not None:
            older, newer = self.runs[index : index + 2]
            size = len(older) + len(newer)
            fuel -= size
            if fuel < 0 and size > SMALL:
                return
            merge = self._merge_of(index, older, newer)
            merge.advance(INT64_MAX)
            self._replace(merge)

    def _finish(self, merge: RunMerge | StreamedMerge) -> None:
        self._replace(merge)
        self._merge = None

    def _replace(self, merge: RunMerge | StreamedMerge) -> None:
        index = merge.index
        run = merge.result()
        replaced = self.runs[index].largest + self.runs[index + 1].largest
        if len(run):
            self.runs[index : index + 2] = [run]
            self._register(index, run)
            self.table[index + 1 : self.count - 1] = self.table[index + 2 : self.count]
            self.count -= 1
        else:
            del self.runs[index : index + 2]
            self.table[index : self.count - 2] = self.table[index + 2 : self.count]
            self.count -= 2
        self._bound += run.largest - replaced
        self.past = self.count

    def _merge_current(self) -> None:
        """Merge the runs of this tick only, since steps read the runs of the past separately."""
        if self._bound <= INT64_MAX:
            self._merge_runs_of_tick()
        self._narrow_newest(self.current, self.past)

    def _merge_runs_of_tick(self) -> None:
        current = self.current
        self._merge_tail(current, self.past)
        if self._budget is None:
            if self.deferred:
                self._merge_newest(self._repaid())
                return
            if len(current) > MAX_RUNS:  # their merges were deferred
                self._merge_newest(0)
        while len(current) > 1 and len(current[-1]) > SMALL:
            older, newer = current[-2], current[-1]
            if len(older) >= RATIO_IN_TICK * len(newer):
                return
            merge = self._merge_of(0, older, newer)
            merge.advance(INT64_MAX)
            del current[-2:]
            self.count -= 2
            self._bound -= older.largest + newer.largest
            run = merge.result()
            if len(run):
                self._push(current, run)

    def count_searches(self, found: int, rows: int) -> None:
        """Count a search of `found` of the sorted `rows` of a delta in the runs of this tick.

        The unit is the time in which a merge handles one row. The farther apart the rows are, the
        longer the search of each takes.
        """
        self.searches += found * (1 + 2 * (rows // max(found, 1)).bit_length())

    def _repaid(self) -> int:
        """Return where the newest runs of this tick start whose searches cost as much as a merge.

        The most runs with this property; without such runs, the position of the newest one.
        """
        newest = start = len(self.current) - 1
        spent = size = 0
        if self.searches:
            for index in range(newest, -1, -1):
                run = self.current[index]
                spent += self.searches - run.born
                size += run.size
                if spent >= size:
                    start = index
        return start

    def _merge_newest(self, start: int) -> None:
        """Merge the runs of this tick from `start` on into one."""
        runs = self.current[start:]
        if len(runs) < 2:
            return
        bound = sum([run.largest for run in runs])
        whole = merge_many(runs)
        runs.clear()
        self.count -= len(self.current) - start
        del self.current[start:]
        self._bound -= bound
        if whole.size:
            whole.born = self.searches
            self._push(self.current, whole)

    def unite(self) -> None:
        """Merge the runs of this tick into one if they are large; no step reads its delta again.

        O(n) for the rows of this tick.
        """
        self.searches = 0
        if len(self.current) < 2 or self._budget is not None or self._bound > INT64_MAX:
            return
        if sum([run.size for run in self.current]) > TAIL * SMALL:
            self.fresh = False
            self._merge_newest(0)

    @property
    def sums_fit(self) -> bool:
        """Whether all sums of weights over some of the runs are in int64."""
        return self._bound <= INT64_MAX


def _tail(runs: list[SortedRun]) -> int:
    """Return where the small runs at the newest end start."""
    start = len(runs)
    while start and runs[start - 1].size <= SMALL:
        start -= 1
    return start
