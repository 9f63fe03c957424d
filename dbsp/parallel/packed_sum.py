"""The sum of unsorted parts with many rows, each packed into one word.

    parts  ->  keys  ->  keys by leading digit  ->  ranges of digits, sorted one by one  ->  rows

Keys are a quarter of the rows, so that moves of keys take less time and memory than those of rows.
A range fits the cache of the processor in which a radix sort is several times as fast as in the
main memory, unless most rows have the same leading digit. Several threads pack and move pieces,
and sort ranges. The memory follows the keys and the rows of the result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbsp.kernels import column_limits, pack_part, scatter_keys, sum_scattered, unpack_part
from dbsp.kernels.arrays import Codes
from dbsp.kernels.packed_parts import DIGIT
from dbsp.kernels.thread_pool import in_pieces
from dbsp.parallel.range_sort import Part

LARGE = 1 << 16
"""Fewer rows are sorted by one call of a kernel."""

CHUNK = 1 << 17
"""A thread packs and moves about this many rows at a time."""

DIGIT_ROWS = 1 << 13
"""A leading digit has about this many rows: more may not fit the cache, fewer cost more counts."""

RANGE = 1 << 15
"""A thread sorts leading digits with about this many rows at a time."""


_NOTHING: Part = (np.empty((0, 0), np.int64), np.empty(0, np.int64))


def sum_parts(parts: list[Part], *, owned: bool = False) -> Part | None:
    """Return the sum of parts, consolidated; None if the rows do not fit into one word each.

    At least one row and one column. If `owned`, the list is cleared, and each part is released when
    its rows have been packed. O(rows) per 11 bits of a row. Raises OverflowError if the weight of a
    row is outside int64.
    """
    chunks = [
        (rows[at : at + CHUNK], weights[at : at + CHUNK])
        for rows, weights in parts
        for at in range(0, len(weights), CHUNK)
    ]
    starts = np.cumsum([0, *[len(weights) for _, weights in chunks]]).tolist()
    total = starts[-1]
    width = chunks[0][0].shape[1]
    columns = np.arange(width)
    limits = in_pieces(len(chunks), lambda piece: column_limits(chunks[piece][0], columns))
    layout = _layout(np.array(limits).reshape(-1, 2, width), total)
    if layout is None:
        return None
    units = all(in_pieces(len(chunks), lambda piece: bool((chunks[piece][1] == 1).all())))
    keys = np.empty(total, np.int64)
    weights = np.empty(0 if units else total, np.int64)
    digits = 1 << int(layout[1] - layout[2])
    counts = np.zeros((len(chunks), digits), np.int64)
    if owned:
        parts.clear()

    def pack(piece: int) -> None:
        rows, given = chunks[piece]
        place = slice(starts[piece], starts[piece + 1])
        pack_part(rows, layout, keys[place], counts[piece])
        if not units:
            weights[place] = given
        chunks[piece] = _NOTHING

    in_pieces(len(chunks), pack)
    # The place of the first key of each chunk and digit: digits one after the other.
    places = np.ascontiguousarray((np.cumsum(counts.T) - counts.T.ravel()).reshape(counts.T.shape).T)
    moved = np.empty(total, np.int64)
    weights_moved = np.empty(len(weights), np.int64)

    def scatter(piece: int) -> None:
        place = slice(starts[piece], starts[piece + 1])
        scatter_keys(keys[place], weights[place], layout, places[piece], moved, weights_moved)

    in_pieces(len(chunks), scatter)
    ranges = _ranges(np.cumsum(counts.sum(axis=0)).tolist())
    sums = keys  # the memory is used again

    def sort(piece: int) -> int:
        start, ends = ranges[piece]
        place = slice(start, ends[-1])
        offsets = np.array(ends) - start
        return sum_scattered(
            moved[place], sums[place], weights_moved[place], weights[place], offsets, int(layout[2])
        )

    sizes = in_pieces(len(ranges), sort)
    firsts = np.cumsum([0, *sizes]).tolist()
    out_rows = np.empty((firsts[-1], width), np.int64)
    out_weights = np.empty(firsts[-1], np.int64)

    def unpack(piece: int) -> None:
        start, _ = ranges[piece]
        left = slice(start, start + sizes[piece])
        target = slice(firsts[piece], firsts[piece + 1])
        unpack_part(moved[left], layout, out_rows[target])
        out_weights[target] = sums[left]

    in_pieces(len(ranges), unpack)
    return out_rows, out_weights


def _layout(limits: Codes, total: int) -> Codes | None:
    """Return the layout of the keys (see `dbsp.kernels.packed_parts`), or None without one.

    `limits` has the minimum and the maximum of each column, for each chunk.
    """
    low, high = limits[:, 0].min(axis=0).tolist(), limits[:, 1].max(axis=0).tolist()
    numbers: list[int] = []
    used = 0
    for column in range(len(low) - 1, -1, -1):
        numbers = [column, low[column], used, *numbers]
        used += (high[column] - low[column]).bit_length()
        if used > 64:
            return None
    leading = min(used, DIGIT, max(1, (total // DIGIT_ROWS).bit_length()))
    return np.array([len(low), used, used - leading, *numbers], np.int64)


def _ranges(ends: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Return where each range starts, and where each of its leading digits ends."""
    ranges: list[tuple[int, list[int]]] = []
    start = 0
    digits: list[int] = []
    for end in ends:
        digits.append(end)
        if end - start >= RANGE:
            ranges.append((start, digits))
            start, digits = end, []
    if digits and digits[-1] > start:
        ranges.append((start, digits))
    return ranges
