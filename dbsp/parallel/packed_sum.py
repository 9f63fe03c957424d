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
from dbsp.kernels.growing_memory import empty_array, shortened
from dbsp.kernels.packed_parts import DIGIT
from dbsp.kernels.thread_pool import in_pieces
from dbsp.parallel.packed_part import PackedPart, Part, Piece, layout_of, pack_again, row_count
from dbsp.parallel.range_sort import close_gaps

LARGE = 1 << 16
"""Fewer rows are sorted by one call of a kernel."""

CHUNK = 1 << 17
"""A thread packs and moves about this many rows at a time."""

DIGIT_ROWS = 1 << 13
"""A leading digit has about this many rows: more may not fit the cache, fewer cost more counts."""

RANGE = 1 << 15
"""A thread sorts leading digits with about this many rows at a time."""

_NONE = np.empty(0, np.int64)
_INT64 = np.dtype(np.int64)


def sum_parts(parts: list[Part] | list[Piece], *, owned: bool = False) -> Part | None:
    """Return the sum of parts, consolidated; None if the rows do not fit into one word each.

    At least one row and one column. If `owned`, the list is cleared, and the memory of each part is
    used again or released as soon as possible. O(rows) per 11 bits of a row. Raises OverflowError
    if the weight of a row is outside int64.
    """
    chunks = [chunk for part in parts for chunk in _chunks(part, owned)]
    total = row_count(parts)
    limits = in_pieces(len(chunks), lambda piece: chunks[piece].limits())
    leading = min(DIGIT, max(1, (total // DIGIT_ROWS).bit_length()))
    width = len(limits[0]) // 2
    layout = layout_of(np.array(limits).reshape(-1, 2, width), leading)
    if layout is None:
        return None
    units = all(in_pieces(len(chunks), lambda piece: chunks[piece].units()))
    counts = np.zeros((len(chunks), 1 << int(layout[1] - layout[2])), np.int64)
    if owned:
        parts.clear()
    in_pieces(len(chunks), lambda piece: chunks[piece].pack(layout, counts[piece]))
    moved, starts, sums = _sorted(chunks, counts, layout, units)
    # Release the memory of equal keys before there are rows.
    close_gaps(moved.reshape(-1, 1), _NONE, starts, list(map(len, sums)))
    out_weights = np.concatenate(sums)
    del sums
    held = [moved]
    del moved
    keys = shortened(held, len(out_weights))
    out_rows = np.empty((len(keys), width), np.int64)

    def unpack(piece: int) -> None:
        place = slice(piece * CHUNK, (piece + 1) * CHUNK)
        unpack_part(keys[place], layout, out_rows[place])

    in_pieces(-(-len(keys) // CHUNK), unpack)
    return out_rows, out_weights


def _sorted(
    chunks: Sequence[_RowsChunk | _KeysChunk], counts: Codes, layout: Codes, units: bool
) -> tuple[Codes, list[int], list[Codes]]:
    """Return the different keys of all chunks in sorted ranges, with gaps between them.

    Returns an array of the keys, where each range starts, and the sums of the weights of its keys.
    `counts` are the keys of each chunk by leading digit.
    """
    # The place of the first key of each chunk and digit: digits one after the other.
    places = np.ascontiguousarray((np.cumsum(counts.T) - counts.T.ravel()).reshape(counts.T.shape).T)
    total = int(counts.sum())
    moved = empty_array(_INT64, total)
    weights_moved = empty_array(_INT64, 0 if units else total)

    def scatter(piece: int) -> None:
        keys, weights = chunks[piece].take(units)
        scatter_keys(keys, weights, layout, places[piece], moved, weights_moved)

    in_pieces(len(chunks), scatter)
    ranges = digit_ranges(np.cumsum(counts.sum(axis=0)).tolist())

    def sort(piece: int) -> Codes:
        start, ends = ranges[piece]
        place = slice(start, ends[-1])
        sums = np.empty(ends[-1] - start, np.int64)
        spare = _NONE if units else np.empty_like(sums)
        offsets = np.array(ends) - start
        left = sum_scattered(moved[place], sums, weights_moved[place], spare, offsets, int(layout[2]))
        return sums[:left].copy()  # releases the rest of the memory

    return moved, [start for start, _ in ranges], in_pieces(len(ranges), sort)


class _RowsChunk:
    """Some rows of a part, which become keys in the layout of all parts."""

    __slots__ = ("_keys", "_rows", "_weights")

    def __init__(self, rows: Codes, weights: Codes) -> None:
        self._rows = rows
        self._weights = weights
        self._keys = _NONE

    def limits(self) -> Codes:
        """Return the minimum of each column, and then the maximum of each."""
        return column_limits(self._rows, np.arange(self._rows.shape[1]))

    def units(self) -> bool:
        """Return whether all weights are 1."""
        return bool((self._weights == 1).all())

    def pack(self, layout: Codes, counts: Codes) -> None:
        """Make the keys, count their leading digits, and release the rows."""
        self._keys = np.empty(len(self._rows), np.int64)
        pack_part(self._rows, layout, self._keys, counts)
        self._rows = self._rows[:0].copy()

    def take(self, units: bool) -> Part:
        """Return and release the keys and their weights; no weights if all of all chunks are 1."""
        keys, weights = self._keys, _NONE if units else self._weights
        self._keys = self._weights = _NONE
        return keys, weights


class _KeysChunk:
    """Some keys of a packed part, which become keys in the layout of all parts.

    The other methods are those of `_RowsChunk`.
    """

    __slots__ = ("_keys", "_part", "_weights")

    def __init__(self, part: PackedPart, place: slice, owned: bool) -> None:
        self._keys = part.keys[place] if owned else part.keys[place].copy()
        self._weights = part.given[place]
        self._part = part

    def limits(self) -> Codes:
        return self._part.limits

    def units(self) -> bool:
        return not len(self._weights)

    def pack(self, layout: Codes, counts: Codes) -> None:
        pack_again(self._keys, self._part.layout, layout, counts)
        self._part = _NO_PART

    def take(self, units: bool) -> Part:
        keys, weights = self._keys, self._weights
        if not units and not len(weights):
            weights = np.ones(len(keys), np.int64)
        self._keys = self._weights = _NONE
        return keys, weights


_NO_PART = PackedPart(_NONE, _NONE, _NONE, _NONE)


def _chunks(part: Piece, owned: bool) -> list[_RowsChunk | _KeysChunk]:
    places = [slice(at, at + CHUNK) for at in range(0, row_count([part]), CHUNK)]
    if isinstance(part, PackedPart):
        return [_KeysChunk(part, place, owned) for place in places]
    rows, weights = part
    return [_RowsChunk(rows[place], weights[place]) for place in places]


def digit_ranges(ends: Sequence[int]) -> list[tuple[int, list[int]]]:
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
