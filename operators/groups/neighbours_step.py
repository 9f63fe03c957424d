"""Recomputing the neighbours of changed rows: the incremental form of lag and lead.

The rows of a partition are in an arrangement by (partition, order). A *block* is the rows that
agree in these columns. A change in a block v changes the results of v and of the rows up to n
copies away from it, for an offset of n. So a tick reads

    W = the blocks from n copies before v to n copies after v, counted after the tick

as they are before and after the tick, and recomputes them as if they were the partition. (Counted
before the tick, W could be wider only if another block in W changed, whose own W reaches as far.)
The results of the rows in W that are near its end are wrong, and they are equally wrong before and
after the tick: these rows and their neighbours in W do not change. So they cancel in the
difference, which is exact. Overlapping parts of one partition are joined; the last n copies of a
part do not change, so several parts may be recomputed together.

Both versions of W are recomputed at once (see `dbsp.operators.groups.version_column`).

Cost: O(n + rows of the blocks) per changed block, times the number of sorted runs and a search of
O(log rows). A tick that changes a large part of the trace recomputes the partitions instead.
"""

from __future__ import annotations

import numpy as np

from dbsp.circuit.step_roles import Arranged
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.kernels import gather_versions, project, reach_around
from dbsp.kernels.arrays import Rows
from dbsp.kernels.jit import expect_calls
from dbsp.operators.groups.group_step import GroupsStep, Reduce
from dbsp.operators.groups.version_column import VersionColumn

LARGE = 16
"""A tick that changes one row of so many recomputes whole partitions."""


class BlocksStep(GroupsStep):
    """Recomputes some blocks of a partition, or whole partitions if the tick is large.

    The source is arranged by the `key` columns of the partition, and then by `leading` columns of
    the order. `versions` is the function for rows with their version in a last column, by which it
    divides the partitions; it keeps the columns, and appends one.
    """

    __slots__ = ("_block", "_version", "_versions")

    def __init__(
        self,
        source: Arranged,
        key: int,
        leading: int,
        reduce: Reduce,
        versions: Reduce,
        scope: StepScope,
    ) -> None:
        super().__init__(source, key, reduce, scope)
        self._block = np.arange(key + leading)
        self._versions = versions
        self._version = VersionColumn(self._trace.width, self._trace.width + 2)
        expect_calls(gather_versions)

    def is_large(self, batch: Batch) -> bool:
        """Whether a tick is better recomputed by partitions."""
        return LARGE * len(batch) > self._trace.rows

    def recomputed(self, starts: Rows, ends: Rows) -> Batch:
        """Return the results of the rows of these ranges of blocks, before and after the tick."""
        source, width = self._source, self._trace.width
        rows = gather_versions(starts, ends, source.table, source.before, source.count, width)
        return self._versions(Batch(*rows))


class NeighboursStep(BlocksStep):
    """Recomputes the rows within `copies` of the changed blocks of a partition."""

    __slots__ = ("_copies",)

    def __init__(
        self,
        source: Arranged,
        key: int,
        leading: int,
        copies: int,
        reduce: Reduce,
        versions: Reduce,
        scope: StepScope,
    ) -> None:
        super().__init__(source, key, leading, reduce, versions, scope)
        self._copies = copies
        expect_calls(project, reach_around)

    def step(self) -> None:
        batch = self._source.out
        if batch is None or self.is_large(batch):
            super().step()
            return
        source = self._source
        blocks, _ = project(batch.rows, np.ones(len(batch), np.int64), self._block)
        starts, ends = reach_around(
            blocks, self._key, self._copies, source.table, source.count, self._trace.width
        )
        self.out = self._version.difference(self.recomputed(starts, ends))
