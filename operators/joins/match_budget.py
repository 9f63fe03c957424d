"""The budget of matches that the joins of one scope share."""

from __future__ import annotations

import math


class WorkBudgetExceeded(Exception):
    """The joins of a scope have found more matches than allowed; the fixpoint restarts."""


class MatchBudget:
    """Shared by the joins of one scope (`StepScope.shared`); a fixpoint sets the limit.

    Matches are counted before equal rows are merged.
    """

    __slots__ = ("allowed", "found")

    def __init__(self) -> None:
        self.found = 0
        self.allowed: float = math.inf

    def spend(self, matches: int) -> None:
        """Count matches of a join. Raises WorkBudgetExceeded when there are more than allowed."""
        self.found += matches
        if self.found > self.allowed:
            raise WorkBudgetExceeded
