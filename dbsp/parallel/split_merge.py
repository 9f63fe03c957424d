"""The merge of two large sorted runs, divided at keys into pieces that several threads merge.

cuts of the larger run, and the same keys in the other one  ->  pieces  ->  one output without gaps
"""

from __future__ import annotations

import bisect

import numpy as np

from dbsp.kernels.arrays import Codes, StoredRows
from dbsp.kernels.limits import INT64_MAX
from dbsp.kernels.run_tables import merge_some
from dbsp.kernels.thread_count import threads
from dbsp.kernels.thread_pool import in_pieces
from dbsp.parallel.range_sort import close_gaps

LARGE = 1 << 17
"""Merges of fewer rows are one call of a kernel."""

PIECE = 1 << 17
"""A piece has about this many rows."""


def pays(rows: int) -> bool:
    """Return whether several threads merge so many rows faster than one."""
    return rows >= LARGE and threads() > 1


def merge_in_pieces(
    a_rows: StoredRows,
    a_weights: Codes,
    b_rows: StoredRows,
    b_weights: Codes,
    out_rows: StoredRows,
    out_weights: Codes,
) -> tuple[int, Codes]:
    """Merge a and b into `out_rows`; return the number of rows, and their weights.

    The arguments are those of `merge_some`; the rows have a column at least. Without room for
    weights in `out_weights`, the weights are empty if all of them are 1, else a new array. Raises
    OverflowError if the weight of a row is outside int64; then nobody may read the output.
    """
    size = len(a_rows) + len(b_rows)
    limits = cuts(a_rows, b_rows, max(1, size // PIECE))
    states = np.zeros((len(limits) - 1, 4), np.int64)
    weights = out_weights

    def merge(piece: int) -> bool:
        (i, j), (end_i, end_j) = limits[piece], limits[piece + 1]
        return merge_some(
            a_rows[i:end_i],
            weights_of(a_weights, i, end_i, len(a_rows)),
            b_rows[j:end_j],
            weights_of(b_weights, j, end_j, len(b_rows)),
            out_rows[i + j : end_i + end_j],
            weights[i + j : end_i + end_j] if len(weights) else weights,
            states[piece],
            INT64_MAX,
        )

    complete = all(in_pieces(len(states), merge))
    starts = [i + j for i, j in limits[:-1]]
    if not complete:  # the first weight other than 1
        weights = np.empty(size, np.int64)
        for start, written in zip(starts, states[:, 2].tolist(), strict=True):
            weights[start : start + written] = 1
        in_pieces(len(states), merge)
    sizes = states[:, 2].tolist()
    close_gaps(out_rows, weights, starts, sizes)
    return sum(sizes), weights


def weights_of(weights: Codes, start: int, end: int, rows: int) -> Codes:
    """Return the weights of some rows of a run; they may be a single 1 for all rows."""
    return weights[start:end] if len(weights) == rows else weights


def cuts(a_rows: StoredRows, b_rows: StoredRows, pieces: int) -> list[tuple[int, int]]:
    """Return positions in both runs that divide them at keys, from the first rows to the ends."""
    if len(a_rows) < len(b_rows):
        return [(i, j) for j, i in cuts(b_rows, a_rows, pieces)]
    found = [(0, 0)]
    for i in [len(a_rows) * piece // pieces for piece in range(1, pieces)]:
        found.append((i, first_from(b_rows, a_rows[i].tolist(), found[-1][1])))
    return [*found, (len(a_rows), len(b_rows))]


def first_from(rows: StoredRows, row: list[int], start: int) -> int:
    """Return the first position, from `start` on, whose row is at least `row`."""
    return bisect.bisect_left(range(len(rows)), row, lo=start, key=lambda at: rows[at].tolist())
