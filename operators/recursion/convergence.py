"""When a scope has converged early: the rest of its past is taken back at once.

In a scope whose variables only rise from iteration to iteration (its body is monotone, and nothing that
enters weighs less than nothing), one that brings nothing new to any variable is the last: X[i + 1] = X[i]
implies X[j] = X[i] for all j > i, since the body is a function of X and of what entered at iteration 0. If
the ticks before went on for longer, then all that they have at later iterations goes, and needs not be
followed step by step:

    out(j) = -old(j)    for all j > i

So cutting a chain of n links takes what is left of it, and not n iterations. (DBSP paper, arXiv 2203.16684,
section 5, on when the stream of differences within a tick may end.)
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.data.batch import Batch
from dbsp.operators.groups.distinct import TimedDistinctStep
from dbsp.operators.recursion.iterated_scope import IteratedScope
from dbsp.operators.recursion.modes import STEP_ROWS, EvaluationHistory

SAVED = 4
"""How many rows are gone through at once in the time in which an iteration changes one."""


class Convergence:
    """Follows one evaluation of `inner`, a timed scope, whose past arrivals its history counts."""

    def __init__(self, inner: IteratedScope, history: EvaluationHistory) -> None:
        self._exports = [step for step in inner.exports if isinstance(step, TimedDistinctStep)]
        self._distinct = len(self._exports) == len(inner.exports)
        self._inner = inner
        self._past = history.arrivals

    def rest(self, iteration: int, arrived: Sequence[dict[int, int]]) -> list[Batch | None] | None:
        """What the results lose after an iteration at which all is settled; None if it is not.

        Also when so little is left that going on is as cheap. What was done is undone from the traces, too,
        and counted in `arrived`.
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
        steps = len(self._inner.scope.steps)
        if SAVED * steps * (STEP_ROWS * iterations + rows) < sum(trace.rows for trace in traces):
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
