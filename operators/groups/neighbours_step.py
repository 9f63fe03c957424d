"""Recomputing the neighbours of changed rows: the incremental form of lag and lead.

The rows of a partition are in an arrangement by (partition, order). A *block* is the rows that
agree in these columns. A change in a block v changes the results of v and of the rows up to n
copies away from it, for an offset of n. So a tick reads

    W = the blocks from n copies before v to n copies after v, before and after the tick

and recomputes these as if they were the partition. The results of the rows in W that are near its
end are wrong, and they are equally wrong before and after the tick: these rows and their neighbours
in W do not change. So they cancel in the difference, which is exact. Overlapping parts of one
partition are joined; the last n copies of a part do not change, so several parts may be recomputed
together.

Cost: O(n + rows of the blocks) per changed block, times the number of sorted runs and a search of
O(log rows). A tick that changes a large part of the trace recomputes the partitions instead.
"""

from __future__ import annotations

import numpy as np

from dbsp.circuit.step_roles import Arranged
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.kernels import consolidate, gather_bands, project, reach_copies
from dbsp.kernels.arrays import Codes, Mask, Rows
from dbsp.kernels.jit import expect_calls
from dbsp.operators.groups.group_step import GroupsStep, Reduce

LARGE = 16
"""A tick that changes one row of so many recomputes whole partitions."""


class BlocksStep(GroupsStep):
    """Recomputes some blocks of a partition, or whole partitions if the tick is large.

    The source is arranged by the `key` columns of the partition, and then by `leading` columns of
    the order.
    """

    __slots__ = ("_block",)

    def __init__(self, source: Arranged, key: int, leading: int, reduce: Reduce, scope: StepScope) -> None:
        super().__init__(source, key, reduce, scope)
        self._block = np.arange(key + leading)
        expect_calls(gather_bands)

    def is_large(self, batch: Batch) -> bool:
        """Whether a tick is better recomputed by partitions."""
        return LARGE * len(batch) > self._trace.rows

    def rows_between(self, starts: Rows, ends: Rows, runs: int) -> Batch:
        """Return the rows of these ranges of blocks, from the first runs of the source."""
        return Batch(*consolidate(*gather_bands(starts, ends, self._source.table, runs, self._trace.width)))


class NeighboursStep(BlocksStep):
    """Recomputes the rows within `copies` of the changed blocks of a partition."""

    __slots__ = ("_copies",)

    def __init__(
        self, source: Arranged, key: int, leading: int, copies: int, reduce: Reduce, scope: StepScope
    ) -> None:
        super().__init__(source, key, leading, reduce, scope)
        self._copies = copies
        expect_calls(reach_copies)

    def step(self) -> None:
        batch = self._source.out
        if batch is None or self.is_large(batch):
            super().step()
            return
        blocks, _ = project(batch.rows, np.ones(len(batch), np.int64), self._block)
        starts, ends = self._bounds(blocks)
        if len(blocks) > 1:
            apart = _less(ends[:-1], starts[1:])
            starts, ends = starts[np.append(True, apart)], ends[np.append(apart, True)]
        after = self._reduce(self.rows_between(starts, ends, self._source.count))
        before = self._reduce(self.rows_between(starts, ends, self._source.before))
        change = after.plus(before, -1)
        self.out = change if len(change) else None

    def _bounds(self, blocks: Rows) -> tuple[Rows, Rows]:
        """Return the first and the last block within reach of each block, before or after."""
        source, width = self._source, self._trace.width
        reached = [
            [
                reach_copies(blocks, self._key, self._copies, source.table, runs, width, forward)
                for runs in (source.before, source.count)
            ]
            for forward in (False, True)
        ]
        (first, other_first), (last, other_last) = reached
        starts = np.where(_less(first, other_first)[:, np.newaxis], first, other_first)
        ends = np.where(_less(last, other_last)[:, np.newaxis], other_last, last)
        return starts, ends


def _less(a: Codes, b: Codes) -> Mask:
    """Return for each pair of rows whether the first one sorts before the other."""
    different = a != b
    if not a.shape[1]:
        return np.zeros(len(a), np.bool_)
    column = np.argmax(different, axis=1)
    at = np.arange(len(a))
    less: Mask = a[at, column] < b[at, column]
    return less
