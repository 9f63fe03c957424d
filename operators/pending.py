"""What waits for a later iteration of a nested scope.

Everything put for one iteration accumulates until that iteration takes it; nothing is overwritten.
"""

from __future__ import annotations

import numpy as np
from sortedcontainers import SortedDict

from dbsp.batch import Codes


class Pending:
    """Rows with weights, by the iteration in which they fall due."""

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due: SortedDict[int, list[tuple[Codes, Codes]]] = SortedDict()

    def put(self, rows: Codes, weights: Codes, times: Codes) -> None:
        """Add rows int64[n, k] that fall due at `times` int64[n]. O(n log n)."""
        order = np.argsort(times, kind="stable")
        times = times[order]
        starts = np.flatnonzero(np.r_[True, times[1:] != times[:-1]])
        ends = np.append(starts[1:], len(times))
        rows, weights = rows[order], weights[order]
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            self._due.setdefault(int(times[start]), []).append((rows[start:end], weights[start:end]))

    def take(self, time: int) -> list[tuple[Codes, Codes]]:
        """Remove and return everything due at `time`."""
        taken: list[tuple[Codes, Codes]] = self._due.pop(time, []) if self._due else []
        return taken

    def next(self) -> int | None:
        """The earliest iteration anything is due at."""
        return int(self._due.peekitem(0)[0]) if self._due else None

    def clear(self) -> None:
        self._due.clear()
