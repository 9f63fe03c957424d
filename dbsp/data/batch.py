"""The engine's flat Z-set: sorted rows of codes and their weights, without schema or names."""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes


class Batch:
    """A consolidated Z-set of code rows.

    `rows` is int64[n, arity] in C order, sorted lexicographically; `weights` is int64[n] without
    zeros; no row occurs twice. A batch is never changed once it is made, so it may be shared.
    """

    __slots__ = ("rows", "weights")

    def __init__(self, rows: Codes, weights: Codes) -> None:
        self.rows = rows
        self.weights = weights

    @staticmethod
    def empty(arity: int) -> Batch:
        return Batch(np.empty((0, arity), np.int64), np.empty(0, np.int64))

    @property
    def arity(self) -> int:
        return int(self.rows.shape[1])

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes + self.weights.nbytes)

    def __len__(self) -> int:
        return len(self.weights)

    def __repr__(self) -> str:
        return f"Batch({len(self)} rows x {self.arity})"
