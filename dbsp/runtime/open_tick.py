"""A tick that has started and has not ended: what it takes from the handles, and how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType
from typing import Any, Protocol

from dbsp.lazy_dataclass import dataclass
from dbsp.runtime.input_changes import Piece
from dbsp.runtime.input_handle import InputHandle
from dbsp.runtime.latest_tick import LatestTick
from dbsp.runtime.open_work import OpenWork
from dbsp.runtime.tick_result import TickResult


@dataclass(frozen=True, slots=True)
class TakenPieces:
    """The staged changes of one handle that a tick applies; its commit removes them."""

    handle: InputHandle
    pieces: Sequence[Piece]


class TickOwner(Protocol):
    """The interface of a run to its open tick. `commit` and `roll_back` can be repeated."""

    def recorded(self, number: int) -> bool:
        """Return whether the log of the run has a tick."""

    def commit(self, work: OpenTick) -> None: ...

    def roll_back(self) -> None: ...


class OpenTick(OpenWork):
    """A tick: staged, computed, recorded in the log, decided, and then committed in memory."""

    __slots__ = ("_run", "committed", "label", "latest", "number", "recording", "result", "taken")

    def __init__(self, run: TickOwner, frame: FrameType, number: int, label: Any) -> None:
        super().__init__("step", frame)
        self._run = run
        self.number = number
        self.label = label
        self.taken: list[TakenPieces] = []
        self.result: TickResult | None = None
        self.latest: LatestTick | None = None
        self.recording = False
        """Whether the log has been asked to record the tick; if it has, the tick is decided."""
        self.committed = False

    def settle(self) -> None:
        if not self.decided and self.recording:
            # The interrupt may have arrived after the log had recorded the tick.
            self.decided = self._run.recorded(self.number)
        if not self.decided:
            self._run.roll_back()
        elif not self.committed:
            self._run.commit(self)
