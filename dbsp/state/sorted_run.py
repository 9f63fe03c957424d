"""Sorted runs, the elements of traces, and the incremental merge of two of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbsp.kernels import merge_some
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX
from dbsp.parallel.split_merge import merge_in_pieces, pays
from dbsp.state.run_file import RunFile

_ONE = np.ones(1, np.int64)

IMPLICIT = 4096
"""Runs of at least this many rows, all with weight 1, keep no weights."""


class SortedRun:
    """One immutable sorted run; `largest` bounds the absolute weight of its rows.

    `stored` are the weights, or a single 1 if all weights are 1; kernels that search a run table
    and `merge_some` accept both. `file` is the file that is mapped to the arrays; None for a run in
    memory. `saved` is the file with the same rows in the latest snapshot of a checkpoint. `born` is
    the number of searches in the runs of its tick before it (see `Trace.searches`). `totals` are
    sums of its weights (see `dbsp.state.counted_tables`).
    """

    __slots__ = ("born", "file", "largest", "rows", "saved", "size", "stored", "totals")

    def __init__(self, rows: Codes, weights: Codes) -> None:
        self.rows = rows
        self.stored = weights
        self.size = len(rows)  # read so often in a tick that a function call is measurable
        self.largest = 0
        self.born = 0
        self.file: RunFile | None = None
        self.saved: RunFile | None = None
        self.totals: Codes | None = None

    @staticmethod
    def of(rows: Codes, weights: Codes) -> SortedRun:
        """Return a run, which does not keep the weights if it is large and they are all 1."""
        if len(rows) >= IMPLICIT and weights[0] == 1 and (weights == 1).all():
            return SortedRun.of_ones(rows)
        return SortedRun(rows, weights)

    @staticmethod
    def of_ones(rows: Codes) -> SortedRun:
        """Return a run whose weights are all 1."""
        run = SortedRun(rows, _ONE if len(rows) else _ONE[:0])
        run.largest = len(run.stored)
        return run

    @property
    def weights(self) -> Codes:
        """The weight of each row. O(n) if they are not stored."""
        return self.stored if len(self.stored) == self.size else np.ones(self.size, np.int64)

    @property
    def nbytes(self) -> int:
        """The bytes of the rows, and of the weights if they are stored."""
        return int(self.rows.nbytes + (self.stored.nbytes if self.stored is not _ONE else 0))

    def entry(self) -> tuple[int, int, int]:
        """The run in a run table (see `dbsp.kernels.run_search`)."""
        implicit = len(self.stored) < self.size
        return self.rows.ctypes.data, self.stored.ctypes.data + implicit, self.size

    def __len__(self) -> int:
        return self.size


class RunMerge:
    """An incremental merge of the committed runs at `index` and `index + 1`.

    A large merge writes no weights until it finds one other than 1.
    """

    __slots__ = ("index", "newer", "older", "rows", "size", "state", "weights")

    def __init__(self, index: int, older: SortedRun, newer: SortedRun) -> None:
        size = self.size = len(older) + len(newer)
        self.index = index
        self.older = older
        self.newer = newer
        self.rows = np.empty((size, older.rows.shape[1]), np.int64)
        self.weights = np.empty(0 if size >= IMPLICIT else size, np.int64)
        self.state = np.zeros(4, np.int64)

    @staticmethod
    def sum_of(runs: Sequence[SortedRun]) -> SortedRun:
        """Return the sum of sorted runs, oldest first, which are at least one."""
        *older, result = runs
        while older:  # newer runs are smaller, so most rows are copied once
            merge = RunMerge(0, older.pop(), result)
            merge.advance(INT64_MAX)
            result = merge.result()
        return result

    @property
    def nbytes(self) -> int:
        """The bytes that the merge has in memory."""
        return self.rows.nbytes + self.weights.nbytes

    def advance(self, fuel: int) -> bool:
        """Merge at most about `fuel` rows; return whether the merge is complete."""
        if self._advance_in_pieces(fuel):
            return True
        done = self._advance(fuel)
        if self.state[3]:
            weights = np.empty(self.size, np.int64)
            weights[: self.state[2]] = 1
            self.weights = weights
            self.state[3] = 0
            done = self._advance(fuel)
        return done

    def _advance_in_pieces(self, fuel: int) -> bool:
        """Merge the rest in several threads, if this pays; return whether the merge is complete."""
        if not pays(self.size):
            return False
        i, j, out, _ = self.state.tolist()
        older, newer = self.older, self.newer
        rest = self.size - i - j
        if fuel < rest or not pays(rest) or not self.rows.shape[1]:
            return False
        size, weights = merge_in_pieces(
            older.rows[i:],
            older.stored[i:] if len(older.stored) == older.size else older.stored,
            newer.rows[j:],
            newer.stored[j:] if len(newer.stored) == newer.size else newer.stored,
            self.rows[out : out + rest],
            self.weights[out : out + rest],
        )
        if len(weights) and not len(self.weights):
            self.weights = np.ones(self.size, np.int64)
            self.weights[out : out + size] = weights[:size]
        self.state[:3] = older.size, newer.size, out + size
        return True

    def _advance(self, fuel: int) -> bool:
        older, newer = self.older, self.newer
        return merge_some(
            older.rows, older.stored, newer.rows, newer.stored, self.rows, self.weights, self.state, fuel
        )

    def result(self) -> SortedRun:
        """Return the result of a complete merge; the merge itself cannot be used any more."""
        size = int(self.state[2])
        weighted = len(self.weights) == self.size
        if size < self.size:
            # Release the memory reserved for cancelled rows, without a copy. Nobody else has seen
            # the arrays.
            self.rows.resize((size, self.rows.shape[1]), refcheck=False)
            if weighted:
                self.weights.resize(size, refcheck=False)
        return SortedRun.of(self.rows, self.weights) if weighted else SortedRun.of_ones(self.rows)
