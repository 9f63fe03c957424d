"""The least or greatest value, or the OR or AND of the values, of groups in a nested scope.

The same result as recomputing the groups (see `dbsp.operators.groups.group_step`) in one pass over
their rows: a recursion that keeps one bound per key spends most of its time here. The integral of
the result is computed from the arrangement, so the scope can restart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import Arranged, KeepingStep, expect_arranged
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.errors import CircuitError, expect_present
from dbsp.kernels import bound_timed_groups, consolidate, gather
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.groups.group_step import RecomputeGroups, Reduce
from dbsp.operators.traces.agenda import Agenda, AgendaStep
from dbsp.operators.traces.arrange import own_trace


@dataclass(frozen=True)
class BoundedGroups(RecomputeGroups):
    """Aggregates of the form (key, bound of the last column), in a scope of depth one."""

    @property
    def keeps_integral(self) -> bool:
        return True

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        super().check_inputs(graph, inputs)
        if self.operator.bound(self.over) is None or graph.depth != 1:
            raise CircuitError(
                "expected an aggregate that is a bound of the last column, in a scope of depth one",
                code="invalid-circuit-file",
            )

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        (source,) = expect_arranged(node, sources)
        reduce = self.operator.function(scope.interner, self.over)
        bound = expect_present(self.operator.bound(self.over), "the bound of the groups")
        return TimedBoundsStep(source, self.over.arity - 1, bound, reduce, scope)


class TimedBoundsStep(AgendaStep, KeepingStep):
    """One bound per group in a scope of depth one; the source has the columns (key, value)."""

    __slots__ = ("_agenda", "_bound", "_key", "_reduce", "_scope", "_source", "_trace")

    def __init__(self, source: Arranged, key: int, bound: int, reduce: Reduce, scope: StepScope) -> None:
        super().__init__()
        self._reduce = reduce
        self._source = source
        self._trace = own_trace(source)
        self._key = key
        self._bound = bound
        self._scope = scope
        self._agenda = Agenda(scope)

    def integral(self) -> Batch:
        return self._reduce(self._source.integral())

    @property
    def kept_rows(self) -> int:
        return self._source.kept_rows

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
