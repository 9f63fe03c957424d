"""The strategies of the planner."""

from __future__ import annotations

from enum import StrEnum

from dbsp.errors import ArgumentError


class Strategy(StrEnum):
    """AUTO decides; BINARY uses two-way joins only; WCOJ one multi-way join over all atoms."""

    AUTO = "auto"
    BINARY = "binary"
    WCOJ = "wcoj"


def join_strategy(name: Strategy | str) -> Strategy:
    """Return the strategy of this name. Raises ArgumentError for an unknown name."""
    if name not in list(Strategy):
        known = ", ".join(repr(str(strategy)) for strategy in Strategy)
        raise ArgumentError(f"strategy= expects one of {known}, got {name!r}")
    return Strategy(name)
