"""A large delta in unsorted pieces, which are summed when somebody reads the rows.

A join finds its matches in no order, and a union of joins sorts them again. If nobody else reads
the delta of the join, the union takes the pieces, so that each match is sorted once.
"""

from __future__ import annotations

from typing import Any

from dbsp.data.batch import Batch, combine
from dbsp.errors import InvariantError
from dbsp.kernels.arrays import Codes

LARGE = 1 << 16
"""Fewer rows are summed at once."""


class PieceBatch(Batch):
    """The sum of pieces with positive weights; `rows` and `weights` are made at the first read."""

    __slots__ = ("_pieces",)

    def __init__(self, pieces: list[tuple[Codes, Codes]]) -> None:
        self._pieces = pieces

    def __getattr__(self, name: str) -> Any:  # called for attributes that are not set
        if name in ("rows", "weights"):
            batch = combine(self._pieces, owned=True)
            if batch is None:
                raise InvariantError("expected pieces with positive weights, got the sum 0")
            self.rows, self.weights = batch.rows, batch.weights
            self._pieces = []
            return batch.rows if name == "rows" else batch.weights
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def take(self) -> list[tuple[Codes, Codes]]:
        """Remove and return the pieces; the batch must not be read afterwards."""
        pieces, self._pieces = self._pieces, []
        return pieces or [(self.rows, self.weights)]


def summed_later(pieces: list[tuple[Codes, Codes]]) -> Batch | None:
    """Return the sum of pieces, or None if it is empty.

    Nobody else may read the list, or the arrays of a single piece.
    Many rows stay in pieces, unless a weight is negative, since then the sum may be empty.
    """
    rows = sum([len(weights) for _, weights in pieces])
    if rows >= LARGE and all(bool((weights > 0).all()) for _, weights in pieces):
        return PieceBatch(pieces)
    return combine(pieces, owned=True)
