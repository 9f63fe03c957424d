"""The rows of one relation, with lookup by any columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbsp.data.distinct_codes import distinct_codes
from dbsp.data.key_order import key_order
from dbsp.data.schema import Schema
from dbsp.kernels.arrays import Codes, Mask


class FactTable:
    """Rows of a relation as int64[n, arity] codes, and for each the height of its smallest proof.

    `underived` marks the rows that were derived from removed rows only (see
    `dbsp.compiler.why.heights`); None stands for no row.

    `find` looks keys up in an index over the given columns. The first lookup by these columns
    builds the index in O(n log n).
    """

    def __init__(self, schema: Schema, rows: Codes, heights: Codes, underived: Mask | None = None) -> None:
        self.schema = schema
        self.rows = rows
        self.heights = heights
        self.underived = underived
        self._indexes: dict[tuple[int, ...], _Index] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def empty(self) -> FactTable:
        """Return a table of the same relation without rows."""
        return FactTable(self.schema, self.rows[:0], self.heights[:0])

    def find(self, columns: Sequence[int], keys: Codes) -> tuple[Codes, Codes]:
        """Return the positions of keys and rows that match: equal values in these columns.

        `keys` is int64[m, len(columns)]. The pairs are sorted by key, then by height of the row.
        O(m log n + pairs).
        """
        if not columns:
            pairs = len(keys) * len(self)
            order = np.argsort(self.heights, kind="stable")
            return np.repeat(np.arange(len(keys)), len(self)), np.resize(order, pairs)
        index = self._indexes.get(tuple(columns))
        if index is None:
            index = self._indexes[tuple(columns)] = _Index(self.rows[:, list(columns)], self.heights)
        return index.find(keys)

    def positions(self, rows: Codes) -> Codes:
        """Return the positions of those of the rows int64[m, arity] that are in the table."""
        return self.find(range(self.schema.arity), rows)[1]

    def contains(self, rows: Codes) -> Mask:
        """Return which of the rows int64[m, arity] are in the table. O(m log n)."""
        present = np.zeros(len(rows), np.bool_)
        present[self.find(range(self.schema.arity), rows)[0]] = True
        return present


class _Index:
    """Positions of rows sorted by a key of several columns.

    The distinct prefixes of the key are numbered in sorted order, column by column. So a prefix is
    one number, and a search for it is one binary search. There are at most as many prefixes as
    rows, so the number of a prefix and the rank of the next value fit into one word.
    """

    def __init__(self, keys: Codes, heights: Codes) -> None:
        self._levels: list[tuple[Codes, Codes]] = []
        number = np.zeros(len(keys), np.int64)
        for column in keys.T:
            values, rank = distinct_codes(column)
            prefixes, number = distinct_codes(number * len(values) + rank)
            self._levels.append((values, prefixes))
        self._order = key_order([number, heights])
        last = self._levels[-1][1]
        self._starts = np.searchsorted(number[self._order], np.arange(len(last) + 1))

    def find(self, keys: Codes) -> tuple[Codes, Codes]:
        if not len(self._order):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        number = np.zeros(len(keys), np.int64)
        known = np.ones(len(keys), bool)
        for (values, prefixes), column in zip(self._levels, keys.T, strict=True):
            rank, present = _position(values, column)
            known &= present
            number, present = _position(prefixes, number * len(values) + rank)
            known &= present
        first = np.where(known, self._starts[number], 0)
        counts = np.where(known, self._starts[number + 1] - first, 0)
        of_key = np.repeat(np.arange(len(keys)), counts)
        before = np.repeat(np.cumsum(counts) - counts, counts)
        return of_key, self._order[np.repeat(first, counts) + np.arange(len(of_key)) - before]


def _position(values: Codes, wanted: Codes) -> tuple[Codes, Codes]:
    """Return the positions of `wanted` in the sorted values (0 if missing) and which are
    present."""
    position = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    present = values[position] == wanted
    return np.where(present, position, 0), present
