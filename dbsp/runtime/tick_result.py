"""The result of one tick."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.data.zset import ZSet
from dbsp.display.displayed import Displayed
from dbsp.runtime.unknown_members import unknown_part
from dbsp.runtime.unknown_names import UnknownOutputError


class TickResult(Mapping[str, ZSet], Displayed):
    """The result of one tick: a mapping from the name of every output to its delta.

    The delta of an output that did not change is empty. `result[name]` raises an error that is both
    an InputError and a KeyError if there is no such output; `result.get(name)` returns None.

    Examples:
        >>> circuit = Circuit("shop")
        >>> circuit.output("big", circuit.input("sale", x=int, kind="set").filter(col("x") > 5))
        >>> result = circuit.start().step({"sale": [(7,), (3,)]})
        >>> result["big"].to_dict(), result.number
        ({(7,): 1}, 1)
    """

    __slots__ = ("_deltas", "_inputs", "absent", "number", "present", "seconds")

    def __init__(
        self,
        deltas: Mapping[str, ZSet],
        number: int,
        seconds: float,
        absent: dict[str, int],
        present: dict[str, int],
        inputs: Collection[str] = (),
    ) -> None:
        self._deltas = deltas
        self._inputs = inputs
        self.number = number
        """The number of the tick, counted from 1."""
        self.seconds = seconds
        """The duration of the tick in seconds."""
        self.absent = absent
        """By input, the number of retractions of rows that were absent; they changed nothing."""
        self.present = present
        """By input, the number of assertions of rows already present; they changed nothing."""

    @ends_at_caller
    def __getitem__(self, name: str) -> ZSet:
        try:
            return self._deltas[name]
        except KeyError:
            raise UnknownOutputError(name, self._inputs, self._deltas) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._deltas)

    def __len__(self) -> int:
        return len(self._deltas)

    _described_by = "dbsp.runtime.tick_display:tick_document"

    def __repr__(self) -> str:
        changed = ", ".join(f"{name}: {delta!r}" for name, delta in self.items() if delta)
        return f"<tick {self.number}: {changed or 'no change'}>"

    if not TYPE_CHECKING:  # a type checker reports unknown attributes itself

        def __getattr__(self, name):
            # Copy, pickle and others look up names with underscores, also before there are deltas.
            raise AttributeError(name) if name.startswith("_") else unknown_part(name, self._deltas)
