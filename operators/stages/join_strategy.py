"""How the planner may change the joins of a circuit that is built by hand."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias

from dbsp.operators.planner.strategy import Strategy


class JoinStrategy(StrEnum):
    """AS_WRITTEN keeps every join; the others are the strategies of the planner."""

    AUTO = "auto"
    BINARY = "binary"
    WCOJ = "wcoj"
    AS_WRITTEN = "as-written"

    @property
    def of_planner(self) -> Strategy:
        """The strategy for the conjunctions of a circuit whose joins may change."""
        return Strategy(self.value)


JoinStrategyName: TypeAlias = Literal["auto", "binary", "wcoj", "as-written"]
"""The name of a strategy."""
