"""Recomputing the ranks after changed rows: the incremental form of the ranks.

The rows of a partition are in an arrangement by (partition, order). A change moves the ranks of the
rows after it, up to the last change if the number of rows stays the same, else up to the end of the
partition. So a tick reads

    W = the rows from the first changed block to the last one, or to the end of the partition

before and after the tick, recomputes their ranks as if they were the partition, and adds the number
of rows before W, which does not change. Cost: O(log n) for n rows, plus the rows of W, which is as
many as the changed results unless rows tie. A *block* is the rows that agree in the order.

A row of negative weight counts as absent. The state has the missing weight of such rows, so that
rows can be counted by the totals of sorted runs (`dbsp.kernels.counted_runs`). A dense rank counts
blocks instead of rows, so its state also has the blocks that are present, with weight 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbsp.circuit.step_roles import Arranged
from dbsp.circuit.step_scope import StepScope
from dbsp.data.types import Type
from dbsp.kernels import count_beyond, count_values, moved_bands, project
from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.jit import expect_calls
from dbsp.operators.groups.group_step import Reduce
from dbsp.operators.groups.kept_state import MissingWeights, ValueWeights, weigh_delta
from dbsp.operators.groups.neighbours_step import BlocksStep
from dbsp.state.counted_tables import counted_table


class RankStep(BlocksStep):
    """Recomputes the ranks from the first changed block of a partition on.

    `partition` are the columns of the key in the input, by which the results begin.
    """

    __slots__ = ("_descending", "_missing", "_partition")

    def __init__(
        self,
        source: Arranged,
        partition: Sequence[int],
        leading: int,
        descending: bool,
        types: Sequence[Type],
        reduce: Reduce,
        versions: Reduce,
        scope: StepScope,
    ) -> None:
        super().__init__(source, len(partition), leading, reduce, versions, scope)
        self._partition = list(partition)
        self._descending = descending
        self._missing = MissingWeights(types, scope)
        expect_calls(count_beyond, moved_bands)

    def step(self) -> None:
        batch = self._source.out
        if batch is None:
            self.out = None
            return
        weighed = weigh_delta(batch, self._trace.width, self._trace, self._source.before)
        self._missing.follow(weighed)
        counted = self._counted(weighed)
        if self.is_large(batch):
            super().step()
            return
        keys, starts, ends, edges = moved_bands(*counted, self._key, len(self._block), self._descending)
        table = self._count_table()
        beyond = count_beyond(edges, self._key, table, len(table), self._descending)
        ranked = self.recomputed(starts, ends)
        ranked.rows[:, -1] += self._added(ranked.rows, keys, beyond)
        self.out = self._version.difference(ranked)

    def _counted(self, weighed: ValueWeights) -> ValueWeights:
        """Return how often each changed row counts, before and after the tick."""
        return ValueWeights(weighed.rows, *weighed.positive())

    def _count_table(self) -> Rows:
        """Return the counted table of the rows as often as they count."""
        missing = self._missing.trace
        return counted_table((self._trace, self._source.count), (missing, missing.count))

    def _added(self, rows: Rows, keys: Rows, beyond: Codes) -> Codes:
        """Return the number of rows before the ranges in the partition of each row."""
        if len(keys) == 1:
            return beyond
        # The keys are sorted and distinct, and each row has one of them.
        both = np.concatenate((keys, rows[:, self._partition]))
        _, number = np.unique(both, axis=0, return_inverse=True)
        return beyond[number.reshape(-1)[len(keys) :]]


class DenseRankStep(RankStep):
    """The same for dense ranks. The order is the first `leading` columns after the partition."""

    __slots__ = ("_present",)

    def __init__(
        self,
        source: Arranged,
        partition: Sequence[int],
        leading: int,
        descending: bool,
        types: Sequence[Type],
        reduce: Reduce,
        versions: Reduce,
        scope: StepScope,
    ) -> None:
        super().__init__(source, partition, leading, descending, types, reduce, versions, scope)
        self._present = scope.new_trace(len(self._block), types[: len(self._block)])
        expect_calls(count_values)

    def _counted(self, weighed: ValueWeights) -> ValueWeights:
        blocks, _ = project(weighed.rows, np.ones(len(weighed.rows), np.int64), self._block)
        present, rows = self._count_table(), super()._count_table()
        before = count_values(blocks, present, len(present), False)
        after = (count_values(blocks, rows, len(rows), False) > 0).astype(np.int64)
        moving = np.flatnonzero(after - before)
        if len(moving):
            self._present.append(blocks[moving], (after - before)[moving])
        return ValueWeights(blocks, before, after)

    def _count_table(self) -> Rows:
        return counted_table((self._present, self._present.count))
