"""Sorted runs, the elements of traces, and the incremental merge of two of them."""

from __future__ import annotations

import numpy as np

from dbsp.kernels import merge_some
from dbsp.kernels.arrays import Codes
from dbsp.state.run_file import RunFile


class SortedRun:
    """One immutable sorted run; `largest` bounds the absolute weight of its rows.

    `file` is the file that is mapped to its arrays; None for a run in memory.
    """

    __slots__ = ("file", "largest", "rows", "size", "weights")

    def __init__(self, rows: Codes, weights: Codes) -> None:
        self.rows = rows
        self.weights = weights
        self.size = len(weights)  # read so often in a tick that a function call is measurable
        self.largest = 0
        self.file: RunFile | None = None

    def __len__(self) -> int:
        return self.size


class RunMerge:
    """An incremental merge of the committed runs at `index` and `index + 1`."""

    __slots__ = ("index", "newer", "older", "rows", "size", "state", "weights")

    def __init__(self, index: int, older: SortedRun, newer: SortedRun) -> None:
        size = self.size = len(older) + len(newer)
        self.index = index
        self.older = older
        self.newer = newer
        self.rows = np.empty((size, older.rows.shape[1]), np.int64)
        self.weights = np.empty(size, np.int64)
        self.state = np.zeros(3, np.int64)

    @property
    def nbytes(self) -> int:
        """The bytes that the merge has in memory."""
        return self.rows.nbytes + self.weights.nbytes

    def advance(self, fuel: int) -> bool:
        older, newer = self.older, self.newer
        return merge_some(
            older.rows, older.weights, newer.rows, newer.weights, self.rows, self.weights, self.state, fuel
        )

    def result(self) -> SortedRun:
        size = int(self.state[2])
        rows, weights = self.rows[:size], self.weights[:size]
        if size < len(self.weights) * 7 // 8:
            # Release the memory reserved for cancelled rows if that is worth a copy.
            rows, weights = rows.copy(), weights.copy()
        return SortedRun(rows, weights)
