"""The rows that a table of rows derives, collected in memory that grows without a copy.

    pieces of one table    rows  counts  which are present | rows  counts  which are present | ...
    tables side by side    the rows of one table move behind those of another, block by block

Rows are int32 until one does not fit, and there are no counts until one is not 1. So the result of
a load needs little more than its own memory before the traces take it over.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dbsp.kernels import narrow_rows
from dbsp.kernels.arrays import Codes, Mask, Rows, StoredRows
from dbsp.kernels.growing_memory import memory_of, pour, shortened, with_room
from dbsp.kernels.narrow_rows import empty_rows, filled_rows, fit_narrow, widened


class Piece(NamedTuple):
    """The rows of some groups, in the columns of the stream."""

    rows: int
    """How many rows have derivations."""
    present: Mask | None
    """Which of them have become present; None for all."""
    given: Codes
    """The given rows of these groups."""
    joined: Codes | None
    """The rows of all frontiers whose matches are in the table, in any order; None if these are the
    given rows and those that have become present."""
    waiting: Codes
    """The frontiers that are set aside."""


class DerivedRows:
    """The rows with derivations, and their numbers of derivations, of consecutive pieces."""

    __slots__ = ("_codes", "_counts", "_width", "pieces", "size")

    def __init__(self, width: int) -> None:
        self._width = width
        self._codes: list[StoredRows] = [np.empty(0, np.int32)]
        """One flat array, with room for more rows."""
        self._counts: list[Codes] = []
        """One array, with room for more rows, unless all numbers of derivations are 1."""
        self.size = 0
        """The number of rows."""
        self.pieces: list[Piece] = []

    def add(self, rows: Rows, counts: Codes, piece: Piece) -> None:
        """Append different rows, sorted, and their numbers of derivations."""
        self.pieces.append(piece)
        if not len(rows):
            return
        start, end = self._grow(len(rows), fit_narrow(rows), units=bool((counts == 1).all()))
        width = self._width
        self._codes[0][start * width : end * width] = rows.reshape(-1)
        if self._counts:
            self._counts[0][start:end] = counts

    def take_over(self, other: DerivedRows) -> None:
        """Append the pieces of another object, and release their memory."""
        self.pieces += other.pieces
        if not other.size:
            return
        narrow = other._codes[0].itemsize == 4
        start, end = self._grow(other.size, narrow, units=not other._counts)
        width = self._width
        other._codes.append(shortened(other._codes, other.size * width))
        pour(other._codes, self._codes[0][start * width : end * width])
        if other._counts:
            other._counts.append(shortened(other._counts, other.size))
            pour(other._counts, self._counts[0][start:end])
        elif self._counts:
            self._counts[0][start:end] = 1

    def _grow(self, rows: int, narrow: bool, units: bool) -> tuple[int, int]:
        """Make room for more rows, and return where they start and end.

        `narrow` says whether they fit int32, and `units` whether all their counts are 1.
        """
        start, end = self.size, self.size + rows
        if not narrow and self._codes[0].itemsize == 4:
            self._codes.append(self._codes.pop().astype(np.int64))
        self._codes.append(with_room(self._codes, end * self._width))
        if not units and not self._counts:
            self._counts.append(with_room([np.ones(start, np.int64)], end))
        elif self._counts:
            self._counts.append(with_room(self._counts, end))
        self.size = end
        return start, end

    @property
    def set_aside(self) -> bool:
        """Whether frontiers are set aside."""
        return any(len(piece.waiting) for piece in self.pieces)

    @property
    def all_present(self) -> bool:
        """Whether all rows have become present."""
        return all(piece.present is None for piece in self.pieces)

    def present(self) -> StoredRows:
        """Return a copy of the rows that have become present, in their order."""
        size = sum([_count(piece) for piece in self.pieces])
        narrow = self._codes[0].itemsize == 4 and size >= narrow_rows.LARGE
        found = empty_rows(size, self._width, narrow)
        start = end = 0
        for piece in self.pieces:
            place, end = end, end + _count(piece)
            found[place:end] = self._present(piece, start)
            start += piece.rows
        return found

    def joined(self) -> list[StoredRows]:
        """Return copies of the rows whose matches are in the table, in any order."""
        rows: list[StoredRows] = []
        start = 0
        for piece in self.pieces:
            if piece.joined is None:
                rows += [piece.given, self._present(piece, start).copy()]
            else:
                rows.append(piece.joined)
            start += piece.rows
        return rows

    def _present(self, piece: Piece, start: int) -> StoredRows:
        """Return the rows of a piece that have become present; its rows begin at `start`."""
        width = self._width
        rows = self._codes[0][start * width : (start + piece.rows) * width].reshape(-1, width)
        return rows if piece.present is None else rows.take(np.flatnonzero(piece.present), 0)

    def take(self) -> tuple[StoredRows, Codes | None]:
        """Remove and return the rows and their counts, None if all are 1; at least one row."""
        codes = shortened(self._codes, self.size * self._width).reshape(-1, self._width)
        if codes.itemsize == 4 and self.size < narrow_rows.LARGE:
            codes = widened(codes)
        elif codes.itemsize == 4 and memory_of(codes) is None:
            codes = filled_rows([codes])  # kernels read the bytes before narrow rows
        return codes, shortened(self._counts, self.size) if self._counts else None


def _count(piece: Piece) -> int:
    return piece.rows if piece.present is None else int(np.count_nonzero(piece.present))
