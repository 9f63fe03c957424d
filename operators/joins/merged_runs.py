"""The runs of an arrangement as one run, for the terms of one step with a large delta.

A term searches each run of an arrangement, and a value that is in several runs has several lists of
rows. The run of a large delta shares most values with the runs before it, so its terms take twice
as long as with one run. The merge takes less, and all terms of the step share it.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from dbsp.circuit.step_roles import Arranged
from dbsp.kernels.arrays import Codes
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.traces.arrange import ArrangeStep
from dbsp.state.sorted_run import SortedRun

LARGE = 1 << 10
"""Deltas of fewer rows read the runs as they are."""

SHARE = 8
"""Runs are merged if they have at most this many rows for each row of the delta. Then the trace
merges about as many after the tick."""


@dataclass
class MergedRuns:
    """The merged runs of one step."""

    _tables: dict[tuple[Arranged, int], tuple[Codes, SortedRun]] = field(default_factory=dict)
    """The run table for the oldest runs of an arrangement, and the run in it."""

    def table_of(self, side: Arranged, runs: int, changed: int) -> Codes | None:
        """Return the table of one run with the rows of the oldest runs; None to read them as they
        are.

        `changed` is the number of rows of the delta. O(rows) at the first call. The table and its
        run live as long as this object.
        """
        if runs < 2 or changed < LARGE or not isinstance(side, ArrangeStep):
            return None
        found = self._tables.get((side, runs))
        if found is None:
            trace = side.trace
            if trace.rows > SHARE * changed:
                return None
            run = trace.oldest(runs)
            if run is None:
                return None
            found = np.array([run.entry()], np.int64), run
            self._tables[side, runs] = found
        return found[0]
