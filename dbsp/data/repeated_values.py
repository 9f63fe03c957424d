"""An interner in which a value may have several ids, to decode rows of the past."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dbsp.data.interner import CELL, Interner
from dbsp.data.types import Layout
from dbsp.kernels.arrays import Codes


class RepeatedValues(Interner):
    """The values of rows that were written while values were freed, and got new ids later.

    It decodes; `find` and `encode` do not know the values that were put.
    """

    __slots__ = ()

    @classmethod
    def before(cls, interner: Interner, end: int) -> RepeatedValues:
        """Return a copy of the values with ids below `end`. O(n)."""
        copy = cls()
        copy.fill(interner, interner.ids < end, end)
        return copy

    def put_plain(self, values: Sequence[str] | Sequence[bytes], ids: Codes) -> None:
        self._values.extend(values)

    def put(self, value: Any, code: int) -> None:
        self._values.append(value)

    def put_constructed(self, layout: Layout, rows: Codes, ids: Codes) -> None:
        self.cells.put_repeated(layout, np.ascontiguousarray(rows), ids)
        self._values.extend([CELL] * len(ids))
