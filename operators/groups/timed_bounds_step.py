"""The least or greatest value, or the OR or AND of the values, of groups in a nested scope.

The same result as recomputing the groups (see `dbsp.operators.groups.group_step`) in one pass over
their rows: a recursion that keeps one bound per key spends most of its time here.
"""

from __future__ import annotations

import numpy as np

from dbsp.circuit.step_roles import Arranged
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.kernels import bound_timed_groups, consolidate, gather
from dbsp.operators.traces.agenda import Agenda, AgendaStep
from dbsp.operators.traces.arrange import own_trace


class TimedBoundsStep(AgendaStep):
    """One bound per group in a scope of depth one; the source has the columns (key, value)."""

    __slots__ = ("_agenda", "_bound", "_key", "_scope", "_source", "_trace")

    def __init__(self, source: Arranged, key: int, bound: int, scope: StepScope) -> None:
        super().__init__()
        self._source = source
        self._trace = own_trace(source)
        self._key = key
        self._bound = bound
        self._scope = scope
        self._agenda = Agenda(scope)

    def step(self) -> None:
        self.out = None
        batch, key = self._source.out, self._key
        visited = [keys for keys, _ in self._agenda.take()]
        if batch is not None:
            visited.append(batch.rows[:, :key])
        if not visited:
            return
        groups = np.ascontiguousarray(np.concatenate(visited))
        keys, _ = consolidate(groups, np.ones(len(groups), np.int64))
        trace = self._trace
        rows, weights, past = gather(keys, key, trace.table, trace.count, trace.width, trace.past)
        phased = np.empty((len(rows), trace.width + 1), np.int64)
        phased[:, :-1] = rows
        phased[:past, -1] = 0
        phased[past:, -1] = 1
        phased, weights = consolidate(phased, weights)
        rows, weights, later, times = bound_timed_groups(
            phased, weights, key, self._scope.iteration, self._bound
        )
        if len(times):
            self._agenda.put(later, np.ones(len(times), np.int64), times.reshape(-1, 1))
        rows, weights = consolidate(rows, weights)
        if len(weights):
            self.out = Batch(rows, weights)
