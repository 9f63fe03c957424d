"""The steps of distinct: at the top level, and in nested scopes with iterations in their times."""

from __future__ import annotations

import numpy as np

from dbsp.circuit.step_roles import Arranged, KeepingStep, ReplayingStep
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import FEW, Batch
from dbsp.data.masks import all_true, rows_where
from dbsp.kernels import (
    consolidate_few,
    consolidate_owned,
    distinct_timed_runs,
    gather,
    project,
)
from dbsp.kernels.arrays import Codes
from dbsp.operators.groups.group_step import TimedGroupsStep
from dbsp.operators.traces.agenda import Agenda, AgendaStep
from dbsp.operators.traces.arrange import own_trace
from dbsp.parallel.probe_pieces import change_presence


def positive(batch: Batch) -> Batch:
    """The rows of positive weight, each with weight 1."""
    if batch.units:
        return batch
    present = batch.weights > 0
    return (
        batch.with_units()
        if all_true(present)
        else Batch(batch.rows.compress(present, 0), batch.weights[present]).with_units()
    )


def presence_change(batch: Batch, table: Codes, runs: int) -> Batch | None:
    """Return the change of f(w) = [w > 0] by a delta, for a trace with the past in `runs`.

    It shares the arrays of the delta that it leaves as they are. None if no row appears or
    disappears.
    """
    rows, weights = batch.rows, batch.weights
    changes = np.empty(len(weights), np.int64)
    changed, same = change_presence(rows, weights, table, runs, changes)
    if changed == len(changes):
        return batch if same else Batch(rows, changes)
    if not changed:
        return None
    return Batch(*rows_where(changes != 0, rows, changes))


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
        runs = self._source.before
        if not runs:
            self.out = positive(batch) or None
            return
        self.out = presence_change(batch, self._source.table, runs)


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
            visited = parts[0]  # the rows of one visit are sorted
            if len(parts) > 1:
                visited = np.concatenate(parts)
                weights = np.ones(len(visited), np.int64)
                if len(weights) <= FEW:
                    visited = visited[: consolidate_few(visited, weights)]
                else:
                    visited, _ = consolidate_owned(visited, weights)
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
        old = positive(Batch(*project(found.compress(early, 0), weights[early], columns)))
        return new.plus(old, -1)


class DeeplyTimedDistinctStep(TimedGroupsStep, KeepingStep):
    """Distinct in scopes of any depth: every row is its own group."""

    __slots__ = ()

    def integral(self) -> Batch:
        return positive(self._source.integral())

    @property
    def kept_rows(self) -> int:
        return self._source.kept_rows
