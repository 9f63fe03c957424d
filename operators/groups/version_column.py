"""Functions of groups that are computed for the rows before a tick and after it at once.

The version of a row, 0 before the tick and 1 after it, is in a column of its own, by which the
function divides the groups. For a small change, its calls take longer than its rows.
"""

from __future__ import annotations

import numpy as np

from dbsp.data.batch import Batch
from dbsp.parallel.range_sort import consolidate


class VersionColumn:
    """The column of results that has their version."""

    __slots__ = ("_column", "_others")

    def __init__(self, column: int, arity: int) -> None:
        self._column = column
        self._others = np.array([each for each in range(arity) if each != column])

    def difference(self, results: Batch) -> Batch | None:
        """Return the results after the tick minus those before it; None if they are the same."""
        signs = 2 * results.rows[:, self._column] - 1
        change = Batch(*consolidate(results.rows.take(self._others, 1), results.weights * signs))
        return change if len(change) else None
