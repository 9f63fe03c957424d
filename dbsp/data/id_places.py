"""The places of values by their ids: ids are never reused, so those of freed values are holes."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import numpy as np

from dbsp.kernels import consolidate
from dbsp.kernels.arrays import Codes

_NONE: Final = np.empty(0, np.int64)


class IdPlaces:
    """Maps the ids of an interner to places 0, 1, 2, ... in the order of the ids.

    The ids below `base` that have a value are in `kept`, sorted; all ids from `base` on have one.
    `shift` is the difference of id and place from `base` on. Before values are freed, all are 0.
    """

    __slots__ = ("_searched", "base", "kept", "shift")

    def __init__(self) -> None:
        self.kept: Codes = _NONE
        self._searched = self.kept.data
        self.base = 0
        self.shift = 0

    def __getstate__(self) -> tuple[Codes, int, int]:
        return self.kept, self.base, self.shift

    def __setstate__(self, state: tuple[Codes, int, int]) -> None:
        self.kept, self.base, self.shift = state
        self._searched = self.kept.data

    @classmethod
    def of_ids(cls, ids: Codes, end: int) -> IdPlaces:
        """Return the places of these ids, sorted, if the next id is `end`."""
        places = cls()
        dense = len(ids)
        if len(ids) and ids[-1] == end - 1:
            gaps = np.flatnonzero(np.diff(ids) != 1)
            dense = int(gaps[-1]) + 1 if len(gaps) else 0
        places.kept = np.ascontiguousarray(ids[:dense])
        places._searched = places.kept.data
        places.base = int(ids[dense]) if dense < len(ids) else end
        places.shift = places.base - dense
        return places

    def ids(self, end: int) -> Codes:
        """Return all ids below `end` that have a value."""
        return np.concatenate((self.kept, np.arange(self.base, end)))

    def place(self, code: int) -> int:
        """Return the place of an id. Raises IndexError for another code below `base`."""
        place = self.find(code)
        if place < 0:
            raise no_value(code)
        return place

    def find(self, code: int) -> int:
        """Return the place of an id; -1 for another code below `base`."""
        if code >= self.base:
            return code - self.shift
        at = bisect_left(self._searched, code)
        return at if at < len(self._searched) and self._searched[at] == code else -1

    def of(self, codes: Codes) -> Codes:
        """Return the place of each id; negative for other codes below `base`.

        Returns `codes` itself if places and ids are the same.
        """
        if not self.base:
            return codes
        places: Codes = codes - self.shift
        old = codes < self.base
        if old.any():
            searched = codes[old]
            at = np.searchsorted(self.kept, searched)
            found = at < len(self.kept)
            found[found] = self.kept[at[found]] == searched[found]
            places[old] = np.where(found, at, -1)
        return places


def distinct_ids(ids: Codes) -> Codes:
    """Return each of the ids once, sorted: `np.unique` takes ten times as long for repeated ids."""
    rows, _ = consolidate(np.ascontiguousarray(ids).reshape(-1, 1), np.ones(len(ids), np.int64))
    return rows.reshape(-1)


def no_value(code: int) -> IndexError:
    """Return the error for a code that is not the id of a value."""
    return IndexError(f"expected an id of the interner, got {code}")
