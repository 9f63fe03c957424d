"""What the engine's steps cost, relative to each other, and what a plan costs in all.

The figures are nanoseconds on one core of a current server, fitted to joins that make 0.1 M to 25 M rows
from graphs of 0.2 M edges; only their proportions matter to a choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

ROW = 65.0
"""To make one row of a result: write, sort, add up."""

TRACE = 60.0
"""To keep one row in a trace: sort it into a run, and its part in merging runs."""

SPACE = ((5e6, 200.0), (50e6, 10_000.0))
"""(rows, ns): what the memory of each row kept beyond so many is worth, more where it becomes scarce."""

COUNT = 80.0
"""To look one prefix up in the trace of one atom of a multi-way join; mostly they come in no order."""

PROBE = 25.0
"""To look one proposed value up in the trace of one more atom; they come in order."""

NODE = 10_000.0
"""To step one operator with few changed rows."""

TICK = 30.0
"""So many changed rows a tick is taken to bring when the cost of steps is spread over them."""

ACYCLIC_MARGIN = 0.8
"""An acyclic query gets a multi-way node only if that costs so much less: two-way joins pass sorted
batches along, which depends less on how well the fan-outs were estimated."""


def visit(rows: float) -> float:
    """To look one changed row up in a trace, or to put it there: more where the trace outgrows the caches."""
    return 20.0 + 120.0 * max(0.0, math.log10(max(1.0, rows) / 1e5))


@dataclass(frozen=True, slots=True)
class Cost:
    """The work of a plan.

    Args:
        load: ns of joining to load all rows.
        change: ns per changed row, averaged over the relations.
        kept: rows in the traces that the plan keeps.
        rows: rows of a relation, on average; each is taken to change once after the loading.
    """

    load: float
    change: float
    kept: float
    rows: float

    @property
    def total(self) -> float:
        """What the planner minimises: load every row, keep it, and change as many rows again."""
        space = sum(max(0.0, self.kept - rows) * worth for rows, worth in SPACE)
        return self.load + self.kept * TRACE + space + self.change * self.rows
