"""A large delta in unsorted pieces, which are summed when somebody reads the rows.

A join finds its matches in no order, and a union of joins sorts them again. If nobody else reads
the delta of the join, the union takes the pieces, so that each match is sorted once.
"""

from __future__ import annotations

from typing import Any

from dbsp.data.batch import Batch, combine
from dbsp.data.run_batch import RunBatch
from dbsp.errors import InvariantError
from dbsp.kernels.arrays import Codes
from dbsp.kernels.narrow_rows import widened
from dbsp.parallel import packed_sum
from dbsp.parallel.packed_part import PackedPart, Piece, row_count
from dbsp.parallel.packed_sum import sum_stored

LARGE = 1 << 16
"""Fewer rows are summed at once."""


class PieceBatch(Batch):
    """The sum of pieces with positive weights; `rows` and `weights` are made at the first read."""

    __slots__ = ("_pieces", "_sum")

    def __init__(self, pieces: list[Piece]) -> None:
        self._pieces = pieces
        self._sum: Batch | None = None

    def __getattr__(self, name: str) -> Any:  # called for attributes that are not set
        if name in ("rows", "weights"):
            batch = self.sum()
            self.rows, self.weights = batch.rows, batch.weights
            self._sum = Batch(self.rows, self.weights)  # releases other forms of the rows
            return batch.rows if name == "rows" else batch.weights
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __len__(self) -> int:
        return len(self.sum())

    def sum(self) -> Batch:
        """Return the sum as a batch of its own, which may be a `RunBatch`."""
        if self._sum is None:
            self._sum = summed(self._pieces)
            if self._sum is None:
                raise InvariantError("expected pieces with positive weights, got the sum 0")
        return self._sum

    def rearranged(self, order: Codes) -> Batch:
        return self.sum().rearranged(order)

    def projected(self, columns: Codes) -> Batch:
        return self.sum().projected(columns)

    def take(self) -> list[Piece]:
        """Remove and return the pieces; the batch must not be read afterwards."""
        pieces, self._pieces = self._pieces, []
        return pieces or [(self.rows, self.weights)]


def in_pieces(batch: Batch | None) -> bool:
    """Return whether a batch has pieces that are not summed yet."""
    return isinstance(batch, PieceBatch) and batch._sum is None


def summed_later(pieces: list[Piece]) -> Batch | None:
    """Return the sum of pieces, or None if it is empty.

    Nobody else may read the list, the keys of packed pieces, or the arrays of a single piece.
    Many rows stay in pieces, unless a weight is negative, since then the sum may be empty.
    """
    if not pieces:
        return None
    first = pieces[0]
    if len(pieces) == 1 and not isinstance(first, PackedPart) and len(first[1]) < LARGE:
        return combine([first], owned=True)  # the usual case of a small tick, in one call
    if row_count(pieces) >= LARGE and all(map(_is_positive, pieces)):
        return PieceBatch(pieces)
    return summed(pieces)


def _is_positive(piece: Piece) -> bool:
    weights = piece.given if isinstance(piece, PackedPart) else piece[1]
    return bool((weights > 0).all())


def summed(pieces: list[Piece]) -> Batch | None:
    """Return the sum of pieces, which are released; None if it is empty."""
    large = row_count(pieces) >= packed_sum.LARGE
    if large and any(isinstance(piece, PackedPart) for piece in pieces):
        found = sum_stored(pieces)
        if found is not None:
            rows, weights = found
            return RunBatch(rows, weights) if rows.itemsize == 4 else Batch(widened(rows), weights) or None
    parts = [(piece.rows(), piece.weights()) if isinstance(piece, PackedPart) else piece for piece in pieces]
    pieces.clear()
    return combine(parts, owned=True)
