"""The names of the units of time."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

TimeUnit: TypeAlias = Literal[
    "year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond"
]
TIME_UNITS: tuple[TimeUnit, ...] = get_args(TimeUnit)
