"""The engine's flat Z-set: sorted rows of codes and their weights, without schema or names."""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount

import numpy as np

from dbsp.kernels import (
    consolidate,
    consolidate_few,
    consolidate_owned,
    is_sorted,
    merge_runs,
    sort_owned,
    subtract_runs,
)
from dbsp.kernels.arrays import Codes, StoredRows
from dbsp.kernels.run_tables import run_entry
from dbsp.parallel import packed_sum, range_sort
from dbsp.parallel.packed_sum import sum_parts
from dbsp.parallel.range_sort import project, rearrange, sort_parts, sorts_in_place

LEAST_IN_PLACE = 1 << 16
"""Smaller batches are copied: their memory does not count."""

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
    def total(self) -> int:
        """The sum of all weights."""
        return int(self.weights.sum())

    @property
    def units(self) -> bool:
        """Whether all weights are 1."""
        return bool((self.weights == 1).all())

    def with_units(self) -> Batch:
        """Return the rows with weight 1."""
        return Batch(self.rows, np.ones(len(self), np.int64))

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

    def projected(self, columns: Codes) -> Batch:
        """Return these columns of the rows, in this order; a weight of one row is shared."""
        size = len(self.weights)
        if size == 1:
            return Batch(self.rows.take(columns, 1), self.weights)
        if size <= FEW:
            few = consolidated_in_place(self.rows.take(columns, 1), self.weights.copy())
            return Batch.empty(len(columns)) if few is None else few
        return Batch(*project(self.rows, self.weights, columns))

    @property
    def entry(self) -> tuple[int, int, int]:
        """The rows and weights as an entry of a run table, which does not keep their memory."""
        return run_entry(self.rows, self.weights)

    def plus(self, other: Batch, sign: int = 1) -> Batch:
        """Return the batch + sign * other; sign is 1 or -1. O(rows of both).

        Raises OverflowError if a weight is outside int64.
        """
        width = self.arity
        size = len(self) + len(other)
        if sign > 0 and size <= FEW:
            parts = [(batch.rows, batch.weights) for batch in (self, other)]
            return consolidated_in_place(*_joined(parts)) or Batch.empty(width)
        rows, weights = np.empty((size, width), np.int64), np.empty(size, np.int64)
        kept = add_into(rows, weights, self, other, sign)
        if kept < size:
            rows.resize((kept, width), refcheck=False)
            weights.resize(kept, refcheck=False)
        return Batch(rows, weights)

    def __len__(self) -> int:
        return len(self.weights)

    @staticmethod
    def rearrange_sole(held: list[Batch], order: Codes) -> Batch | None:
        """Remove the batch from the list and return it as `rearranged`, sorted in its own memory.

        Wide rows are moved to other memory, and their own is released before they are sorted.
        Returns None, and changes nothing, if it is small or if anybody else may read it.
        """
        batch = held[0]
        size = len(batch.weights)
        del batch
        if size < LEAST_IN_PLACE or not _is_sole(held):
            return None
        if not sorts_in_place(held[0].rows):
            return _rearranged_by_ranges(held, order) if size >= range_sort.LARGE else None
        rows, weights = held[0].rows, held[0].weights
        held.clear()
        for at in range(0, size, LEAST_IN_PLACE):
            piece = rows[at : at + LEAST_IN_PLACE]
            piece[...] = piece[:, order]
        if (weights == 1).all():
            return Batch(sort_owned(rows), weights)
        return Batch(*consolidate_owned(rows, weights))

    def __repr__(self) -> str:
        return f"Batch({len(self)} rows x {self.arity})"


def _rearranged_by_ranges(held: list[Batch], order: Codes) -> Batch:
    """Remove the only batch of a list and return it as `rearranged`; nobody else reads it."""
    weights = held[0].weights
    parts = [(held[0].rows, weights)]
    held.clear()
    rows, sums = sort_parts(parts, order, distinct=True, owned=True)
    return Batch(rows, sums if len(sums) else weights)


def _is_sole(held: list[Batch]) -> bool:
    """Return whether the list has the only reference to a batch, and nobody else to its rows.

    Its weights are not shared either, or all of them are 1, which sorting does not change.
    """
    # An item of a list or an attribute is a temporary reference, and the second one is its place.
    return (
        getrefcount(held[0]) == 2
        and held[0].rows.base is None
        and getrefcount(held[0].rows) == 2
        and (
            (held[0].weights.base is None and getrefcount(held[0].weights) == 2)
            or bool((held[0].weights == 1).all())
        )
    )


def add_into(rows: StoredRows, weights: Codes, batch: Batch, other: Batch, sign: int) -> int:
    """Write batch + sign * other into arrays with room for the rows of both; return how many rows
    that are. O(rows of both).

    Raises OverflowError if a weight is outside int64.
    """
    table = np.array([batch.entry, other.entry, run_entry(rows, weights)], np.int64)
    if sign < 0:
        return subtract_runs(table, batch.arity)
    state = np.zeros(4, np.int64)
    merge_runs(table, batch.arity, state, len(rows))
    return int(state[2])


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
    arity = parts[0][0].shape[1]
    packed = sum_parts(parts, owned=owned) if size >= packed_sum.LARGE and arity else None
    if packed is not None:
        batch = Batch(*packed)
    elif size >= range_sort.LARGE and arity and (len(parts) > 1 or not is_sorted(parts[0][0])):
        # The rows do not fit a word.
        batch = Batch(*sort_parts(parts, np.arange(arity), owned=owned))
    elif owned and size >= LEAST_IN_PLACE:
        batch = Batch(*consolidate_owned(*_moved(parts, size)))
        if 2 * len(batch) < size:
            batch = Batch(batch.rows.copy(), batch.weights.copy())  # releases the rest of the memory
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


def _moved(parts: list[tuple[Codes, Codes]], size: int) -> tuple[Codes, Codes]:
    """Return the rows and weights of all parts, and release each part when it has been copied."""
    if len(parts) == 1:
        return parts.pop()
    rows = np.empty((size, parts[0][0].shape[1]), np.int64)
    weights = np.empty(size, np.int64)
    parts.reverse()
    at = 0
    while parts:
        part, given = parts.pop()
        rows[at : at + len(given)] = part
        weights[at : at + len(given)] = given
        at += len(given)
    return rows, weights


def merge_sorted(parts: Sequence[Batch]) -> Batch | None:
    """Return the sum of batches, or None if it is empty. O(rows log batches)."""
    pieces = list(parts)
    while len(pieces) > 1:
        pairs = zip(pieces[::2], pieces[1::2], strict=False)
        pieces = [older.plus(newer) for older, newer in pairs] + pieces[len(pieces) // 2 * 2 :]
    return (pieces[0] or None) if pieces else None


def sum_if_any(batch: Batch | None, other: Batch | None, sign: int) -> Batch | None:
    """Return a batch plus `sign` times another one; None if the sum is empty. A linear merge."""
    if other is None:
        return batch or None
    if batch is None:
        batch = Batch.empty(other.arity)
    return batch.plus(other, sign) or None
