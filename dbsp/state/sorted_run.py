"""Sorted runs, the elements of traces, and the incremental merge of two of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dbsp.kernels import narrow_rows, transpose_pairs
from dbsp.kernels.arrays import Codes, Rows, StoredRows
from dbsp.kernels.growing_memory import empty_array
from dbsp.kernels.limits import INT64_MAX
from dbsp.kernels.narrow_rows import empty_rows, first_in_place, fit_narrow, narrowed, widened
from dbsp.kernels.run_tables import merge_some, run_entry
from dbsp.parallel.narrow_sort import sort_narrow
from dbsp.parallel.range_sort import sort_sole
from dbsp.parallel.split_merge import merge_in_pieces, pays
from dbsp.state.run_file import RunFile

_ONE = np.ones(1, np.int64)

ROWS_OF_VALUE = 8
"""A column has few values if it has so many rows for each place in its range: rows of the same
value are written while their place is in the cache."""

MOST_VALUES = 1 << 16
"""The largest range of a column with few values."""

_PIECE = 1 << 16
"""The rows that are widened at a time."""


class SortedRun:
    """One immutable sorted run; `largest` bounds the absolute weight of its rows.

    `codes` are the rows as they are stored: int64, or int32 for a narrow run (see
    `dbsp.kernels.narrow_rows`). `stored` are the weights, or a single 1 if all weights are 1.
    Kernels that search a run table and `merge_some` accept all these forms. `file` is the file that
    is mapped to the arrays; None for a run in memory. `saved` is the file with the same rows in the
    latest snapshot of a checkpoint. `born` is the number of searches in the runs of its tick before
    it (see `Trace.searches`). `totals` are sums of its weights (see `dbsp.state.counted_tables`).
    """

    __slots__ = ("_fits", "born", "codes", "file", "largest", "saved", "size", "stored", "totals")

    def __init__(self, codes: StoredRows, weights: Codes) -> None:
        self.codes = codes
        self.stored = weights
        self.size = len(codes)  # read so often in a tick that a function call is measurable
        self.largest = 0
        self.born = 0
        self.file: RunFile | None = None
        self.saved: RunFile | None = None
        self.totals: Codes | None = None
        self._fits: bool | None = None

    @staticmethod
    def of(rows: Rows, weights: Codes) -> SortedRun:
        """Return a run in its smallest form. O(n) for a large one."""
        if len(rows) < narrow_rows.LARGE:
            return SortedRun.of_stored(rows, weights)
        return SortedRun.of_stored(rows, weights).compact()

    @staticmethod
    def of_stored(codes: StoredRows, weights: Codes) -> SortedRun:
        """Return a run, which does not keep the weights if it is large and they are all 1."""
        if len(codes) >= narrow_rows.LARGE and weights[0] == 1 and (weights == 1).all():
            return SortedRun.of_ones(codes)
        return SortedRun(codes, weights)

    @staticmethod
    def of_ones(codes: StoredRows) -> SortedRun:
        """Return a run whose weights are all 1."""
        run = SortedRun(codes, _ONE if len(codes) else _ONE[:0])
        run.largest = len(run.stored)
        return run

    @staticmethod
    def of_set(codes: StoredRows) -> SortedRun:
        """Return a run whose weights are all 1, in its smallest form. O(n) for a large one."""
        if len(codes) < narrow_rows.LARGE:
            return SortedRun(codes, np.ones(len(codes), np.int64))
        return SortedRun.of_ones(codes).compact()

    @staticmethod
    def of_unsorted(codes: StoredRows) -> SortedRun:
        """Return a run of different rows with weight 1, sorted in their memory if they are narrow.

        Nobody else may read the rows. O(n) for each 11 bits of a row.
        """
        if codes.itemsize == 8:
            return SortedRun.of_set(sort_sole(widened(codes)))
        if not sort_narrow(codes, np.arange(codes.shape[1])):
            codes = narrowed(sort_sole(widened(codes)))
        return SortedRun.of_ones(codes)

    @staticmethod
    def transposed(
        parts: Sequence[StoredRows], column: int, weights: Codes | None = None
    ) -> SortedRun | None:
        """Return a run of different pairs: this column first, the other one second.

        One or two parts have the pairs, and are sorted by the other column; for one part, it is
        enough that the pairs of each value are. The weights are those of one part; None are 1.
        Returns None for rows that are not pairs, for few of them, if they do not fit int32, or if
        the column has many values for their number. O(rows).
        """
        size = sum(map(len, parts))
        if size < narrow_rows.LARGE or parts[0].shape[1] != 2:
            return None
        narrow = [part if part.itemsize == 4 else narrowed(widened(part)) for part in parts]
        if any(part.itemsize == 8 for part in narrow):
            return None
        codes = empty_rows(size, 2, True)
        given, stored = (_ONE, _ONE) if weights is None else (weights, empty_array(weights.dtype, size))
        one, other = [*narrow, codes[:0]][:2]
        runs = (one, given), (other, _ONE), (codes, stored)
        table = np.array([run_entry(*run) for run in runs], np.int64)
        if weights is None:
            table[2, 1] = 0
        if not transpose_pairs(table, column, min(size // ROWS_OF_VALUE, MOST_VALUES)):
            return None
        return SortedRun.of_ones(codes) if weights is None else SortedRun(codes, stored)

    @staticmethod
    def joined(runs: Sequence[SortedRun]) -> SortedRun:
        """Return runs whose rows follow each other as one run, in its smallest form. O(n)."""
        size = sum([run.size for run in runs])
        narrow = size >= narrow_rows.LARGE and all(run.fits_narrow for run in runs)
        codes = empty_rows(size, runs[0].width, narrow)
        np.concatenate([run.codes for run in runs], out=codes, casting="same_kind")
        if all((run.stored == 1).all() for run in runs):
            return SortedRun.of_set(codes)
        return SortedRun(codes, np.concatenate([run.weights for run in runs]))

    def compact(self) -> SortedRun:
        """Return the run with its codes in int32; this run if they do not fit, or are in a file."""
        if self._fits is False or self.narrow or self.file is not None:
            return self
        rows = self.rows
        codes = narrowed(rows)
        self._fits = codes is not rows
        if not self._fits:
            return self
        run = SortedRun(codes, self.stored)
        run.largest, run.born, run.saved, run._fits = self.largest, self.born, self.saved, True
        return run

    @property
    def rows(self) -> Rows:
        """The rows as int64. O(n), and a copy, for a narrow run."""
        return widened(self.codes)

    @property
    def weights(self) -> Codes:
        """The weight of each row. O(n) if they are not stored."""
        return self.stored if len(self.stored) == self.size else np.ones(self.size, np.int64)

    @property
    def width(self) -> int:
        """The number of columns."""
        return int(self.codes.shape[1])

    @property
    def narrow(self) -> bool:
        """Whether the codes are int32."""
        return bool(self.codes.itemsize == 4)

    @property
    def fits_narrow(self) -> bool:
        """Whether every code fits int32. O(n) at the first call."""
        if self._fits is None:
            self._fits = fit_narrow(self.codes)
        return self._fits

    @property
    def nbytes(self) -> int:
        """The bytes of the codes, and of the weights if they are stored."""
        return int(self.codes.nbytes + (self.stored.nbytes if self.stored is not _ONE else 0))

    def pieces(self) -> Iterator[Rows]:
        """Yield the rows as int64, in pieces of limited size if that takes copies."""
        step = _PIECE if self.narrow else max(self.size, 1)
        return (widened(self.codes[at : at + step]) for at in range(0, self.size, step))

    def entry(self) -> tuple[int, int, int]:
        """The run in a run table (see `dbsp.kernels.run_search`); `largest` is known afterwards."""
        if not self.largest and self.size:
            self.largest = largest_weight(self.stored)
        return run_entry(self.codes, self.stored)

    def __len__(self) -> int:
        return self.size


def largest_weight(weights: Codes) -> int:
    """Return the largest absolute weight, or a bound of it, of at least one weight."""
    # -2**63 has no positive counterpart; 2**63 - 1 is a good enough bound.
    return min(max(int(weights.max()), -int(weights.min())), INT64_MAX)


class RunMerge:
    """An incremental merge of the committed runs at `index` and `index + 1`.

    The result is narrow if it may be large and both runs fit. A large merge writes no weights until
    it finds one other than 1.
    """

    __slots__ = ("index", "newer", "older", "rows", "size", "state", "weights")

    def __init__(self, index: int, older: SortedRun, newer: SortedRun) -> None:
        size = self.size = len(older) + len(newer)
        self.index = index
        self.older = older
        self.newer = newer
        self.rows = empty_rows(size, older.width, merges_narrow(older, newer))
        self.weights = np.empty(0 if size >= narrow_rows.LARGE else size, np.int64)
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
        return int(self.rows.nbytes + self.weights.nbytes)

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
            older.codes[i:],
            older.stored[i:] if len(older.stored) == older.size else older.stored,
            newer.codes[j:],
            newer.stored[j:] if len(newer.stored) == newer.size else newer.stored,
            self.rows[out : out + rest],
            self.weights[out : out + rest],
        )
        if len(weights) == self.size and not len(self.weights):
            self.weights = weights
        elif len(weights) and not len(self.weights):
            self.weights = np.ones(self.size, np.int64)
            self.weights[out : out + size] = weights[:size]
        self.state[:3] = older.size, newer.size, out + size
        return True

    def _advance(self, fuel: int) -> bool:
        older, newer = self.older, self.newer
        return merge_some(
            older.codes, older.stored, newer.codes, newer.stored, self.rows, self.weights, self.state, fuel
        )

    def result(self) -> SortedRun:
        """Return the result of a complete merge; the merge itself cannot be used any more."""
        size = int(self.state[2])
        weighted = len(self.weights) == self.size
        if size < self.size:
            # Release the memory reserved for cancelled rows, without a copy. Nobody else has seen
            # the arrays.
            held = [self.rows]
            del self.rows
            self.rows = first_in_place(held, size)
            if weighted:
                self.weights.resize(size, refcheck=False)
        run = SortedRun.of_stored(self.rows, self.weights) if weighted else SortedRun.of_ones(self.rows)
        if size == self.size >= narrow_rows.LARGE:  # the codes that do not fit are still there
            run._fits = run.narrow
        return run


def merges_narrow(older: SortedRun, newer: SortedRun) -> bool:
    """Return whether the sum of two runs is stored as int32. O(n) at most."""
    large = older.size + newer.size >= narrow_rows.LARGE
    return large and newer.fits_narrow and older.fits_narrow
