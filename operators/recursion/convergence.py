"""Early convergence: retract all rows of later iterations at once.

Consider a scope whose variables only grow from iteration to iteration: its body is monotone, and no
entering row has a negative weight. The first iteration that adds no row to any variable is the
last: X[i + 1] = X[i] implies X[j] = X[i] for all j > i, because the body is a function of X and of
the rows that entered at iteration 0. If earlier ticks needed more iterations, all their rows at
later iterations are retracted, without stepping through these iterations:

    out(j) = -old(j)    for all j > i

So cutting a chain of n links costs the number of rows that are retracted, and not n iterations.
(DBSP paper, arXiv 2203.16684, section 5, on when the stream of differences within a tick may end.)
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.data.batch import Batch
from dbsp.operators.groups.distinct_steps import TimedDistinctStep
from dbsp.operators.recursion.iterated_scope import IteratedScope
from dbsp.operators.recursion.modes import STEP_ROWS, EvaluationHistory

SAVED = 4
"""The number of rows that can be scanned at once in the time an iteration needs per row."""


class Convergence:
    """Watches one evaluation of `inner`, a timed scope, for early convergence.

    `history` has the arrivals of earlier ticks. Counts are those of all shards, so all shards
    converge at the same iteration (see `dbsp.operators.recursion.shared_decisions`).
    """

    def __init__(self, inner: IteratedScope, history: EvaluationHistory) -> None:
        self._exports = [step for step in inner.exports if isinstance(step, TimedDistinctStep)]
        self._distinct = len(self._exports) == len(inner.exports)
        self._inner = inner
        self._past = history.arrivals

    def rest(self, iteration: int, arrived: Sequence[dict[int, int]]) -> list[Batch | None] | None:
        """Return the retractions of all later iterations if this iteration has converged, else
        None.

        Also None if few rows are left, so that iterating is as cheap. Retracts the rows from the
        traces and updates `arrived`.
        """
        if not self._distinct:
            return None
        for past, present in zip(self._past, arrived, strict=True):
            if (past[iteration] if iteration < len(past) else 0) + present.get(iteration, 0):
                return None
        left = [past[iteration + 1 :] for past in self._past]
        iterations = max(map(len, left), default=0)
        rows = sum(int(counts.sum()) for counts in left)
        traces = self._inner.scope.traces
        kept = len(traces) * sum(int(past.sum()) for past in self._past)  # equal on all shards
        if SAVED * self._inner.size * (STEP_ROWS * iterations + rows) < kept:
            return None
        rest = []
        for step in self._exports:
            lost = step.since(iteration)
            rest.append(Batch(lost.rows, -lost.weights) or None)
        for trace in traces:
            late = trace.since(iteration)
            if len(late):
                trace.append(late.rows, -late.weights)
        self._inner.drop_waiting()
        for counts, present in zip(left, arrived, strict=True):
            present.update({iteration + 1 + at: -int(n) for at, n in enumerate(counts) if n})
        return rest
