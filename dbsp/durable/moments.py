"""A moment of the past: a tick, or a time."""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

from dbsp.durable.history_window import Snapshot
from dbsp.errors import ArgumentError, shorten, wrong_argument
from dbsp.lazy_dataclass import dataclass

Moment: TypeAlias = int | str | datetime
"""A tick, a time, or an ISO text of a time; times without a zone are local."""


def shown_time(seconds: float | None) -> str:
    """Return a local time with its offset, as messages and reports show it."""
    if seconds is None:
        return "at an unknown time"
    return datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "milliseconds")


@dataclass(frozen=True, slots=True)
class PastMoment:
    """Either a tick, or a time in seconds since 1970; `text` names it in messages."""

    text: str
    tick: int | None = None
    seconds: float | None = None

    @classmethod
    def of(cls, moment: Moment, name: str = "as_of") -> PastMoment:
        """Return the moment that an argument means. Raises ArgumentError with the `name`."""
        if isinstance(moment, int) and not isinstance(moment, bool):
            return cls(f"tick {moment}", tick=moment)
        if isinstance(moment, str):
            try:
                moment = datetime.fromisoformat(moment.strip())
            except ValueError:
                raise ArgumentError(
                    f'{name}: expected a tick as an int or a time such as "2026-01-31 18:00", got '
                    f"{shorten(moment)}"
                ) from None
        if not isinstance(moment, datetime):
            raise wrong_argument(name, "a tick, a datetime or the text of one", moment)
        try:
            return cls(moment.isoformat(" "), seconds=moment.timestamp())
        except (ValueError, OverflowError, OSError):
            raise ArgumentError(f"{name}: expected a time after 1970, got {moment}") from None

    def includes(self, snapshot: Snapshot) -> bool:
        """Return whether a snapshot, or a tick of the journal, is not after this moment."""
        if self.tick is not None:
            return snapshot.tick <= self.tick
        return snapshot.time is not None and snapshot.time <= (self.seconds or 0.0)

    def is_past(self, tick: int, time: float | None, now: float) -> bool:
        """Return whether this moment is not after the latest tick, given with its time, and now."""
        if self.tick is not None:
            return self.tick <= tick
        return (self.seconds or 0.0) <= max(now, time or 0.0)
