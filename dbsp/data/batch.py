"""The engine's flat Z-set: sorted rows of codes and their weights, without schema or names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbsp.kernels import consolidate, consolidate_few, consolidate_owned
from dbsp.kernels.arrays import Codes
from dbsp.kernels.run_tables import merge_some
from dbsp.parallel.range_sort import pays, rearrange, sort_parts

FEW = 32
"""Up to this many rows are sorted in their own memory by an insertion sort."""


class Batch:
    """A consolidated Z-set of code rows.

    `rows` is int64[n, arity] in C order, sorted lexicographically; `weights` is int64[n] without
    zeros; no row occurs twice. Batches are never modified, so they may be shared.
    """

    __slots__ = ("__weakref__", "rows", "weights")

    def __init__(self, rows: Codes, weights: Codes) -> None:
        self.rows = rows
        self.weights = weights

    @staticmethod
    def empty(arity: int) -> Batch:
        return Batch(np.empty((0, arity), np.int64), np.empty(0, np.int64))

    def read_only(self) -> Batch:
        """Return the batch with arrays that cannot be written, for callers outside of the engine.

        Kernels take writable arrays only: numba would compile each of them again for the others.
        """
        rows, weights = self.rows.view(), self.weights.view()
        rows.flags.writeable = weights.flags.writeable = False
        return Batch(rows, weights)

    @property
    def arity(self) -> int:
        return int(self.rows.shape[1])

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes + self.weights.nbytes)

    def rearranged(self, order: Codes) -> Batch:
        """Return the batch with its columns permuted; weights of 1 share the memory of this one."""
        size = len(self.weights)
        if size == 1:
            return Batch(self.rows.take(order, 1), self.weights)  # a kernel takes several times as long
        if size <= FEW:
            rows, weights = self.rows.take(order, 1), self.weights.copy()
            consolidate_few(rows, weights)
            return Batch(rows, weights)
        rows, weights = rearrange(self.rows, self.weights, order)
        return Batch(rows, weights if len(weights) else self.weights)

    def __len__(self) -> int:
        return len(self.weights)

    def __repr__(self) -> str:
        return f"Batch({len(self)} rows x {self.arity})"


def combine(parts: list[tuple[Codes, Codes]], owned: bool = False) -> Batch | None:
    """Return the sum of unsorted pieces of a delta, or None if it is empty.

    If the caller owns the pieces, they are released: the list is cleared, and a single piece is
    sorted in its own memory.
    """
    if not parts:
        return None
    if len(parts) == 1 and len(parts[0][1]) == 1:
        batch = Batch(*parts[0])  # the usual delta of a small tick is sorted
        return batch if batch.weights[0] else None
    size = len(parts[0][1]) if len(parts) == 1 else sum([len(weights) for _, weights in parts])
    if size <= FEW and (owned or len(parts) > 1):
        return consolidated_in_place(*_joined(parts))
    if pays(size, arity := parts[0][0].shape[1]):
        batch = Batch(*sort_parts(parts, np.arange(arity), owned=owned))
    elif len(parts) == 1 and not owned:
        batch = Batch(*consolidate(*parts[0]))
    else:
        rows, weights = _joined(parts)
        if owned:
            parts.clear()
        batch = Batch(*consolidate_owned(rows, weights))
    return batch if len(batch) else None


def _joined(parts: Sequence[tuple[Codes, Codes]]) -> tuple[Codes, Codes]:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([rows for rows, _ in parts]), np.concatenate([weights for _, weights in parts])


def consolidated_in_place(rows: Codes, weights: Codes) -> Batch | None:
    """Return the sum of at most FEW rows that nobody else reads, in their memory; None if empty."""
    size = consolidate_few(rows, weights)
    if size == len(weights):
        return Batch(rows, weights) if size else None
    return Batch(rows[:size], weights[:size]) if size else None


def merge_sorted(parts: Sequence[tuple[Codes, Codes]]) -> Batch | None:
    """Return the sum of consolidated pieces, or None if it is empty. O(rows log pieces)."""
    pieces = list(parts)
    while len(pieces) > 1:
        pairs = zip(pieces[::2], pieces[1::2], strict=False)
        pieces = [_merged(*older, *newer) for older, newer in pairs] + pieces[len(pieces) // 2 * 2 :]
    return Batch(*pieces[0]) if pieces and len(pieces[0][1]) else None


def _merged(rows: Codes, weights: Codes, more: Codes, their_weights: Codes) -> tuple[Codes, Codes]:
    size = len(weights) + len(their_weights)
    out_rows, out_weights = np.empty((size, rows.shape[1]), np.int64), np.empty(size, np.int64)
    state = np.zeros(4, np.int64)
    merge_some(rows, weights, more, their_weights, out_rows, out_weights, state, size)
    size = int(state[2])
    return out_rows[:size], out_weights[:size]
