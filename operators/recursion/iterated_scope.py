"""The body of a fixpoint at run time: a scope, and the loop that steps it until it converges."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from dbsp.circuit.graph import Graph
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import FeedbackStep, KeepingStep, ResettingStep, Time, TimedStep, keeping
from dbsp.data.batch import Batch
from dbsp.data.run_batch import sum_of_sorted
from dbsp.errors import IterationLimitError
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.groups.untimed_distinct_step import UntimedDistinctStep
from dbsp.operators.joins.match_budget import MatchBudget, WorkBudgetExceeded
from dbsp.operators.recursion.entering_streams import EnteringStreams, divided
from dbsp.operators.recursion.linear_body import linear_body
from dbsp.operators.recursion.linear_iterations import Iterated, LinearIterations, Prices
from dbsp.operators.recursion.modes import CHANGED_ROW, STEP_ROWS, Removal
from dbsp.operators.recursion.shared_decisions import Decisions
from dbsp.operators.shards.exchange import PlacingStep
from dbsp.runtime.memory import give_back
from dbsp.runtime.scope import Scope
from dbsp.runtime.scope_state import CarriedState
from dbsp.state.shared_codes import share_codes

if TYPE_CHECKING:
    from dbsp.operators.recursion.restart_budget import RestartBudget

MANY_ROWS = 10_000
"""After an iteration of so many rows, the next one releases each delta after its last reader."""


LARGE = 1 << 20
"""After an iteration of so many rows, a smaller one needs less memory. Freed memory returns to the
system before it, since the traces still grow."""


@dataclass
class IterationResult:
    """The result of one evaluation of a scope: the change of every result, and the work.

    `arrived` has, by variable and iteration, the number of inserted less retracted rows. All counts
    are those of all shards, if they decide together.
    """

    results: list[Batch | None]
    work: int
    arrived: list[dict[int, int]]


@dataclass
class Progress:
    """What the iterations of one tick have produced so far."""

    pieces: list[list[Batch] | None]
    """The changes of every result; None for a result that is read at the end."""
    arrived: list[dict[int, int]]
    work: int = 0
    removals: tuple[int, ...] = (0, 0)
    """Of all shards: the rows that the first phase of a deletion has removed before the latest
    iteration, and how many of them had other derivations then."""


class IteratedScope:
    """One scope of a body. `sources` are the steps of its entering streams, in order."""

    def __init__(
        self,
        body: Graph,
        cap: int,
        outer: Scope,
        sources: Sequence[Step],
        carried: CarriedState,
        timed: bool,
        decisions: Decisions,
    ) -> None:
        self._cap = cap
        self._decisions = decisions
        self._outer = outer
        self.entering = EnteringStreams(sources)
        self._matches = MatchBudget()
        shared = (self.entering, self._matches)
        scope = self.scope = Scope(body, outer.interner, outer, carried, timed, shared)
        self.exports = [scope.by_node[stream.node] for stream in body.exports]
        self._feedback = [step for step in scope.steps if isinstance(step, FeedbackStep)]
        self.defining = [scope.by_node[stream.node] for node in body.nodes for stream in node.strict]
        """The steps that define the variables."""
        growing = self._kept = dict.fromkeys((*self.exports, *self.defining))
        """The steps whose deltas are read after an iteration: no one reads them in the next."""
        self._growing = [step for step in growing if decisions.counts(step.node)]
        merging = [step for step in scope.steps if isinstance(step, KeepingStep | FeedbackStep)]
        self._merging = [step for step in merging if decisions.counts(step.node)]
        """The steps whose rows count as work: no two shards emit the same row."""
        self._resetting = [step for step in scope.steps if isinstance(step, ResettingStep)]
        self._timed = [step for step in scope.steps if isinstance(step, TimedStep)]
        self._untimed_traces = [] if timed else scope.traces
        self._distinct = [step for step in scope.steps if isinstance(step, UntimedDistinctStep)]
        self.size = sum(not isinstance(step, PlacingStep) for step in scope.steps)
        """The number of steps on each shard besides exchanges."""
        self._each = STEP_ROWS * self.size
        linear = None if timed or decisions.shared else linear_body(body)
        self._linear = None if linear is None else LinearIterations(linear, scope)
        # These deltas are read after an iteration; the others may be released within it.
        read = [*growing, *([] if self._linear is None else self._feedback)]
        scope.hold({step.node for step in read}, self._merging)

    def next_time(self) -> Time | None:
        """The earliest time of the outer scope at which work waits inside."""
        waiting = [at for step in self._timed if (at := step.next_time()) is not None]
        return min(waiting)[:-1] if waiting else None

    def drop_waiting(self) -> None:
        """Drop all work that waits for later iterations of this tick."""
        for step in self._timed:
            step.drop_waiting()

    def run(
        self, where: str, quiet: bool, budget: RestartBudget | None = None, price: int = 1
    ) -> IterationResult | None:
        """Iterate until nothing changes; return None if the work exceeds `budget`.

        `quiet` means that no input of the scope changes in this tick. `price` is the cost of a row
        that an operator emits (see `dbsp.operators.recursion.modes`). Raises IterationLimitError.
        """
        # The integral of an export without a past is its result, already sorted.
        kept = [
            isinstance(step, UntimedDistinctStep) and step.starts_empty and self.scope.budget is None
            for step in self.exports
        ]
        self._reset()
        done = Progress([None if whole else [] for whole in kept], [{} for _ in self.defining])
        start = self._decisions.least(self._next_iteration()) if quiet else 0
        return self._finished(done) if self._iterate(where, start, done, budget, price) else None

    def run_deletion(
        self, where: str, negated: Collection[int], budget: RestartBudget
    ) -> tuple[IterationResult, Removal] | Removal:
        """Remove rows, restore those with other derivations, then add rows, without iterations.

        The first phase is described in `dbsp.operators.groups.untimed_distinct_step`. Insertions
        enter with the rows that return. Returns only the counts if the work of the first phase
        exceeds `budget`. Raises IterationLimitError.
        """
        parts = [divided(source, at in negated) for at, source in enumerate(self.entering.sources)]
        self._reset()
        done = Progress([[] for _ in self.exports], [{} for _ in self.defining])
        try:
            for step in self._distinct:
                step.start_removing()
            self.entering.enter([first for first, _ in parts])
            within = self._iterate(where, 0, done, budget, CHANGED_ROW)
            if not within:
                return Removal(done.work, *done.removals)
            removal = self._end_removing(done.work)
            start = self.scope.iteration + 1
            self.entering.enter([second for _, second in parts], start)
            self._iterate(where, start, done, None, 1)
            return self._finished(done), removal
        finally:
            self.entering.enter(None)
            self._reset()

    def _reset(self) -> None:
        for resetting in self._resetting:
            resetting.reset()

    def _end_removing(self, work: int) -> Removal:
        """End the first phase of a deletion; return the counts of all shards."""
        removed = supported = 0
        for step in self._distinct:
            counts = step.end_removing()
            if self._decisions.counts(step.node):
                removed += counts[0]
                supported += counts[1]
        return Removal(work, *self._decisions.totals((removed, supported)))

    def _iterate(
        self, where: str, start: int | None, done: Progress, budget: RestartBudget | None, price: int
    ) -> bool:
        """Iterate from `start` on until nothing changes; return False if the work exceeds
        `budget`."""
        scope, matches, decisions = self.scope, self._matches, self._decisions
        gained = earlier = 0
        rows = MANY_ROWS  # of the iteration before; a guess for the first one
        left = budget.allowed(0) if budget is not None else math.inf
        iteration = start
        if self._linear is not None:
            self._linear.begin()
        while iteration is not None:
            if scope.iterations >= self._cap:
                raise IterationLimitError(
                    f"scope '{scope.graph.name}' has not converged after {scope.iterations} iterations; "
                    "the recursion may not terminate, for example because it creates new values in "
                    "every iteration. If it terminates, raise the limit with max_iterations=N; "
                    "the tick was rolled back",
                    where=where,
                )
            scope.iterate(iteration)
            before = matches.found
            # A shard that gave up here would leave the others waiting at its next exchange.
            matches.allowed = math.inf if decisions.shared else before + left / price
            many = rows >= MANY_ROWS
            if many:
                for step in self._kept:
                    step.finish()
                if earlier >= LARGE and rows < earlier:
                    give_back()
                earlier = rows
            try:
                scope.run(many)
            except WorkBudgetExceeded:
                return False
            scope.iterations += 1
            for collected, export in zip(done.pieces, self.exports, strict=True):
                if export.out is not None and collected is not None:
                    collected.append(export.out)
            # Every feedback step must advance: build a list, because any() stops early.
            moving = [step.advance() for step in self._feedback]
            following = iteration + 1 if any(moving) else self._next_iteration()
            if scope.emitted is not None:
                rows = scope.emitted
            else:
                rows = sum([len(step.out) for step in self._merging if step.out is not None])
            counts: Sequence[int] = [matches.found - before, rows]
            if budget is not None:
                counts = [*counts, *self._removals(), *self._growth()]
            (matched, rows, *growth), following = decisions.step(counts, following)
            # Without rows it is an iteration for rows that cancel, which merged traces do not have.
            done.work += (self._each if rows else 0) + price * (rows + matched)
            if budget is not None:
                removals, growth = growth[:2], growth[2:]
                gained += sum(growth[: len(self.exports)])
                for entered, count in zip(done.arrived, growth[len(self.exports) :], strict=True):
                    if count:
                        entered[iteration] = count
                if price * matched > left:
                    return False
                left = budget.allowed(gained) - done.work
                if left < 0:
                    return False
                done.removals = tuple(removals)
                rest = budget.rest(iteration, done.arrived)
                if rest is not None:
                    if following is not None or any(batch is not None for batch in rest):
                        for observer in scope.observers:
                            observer.converge(scope)
                    for collected, batch in zip(done.pieces, rest, strict=True):
                        if batch is not None and collected is not None:
                            collected.append(batch)
                    break
            iteration = following
            if iteration is not None and self._linear is not None and self._runs_linearly(self._linear):
                found = self._iterate_linearly(self._linear, done, left, price)
                iteration = iteration + found.iterations if self._linear.waits else None
                if budget is not None:
                    done.removals = self._removals()
                    left = budget.allowed(gained) - done.work
                    if found.left or left < 0:
                        return False
        return True

    def _runs_linearly(self, linear: LinearIterations) -> bool:
        """Whether the next iterations run in one call."""
        # Statistics and observers read the deltas of each step in each iteration.
        observed = self.scope.observers or self.scope.stats is not None
        return not observed and self.scope.iterations < self._cap and linear.pays()

    def _iterate_linearly(
        self, linear: LinearIterations, done: Progress, left: float, price: int
    ) -> Iterated:
        """Run the next iterations in one call."""
        scope = self.scope
        found = linear.run(self._cap - scope.iterations, Prices(self._each, price, left))
        scope.iterations += found.iterations
        scope.iterate(scope.iteration + found.iterations)
        done.work += found.work
        for collected in done.pieces:
            if found.out is not None and collected is not None:
                collected.append(found.out)
        return found

    def _finished(self, done: Progress) -> IterationResult:
        """Return the results of complete iterations."""
        for step in self._distinct:
            step.reset()  # release the memory of the filter
        united = [trace.unite() for trace in self._untimed_traces]
        if any(united):
            share_codes(self._untimed_traces)
        results = [
            keeping(export).integral() or None if collected is None else sum_of_sorted(collected)
            for export, collected in zip(self.exports, done.pieces, strict=True)
        ]
        return IterationResult(results, done.work, done.arrived)

    def _removals(self) -> tuple[int, int]:
        """Return the sums of the `removals` of all distincts."""
        counted = [step.removals for step in self._distinct if self._decisions.counts(step.node)]
        return sum([removed for removed, _ in counted]), sum([supported for _, supported in counted])

    def _growth(self) -> list[int]:
        """Return the inserted less retracted rows of every result, then of every variable."""
        grown = {step: step.out.total for step in self._growing if step.out is not None}
        return [grown.get(step, 0) for step in (*self.exports, *self.defining)]

    def _next_iteration(self) -> int | None:
        """The next iteration with work waiting, at the current time of the outer scopes."""
        outside = tuple(self._outer.now.tolist())
        waiting = [
            at[-1] for step in self._timed if (at := step.next_time()) is not None and at[:-1] == outside
        ]
        return min(waiting, default=None)
