"""The cost model: the costs of the engine's steps, and the cost of a plan.

The figures are nanoseconds on one core of a current server. They are fitted to joins that create
0.1 M to 25 M rows from graphs of 0.2 M edges. Only their ratios affect a choice.
"""

from __future__ import annotations

import math

from dbsp.lazy_dataclass import dataclass

ROW = 65.0
"""The cost of creating a result row: write, sort, add up."""

TRACE = 60.0
"""The cost of storing a row in a trace: sort it into a run, and its share of merging runs."""

SPACE = ((5e6, 200.0), (50e6, 10_000.0))
"""(rows, ns): the cost of memory for each stored row beyond a number of rows."""

COUNT = 80.0
"""The cost of looking up a prefix in the trace of an atom of a multi-way join, mostly unsorted."""

PROBE = 25.0
"""The cost of looking up a proposed value in the trace of another atom, in sorted order."""

NODE = 10_000.0
"""The cost of stepping one operator with few changed rows."""

TICK = 30.0
"""The assumed number of changed rows per tick, over which the cost of steps is spread."""

ACYCLIC_MARGIN = 0.8
"""An acyclic query gets a multi-way node only if its cost is below this fraction of two-way joins:
the cost of two-way joins over sorted batches depends less on the quality of the estimates."""


def visit(rows: float) -> float:
    """Return the cost of looking up or inserting a changed row in a trace.

    It grows when the trace exceeds the caches.
    """
    return 20.0 + 120.0 * max(0.0, math.log10(max(1.0, rows) / 1e5))


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a plan.

    Args:
        load: the time in ns of joins to load all rows.
        change: the time in ns per changed row, averaged over the relations.
        kept: the number of rows in the traces of the plan.
        rows: the mean number of rows of a relation; each is assumed to change once after loading.
    """

    load: float
    change: float
    kept: float
    rows: float

    @property
    def total(self) -> float:
        """The cost that the planner minimises: load and store every row, then change as many
        rows."""
        space = sum(max(0.0, self.kept - rows) * worth for rows, worth in SPACE)
        return self.load + self.kept * TRACE + space + self.change * self.rows
