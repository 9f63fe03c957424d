"""When the runs of a trace are merged: those of one tick, and the committed ones between ticks.

Runs are merged geometrically, so each row takes part in O(log n) merges. Runs of one tick and
committed runs are not merged with each other, since steps read the past separately.
"""

from __future__ import annotations

import contextlib

import numpy as np

from dbsp.errors import CheckpointError
from dbsp.kernels import consolidate_owned, sum_runs
from dbsp.kernels.limits import INT64_MAX
from dbsp.state.journal import Journalled
from dbsp.state.memory_budget import MemoryBudget
from dbsp.state.merge_in_place import merge_in_tick
from dbsp.state.run_stack import RunStack
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

FEW = 16
TAIL_OF_FEW = 12
"""The same if the newest run has up to FEW rows: a tick of few rows searches little, and the merge
takes a large part of it."""

MAX_RUNS = 24
"""Beyond this many committed runs, all pending merges are done at once."""


class MergingStack(RunStack):
    """A stack of runs that merges them.

    While `deferred` is set, the runs of the tick are merged only when searches in them have cost as
    much as the merge; `searches` is the cost of all searches in a run of the tick so far.
    """

    __slots__ = ("_calm", "_calm_of_few", "_merge", "deferred", "due", "grown", "searches")

    def __init__(self, width: int, journal: list[Journalled], budget: MemoryBudget | None = None) -> None:
        super().__init__(width, journal, budget)
        self.deferred = False
        self.searches = 0
        self.grown = 0
        """The number of rows that the latest committed tick added."""
        self.due = False
        """Whether `maintain` has work after the latest commit; seldom after a small tick."""
        self._calm = self._calm_of_few = 0
        """Fewer runs than this, of which the newer ones are small, need no merge; the second number
        is that of ticks of few rows."""
        self._merge: RunMerge | StreamedMerge | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of rows and stored weights in memory, including a merge in progress."""
        kept = sum([run.nbytes for run in self.in_memory()])
        return kept if self._merge is None else kept + self._merge.nbytes

    @property
    def merging(self) -> bool:
        """Whether a merge is in progress and continues in later ticks."""
        return self._merge is not None

    def maintain(self, fuel: int) -> None:
        """Merge committed runs between ticks, reading at most about `fuel` rows.

        Small merges are completed at once; a large one is spread over several ticks, to keep each
        tick short.
        """
        self._replacing = True
        self._calm = self._calm_of_few = 0
        self._merge_within(fuel)
        if self._merge is None or self._merge.newer is not self.runs[-1]:
            self._narrow_newest(self.runs, 0)
        if self._merge is None and self._bound <= INT64_MAX:
            tail = _tail(self.runs)
            self._calm = min(tail + TAIL, MAX_RUNS + 1)
            self._calm_of_few = min(tail + TAIL_OF_FEW, MAX_RUNS + 1)
        self._replacing = False

    def _merge_within(self, fuel: int) -> None:
        if self._bound > INT64_MAX:
            # Sums over some of the runs may be outside int64 although the totals fit: merge all or
            # none.
            if len(self.runs) > MAX_RUNS:
                self.compact()
            return
        runs = self.runs
        self._merge_tail(runs, 0, TAIL_OF_FEW if runs and runs[-1].size <= FEW else TAIL)
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

    def repair(self) -> None:
        """Restore the table after an interrupted merge, between ticks; the runs are the truth."""
        self.fresh = 0
        if not self._replacing:
            return
        self._merge = None
        self._calm = self._calm_of_few = 0
        if len(self.runs) > len(self.table):
            self.table = np.zeros((len(self.runs) + 8, 3), np.int64)
        for index, run in enumerate(self.runs):
            self._register(index, run)
        self._bound = sum(run.largest for run in self.runs)
        self.count = self.past = len(self.runs)
        self._replacing = False

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

    def oldest(self, count: int) -> SortedRun | None:
        """Return the sum of the oldest runs, those of this tick last, as a run of the caller.

        Returns None if the memory is limited, or if sums over some of the runs may be outside
        int64. O(n) for several runs.
        """
        if self._budget is not None or not self.sums_fit:
            return None
        return RunMerge.sum_of([*self.runs, *self.current][:count])

    def _merge_tail(self, runs: list[SortedRun], offset: int, least: int) -> None:
        """Merge the small runs at the newest end of `runs`, if they are at least so many.

        `runs` has `offset` in the table.
        """
        if len(runs) < least:
            return
        start = _tail(runs)
        if len(runs) - start < least:
            return
        small = runs[start:]
        rows, weights = sum_runs(self.table, offset + start, len(small), self.width)
        merged = [SortedRun(rows, weights)] if len(weights) else []
        runs[start:] = merged  # one step: an interrupt finds either the small runs or the merged one
        self._bound -= sum(run.largest for run in small)
        self.count = offset + start
        for run in merged:
            self._register(self.count, run)
            self._bound += run.largest
            self.count += 1

    def _merge_current(self) -> None:
        """Merge the runs of this tick only, since steps read the runs of the past separately."""
        if self._bound <= INT64_MAX:
            self._merge_runs_of_tick()
        self._narrow_newest(self.current, self.past)

    def _merge_runs_of_tick(self) -> None:
        current = self.current
        self._merge_tail(current, self.past, TAIL)
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
            del current[-2:]
            self.count -= 2
            self._bound -= older.largest + newer.largest
            run = self._merged_in_tick(older, newer)
            if len(run):
                self._push(current, run)

    def _merged_in_tick(self, older: SortedRun, newer: SortedRun) -> SortedRun:
        """Return the sum of two runs of this tick, which are no longer in the trace."""
        if self._budget is None:
            return merge_in_tick(older, newer)
        merge = self._budget.merge(0, older, newer)
        merge.advance(INT64_MAX)
        return merge.result()

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
        self.count -= len(runs)
        self._bound -= sum([run.largest for run in runs])
        del self.current[start:]  # before the merge, which may destroy the runs
        whole = merge_many(runs)
        if whole.size:
            whole.born = self.searches
            self._push(self.current, whole)

    def unite(self) -> bool:
        """Merge the runs of this tick into one if they are large; return whether it did.

        No step reads its delta again. O(n) for the rows of this tick.
        """
        self.searches = 0
        if len(self.current) < 2 or self._budget is not None or self._bound > INT64_MAX:
            return False
        if sum([run.size for run in self.current]) <= TAIL * SMALL:
            return False
        self.fresh = 0
        self._merge_newest(0)
        return True


def _tail(runs: list[SortedRun]) -> int:
    """Return where the small runs at the newest end start."""
    start = len(runs)
    while start and runs[start - 1].size <= SMALL:
        start -= 1
    return start
