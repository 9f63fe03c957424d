"""Counted tables: run tables whose runs have totals, for kernels that read positions.

See `dbsp.kernels.counted_runs`. The totals of a run are computed when a table needs them for the
first time. A run never changes, so a row takes part in this as often as in a merge.
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels import total_blocks
from dbsp.kernels.arrays import Codes, Rows
from dbsp.state.sorted_run import SortedRun
from dbsp.state.trace import Trace

COUNTED = 256
"""A smaller run has no totals."""


def counted_table(*parts: tuple[Trace, int]) -> Rows:
    """Return the counted table of the first runs of some traces; each part is (trace, count).

    The table is valid until one of the traces changes.
    """
    tables = []
    for trace, count in parts:
        if not count:  # as almost always that of missing weights
            continue
        table = np.zeros((count, 5), np.int64)
        table[:, :3] = trace.table[:count]
        table[:, 4] = trace.width
        for index, run in enumerate([*trace.runs, *trace.current][:count]):
            if run.size >= COUNTED and len(run.stored) == run.size:
                table[index, 3] = _totals(run).ctypes.data
        tables.append(table)
    if len(tables) == 1:
        return tables[0]
    return np.concatenate(tables) if tables else np.zeros((0, 5), np.int64)


def _totals(run: SortedRun) -> Codes:
    if run.totals is None:
        run.totals = total_blocks(run.stored)
    return run.totals
