"""A fixpoint at work: which way of evaluation each tick takes, and how one gives way to another.

What enters and what leaves is the same in every way (see `dbsp.operators.recursion.modes`). To
begin anew is to
evaluate a new scope over all that has entered, and to put out its results less those of the old scope,
which stays as it was until the tick is committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dbsp.circuit.graph import Node
from dbsp.circuit.operator_roles import depends_on_ticks
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import Arranged, RememberingStep, ReportingStep, Time, TimedStep
from dbsp.data.batch import Batch
from dbsp.kernels import concatenate
from dbsp.kernels.arrays import Codes
from dbsp.operators.recursion.convergence import Convergence
from dbsp.operators.recursion.delta0 import Delta0
from dbsp.operators.recursion.iterated_scope import IteratedScope, IterationResult
from dbsp.operators.recursion.modes import (
    CHANGED_ROW,
    MODE_DESCRIPTIONS,
    EvaluationHistory,
    Recursion,
    joined,
)
from dbsp.operators.recursion.monotone import negated_imports, never_negative
from dbsp.operators.recursion.restart_budget import RestartBudget
from dbsp.operators.traces.arrange import Arrange, own_trace
from dbsp.runtime import statistics
from dbsp.runtime.scope import Scope
from dbsp.runtime.scope_state import CarriedState

if TYPE_CHECKING:
    from dbsp.operators.recursion.fixpoint import Body


class FixpointStep(TimedStep, RememberingStep, ReportingStep):
    """In the mode of the body, as far as that is possible (see `EvaluationOptions`)."""

    __slots__ = (
        "_before",
        "_body",
        "_choice",
        "_course",
        "_imports",
        "_inner",
        "_journalled",
        "_outer",
        "_replaced",
        "_sources",
        "results",
    )

    def __init__(self, node: Node, body: Body, sources: Sequence[Step], scope: Scope) -> None:
        super().__init__()
        self._body = body
        self._sources = tuple(sources)
        self._outer = scope
        self._choice = choice(body)
        self._imports = [
            scope.new_trace(stream.schema.arity) if self._choice.anew and not kept(stream.node) else None
            for stream in node.inputs
        ]
        """What entered so far, of the streams whose integral nobody else keeps."""
        carried = scope.state.carried
        held = carried.nested.get(body)
        timed = not self._choice.insert_only if held is None else held.timed
        journal = [] if held is None else held.journal
        self._inner = self._started(CarriedState(journal, carried.states, carried.nested), timed)
        scope.children.append(self._inner.scope)
        self._course = self._before = EvaluationHistory(timed, arrivals=self._no_arrivals())
        self._replaced: IteratedScope | None = None
        self._journalled = False
        self.results: list[Batch | None] = [None] * len(self._inner.exports)

    def report(self) -> Mapping[str, str]:
        return {"evaluation": self._course.describe()}

    def export(self, index: int) -> Step:
        """The step inside the scope whose sum over iterations is the `index`-th result."""
        return self._inner.exports[index]

    def forget(self) -> None:
        self.results = [None] * len(self._inner.exports)

    def next_time(self) -> Time | None:
        """The earliest time of the outer scope at which work inside waits."""
        return self._inner.next_time()

    def drop_waiting(self) -> None:
        self._inner.drop_waiting()

    # --- a tick ----------------------------------------------------------------------------------

    def step(self) -> None:
        self.results = [None] * len(self._inner.exports)
        self._inner.scope.iterations = 0
        quiet = all(source.out is None for source in self._sources)
        if quiet and not self._inner.scope.state.merging and self._inner.next_time() is None:
            return
        self._begin()
        entered = self._course.entered
        for source, trace in zip(self._sources, self._imports, strict=True):
            if source.out is not None:
                entered += int(source.out.weights.sum())
                if trace is not None:
                    trace.append(source.out.rows, source.out.weights)
        if quiet and self._inner.next_time() is None:
            return
        self._course = replace(self._course, entered=entered)
        if self._course.timed:
            self._step_incrementally(self.node.describe(), quiet)
        else:
            self._step_insert_only(self.node.describe())

    def _step_insert_only(self, where: str) -> None:
        if not self._only_grows():
            return self._begin_anew(where, timed=self._body.recursion is Recursion.AUTO)
        done = self._inner.run(where, quiet=False)
        assert done is not None
        first = not self._course.restart_work
        self._course = replace(self._course, rows=self._course.rows + _gained(done))
        if first:
            self._course = self._course.begun(done.work)
        self.results = done.results

    def _step_incrementally(self, where: str, quiet: bool) -> None:
        deltas = [source.out.weights for source in self._sources if source.out is not None]
        changed = sum(map(len, deltas))
        left = sum(int(np.count_nonzero(weights < 0)) for weights in deltas)
        first = not self._course.restart_work
        if self._choice.anew and not first and self._course.should_restart(changed, left):
            return self._begin_anew(where, timed=True)
        convergence = Convergence(self._inner, self._course) if self._choice.converges else None
        # Where more may be less, what enters can take as much work as what leaves.
        shrinks = left > 0 or self._choice.negated is None
        bounded = self._choice.anew and not first and shrinks
        watch = (
            RestartBudget(self._course, convergence, bounded) if bounded or convergence is not None else None
        )
        done = self._inner.run(where, quiet, watch, 1 if first else CHANGED_ROW)
        if done is None:
            return self._begin_anew(where, timed=True)
        arrivals = tuple(map(joined, self._course.arrivals, done.arrived))
        rows = self._course.rows + _gained(done)
        if first:
            self._course = replace(self._course, rows=rows, arrivals=arrivals).begun(done.work)
        else:
            self._course = self._course.after(changed, done.work, rows, arrivals)
        self.results = done.results

    def _only_grows(self) -> bool:
        """Whether what enters in this tick can take nothing away from any result."""
        negated = self._choice.negated
        assert negated is not None
        for index, source in enumerate(self._sources):
            if source.out is None:
                continue
            if int(source.out.weights.min()) < 0 or (self._course.restart_work and index in negated):
                return False
        return True

    def _begin_anew(self, where: str, timed: bool) -> None:
        entering = [self._entered(index) for index in range(len(self._sources))]
        # Where there is less than nothing of a row, more is not monotone.
        timed = timed or any(batch is not None and int(batch.weights.min()) < 0 for batch in entering)
        old = self._inner
        old.scope.rollback()  # what this tick has done to it so far
        before = [old.scope.keeper(step.node) for step in old.exports]
        new = self._started(CarriedState(), timed)
        self._replaced = old
        self._exchange(new)
        statistics.resume(new.scope, old.scope, {node: node for node in self._body.nodes})
        new.entering.totals = entering
        done = new.run(where, False, RestartBudget(self._course, None, False) if timed else None)
        new.entering.totals = None
        assert done is not None
        for index, (total, keeper) in enumerate(zip(done.results, before, strict=True)):
            assert keeper is not None
            self.results[index] = _difference(total, keeper.integral())
        rows = _gained(done)
        arrivals = self._no_arrivals()
        self._course = replace(
            self._course,
            timed=timed,
            rows=rows,
            restarts=self._course.restarts + 1,
            arrivals=tuple(map(joined, arrivals, done.arrived)) if timed else arrivals,
        ).begun(done.work)

    def _entered(self, index: int) -> Batch | None:
        """All that has entered by one stream, this tick included."""
        trace, source = self._imports[index], self._sources[index]
        if trace is None and isinstance(source, Arranged):
            trace = own_trace(source)
        if trace is not None:
            return trace.contents() or None
        keeper = self._outer.keeper(source.node)
        assert keeper is not None
        total = keeper.integral()
        if source.out is not None and keeper.node.id > self.node.id:
            # It comes later in the schedule, so it does not hold this tick yet.
            total = Batch(*concatenate(total.rows, total.weights, source.out.rows, source.out.weights, 1))
        return total or None

    # --- all or nothing --------------------------------------------------------------------------

    def _begin(self) -> None:
        if not self._journalled:
            self._outer.journal.append(self)
            self._journalled = True
            self._before = self._course

    def commit(self) -> None:
        self._journalled = False
        self._inner.scope.commit()
        if self._replaced is not None:
            self._replaced.scope.release()
            self._replaced = None

    def rollback(self) -> None:
        self._journalled = False
        self._course = self._before
        if self._replaced is not None:
            self._exchange(self._replaced)
            self._replaced = None
        self._inner.scope.rollback()

    def memory(self) -> EvaluationHistory:
        return self._course

    def recall(self, memory: EvaluationHistory) -> None:
        if memory.timed != self._inner.scope.timed:
            self._exchange(self._started(CarriedState(), memory.timed))
        self._course = memory

    def _started(self, carried: CarriedState, timed: bool) -> IteratedScope:
        """The body in a new scope, which is not among those of the outer scope yet."""
        body = self._body
        return IteratedScope(body, body.max_iterations, self._outer, self._sources, carried, timed)

    def _exchange(self, new: IteratedScope) -> None:
        children = self._outer.children
        children[children.index(self._inner.scope)] = new.scope
        self._inner = new

    def _no_arrivals(self) -> tuple[Codes, ...]:
        return tuple(np.zeros(0, np.int64) for _ in self._inner.defining)


class EvaluationOptions(NamedTuple):
    """What a scope can do besides following changes by tick and iteration.

    `anew`: begin anew. `insert_only`: go on from the fixpoint before, as it is asked to. `negated`: the
    streams that must not change for it to only grow; None if it need not grow with what enters. `converges`:
    its variables grow from iteration to iteration, so that one that brings no rows is the last.
    """

    anew: bool = False
    insert_only: bool = False
    negated: frozenset[int] | None = None
    converges: bool = False


def choice(body: Body) -> EvaluationOptions:
    """What can be done, by the place of the scope, its nodes, and the mode that is asked for."""
    nodes = [node.operator for node in body.nodes]
    if body.parent is None or body.parent.parent is not None:
        return EvaluationOptions()
    if any(operator.is_port or operator.children() for operator in nodes):
        return EvaluationOptions()
    if any(map(depends_on_ticks, body.nodes)):
        return EvaluationOptions()
    negated = negated_imports(body)
    # Without it nobody could tell what the results were before.
    told = all(kept(s.node) and not isinstance(s.node.operator, Delta0) for s in body.exports)
    anew = told and body.recursion is not Recursion.INCREMENTAL
    converges = negated is not None and all(map(never_negative, body.entered))
    return EvaluationOptions(anew, anew and negated is not None, negated, converges)


def way(body: Body) -> str:
    """How a scope is going to be evaluated, in words."""
    able = choice(body)
    if body.recursion is Recursion.INCREMENTAL or able.insert_only:
        return MODE_DESCRIPTIONS[body.recursion]
    anew = "; begun anew where that costs less" if able.anew else ""
    why = " (its variables need not grow with what enters)" if able.negated is None else ""
    return f"{MODE_DESCRIPTIONS[Recursion.INCREMENTAL]}{anew}{why}"


def kept(node: Node) -> bool:
    """Whether somebody keeps the integral of what a node puts out."""
    return node.operator.keeps_integral or any(
        isinstance(reader.operator, Arrange) and reader.inputs[0].node is node for reader in node.graph.nodes
    )


def _gained(done: IterationResult) -> int:
    return sum(int(batch.weights.sum()) for batch in done.results if batch is not None)


def _difference(new: Batch | None, old: Batch) -> Batch | None:
    if new is None:
        new = Batch.empty(old.arity)
    return Batch(*concatenate(new.rows, new.weights, old.rows, old.weights, -1)) or None
