"""How much of its past a checkpoint keeps: a number of ticks, or a duration."""

from __future__ import annotations

import re
import time
from typing import Protocol

from dbsp.errors import ArgumentError, shorten
from dbsp.lazy_dataclass import dataclass


def clock() -> float:
    """Return the time in seconds since 1970, in whole microseconds, as a datetime has them."""
    return round(time.time() * 1e6) / 1e6


_PARTS = 64
_MOST_TICKS = 10_000
"""A snapshot is kept when 1/64 of the window or so many ticks passed since the one before it."""

_UNITS = {"s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600}
_UNITS |= {"d": 86_400, "day": 86_400, "week": 604_800}
_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?([a-z]+?)s?", re.ASCII)
_EXPECTED = 'expected a number of ticks, or a duration such as "30 min", "12 hours" or "1 day"'


class Snapshot(Protocol):
    """The tick of a snapshot, and the time of that tick if it is known."""

    @property
    def tick(self) -> int: ...

    @property
    def time(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class HistoryWindow:
    """The last ticks, or the last seconds, of which every tick can be opened."""

    ticks: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, keep: int | str, option: str = "keep", least: int = 0) -> HistoryWindow:
        """Return the window that `Store(keep=...)` or another option describes.

        `least` is the least number of ticks. Raises ArgumentError.
        """
        if isinstance(keep, int) and not isinstance(keep, bool):
            if keep >= least:
                return cls(ticks=keep)
        elif isinstance(keep, str):
            found = _DURATION.fullmatch(keep.strip().lower())
            if found is not None and found[2] in _UNITS:
                return cls(seconds=float(found[1]) * _UNITS[found[2]])
        raise ArgumentError(f"{option}: {_EXPECTED}, got {shorten(keep)}")

    def __bool__(self) -> bool:
        return bool(self.ticks or self.seconds)

    def begins_at(self, snapshot: Snapshot, latest: int, now: float) -> bool:
        """Return whether this snapshot and the ticks after it are the whole window."""
        if self.seconds:
            return snapshot.time is not None and snapshot.time <= now - self.seconds
        return snapshot.tick <= latest - self.ticks

    def wants(self, snapshot: Snapshot, before: Snapshot) -> bool:
        """Return whether to keep a snapshot when `before` is the newest kept one.

        Opening a tick then repeats few ticks, and a window of any size has few snapshots.
        """
        passed = snapshot.tick - before.tick
        if passed >= _MOST_TICKS:
            return True
        if self.seconds:
            known = snapshot.time is not None and before.time is not None
            return not known or (snapshot.time or 0) - (before.time or 0) >= self.seconds / _PARTS
        return passed >= self.ticks / _PARTS
