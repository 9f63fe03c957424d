"""A large delta in unsorted pieces, which are summed when somebody reads the rows.

A join finds its matches in no order, and a union of joins sorts them again. If nobody else reads
the delta of the join, the union takes the pieces, so that each match is sorted once.
"""

from __future__ import annotations

from typing import Any

from dbsp.data.batch import Batch, combine
from dbsp.errors import InvariantError
from dbsp.parallel import packed_sum
from dbsp.parallel.packed_part import PackedPart, Piece, row_count
from dbsp.parallel.packed_sum import sum_parts

LARGE = 1 << 16
"""Fewer rows are summed at once."""


class PieceBatch(Batch):
    """The sum of pieces with positive weights; `rows` and `weights` are made at the first read."""

    __slots__ = ("_pieces",)

    def __init__(self, pieces: list[Piece]) -> None:
        self._pieces = pieces

    def __getattr__(self, name: str) -> Any:  # called for attributes that are not set
        if name in ("rows", "weights"):
            batch = summed(self._pieces)
            if batch is None:
                raise InvariantError("expected pieces with positive weights, got the sum 0")
            self.rows, self.weights = batch.rows, batch.weights
            self._pieces = []
            return batch.rows if name == "rows" else batch.weights
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def take(self) -> list[Piece]:
        """Remove and return the pieces; the batch must not be read afterwards."""
        pieces, self._pieces = self._pieces, []
        return pieces or [(self.rows, self.weights)]


def summed_later(pieces: list[Piece]) -> Batch | None:
    """Return the sum of pieces, or None if it is empty.

    Nobody else may read the list, the keys of packed pieces, or the arrays of a single piece.
    Many rows stay in pieces, unless a weight is negative, since then the sum may be empty.
    """
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
        found = sum_parts(pieces, owned=True)
        if found is not None:
            return Batch(*found) or None
    parts = [(piece.rows(), piece.weights()) if isinstance(piece, PackedPart) else piece for piece in pieces]
    pieces.clear()
    return combine(parts, owned=True)
