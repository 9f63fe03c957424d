"""A batch of rows as runs store them, often in 32 bits and without weights.

The other form is made when somebody reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from dbsp.data.batch import Batch, add_into, combine
from dbsp.kernels import count_different, narrow_rows, sum_repeated
from dbsp.kernels.arrays import Codes, StoredRows
from dbsp.kernels.narrow_rows import copied_rows, empty_rows, first_in_place, fit_narrow, widened
from dbsp.kernels.run_tables import run_entry
from dbsp.parallel.narrow_sort import sort_narrow


def stored_rows(batch: Batch) -> StoredRows:
    """Return the rows of a batch as they are stored, without a copy."""
    return batch.codes if isinstance(batch, RunBatch) else batch.rows


def sum_of_sorted(batches: Sequence[Batch]) -> Batch | None:
    """Return the sum of batches, or None if it is empty.

    If one of them has most of many rows, the others are merged with it; else all are sorted.
    """
    largest = max(batches, key=len, default=None)
    if largest is None or not narrow_rows.LARGE <= sum(map(len, batches)) < 2 * len(largest):
        return combine([(batch.rows, batch.weights) for batch in batches])
    others = combine([(batch.rows, batch.weights) for batch in batches if batch is not largest])
    return largest if others is None else largest.plus(others) or None


def sum_in_place(held: list[StoredRows]) -> Batch | None:
    """Return the sum of narrow rows of weight 1, which are sorted in their own memory.

    `held` contains at least one row, which nobody else may read, and is emptied. Returns None if
    the rows cannot be sorted in 32 bits; then nothing has changed. O(n) per 11 bits of a row.
    """
    rows = held[0]
    width = rows.shape[1]
    if not sort_narrow(rows, np.arange(width)):
        return None
    one = np.ones(1, np.int64)
    word, _, size = run_entry(rows, one)
    different = count_different(word, width, size)
    if different == size:
        return RunBatch(held.pop(), one)
    counts = np.empty(different, np.int64)
    sum_repeated(word, width, size, counts)
    if different < narrow_rows.LARGE:
        return Batch(widened(rows[:different]), counts)
    del rows
    return RunBatch(first_in_place(held, different), counts)


class RunBatch(Batch):
    """A batch of the codes of a sorted run; `rows` and `weights` are made when they are first read.

    `stored` are the weights, or a single 1 if all of them are 1. So the result of a load takes no
    memory beside the state if its caller looks at views only.
    """

    __slots__ = ("codes", "stored")

    def __init__(self, codes: StoredRows, stored: Codes) -> None:
        self.codes = codes
        self.stored = stored

    def __getattr__(self, name: str) -> Any:  # called for attributes that are not set
        if name == "rows":
            self.rows = widened(self.codes)
            return self.rows
        if name == "weights":
            size = len(self.codes)
            self.weights = self.stored if len(self.stored) == size else np.ones(size, np.int64)
            return self.weights
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def entry(self) -> tuple[int, int, int]:
        return run_entry(self.codes, self.stored)

    @property
    def arity(self) -> int:
        return int(self.codes.shape[1])

    @property
    def total(self) -> int:
        return super().total if len(self.stored) == len(self.codes) else len(self.codes)

    @property
    def units(self) -> bool:
        return bool((self.stored == 1).all())

    def with_units(self) -> Batch:
        return RunBatch(self.codes, np.ones(1, np.int64))

    def part(self, place: slice) -> Batch:
        """Return some of the rows as a batch of its own. O(rows of the part)."""
        codes = widened(self.codes[place])
        stored = self.stored
        return Batch(codes, stored[place] if len(stored) == len(self) else np.ones(len(codes), np.int64))

    def rearranged(self, order: Codes) -> Batch:
        if self.codes.itemsize == 4 and len(self.stored) < len(self):
            codes = copied_rows([self.codes], range(len(order)))
            if codes.itemsize == 4 and sort_narrow(codes, order):
                return RunBatch(codes, self.stored)
        return super().rearranged(order)

    def projected(self, columns: Codes) -> Batch:
        if self.codes.itemsize == 4 and len(self.stored) < len(self) and len(columns):
            held = [copied_rows([self.codes], columns.tolist())]
            found = sum_in_place(held) if held[0].itemsize == 4 else None
            if found is not None:
                return found
        return super().projected(columns)

    def plus(self, other: Batch, sign: int = 1) -> Batch:
        size = len(self) + len(other)
        if self.codes.itemsize == 8 or not fit_narrow(stored_rows(other)):
            return super().plus(other, sign)
        codes, weights = empty_rows(size, self.arity, True), np.empty(size, np.int64)
        kept = add_into(codes, weights, self, other, sign)
        weights.resize(kept, refcheck=False)
        if kept < narrow_rows.LARGE:
            return Batch(widened(codes[:kept]), weights)
        held = [codes]
        del codes
        return RunBatch(first_in_place(held, kept), weights)

    @staticmethod
    def rearrange_sole(held: list[Batch], order: Codes) -> Batch | None:
        """As the method of `Batch`, for narrow rows with weight 1; None for others."""
        # An item of a list or an attribute is a temporary reference, and the second one is its
        # place.
        batch = held[0]
        if not isinstance(batch, RunBatch) or batch.codes.itemsize == 8 or len(batch.stored) == len(batch):
            return None
        del batch
        sole = getrefcount(held[0]) == 2 and getrefcount(held[0].codes) == 2  # type: ignore[attr-defined]
        if not sole or not sort_narrow(held[0].codes, order):  # type: ignore[attr-defined]
            return None
        return RunBatch(held.pop().codes, np.ones(1, np.int64))  # type: ignore[attr-defined]
