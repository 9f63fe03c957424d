"""What one tick did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dbsp.data.zset import ZSet


class TickResult(Mapping[str, ZSet]):
    """What one tick did: the delta of every output, by name; empty for those that did not change.

    `number` counts ticks from 1, `seconds` is the tick's own duration. `absent` and `present` count,
    by input, the retractions that found nothing to retract and the assertions of rows that were
    there already: both changed nothing.
    """

    __slots__ = ("_deltas", "absent", "number", "present", "seconds")

    def __init__(
        self,
        deltas: dict[str, ZSet],
        number: int,
        seconds: float,
        absent: dict[str, int],
        present: dict[str, int],
    ) -> None:
        self._deltas = deltas
        self.number = number
        self.seconds = seconds
        self.absent = absent
        self.present = present

    def __getitem__(self, name: str) -> ZSet:
        return self._deltas[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._deltas)

    def __len__(self) -> int:
        return len(self._deltas)

    def __repr__(self) -> str:
        changed = ", ".join(f"{name}: {delta!r}" for name, delta in self.items() if delta)
        return f"<tick {self.number}: {changed or 'no change'}>"
