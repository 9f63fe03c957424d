"""Distinct: the set of the rows of positive weight.

    distinct(s)(x) = 1 if s(x) > 0 else 0

Incremental form (DBSP paper, arXiv 2203.16684, proposition 4.7): only rows of the delta can change,

    out(x) = [new(x) > 0] - [old(x) > 0]

with old and new the weight of x in the integral before and after the delta. In a nested scope this
holds at each iteration, and the output may change again at a later iteration in which the row
changed in earlier ticks: such rows wait on an agenda. Cost: O(|delta| log n).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dbsp.circuit.field_ranges import ONE_INPUT
from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.rewriting import Rewriting
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import (
    Arranged,
    KeepingStep,
    ReplayingStep,
    ResettingStep,
    TracedStep,
    expect_arranged,
)
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.kernels import (
    concatenate,
    consolidate,
    distinct_timed_runs,
    gather,
    project,
)
from dbsp.operators.groups.group_step import TimedGroupsStep
from dbsp.operators.traces.agenda import Agenda, AgendaStep
from dbsp.operators.traces.arrange import arranged, expect_order, own_trace
from dbsp.parallel.probe_pieces import distinct_runs, sum_weights
from dbsp.state.seen_rows import SeenRows


@dataclass(frozen=True)
class Distinct(Operator):
    """The rows of positive weight, each with weight 1."""

    input_counts = ONE_INPUT

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        return positive

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return True

    @property
    def law(self) -> str:
        return "distinct"

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        (stream,) = inputs
        if stream.node.is_set:
            return stream
        return rewriting.add(DeltaDistinct(), arranged(rewriting, stream, ()))


@dataclass(frozen=True)
class DeltaDistinct(Operator):
    """The incremental form of distinct, over an arrangement in the stream's own column order."""

    input_counts = ONE_INPUT

    @property
    def monotone(self) -> bool:
        return True

    @property
    def name(self) -> str:
        return "Distinct"

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        (stream,) = inputs
        expect_order(stream, ())

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return True

    @property
    def keeps_integral(self) -> bool:
        return True

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        (source,) = expect_arranged(node, sources)
        if scope.depth == 0:
            own = scope.nested and isinstance(source, TracedStep)
            return UntimedDistinctStep(source) if own else DistinctStep(source)
        if scope.depth == 1:
            return TimedDistinctStep(source, scope)
        return DeeplyTimedDistinctStep(source, node.schema.arity, positive, scope)


def positive(batch: Batch) -> Batch:
    """The rows of positive weight, each with weight 1."""
    if (batch.weights == 1).all():
        return batch
    present = batch.weights > 0
    rows = batch.rows if present.all() else np.ascontiguousarray(batch.rows[present])
    return Batch(rows, np.ones(len(rows), np.int64))


class DistinctStep(KeepingStep, ReplayingStep):
    __slots__ = ("_source",)

    quiet = True

    def __init__(self, source: Arranged) -> None:
        super().__init__()
        self._source = source

    def integral(self) -> Batch:
        """The rows of positive weight in the integral of the input; in a scope, at the fixpoint."""
        return positive(self._source.integral())

    @property
    def complete(self) -> bool:
        return self._source.complete

    @property
    def kept_rows(self) -> int:
        return self._source.kept_rows

    def replay(self) -> None:
        self.out = self.integral() or None

    def step(self) -> None:
        batch = self._source.out
        self.out = None
        if batch is None:
            return
        rows, weights = distinct_runs(batch.rows, batch.weights, self._source.table, self._source.before)
        if len(weights):
            self.out = Batch(rows, weights)


class UntimedDistinctStep(DistinctStep, ResettingStep):
    """Distinct in a scope without times, where a large tick adds a few rows in each iteration.

    Most of them are new. A filter of the rows of the tick finds these, so that only the other rows
    are searched in the runs of the tick.
    """

    __slots__ = ("_seen", "_trace")

    def __init__(self, source: Arranged) -> None:
        super().__init__(source)
        self._trace = own_trace(source)
        self._seen = SeenRows()

    @property
    def starts_empty(self) -> bool:
        """Whether no earlier tick has left rows, so that the integral is the change of this one."""
        return not self._trace.runs

    def reset(self) -> None:
        self._seen.clear()

    def step(self) -> None:
        batch, trace = self._source.out, self._trace
        known = None if batch is None else self._seen.note(batch.rows, trace.current[:-1])
        if batch is None or known is None or not trace.sums_fit:
            super().step()
            return
        before = np.zeros(len(batch), np.int64)
        if trace.past:
            before += sum_weights(batch.rows, trace.table, trace.past)
        if len(known):
            rows = batch.rows[known]
            before[known] += sum_weights(rows, trace.table[trace.past :], trace.before - trace.past)
            trace.count_searches(len(known), len(batch))
        change = (before + batch.weights > 0).astype(np.int64) - (before > 0)
        changed = np.flatnonzero(change)
        if len(changed) == len(change):
            self.out = Batch(batch.rows, change)
        else:
            self.out = Batch(batch.rows[changed], change[changed]) if len(changed) else None


class TimedDistinctStep(DistinctStep, AgendaStep):
    """Distinct in a scope of depth one; `dbsp.kernels.presence` defines `out`."""

    __slots__ = ("_agenda", "_scope", "_trace")

    def __init__(self, source: Arranged, scope: StepScope) -> None:
        super().__init__(source)
        self._trace = own_trace(source)
        self._scope = scope
        self._agenda = Agenda(scope)

    def step(self) -> None:
        batch = self._source.out
        waiting = self._agenda.take()
        self.out = None
        if waiting:
            parts = [rows for rows, _ in waiting]
            if batch is not None:
                parts.append(batch.rows)
            visited = np.concatenate(parts)
            visited, _ = consolidate(visited, np.ones(len(visited), np.int64))
        elif batch is not None:
            visited = batch.rows
        else:
            return
        trace = self._trace
        rows, weights, later, times = distinct_timed_runs(
            visited, trace.table, trace.past, trace.count, self._scope.iteration
        )
        if len(times):
            self._agenda.put(later, np.ones(len(times), np.int64), times.reshape(-1, 1))
        if len(weights):
            self.out = Batch(rows, weights)

    def since(self, iteration: int) -> Batch:
        """The rows that earlier ticks inserted after this iteration and never retracted.

        Requires that all weights are positive, so that a row stays once it is present.
        """
        trace = self._trace
        late = trace.since(iteration)
        if not len(late):
            return Batch.empty(trace.width - 1)
        columns = np.arange(trace.width - 1)
        rows, _ = project(late.rows, np.ones(len(late), np.int64), columns)
        found, weights, _ = gather(rows, len(columns), trace.table, trace.past, trace.width, 0)
        early = found[:, -1] <= iteration
        new = positive(Batch(*project(found, weights, columns)))
        old = positive(Batch(*project(found[early], weights[early], columns)))
        return Batch(*concatenate(new.rows, new.weights, old.rows, old.weights, -1))


class DeeplyTimedDistinctStep(TimedGroupsStep, KeepingStep):
    """Distinct in scopes of any depth: every row is its own group."""

    __slots__ = ()

    def integral(self) -> Batch:
        return positive(self._source.integral())

    @property
    def kept_rows(self) -> int:
        return self._source.kept_rows
