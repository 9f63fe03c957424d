"""The strategies of the planner."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias


class Strategy(StrEnum):
    """AUTO decides; BINARY uses two-way joins only; WCOJ one multi-way join over all atoms."""

    AUTO = "auto"
    BINARY = "binary"
    WCOJ = "wcoj"


StrategyName: TypeAlias = Literal["auto", "binary", "wcoj"]
"""The name of a strategy."""
