"""The log of a shard's run: no shard commits a tick before all shards can."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dbsp.data.batch import Batch
from dbsp.runtime.run_base import RunBase
from dbsp.runtime.run_log import RunLog, UpdatedProgram, UpdateLog
from dbsp.runtime.tick_result import TickResult
from dbsp.runtime.update_report import Updated


class WithdrawnError(BaseException):
    """The coordinator has decided to roll the tick back."""


class CommonDecision(RunLog):
    """Records a tick by an agreement with the coordinator.

    `decide` sends the results of the tick to the coordinator, waits, and returns whether to commit;
    `decide_update` does so for the update to another program.
    """

    id = ""

    def __init__(
        self, decide: Callable[[RunBase], bool], decide_update: Callable[[RunBase, Updated], bool]
    ) -> None:
        self.label: Any = None
        self.result: TickResult | None = None
        self._decide = decide
        self._decide_update = decide_update
        self._committed = 0
        """The latest tick that the coordinator has committed."""

    def begin(self, run: RunBase) -> None:
        """Do nothing."""

    def record(self, tick: int, staged: Mapping[str, Batch], run: RunBase, label: Any) -> None:
        if not self._decide(run):
            raise WithdrawnError
        self._committed = tick

    def check_label(self, label: Any) -> None:
        """Accept every label: the coordinator has checked it."""

    def record_part(self, tick: int, staged: Mapping[str, Batch], run: RunBase) -> None:
        raise AssertionError("a shard has no transactions")

    def discard_parts(self) -> None:
        """Do nothing: there are no parts."""

    def recorded(self, tick: int) -> bool:
        return tick <= self._committed

    def committed(self, result: TickResult, label: Any) -> None:
        """Do nothing."""

    def begin_update(self, run: RunBase) -> UpdateLog:
        return CommonUpdate(self._decide_update)

    def snapshot(self) -> None:
        """Do nothing: the shard has no checkpoint."""

    def wait(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class CommonUpdate(UpdateLog):
    """Records an update by an agreement with the coordinator."""

    def __init__(self, decide: Callable[[RunBase, Updated], bool]) -> None:
        self._decide = decide
        self._decided = False

    def record(
        self, program: UpdatedProgram, staged: Mapping[str, Batch], run: RunBase, done: Updated
    ) -> None:
        if not self._decide(run, done):
            raise WithdrawnError
        self._decided = True

    def decided(self) -> bool:
        return self._decided

    def withdraw(self) -> None:
        """Do nothing: nothing was written."""

    def committed(self, result: TickResult) -> None:
        """Do nothing."""
