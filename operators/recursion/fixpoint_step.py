"""The step of a fixpoint: the mode of evaluation of each tick, and restarts.

Inputs and outputs are the same in every mode (see `dbsp.operators.recursion.modes`). A restart
evaluates a new scope over all input rows and emits its results less those of the old scope, which
stays unchanged until the tick commits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dbsp.circuit.graph import Node
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import Arranged, RememberingStep, ReportingStep, Time, TimedStep
from dbsp.data.batch import Batch, sum_if_any
from dbsp.errors import expect_present
from dbsp.kernels import distinct_timed_runs, sum_weights, with_time
from dbsp.kernels.arrays import Codes
from dbsp.kernels.jit import expect_calls
from dbsp.operators.recursion.body import Body
from dbsp.operators.recursion.convergence import Convergence
from dbsp.operators.recursion.entering_streams import part_of, whole
from dbsp.operators.recursion.evaluation_options import evaluation_options, keeps_stream
from dbsp.operators.recursion.iterated_scope import IteratedScope, IterationResult
from dbsp.operators.recursion.modes import (
    CHANGED_ROW,
    EvaluationHistory,
    Recursion,
    Removal,
)
from dbsp.operators.recursion.restart_budget import RemovalBudget, RestartBudget
from dbsp.operators.recursion.shared_decisions import decisions
from dbsp.operators.shards.exchange import unplaced
from dbsp.operators.traces.arrange import trace_of
from dbsp.runtime import observation
from dbsp.runtime.scope import Scope
from dbsp.runtime.scope_state import CarriedState


class TickChanges(NamedTuple):
    """What enters a scope in one tick; numbers of rows, on all shards if they decide together."""

    arrived: int
    """Not 0 if an entering stream changes."""
    busy: int
    """Not 0 if an entering stream changes or work waits inside."""
    entered: int
    """The inserted less retracted rows."""
    changed: int
    left: int
    """The number of retracted rows."""
    negated: int
    """Not 0 if a negated entering stream changes."""


class FixpointStep(TimedStep, RememberingStep, ReportingStep):
    """Evaluates the body in its mode, if its nodes allow this mode (see `EvaluationOptions`)."""

    __slots__ = (
        "_body",
        "_committed",
        "_counted",
        "_decisions",
        "_history",
        "_imports",
        "_inner",
        "_journalled",
        "_options",
        "_outer",
        "_place",
        "_replaced",
        "_sources",
        "results",
    )

    reads_in_step = True

    def __init__(self, node: Node, body: Body, sources: Sequence[Step], scope: Scope) -> None:
        super().__init__()
        self._body = body
        self._sources = tuple(sources)
        self._outer = scope
        self._options = evaluation_options(body)
        self._decisions = decisions(body, scope.link)
        self._counted = [self._decisions.counts(source.node) for source in self._sources]
        """Whether this shard counts the rows of each entering stream."""
        seen: set[object] = set()
        for index, source in enumerate(self._sources):
            # A stream that enters in several placements counts once, as in one process.
            same = unplaced(source.node)
            self._counted[index] &= same not in seen
            seen.add(same)
        self._imports = [
            scope.new_trace(stream.schema.arity, stream.schema.types)
            if self._options.restarts and not keeps_stream(stream.node)
            else None
            for stream in node.inputs
        ]
        """Traces of the entering streams whose integral no other node keeps."""
        carried = scope.state.carried
        held = carried.nested.get(body)
        timed = not self._options.insert_only if held is None else held.timed
        journal = [] if held is None else held.journal
        self._inner = self._started(CarriedState(journal, carried.states, carried.nested), timed)
        self._place = len(scope.children)
        """The place of the inner scope among the children of the outer one."""
        scope.children.append(self._inner.scope)
        self._history = self._committed = EvaluationHistory(timed, arrivals=self._no_arrivals())
        self._replaced: IteratedScope | None = None
        self._journalled = False
        self.results: list[Batch | None] = [None] * len(self._inner.exports)
        # The first deletion can restart the scope with iterations.
        expect_calls(distinct_timed_runs, with_time)

    def report(self) -> Mapping[str, str]:
        return {"evaluation": self._history.describe()}

    @property
    def history(self) -> EvaluationHistory:
        """The statistics of the evaluation so far; of all shards, if they decide together."""
        return self._history

    def export(self, index: int) -> Step:
        """Return the step inside the scope whose sum over iterations is the `index`-th result."""
        return self._inner.exports[index]

    def forget(self) -> None:
        self.results = [None] * len(self._inner.exports)

    def next_time(self) -> Time | None:
        """Return the earliest time of the outer scope at which work waits inside."""
        return self._inner.next_time()

    def drop_waiting(self) -> None:
        self._inner.drop_waiting()

    # --- a tick ----------------------------------------------------------------------------------

    def step(self) -> None:
        self.results = [None] * len(self._inner.exports)
        self._inner.scope.iterations = 0
        changes = self._tick_changes()
        if not changes.busy:
            return
        self._join_tick()
        for source, trace in zip(self._sources, self._imports, strict=True):
            if source.out is not None and trace is not None:
                trace.append(source.out.rows, source.out.weights)
        self._history = replace(self._history, entered=self._history.entered + changes.entered)
        if self._history.timed:
            self._step_incrementally(self.node.describe(), changes)
        else:
            self._step_insert_only(self.node.describe(), changes)

    def _tick_changes(self) -> TickChanges:
        """Return what enters the scope in this tick."""
        negated = self._options.negated or frozenset()
        arrived = entered = changed = left = negations = 0
        for index, source in enumerate(self._sources):
            if source.out is None:
                continue
            arrived = 1
            if self._counted[index]:
                weights = source.out.weights
                entered += int(weights.sum())
                changed += len(weights)
                left += int(np.count_nonzero(weights < 0))
                negations += index in negated
        busy = arrived or self._inner.next_time() is not None
        counts = (arrived, int(busy), entered, changed, left, negations)
        return TickChanges(*self._decisions.totals(counts))

    def _step_insert_only(self, where: str, changes: TickChanges) -> None:
        # An insertion into a negated stream can remove rows of results.
        if changes.left or (changes.negated and self._history.restart_work):
            return self._delete(where, changes)
        done = expect_present(self._inner.run(where, quiet=False), "the result of an evaluation")
        first = not self._history.restart_work
        self._history = replace(self._history, rows=self._history.rows + self._gained(done))
        if first:
            self._history = self._history.restarted(done.work)
        self.results = done.results

    def _delete(self, where: str, changes: TickChanges) -> None:
        """Remove rows without iterations if this is expected to cost less than a restart."""
        auto = self._body.recursion is Recursion.AUTO
        history, negated = self._history, self._options.negated
        if not self._options.deletes or negated is None:
            return self._restart(where, timed=auto)
        if self._decisions.any(any(map(self._becomes_negative, self._options.signed))):
            return self._restart(where, timed=auto)
        if auto and history.should_keep_iterations():
            return self._restart(where, timed=True)
        if history.retracts_many(changes.left):
            return self._restart(where, timed=False)
        if history.expects_long_removal(changes.left):
            self._history = history.without_removal()
            return self._restart(where, timed=False)
        outcome = self._inner.run_deletion(where, negated, RemovalBudget(history))
        if isinstance(outcome, Removal):
            self._history = history.removed(outcome.work, changes.left, complete=False)
            return self._restart(where, timed=auto and history.is_doubtful(outcome))
        done, removal = outcome
        history = history.removed(removal.work, changes.left, complete=True)
        self._history = history.deleted(removal, self._gained(done))
        self.results = done.results

    def _becomes_negative(self, index: int) -> bool:
        """Whether a row of an entering stream has a negative weight after this tick.

        None had one before, so only the retracted rows matter. O(log) for each, if their stream is
        arranged.
        """
        source, trace = self._sources[index], self._imports[index]
        retracted = None if source.out is None else part_of(source.out, source.out.weights < 0)
        if retracted is None:
            return False
        if trace is not None:
            left = sum_weights(retracted.rows, trace.table, trace.count)
        elif isinstance(source, Arranged):
            left = sum_weights(retracted.rows, source.table, source.count)
        elif arrangements := self._outer.arrangements(source.node):
            side = arrangements[0]
            retracted = retracted.rearranged(np.array(side.sorted_by, np.int64))
            left = sum_weights(retracted.rows, side.table, side.count)
            if self._steps_later(side.node):
                left += retracted.weights
        else:
            left = (self._entered(index) or Batch.empty(0)).weights
        return bool((left < 0).any())

    def _steps_later(self, node: Node) -> bool:
        """Whether a node of the outer scope has not stepped yet in this tick."""
        return node.id > self.node.id

    def _step_incrementally(self, where: str, changes: TickChanges) -> None:
        changed, left = changes.changed, changes.left
        first = not self._history.restart_work
        if self._options.restarts and not first and self._history.should_restart(changed, left):
            return self._restart(where, timed=True)
        convergence = Convergence(self._inner, self._history) if self._options.converges else None
        # If more input rows may mean fewer results, insertions can cost as much as retractions.
        shrinks = left > 0 or self._options.negated is None
        bounded = self._options.restarts and not first and shrinks
        budget = (
            RestartBudget(self._history, convergence, bounded) if bounded or convergence is not None else None
        )
        done = self._inner.run(where, not changes.arrived, budget, 1 if first else CHANGED_ROW)
        if done is None:
            return self._restart(where, timed=True)
        arrivals = tuple(map(_joined, self._history.arrivals, done.arrived))
        rows = self._history.rows + self._gained(done)
        if first:
            self._history = replace(self._history, rows=rows, arrivals=arrivals).restarted(done.work)
        else:
            self._history = self._history.after(changed, done.work, rows, arrivals)
        self.results = done.results

    def _restart(self, where: str, timed: bool) -> None:
        entering = [self._entered(index) for index in range(len(self._sources))]
        # With negative weights, the body is not monotone.
        negative = any(batch is not None and int(batch.weights.min()) < 0 for batch in entering)
        timed = timed or self._decisions.any(negative)
        old = self._inner
        old.scope.rollback()  # undo the partial work of this tick
        before = [
            expect_present(old.scope.keeper(step.node), "the previous results of a scope that restarts")
            for step in old.exports
        ]
        new = self._started(CarriedState(), timed)
        self._replaced = old
        self._exchange(new)
        observation.resume(new.scope, old.scope, {node: node for node in self._body.nodes})
        for observer in self._outer.observers:
            observer.restart(self._outer, self._body)
        new.entering.enter(list(map(whole, self._sources, entering)))
        unbounded = RestartBudget(self._history, None, False) if timed else None
        done = expect_present(new.run(where, False, unbounded), "the result of a restart")
        new.entering.enter(None)
        for index, (total, keeper) in enumerate(zip(done.results, before, strict=True)):
            self.results[index] = sum_if_any(total, keeper.integral(), -1)
        rows = self._gained(done)
        arrivals = self._no_arrivals()
        self._history = replace(
            self._history,
            timed=timed,
            rows=rows,
            restarts=self._history.restarts + 1,
            arrivals=tuple(map(_joined, arrivals, done.arrived)) if timed else arrivals,
        ).restarted(done.work)

    def _gained(self, done: IterationResult) -> int:
        """Return the inserted less retracted rows of all results."""
        gained = 0
        for export, batch in zip(self._inner.exports, done.results, strict=True):
            if batch is not None and self._decisions.counts(export.node):
                gained += batch.total
        (total,) = self._decisions.totals((gained,))
        return total

    def _entered(self, index: int) -> Batch | None:
        """Return the integral of an entering stream, including this tick."""
        trace, source = self._imports[index], self._sources[index]
        if trace is None and isinstance(source, Arranged):
            trace = trace_of(source)
        if trace is not None:
            return trace.contents() or None
        keeper = expect_present(self._outer.keeper(source.node), "the integral of an entering stream")
        total = keeper.integral()
        if source.out is not None and self._steps_later(keeper.node):
            total = total.plus(source.out)
        return total or None

    # --- all or nothing --------------------------------------------------------------------------

    def _join_tick(self) -> None:
        if not self._journalled:
            self._outer.journal.append(self)
            self._journalled = True

    def commit(self) -> None:
        self._journalled = False
        self._committed = self._history
        self._inner.scope.commit()
        if self._replaced is not None:
            self._replaced.scope.release()
            self._replaced = None

    def rollback(self) -> None:
        self._journalled = False
        self._history = self._committed
        if self._replaced is not None:
            self._exchange(self._replaced)
            self._replaced = None
        self._inner.scope.rollback()

    def memory(self) -> tuple[Any, ...]:
        return self._history.memory()

    def recall(self, memory: tuple[Any, ...]) -> None:
        history = EvaluationHistory(*memory)
        if history.timed != self._inner.scope.timed:
            self._exchange(self._started(CarriedState(), history.timed))
        self._history = self._committed = history

    def savepoint(self) -> Callable[[], None]:
        """Return a function that restores the present scope, whose traces are restored separately.

        A restart that commits later releases the traces of this scope, but it keeps the scope.
        """
        inner, history = self._inner, self._committed

        def restore() -> None:
            self._journalled, self._replaced = False, None
            self._exchange(inner)
            self._history = self._committed = history

        return restore

    def _started(self, carried: CarriedState, timed: bool) -> IteratedScope:
        """Return a new scope for the body, not yet added to the outer scope."""
        body = self._body
        return IteratedScope(
            body, body.max_iterations, self._outer, self._sources, carried, timed, self._decisions
        )

    def _exchange(self, new: IteratedScope) -> None:
        self._outer.children[self._place] = new.scope
        self._inner = new

    def _no_arrivals(self) -> tuple[Codes, ...]:
        return tuple(np.zeros(0, np.int64) for _ in self._inner.defining)


def _joined(past: Codes, present: dict[int, int]) -> Codes:
    """Return the arrivals by iteration after a tick that changed some of them."""
    size = max(len(past), max(present, default=-1) + 1)
    total = np.zeros(size, np.int64)
    total[: len(past)] = past
    for iteration, rows in present.items():
        total[iteration] += rows
    return total[: int(np.flatnonzero(total)[-1]) + 1] if total.any() else total[:0]
