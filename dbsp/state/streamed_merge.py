"""Merge two sorted runs into a file, piece by piece, when memory is short."""

from __future__ import annotations

import numpy as np

from dbsp.kernels.narrow_rows import empty_rows
from dbsp.kernels.run_tables import merge_some
from dbsp.state.run_writer import RunWriter
from dbsp.state.sorted_run import SortedRun, merges_narrow
from dbsp.state.spill_folder import SpillFolder


class StreamedMerge:
    """An incremental merge as `RunMerge`, with the result in a file.

    Memory holds one piece of the result, during `advance` only. Raises CheckpointError if a write
    fails.
    """

    __slots__ = ("_narrow", "_state", "_writer", "index", "newer", "older", "size")

    def __init__(self, index: int, older: SortedRun, newer: SortedRun, folder: SpillFolder) -> None:
        self.index = index
        self.older = older
        self.newer = newer
        self.size = len(older) + len(newer)
        self._narrow = merges_narrow(older, newer)
        self._state = np.zeros(4, np.int64)
        self._writer = RunWriter(self.size, older.width, self._narrow, folder)

    @property
    def nbytes(self) -> int:
        """The bytes that the merge has in memory between ticks."""
        return 0

    def advance(self, fuel: int) -> bool:
        """Merge at most about `fuel` rows; return whether the merge is complete."""
        older, newer, state = self.older, self.newer, self._state
        part = min(fuel, self._writer.piece)
        rows, weights = empty_rows(part, older.width, self._narrow), np.empty(part, np.int64)
        done = False
        while fuel > 0 and not done:
            state[2] = 0
            done = merge_some(
                older.codes, older.stored, newer.codes, newer.stored, rows, weights, state, min(part, fuel)
            )
            size = int(state[2])
            self._writer.write(rows[:size], weights[:size])
            fuel -= part
        return done

    def result(self) -> SortedRun:
        """Return the mapped result of a complete merge."""
        return self._writer.result()
