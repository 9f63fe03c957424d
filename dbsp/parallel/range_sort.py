"""Sorting and consolidation of large batches: ranges of the rows, sorted one by one.

    rows  ->  ranges of about PIECE rows, by leading columns  ->  each range sorted in place

A range fits the cache of the processor, in which a radix sort is several times as fast as in the
main memory. This pays for the moves if several threads count and move pieces of the rows and sort
the ranges, and for rows that do not fit a word. The limits of the ranges are quantiles of a sample.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from dbsp import kernels
from dbsp.kernels import (
    column_limits,
    consolidate_owned,
    find_ranges,
    is_sorted,
    move_to_ranges,
    range_keys,
    sort_owned,
)
from dbsp.kernels.arrays import Codes, StoredRows
from dbsp.kernels.key_ranges import KEY_BITS
from dbsp.kernels.thread_count import threads
from dbsp.kernels.thread_pool import in_pieces
from dbsp.parallel.packed_part import layout_of

Part: TypeAlias = tuple[Codes, Codes]
"""Rows and their weights."""

LARGE = 1 << 18
"""Batches of fewer rows are sorted by one call of a kernel."""

PIECE = 1 << 15
"""The sorted ranges have about this many rows."""

MOST_RANGES = 256
"""Rows are moved to so many ranges at a time: more places would not fit the cache."""

FEW_THREADS = 4
"""Up to so many threads gain little from a sort by ranges over a sort in place."""

CHUNK = 1 << 17
"""A thread counts and moves about this many rows at a time."""

SAMPLES = 32
"""The limits of the ranges are estimated from so many rows per range."""


def is_wide(rows: Codes, columns: Codes | None = None) -> bool:
    """Return whether rows are many and do not fit a word: one kernel sorts them in twice the time.

    Only these columns count, if they are given. O(n) for many rows.
    """
    chosen = np.arange(rows.shape[1]) if columns is None else columns
    if len(rows) < LARGE or len(chosen) < 2:
        return False
    return layout_of(column_limits(rows, chosen).reshape(1, 2, -1), 1) is None


def sorts_in_place(rows: Codes) -> bool:
    """Return whether one thread is to sort rows in their own memory if nobody else reads them.

    A sort in place takes half of the processor time of a sort by ranges, and no more memory, if the
    rows fit a word. Beyond a few threads, the latter takes less time.
    """
    return threads() <= FEW_THREADS and not is_wide(rows)


def consolidate(rows: Codes, weights: Codes) -> Part:
    """Sort the rows, sum the weights of equal rows and drop the zeros.

    As the kernel of this name. Raises OverflowError if the weight of a row is outside int64.
    """
    if len(weights) < LARGE or not _pays(rows) or is_sorted(rows):
        return kernels.consolidate(rows, weights)
    return sort_parts([(rows, weights)], np.arange(rows.shape[1]))


def consolidate_sole(rows: Codes, weights: Codes) -> Part:
    """As `consolidate`, for arrays that nobody else reads: the result may be in their memory."""
    if _stays(rows):
        return consolidate_owned(rows, weights)
    return sort_parts([(rows, weights)], np.arange(rows.shape[1]))


def project(rows: Codes, weights: Codes, columns: Codes) -> Part:
    """Return these columns of the rows, consolidated. As the kernel of this name."""
    if len(weights) < LARGE or not is_wide(rows, columns):
        return kernels.project(rows, weights, columns)
    return sort_parts([(rows, weights)], columns)


def sort_sole(rows: Codes) -> Codes:
    """Return different rows, sorted: nobody else reads them, and it may happen in their memory."""
    if _stays(rows):
        return sort_owned(rows)
    return sort_parts([(rows, np.ones(len(rows), np.int64))], np.arange(rows.shape[1]), distinct=True)[0]


def rearrange(rows: Codes, weights: Codes, order: Codes) -> Part:
    """Return consolidated rows with their columns permuted, sorted again.

    As the kernel of this name: no weights mean that all of them are 1.
    """
    if not _pays(rows):
        return kernels.rearrange(rows, weights, order)
    return sort_parts([(rows, weights)], order, distinct=True)


def _stays(rows: Codes) -> bool:
    """Return whether rows that nobody else reads are sorted by one kernel, in their own memory."""
    return len(rows) < LARGE or sorts_in_place(rows) or is_sorted(rows)


def _pays(rows: Codes) -> bool:
    """Return whether a sort by ranges takes less time than one call of a kernel."""
    return len(rows) >= LARGE and rows.shape[1] > 0 and (threads() > 1 or is_wide(rows))


def sort_parts(parts: list[Part], columns: Codes, *, distinct: bool = False, owned: bool = False) -> Part:
    """Return the sum of parts, which together have rows: these columns, consolidated.

    If `distinct`, no two rows are equal and no weight is 0; then no weights in the result mean that
    all of them are 1. If `owned`, the list is cleared when its rows have been moved. O(rows log
    ranges). Raises OverflowError if the weight of a row is outside int64.
    """
    total = sum([len(weights) for _, weights in parts])
    chunks = [
        (rows[at : at + CHUNK], weights[at : at + CHUNK])
        for rows, weights in parts
        for at in range(0, len(weights), CHUNK)
    ]
    surveyed = in_pieces(len(chunks), lambda piece: _survey(*chunks[piece], columns))
    ones = all(one.ones for one in surveyed)
    low = np.min([one.limits[: len(columns)] for one in surveyed], axis=0).tolist()
    high = np.max([one.limits[len(columns) :] for one in surveyed], axis=0).tolist()
    plan = _plan(columns.tolist(), low, high)
    limits = _limits(parts, total, plan)
    counts = np.zeros((len(chunks), len(limits) + 1), np.int64)
    ranges_of = in_pieces(
        len(chunks), lambda piece: find_ranges(chunks[piece][0], plan, limits, counts[piece])
    )
    # The place of the first row of each chunk in each range: ranges one after the other.
    places = (np.cumsum(counts.T) - counts.T.ravel()).reshape(counts.T.shape)
    ends = [0, *np.cumsum(counts.sum(axis=0)).tolist()]
    out_rows = np.empty((total, len(columns)), np.int64)
    out_weights = np.empty(0 if ones else total, np.int64)

    def move(piece: int) -> None:
        rows, weights = chunks[piece]
        at = np.ascontiguousarray(places[:, piece])
        move_to_ranges(rows, weights, columns, ranges_of[piece], at, out_rows, out_weights)

    in_pieces(len(chunks), move)
    chunks.clear()
    ranges_of.clear()
    if owned:
        parts.clear()
    ranges = [(start, end) for start, end in itertools.pairwise(ends) if start < end]
    # The weights of distinct rows remain 1, so that all ranges may share them.
    shared = np.ones(max(end - start for start, end in ranges) if ones and distinct else 0, np.int64)
    if ones and not distinct:
        out_weights = np.empty(total, np.int64)

    def sort(piece: int) -> int:
        start, end = ranges[piece]
        weights = out_weights[start:end] if len(out_weights) else shared[: end - start]
        if ones and not distinct:
            weights[:] = 1
        rows, sums = consolidate_owned(out_rows[start:end], weights)
        size = len(sums)
        _write(out_rows, start, rows)
        if len(out_weights):
            _write(out_weights, start, sums)
        return size

    sizes = in_pieces(len(ranges), sort)
    return joined_ranges(out_rows, out_weights, [start for start, _ in ranges], sizes)


class _Survey(NamedTuple):
    """What a chunk of rows contains."""

    limits: Codes
    """The minimum of each column, and then the maximum of each."""
    ones: bool
    """Whether all weights are 1."""


def _survey(rows: Codes, weights: Codes, columns: Codes) -> _Survey:
    return _Survey(column_limits(rows, columns), bool((weights == 1).all()))


def _plan(columns: Sequence[int], low: Sequence[int], high: Sequence[int]) -> Codes:
    """Return the plan of the keys (see `dbsp.kernels.key_ranges`) for the ranges of the columns."""
    plan: list[int] = []
    left = KEY_BITS
    for column, smallest, largest in zip(columns, low, high, strict=True):
        bits = (largest - smallest).bit_length()
        used = min(bits, left)
        left -= used
        plan += (column, smallest, bits - used, left)
        if not left:  # the next column would be shifted by 64, which has no defined result
            break
    return np.array(plan, np.int64)


def _limits(parts: Sequence[Part], total: int, plan: Codes) -> Codes:
    """Return the limits of ranges of about equal size."""
    count = min(MOST_RANGES, max(2, total // PIECE))
    step = max(1, total // (count * SAMPLES))
    samples = []
    start = 0
    for rows, weights in parts:
        samples.append(rows[start::step])
        start = (start - len(weights)) % step
    keys = np.sort(range_keys(np.concatenate(samples), plan))
    return np.unique(keys[np.arange(1, count) * len(keys) // count])


def _write(target: Codes, start: int, source: Codes) -> None:
    """Copy an array to its place in another one, unless it is there already."""
    place = target[start : start + len(source)]
    if place.ctypes.data != source.ctypes.data:
        place[...] = source


def joined_ranges(rows: Codes, weights: Codes, starts: Sequence[int], sizes: Sequence[int]) -> Part:
    """Return the first rows of each range of arrays without the gaps between them, in place.

    Nobody else may read the arrays, since most of the memory of the gaps is released. Without
    weights, the result has none.
    """
    close_gaps(rows, weights, starts, sizes)
    total = sum(sizes)
    if total >= len(rows) - len(rows) // 8:
        return rows[:total], weights[:total]
    rows.resize((total, rows.shape[1]), refcheck=False)
    if len(weights):
        weights.resize(total, refcheck=False)
    return rows, weights


def close_gaps(rows: StoredRows, weights: Codes, starts: Sequence[int], sizes: Sequence[int]) -> None:
    """Move the first rows of each range to the end of those of the range before, in place."""
    width = rows.shape[1]
    flat = rows.reshape(-1)
    end = 0
    for start, size in zip(starts, sizes, strict=True):
        if start != end:  # NumPy moves overlapping parts of one dimension without a copy
            flat[end * width : (end + size) * width] = flat[start * width : (start + size) * width]
            if len(weights):
                weights[end : end + size] = weights[start : start + size]
        end += size
