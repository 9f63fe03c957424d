"""The merge of many sorted runs into one, in one pass over their rows.

    ranges of the first column  ->  the rows of all runs in one range  ->  sorted and consolidated

Merging many runs two by two would copy each row log2(runs) times. Sorting the rows of a range at
once reads and writes each row once, and a range is small enough for the cache of the processor.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence

import numpy as np

from dbsp.kernels import consolidate_owned, narrow_rows
from dbsp.kernels.arrays import Codes
from dbsp.kernels.narrow_rows import empty_rows, first_in_place, widened
from dbsp.kernels.thread_pool import in_pieces
from dbsp.parallel.range_sort import close_gaps
from dbsp.state.merge_in_place import grows, merge_in_tick
from dbsp.state.sorted_run import SortedRun

PIECE = 1 << 17
"""About this many rows are sorted at a time."""

SLICE = 64
"""A piece has at least about this many rows for each run: finding and copying shorter slices of the
runs takes longer than sorting a larger piece."""

SAMPLES = 16
"""The ranges of the first column are estimated from so many rows per piece."""

FEW = 8
"""Up to so many runs are merged two by two, the smallest first: this is faster than sorting."""


def merge_many(runs: list[SortedRun]) -> SortedRun:
    """Return the sum of sorted runs of a tick, as one run. O(rows), and a search per range and run.

    The list is emptied, and nobody may read the runs afterwards (see
    `dbsp.state.merge_in_place`). Raises OverflowError if the weight of a row is outside int64.
    """
    if len(runs) <= FEW:
        return _merge_pairs(runs)
    total = sum([run.size for run in runs])
    largest_run = max(runs, key=lambda run: run.size)
    if len(runs) > 1 and grows(largest_run) and 2 * largest_run.size >= total:
        runs.remove(largest_run)
        return merge_in_tick(largest_run, merge_many(runs))
    limits = _limits(runs, total)
    cuts = np.empty((len(limits) + 2, len(runs)), np.int64)
    for place, run in enumerate(runs):
        cuts[0, place], cuts[-1, place] = 0, run.size
        if len(limits):
            cuts[1:-1, place] = np.searchsorted(run.codes[:, 0], limits)
    arrays = [run.codes for run in runs]
    stored = [None if _is_unit(run) else run.weights for run in runs]
    units = all(one is None for one in stored)
    narrow = total >= narrow_rows.LARGE and all(run.fits_narrow for run in runs)
    rows = empty_rows(total, runs[0].width, narrow)
    places = cuts.sum(axis=1).tolist()
    bounds = [pair for pair in itertools.pairwise(cuts.tolist()) if pair[0] != pair[1]]
    first = [start for start, end in itertools.pairwise(places) if start < end]

    largest = max(end - start for start, end in itertools.pairwise(places))
    spare: list[Codes] = []
    """Arrays of ones that no thread uses. New memory for each piece would take longer to get."""

    sums_of_rows = np.empty(total, np.int64)  # takes memory where weights other than 1 are written

    def merge(piece: int) -> tuple[int, bool]:
        """Write the rows of a piece to their places, and weights if not 1; return their number, and
        whether it has weights."""
        starts, ends = bounds[piece]
        slices = zip(arrays, starts, ends, strict=True)
        place = rows[first[piece] : first[piece] + sum(ends) - sum(starts)]
        # The rows of a wide result are sorted in its memory.
        memory = np.empty(place.shape, np.int64) if narrow else widened(place)
        np.concatenate([one[start:end] for one, start, end in slices if start < end], out=memory)
        if not units:
            given = _weights(stored, starts, ends)
        else:
            try:
                ones = spare.pop()
            except IndexError:
                ones = np.ones(largest, np.int64)
            given = ones[: len(place)]
        found, sums = consolidate_owned(memory, given)
        if found.ctypes.data != place.ctypes.data:
            place[: len(sums)] = found
        if (sums == 1).all():
            if units:
                spare.append(ones)
            return len(sums), False
        sums_of_rows[first[piece] : first[piece] + len(sums)] = sums
        return len(sums), True

    merged = in_pieces(len(bounds), merge)
    sizes = [size for size, _ in merged]
    weights = np.empty(0, np.int64)
    if any(weighted for _, weighted in merged):
        weights = sums_of_rows
        for start, (size, weighted) in zip(first, merged, strict=True):
            if not weighted:
                weights[start : start + size] = 1
    close_gaps(rows, weights, first, sizes)
    runs.clear()
    size = sum(sizes)
    if size < total * 7 // 8:
        held = [rows]
        del rows
        rows = first_in_place(held, size)
        weights = weights[:size].copy()
    rows, weights = rows[:size], weights[:size]
    return SortedRun.of_stored(rows, weights) if len(weights) else SortedRun.of_ones(rows)


def _merge_pairs(runs: list[SortedRun]) -> SortedRun:
    runs.sort(key=lambda run: run.size)
    while len(runs) > 1:
        merged = merge_in_tick(runs.pop(0), runs.pop(0))
        bisect.insort(runs, merged, key=lambda run: run.size)
    return runs.pop()


def _limits(runs: Sequence[SortedRun], total: int) -> Codes:
    """Return values of the first column that divide all rows into pieces of about equal size."""
    pieces = total // max(PIECE, SLICE * len(runs)) + 1
    if pieces == 1 or runs[0].width == 0:
        return np.zeros(0, np.int64)
    step = max(1, total // (pieces * SAMPLES))
    # The rows of all runs one after the other, every `step`-th: short runs count in proportion.
    samples = []
    start = 0
    for run in runs:
        samples.append(run.codes[start::step, 0])
        start = (start - run.size) % step
    values = np.sort(np.concatenate(samples))
    return np.unique(values[np.arange(1, pieces) * len(values) // pieces])


def _is_unit(run: SortedRun) -> bool:
    return len(run.stored) < run.size or bool((run.stored == 1).all())


def _weights(stored: Sequence[Codes | None], starts: Sequence[int], ends: Sequence[int]) -> Codes:
    parts = [
        np.ones(end - start, np.int64) if one is None else one[start:end]
        for one, start, end in zip(stored, starts, ends, strict=True)
    ]
    return np.concatenate(parts)
