"""The memory that a run may use for its state; what is beyond it is stored in files.

The largest sorted runs are written to files and mapped, and large merges write their result to a
file. Kernels read mapped runs as they read others; the system keeps the pages that are in use in
memory and drops them when it needs the memory.

While there is room, a budget costs one addition for each run that is appended to a trace: `used` is
an upper bound of the bytes in memory, and everything is counted only when it passes a threshold.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from dbsp.errors import CheckpointError
from dbsp.kernels.limits import INT64_MAX
from dbsp.state.mapped_runs import map_run, write_run
from dbsp.state.run_writer import RunWriter
from dbsp.state.sorted_run import RunMerge, SortedRun, merges_narrow
from dbsp.state.spill_folder import SpillFolder, remove_file
from dbsp.state.streamed_merge import StreamedMerge

_BETWEEN_TICKS = 1 / 2
"""This part of the limit may be in use between ticks; the deltas of a tick need the rest."""

_IN_TICK = 3 / 4
"""Beyond this part of the limit, a tick moves runs to files before it continues."""

_STEP = 1 / 8
"""After counting, state grows by this part of the limit before it is counted again."""

_SMALLEST = 1 << 16
"""Runs of fewer bytes stay in memory, unless the limit is so small that they matter."""

_PER_VALUE = 128
"""An estimate of the bytes of an interned value."""


class BudgetedTrace(Protocol):
    """A trace whose runs a budget may move to files."""

    @property
    def nbytes(self) -> int: ...

    def in_memory(self) -> Iterator[SortedRun]:
        """Yield the runs that are not in files."""

    def map(self, run: SortedRun, mapped: SortedRun) -> None:
        """Replace the arrays of a run by those of its file."""

    def repair(self) -> None: ...


class MemoryBudget:
    """A limit in bytes, the traces to which it applies, and the folder of their files."""

    def __init__(
        self,
        limit: int,
        folder: SpillFolder,
        give_back: Callable[[], None] = lambda: None,
        others: Callable[[], int] = lambda: 0,
    ) -> None:
        """`give_back` returns freed memory to the system; `others` estimates the size of tables."""
        self.limit = limit
        self.folder = folder
        self.used = 0
        """An upper bound of the bytes of the state in memory."""
        self._give_back = give_back
        self._others = others
        self._traces: weakref.WeakSet[BudgetedTrace] = weakref.WeakSet()
        self._values = 0
        self._smallest = min(_SMALLEST, limit // 64)
        self._threshold = self._threshold_in_tick = 0.0
        self._set_thresholds()
        self._failure: CheckpointError | None = None
        """Why the end of the latest tick could not move state to files."""

    def watch(self, trace: BudgetedTrace) -> None:
        """Apply the limit to a trace for as long as it exists."""
        self._traces.add(trace)

    def add(self, size: int) -> None:
        """Count the bytes of a run that is added to a trace. Raises CheckpointError."""
        if self.used + size > self._threshold_in_tick:
            self._shrink()
        self.used += size

    def merge(self, index: int, older: SortedRun, newer: SortedRun) -> RunMerge | StreamedMerge:
        """Return a merge of two runs: in memory if there is room, else in a file."""
        size = self._bytes(len(older) + len(newer), older.width, merges_narrow(older, newer))
        if self._belongs_in_file(size, older.file is not None or newer.file is not None):
            return StreamedMerge(index, older, newer, self.folder)
        self.used += size
        return RunMerge(index, older, newer)

    def writer(self, rows: int, width: int, narrow: bool, filed: bool) -> RunWriter | None:
        """Return a writer for a copy of a run, which is in a file or not; None if there is room."""
        in_file = self._belongs_in_file(self._bytes(rows, width, narrow), filed)
        return RunWriter(rows, width, narrow, self.folder) if in_file else None

    @staticmethod
    def _bytes(rows: int, width: int, narrow: bool) -> int:
        return rows * (width * (4 if narrow else 8) + 8)

    def _belongs_in_file(self, size: int, filed: bool) -> bool:
        """Whether memory has no room for so many bytes, or had none for what they come from."""
        return size >= self._smallest and (filed or self.used + size > self._threshold)

    def merged(self, runs: Sequence[SortedRun]) -> SortedRun:
        """Return the sum of sorted runs, oldest first. Raises CheckpointError."""
        *older, result = runs
        while older:  # newer runs are smaller, so most rows are copied once
            merge = self.merge(0, older.pop(), result)
            merge.advance(INT64_MAX)
            result = merge.result()
        return result

    # --- ticks ------------------------------------------------------------------------------------

    def begin_tick(self) -> None:
        """Raise CheckpointError once if the end of the latest tick could not write."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def end_tick(self, values: int) -> None:
        """Move state to files if too little memory is left for the next tick.

        `values` is the number of interned values. The tick is final, so a failure is reported by
        the next one.
        """
        self.used += _PER_VALUE * (values - self._values)
        self._values = values
        if self.used <= self._threshold:
            return
        try:
            self._shrink()
        except CheckpointError as error:
            self.fail(error)
        except MemoryError:
            for trace in list(self._traces):
                trace.repair()

    def fail(self, error: CheckpointError) -> None:
        """Note an error that the next tick reports."""
        self._failure = error

    # --- counting and writing ---------------------------------------------------------------------

    def _shrink(self) -> None:
        """Count the bytes in memory, and move the largest runs to files while they are too many."""
        traces = list(self._traces)
        self.used = _PER_VALUE * self._values + self._others() + sum(trace.nbytes for trace in traces)
        allowed = int(self.limit * (_BETWEEN_TICKS - _STEP))
        try:
            if self.used > self.limit * _BETWEEN_TICKS:
                for size, trace, run in sorted(self._candidates(traces), key=lambda found: -found[0]):
                    if self.used <= allowed:
                        break
                    self._move(trace, run)
                    self.used -= size
            self._set_thresholds()
        finally:
            # Also what merges have freed, since it counts until the next counting.
            self._give_back()

    def _candidates(self, traces: Iterable[BudgetedTrace]) -> Iterator[tuple[int, BudgetedTrace, SortedRun]]:
        for trace in traces:
            for run in trace.in_memory():
                if run.nbytes >= self._smallest:
                    yield run.nbytes, trace, run

    def _move(self, trace: BudgetedTrace, run: SortedRun) -> None:
        try:
            trace.map(run, self._saved(run) or self._written(run))
        except OSError as error:
            raise self.folder.refusal(error) from None

    @staticmethod
    def _saved(run: SortedRun) -> SortedRun | None:
        """Return the run mapped from a checkpoint that has it; None if that file is gone."""
        try:
            return None if run.saved is None else map_run(run.saved)
        except (FileNotFoundError, ValueError):
            return None

    def _written(self, run: SortedRun) -> SortedRun:
        path = self.folder.new_path()
        try:
            return self.folder.mapped(write_run(path, run))
        except BaseException:
            remove_file(path)
            raise

    def _set_thresholds(self) -> None:
        # If what remains in memory is too much and cannot be moved, count it now and then only.
        again = self.used + self.limit * _STEP
        self._threshold = max(self.limit * _BETWEEN_TICKS, again)
        self._threshold_in_tick = max(self.limit * _IN_TICK, again)
