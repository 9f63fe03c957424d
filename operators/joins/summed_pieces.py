"""Pieces of the matches of a large join, summed one by one if this makes them much fewer."""

from __future__ import annotations

import numpy as np

from dbsp.kernels import consolidate_owned
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX

LARGE = 1 << 12
"""Smaller pieces are left alone."""


class SummedPieces:
    """Sums equal rows of each piece, until a piece keeps more than half of its rows.

    A join that drops columns may find the same row many times. Then the sums of the pieces take
    much less memory than all matches. Several threads may add pieces.
    """

    __slots__ = ("_pays",)

    def __init__(self, pays: bool) -> None:
        self._pays = pays
        """Whether the next piece is summed."""

    def add(self, rows: Codes, weights: Codes) -> tuple[Codes, Codes]:
        """Return a piece with fewer rows, or as it is. Nobody else may read its arrays."""
        size = len(weights)
        if not self._pays or size < LARGE or not _sums_fit(weights):
            return rows, weights
        rows, weights = consolidate_owned(rows, weights)
        if 2 * len(weights) > size:
            self._pays = False
            return rows, weights
        return rows.copy(), weights.copy()  # releases the memory of the whole piece


def _sums_fit(weights: Codes) -> bool:
    """Whether no sum of some of the weights can be outside int64."""
    largest = max(int(np.max(weights)), -int(np.min(weights)))
    return largest <= INT64_MAX // len(weights)
