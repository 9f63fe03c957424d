"""The work budget of one evaluation of a scope, after which the scope restarts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dbsp.data.batch import Batch
from dbsp.operators.recursion.convergence import Convergence
from dbsp.operators.recursion.modes import EvaluationHistory


class RestartBudget:
    """Ends a `bounded` evaluation whose work exceeds the budget, and one that converges early."""

    def __init__(self, history: EvaluationHistory, convergence: Convergence | None, bounded: bool) -> None:
        self._history = history
        self._rows = history.rows
        self._convergence = convergence
        self._bounded = bounded

    def allowed(self, gained: int) -> float:
        """Return the work that an evaluation may do after emitting `gained` rows."""
        return self._history.budget(self._rows + gained) if self._bounded else math.inf

    def rest(self, iteration: int, arrived: Sequence[dict[int, int]]) -> list[Batch | None] | None:
        """Return the remaining change of every result if no more iterations are needed, else
        None."""
        return None if self._convergence is None else self._convergence.rest(iteration, arrived)


class RemovalBudget(RestartBudget):
    """Ends the first phase of a deletion whose work exceeds a share of a restart."""

    def __init__(self, history: EvaluationHistory) -> None:
        super().__init__(history, None, True)

    def allowed(self, gained: int) -> float:
        return self._history.removal_budget()
