"""The sum of unsorted parts with many rows, each packed into one word.

    parts  ->  keys  ->  keys by leading digit  ->  ranges of digits, sorted one by one  ->  rows

Keys are a quarter of the rows, so that moves of keys take less time and memory than those of rows.
A range fits the cache of the processor in which a radix sort is several times as fast as in the
main memory, unless most rows have the same leading digit. Several threads pack and move pieces,
and sort ranges. The memory follows the keys and the rows of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dbsp.kernels import (
    column_limits,
    narrow_rows,
    pack_part,
    scatter_keys,
    sum_scattered,
    unpack_narrow,
    unpack_part,
)
from dbsp.kernels.arrays import Codes, StoredRows
from dbsp.kernels.growing_memory import empty_array, memory_of, resized, shortened
from dbsp.kernels.narrow_rows import empty_rows, fit_narrow
from dbsp.kernels.packed_parts import DIGIT
from dbsp.kernels.run_tables import run_entry
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

_NONE, _ONE = np.empty(0, np.int64), np.ones(1, np.int64)
_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


def sum_parts(parts: list[Part] | list[Piece], *, owned: bool = False) -> Part | None:
    """Return the sum of parts, consolidated; None if the rows do not fit into one word each.

    At least one row and one column. If `owned`, the list is cleared, and the memory of each part is
    used again or released as soon as possible. O(rows) per 11 bits of a row. Raises OverflowError
    if the weight of a row is outside int64.
    """
    found = _summed(parts, owned)
    return None if found is None else _wide_rows(found)


def sum_stored(parts: list[Piece]) -> tuple[StoredRows, Codes] | None:
    """As `sum_parts` of owned parts, but many different rows are int32 if they fit.

    Then there is a single weight, the 1 of all rows, and the rows take over the memory of the keys
    if that is memory of its own.
    """
    found = _summed(parts, True)
    if found is None:
        return None
    held, layout = found.keys, found.layout
    size, width = len(held[0]), int(layout[0])
    if size < narrow_rows.LOAD or width < 2 or not found.narrow or not all(map(_are_ones, found.weights)):
        return _wide_rows(found)
    if memory_of(held[0]) is None:
        keys, codes = held.pop(), empty_rows(size, width, True)
    else:
        flat = resized(held, -(-size * width // 2))
        keys, codes = flat[:size], flat.view(_INT32)[: size * width].reshape(size, width)
    word, _, _ = run_entry(codes, _NONE)
    unpack_narrow(keys, layout, word)
    return codes, np.ones(1, np.int64)


class _Summed(NamedTuple):
    """A sum of parts, whose keys are not rows yet."""

    keys: list[Codes]
    """One array of sorted keys, to which nobody else refers."""
    weights: list[Codes]
    """The weights of consecutive keys; of step 0 if all are 1."""
    layout: Codes
    narrow: bool
    """Whether all codes fit int32."""


def _summed(parts: list[Part] | list[Piece], owned: bool) -> _Summed | None:
    """As `sum_parts`."""
    chunks = [chunk for part in parts for chunk in _chunks(part, owned)]
    total = row_count(parts)
    limits = np.array(in_pieces(len(chunks), lambda piece: chunks[piece].limits()))
    leading = min(DIGIT, max(1, (total // DIGIT_ROWS).bit_length()))
    layout = layout_of(limits.reshape(len(chunks), 2, -1), leading)
    if layout is None:
        return None
    units = all(in_pieces(len(chunks), lambda piece: chunks[piece].units()))
    counts = np.zeros((len(chunks), 1 << int(layout[1] - layout[2])), np.int64)
    if owned:
        parts.clear()
    in_pieces(len(chunks), lambda piece: chunks[piece].pack(layout, counts[piece]))
    moved, starts, sums = _sorted(chunks, counts, layout, units)
    # Release the memory of equal keys before there are rows.
    sizes = list(map(len, sums))
    close_gaps(moved.reshape(-1, 1), _NONE, starts, sizes)
    held = [moved]
    del moved
    held.append(shortened(held, sum(sizes)))
    return _Summed(held, sums, layout, fit_narrow(limits))


def _wide_rows(found: _Summed) -> Part:
    """Return the rows and weights of a sum, whose keys are released."""
    weights, layout = np.concatenate(found.weights), found.layout
    found.weights.clear()
    keys = found.keys.pop()
    rows = np.empty((len(keys), int(layout[0])), np.int64)

    def unpack(piece: int) -> None:
        place = slice(piece * CHUNK, (piece + 1) * CHUNK)
        unpack_part(keys[place], layout, rows[place])

    in_pieces(-(-len(keys) // CHUNK), unpack)
    return rows, weights


def _are_ones(weights: Codes) -> bool:
    return weights.strides == (0,)


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
        if units and left == len(sums):  # all keys are different
            return np.broadcast_to(_ONE, left)  # weights without memory
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
