"""The orders of the operators that `dbsp top` shows."""

from __future__ import annotations

from enum import StrEnum


class SortBy(StrEnum):
    """What the first operator of the table has most of."""

    TIME = "time"
    LATEST = "latest"
    ROWS = "rows"
    MEMORY = "memory"
