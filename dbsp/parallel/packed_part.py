"""Unsorted rows that wait for their sum, each packed into one word.

    rows of three columns and weights 1:  32 bytes a row  ->  8 bytes

A part has the layout of its own rows (see `dbsp.kernels.packed_parts`), since the values of later
parts are not known when it is packed. The sum packs the words again, in the layout of all parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from dbsp.kernels import column_limits, pack_part, unpack_part
from dbsp.kernels.arrays import Codes
from dbsp.kernels.growing_memory import grows, own_array

Part: TypeAlias = tuple[Codes, Codes]
"""Rows and their weights."""

LEAST = 1 << 12
"""Parts of fewer rows stay as they are: their memory does not count."""

_CACHED = 1 << 14
"""So many rows are unpacked at a time: they stay in the cache until they are packed again."""

_UNITS = np.empty(0, np.int64)
_INT64 = np.dtype(np.int64)


class PackedPart(NamedTuple):
    """Rows as words, in no order."""

    keys: Codes
    given: Codes
    """The weight of each row; none if all are 1."""
    layout: Codes
    limits: Codes
    """The minimum of each column, and then the maximum of each."""

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.keys)

    def rows(self) -> Codes:
        """Return the rows. O(rows)."""
        rows = np.empty((len(self.keys), int(self.layout[0])), np.int64)
        unpack_part(self.keys, self.layout, rows)
        return rows

    def weights(self) -> Codes:
        """Return the weight of each row."""
        return self.given if len(self.given) else np.ones(len(self.keys), np.int64)


Piece: TypeAlias = Part | PackedPart


def packed(rows: Codes, weights: Codes) -> Piece:
    """Return the rows in 8 bytes each, and 8 for a weight other than 1, if their values allow it.

    Else, and for few rows, return the arguments. O(rows).
    """
    size, width = rows.shape
    if size < LEAST or not width:
        return rows, weights
    limits = column_limits(rows, np.arange(width))
    layout = layout_of(limits.reshape(1, 2, width), 1)
    if layout is None:
        return rows, weights
    # A place in the heap would divide the room of the arrays that were freed before.
    keys = own_array(_INT64, size) if grows(8 * size) else np.empty(size, np.int64)
    pack_part(rows, layout, keys, np.zeros(2, np.int64))
    return PackedPart(keys, _UNITS if bool((weights == 1).all()) else weights, layout, limits)


def layout_of(limits: Codes, leading: int) -> Codes | None:
    """Return a layout of keys with at most so many leading bits; None if a key exceeds 64 bits.

    `limits` has the minimum and the maximum of each column, for each part of the rows.
    """
    low, high = limits[:, 0].min(axis=0).tolist(), limits[:, 1].max(axis=0).tolist()
    numbers: list[int] = []
    used = 0
    for column in range(len(low) - 1, -1, -1):
        numbers = [column, low[column], used, *numbers]
        used += (high[column] - low[column]).bit_length()
        if used > 64:
            return None
    return np.array([len(low), used, used - min(used, leading), *numbers], np.int64)


def pack_again(keys: Codes, layout: Codes, new_layout: Codes, counts: Codes) -> None:
    """Replace the keys of one layout by those of another one that has room for the same rows.

    Adds to the counts of the new leading digits. O(keys).
    """
    rows = np.empty((min(_CACHED, len(keys)), int(layout[0])), np.int64)
    for at in range(0, len(keys), _CACHED):
        piece = keys[at : at + _CACHED]
        unpack_part(piece, layout, rows[: len(piece)])
        pack_part(rows[: len(piece)], new_layout, piece, counts)


def row_count(parts: Sequence[Piece]) -> int:
    """Return the number of rows in all parts."""
    return sum([part.size if isinstance(part, PackedPart) else len(part[1]) for part in parts])
