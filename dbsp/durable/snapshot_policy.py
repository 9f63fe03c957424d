"""When a checkpoint writes a snapshot: after ticks, seconds or bytes of journal."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import reduce
from typing import TypeAlias, TypeVar

from dbsp.errors import ArgumentError, shorten
from dbsp.lazy_dataclass import dataclass

Every: TypeAlias = "int | str | Collection[int | str] | SnapshotPolicy"
"""The forms of `snapshot_every`: ticks, a text such as "30 s" or "64 MB", or several of them."""

_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")
_SECONDS = {
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3_600.0,
    "hour": 3_600.0,
    "day": 86_400.0,
}
_BYTES = {"kb": 2**10, "mb": 2**20, "gb": 2**30}
EXPECTED = "ticks such as 1000, a time such as '30 s' or '5 min', or bytes of journal such as '64 MB'"


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """The most ticks, seconds and bytes of journal since a snapshot, before the next is written.

    >>> SnapshotPolicy.of(["30 s", "64 MB"])
    SnapshotPolicy(ticks=None, seconds=30.0, size=67108864)
    """

    ticks: int | None = None
    seconds: float | None = None
    size: int | None = None
    """Bytes of journal."""

    @staticmethod
    def of(every: Every) -> SnapshotPolicy:
        """Return the policy that a caller has given; of several limits, the first one counts.

        An int is a number of ticks. A text is a number of ticks ("1000", "1000 ticks"), a time in
        s, min, h or days, or a size in KB, MB or GB of 1,024 each; it may have several parts with
        commas between them. Raises ArgumentError.
        """
        if isinstance(every, SnapshotPolicy):
            return every
        if isinstance(every, int) and not isinstance(every, bool):
            if every < 1:
                raise ArgumentError(f"snapshot_every must be at least 1, got {every}")
            return SnapshotPolicy(ticks=every)
        if isinstance(every, str):
            return reduce(_first_of, map(_parsed, every.split(",")))
        if isinstance(every, Collection) and every and not isinstance(every, bytes | dict):
            return reduce(_first_of, map(SnapshotPolicy.of, every))
        raise _unexpected(every)

    def due(self, ticks: int, seconds: float, size: int) -> bool:
        """Return whether a limit is reached, given what has passed since the latest snapshot."""
        return ticks > 0 and (
            (self.ticks is not None and ticks >= self.ticks)
            or (self.seconds is not None and seconds >= self.seconds)
            or (self.size is not None and size >= self.size)
        )


def _parsed(text: str) -> SnapshotPolicy:
    found = _TEXT.fullmatch(text)
    if found is None:
        raise _unexpected(text)
    number, unit = float(found[1]), found[2]
    one = unit.lower() if unit.lower() in _SECONDS else unit.lower().removesuffix("s")
    if unit.lower() in ("", "tick", "ticks"):
        if number < 1 or not number.is_integer():
            raise _unexpected(text)
        return SnapshotPolicy(ticks=int(number))
    if number <= 0 or one not in _SECONDS | _BYTES:
        raise _unexpected(text)
    if one in _SECONDS:
        return SnapshotPolicy(seconds=number * _SECONDS[one])
    return SnapshotPolicy(size=max(1, int(number * _BYTES[one])))


def _first_of(one: SnapshotPolicy, other: SnapshotPolicy) -> SnapshotPolicy:
    return SnapshotPolicy(
        _least(one.ticks, other.ticks), _least(one.seconds, other.seconds), _least(one.size, other.size)
    )


T = TypeVar("T", int, float)


def _least(one: T | None, other: T | None) -> T | None:
    return min((value for value in (one, other) if value is not None), default=None)


def _unexpected(every: object) -> ArgumentError:
    return ArgumentError(f"snapshot_every expects {EXPECTED}, got {shorten(every)}")


DEFAULT = SnapshotPolicy(ticks=1_000, size=16 * 2**20)
"""So opening replays about 1,000 ticks or 16 MB of changes."""
