"""The merge of two runs of one tick in the memory of the larger one.

    larger run, free place  ->  moved and merged from the end to the start  ->  the sum

A tick of many iterations replaces each large run many times. A new array for each sum would need
the memory of both, and would leave gaps in the heap that later sums do not fit. A merge in place
destroys its runs, so it is for runs of the current tick only: a rollback drops them.

Several threads merge pieces of the larger run. The result of a piece is written behind its start,
over the first rows of the next piece, so these are copied before.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from dbsp.kernels import merge_backward, narrow_rows
from dbsp.kernels.arrays import Codes, Rows, StoredRows
from dbsp.kernels.growing_memory import CAN_GROW, resized
from dbsp.kernels.narrow_rows import filled_rows
from dbsp.kernels.run_tables import run_entry
from dbsp.kernels.thread_count import threads
from dbsp.kernels.thread_pool import in_pieces
from dbsp.parallel.range_sort import close_gaps
from dbsp.parallel.split_merge import cuts, first_from, pays, weights_of
from dbsp.state.sorted_run import RunMerge, SortedRun, merges_narrow

LEAST = 1 << 20
"""A larger run of fewer rows is merged into a new array."""

_ONE = np.ones(1, np.int64)
_NONE = np.empty(0, np.int64)

PIECES = 4
"""No more pieces are merged at once: with each, more rows are copied before."""


def merge_in_tick(older: SortedRun, newer: SortedRun) -> SortedRun:
    """Return the sum of two runs of the current tick, which nobody may read afterwards.

    Not even if this fails: the tick is rolled back then. O(rows).
    """
    larger, smaller = (older, newer) if older.size >= newer.size else (newer, older)
    if grows(larger) and larger.narrow == merges_narrow(larger, smaller):
        return _extended(larger, smaller)
    return RunMerge.sum_of((older, newer))


def grows(run: SortedRun) -> bool:
    """Return whether a run is so large that it is merged in place."""
    return CAN_GROW and run.size >= LEAST and run.width > 0


class _Part(NamedTuple):
    """Adjacent rows of both runs, and the place of their sum."""

    table: Rows
    """This, the width and the state are the arguments of `merge_backward`."""
    width: int
    state: Codes
    start: int
    """Where the place of the sum starts."""
    copied: tuple[StoredRows, Codes] | None
    """Rows of the larger run, if other parts write over them."""

    @property
    def first(self) -> int:
        """Where the rows of the sum start."""
        return self.start + int(self.state[2])

    @property
    def end(self) -> int:
        """Where the place of the sum ends."""
        return self.start + int(self.table[2, 2])


def _extended(run: SortedRun, other: SortedRun) -> SortedRun:
    """Return the sum of both runs in the memory of the first one, whose arrays are removed."""
    width, narrow, kept = run.width, run.narrow, run.size
    size = kept + other.size
    held, held_weights = [run.codes.reshape(-1)], [run.stored]
    del run.codes, run.stored
    rows = resized(held, size * width).reshape(size, width)
    units = len(held_weights[0]) < kept
    weights = _NONE if units else resized(held_weights, size)
    pieces = _divided(rows, weights, kept, other)
    if not _merge(pieces):  # the first weight other than 1
        weights = resized([_ONE], size)
        for part in itertools.chain(*pieces):
            weights[part.first : part.end] = 1
            part.table[2, 1] = weights[part.start :].ctypes.data
        _merge(pieces)
    parts = [part for piece in pieces for part in reversed(piece)]
    sizes = [part.end - part.first for part in parts]
    close_gaps(rows, weights, [part.first for part in parts], sizes)
    left = sum(sizes)
    if left < size:
        held = [rows.reshape(-1)]
        held_weights = [weights]
        del rows, weights
        rows = resized(held, left * width).reshape(left, width)
        weights = held_weights.pop() if not len(held_weights[0]) else resized(held_weights, left)
    result = SortedRun.of_stored(rows, weights) if len(weights) else SortedRun.of_ones(rows)
    if left == size >= narrow_rows.LARGE:  # the codes that do not fit are still there
        result._fits = narrow
    return result


def _merge(pieces: list[list[_Part]]) -> bool:
    """Merge all parts; return False if a part needs a weight other than 1 and has no place for it.

    The parts of a piece are merged one after the other, since each writes over the rows of those
    before. The threads keep no reference to the arrays, which would prevent a change of their size.
    """

    def merge(piece: int) -> bool:
        return all(merge_backward(part.table, part.width, part.state) for part in pieces[piece])

    return all(in_pieces(len(pieces), merge))


def _divided(rows: StoredRows, weights: Codes, kept: int, other: SortedRun) -> list[list[_Part]]:
    """Return the parts of each piece, in the order of their merges.

    `rows` start with the run, and have room for both. So have `weights`, unless all are 1: then
    there are none.
    """
    codes, stored = other.codes, other.stored
    width = rows.shape[1]

    def part(start: int, end: int, start_j: int, end_j: int, copied: bool = False) -> _Part:
        some = rows[start:end], weights[start:end] if len(weights) else _ONE
        if copied:
            some = filled_rows([some[0]]), some[1].copy()
        place = slice(start + start_j, end + end_j)
        entries = [
            run_entry(*some),
            run_entry(codes[start_j:end_j], weights_of(stored, start_j, end_j, other.size)),
            run_entry(rows[place], weights[place]),
        ]
        table = np.array(entries, np.int64)
        if not len(weights):
            table[2, 1] = 0
        state = np.array([end - start, end_j - start_j, table[2, 2], 0])
        return _Part(table, width, state, place.start, some if copied else None)

    pieces = []
    count = min(threads(), PIECES) if pays(len(rows)) else 1
    for (i, j), (end, end_j) in itertools.pairwise(cuts(rows[:kept], codes, count)):
        middle = min(i + j, end)  # the piece before writes its sum up to i + j
        if middle == i:
            parts = [part(i, end, j, end_j)]
        else:
            middle_j = first_from(codes, rows[middle].tolist(), j) if middle < end else end_j
            parts = [part(middle, end, middle_j, end_j), part(i, middle, j, middle_j, copied=True)]
        pieces.append(parts)
    return pieces
