"""The work that one evaluation of a scope may do before the scope restarts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dbsp.data.batch import Batch
from dbsp.operators.recursion.convergence import Convergence
from dbsp.operators.recursion.modes import EvaluationHistory


class RestartBudget:
    """Ends an evaluation that costs too much, if it is `bounded`, and finishes one that has converged."""

    def __init__(self, history: EvaluationHistory, convergence: Convergence | None, bounded: bool) -> None:
        self._history = history
        self._rows = history.rows
        self._convergence = convergence
        self._bounded = bounded

    def allowed(self, gained: int) -> float:
        """What an evaluation may cost that gave so many rows so far."""
        return self._history.budget(self._rows + gained) if self._bounded else math.inf

    def rest(self, iteration: int, arrived: Sequence[dict[int, int]]) -> list[Batch | None] | None:
        """What is left of the change of every result, if that is known without more iterations."""
        return None if self._convergence is None else self._convergence.rest(iteration, arrived)
