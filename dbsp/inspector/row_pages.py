"""Pages of rows for the page: a part of a Z-set, sorted, with the text of every value."""

from __future__ import annotations

from typing import Any

import numpy as np

from dbsp.data.value_order import value_order
from dbsp.data.zset import ZSet
from dbsp.io.results import literal_of, text_of
from dbsp.kernels.arrays import Codes
from dbsp.lazy_dataclass import dataclass

PAGE = 50
"""The number of rows of a page."""

SEARCHED = 200_000
"""The number of rows that one search reads."""

_CELL = 500
"""The number of characters of a cell that a page shows."""

_CHUNK = 10_000


@dataclass(frozen=True)
class SortedRows:
    """The rows of a Z-set in the order of their values, as codes with their weights."""

    zset: ZSet
    rows: Codes
    weights: Codes

    @classmethod
    def of(cls, zset: ZSet) -> SortedRows:
        """Sort the rows of a Z-set. O(n log n)."""
        batch = zset.stored
        order = value_order(zset.schema, batch.rows, zset.interner)
        if order is None:
            return cls(zset, batch.rows, batch.weights)
        return cls(zset, batch.rows[order], batch.weights[order])

    def __len__(self) -> int:
        return len(self.weights)

    def row(self, index: int) -> tuple[Any, ...]:
        """Return the values of one row."""
        return self.zset.schema.decode_rows(self.rows[index : index + 1], self.zset.interner)[0]

    def page(self, offset: int, search: str) -> dict[str, Any]:
        """Return the rows from `offset` on that contain the text `search` in some value.

        `matching` is the number of such rows; `searched` is less than `total` if there are too many
        rows to search all of them.
        """
        if search:
            searched = min(len(self), SEARCHED)
            places = np.array(self._matches(search.casefold(), searched), np.int64)
        else:
            searched = len(self)
            places = np.arange(offset, min(offset + PAGE, searched))
        matching = len(places) if search else searched
        shown = places[offset : offset + PAGE] if search else places
        decoded = self.zset.schema.decode_rows(self.rows[shown], self.zset.interner)
        return {
            "total": len(self),
            "matching": matching,
            "searched": searched,
            "offset": offset,
            "limit": PAGE,
            "rows": [
                {"index": index, "weight": str(weight), "cells": [_shown(value) for value in row]}
                for index, weight, row in zip(
                    shown.tolist(), self.weights[shown].tolist(), decoded, strict=True
                )
            ],
        }

    def _matches(self, search: str, searched: int) -> list[int]:
        """Return the places of the rows with a value that contains the text."""
        found = []
        for start in range(0, searched, _CHUNK):
            part = self.rows[start : min(start + _CHUNK, searched)]
            for place, row in enumerate(self.zset.schema.decode_rows(part, self.zset.interner), start):
                if any(search in text_of(value).casefold() for value in row):
                    found.append(place)
        return found


def _shown(value: Any) -> str:
    text = literal_of(value)
    return text if len(text) <= _CELL else f"{text[:_CELL]}… ({len(text):,} characters)"
