"""The interface of a run to its checkpoint (see `dbsp.durable`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from dbsp.data.batch import Batch
from dbsp.runtime.run_base import RunBase
from dbsp.runtime.tick_result import TickResult
from dbsp.runtime.update_report import Updated


class UpdatedProgram(Protocol):
    """The program after an update."""

    @property
    def identity(self) -> str:
        """Identifies the program in a checkpoint."""

    @property
    def source(self) -> dict[str, Any]:
        """The program as JSON, for its compiler."""

    @property
    def plans(self) -> str | None:
        """The plans of its rules as JSON; None if the program alone gives them."""


class UpdateLog(Protocol):
    """Makes the update of a run to another program durable, as one tick.

    The run calls `record` when the new circuit has its state, then `committed` if the update is
    decided, and `withdraw` if it is not. These two may be called more than once, and never raise.
    """

    def record(
        self, program: UpdatedProgram, staged: Mapping[str, Batch], run: RunBase, done: Updated
    ) -> None:
        """Write the state of the run as that of the new program; this decides the update.

        `staged` are the changed facts, and `done` is the report of the update. If it raises,
        `decided` says whether the update counts.
        """

    def decided(self) -> bool:
        """Return whether the log belongs to the new program. Raises CheckpointError if unknown."""

    def withdraw(self) -> None:
        """Remove what was written; the log belongs to the old program."""

    def committed(self, result: TickResult) -> None:
        """Continue the log after the update."""


class RunLog(Protocol):
    """Makes the ticks of a run durable."""

    @property
    def id(self) -> str:
        """The unique name of the checkpoint."""

    label: Any
    """The label of the latest durable tick."""
    result: TickResult | None
    """The result of that tick; None before the first tick."""

    def begin(self, run: RunBase) -> None:
        """Called before a tick; the previous tick is committed."""

    def record(self, tick: int, staged: Mapping[str, Batch], run: RunBase, label: Any) -> None:
        """Called before the commit; the tick is durable when this returns.

        If it raises, `recorded` decides whether the tick is rolled back or committed.
        """

    def check_label(self, label: Any) -> None:
        """Raise ArgumentError for a label that cannot be stored."""

    def record_part(self, tick: int, staged: Mapping[str, Batch], run: RunBase) -> None:
        """Called for each part of a transaction; the record of its tick makes the part final.

        `begin` is called before the first part. The tick itself is recorded without changes.
        """

    def discard_parts(self) -> None:
        """Called when a transaction is rolled back, perhaps more than once; never raises."""

    def recorded(self, tick: int) -> bool:
        """Return whether a tick is in the log, so that it must be committed in memory, too."""

    def committed(self, result: TickResult, label: Any) -> None:
        """Called during the commit of a recorded tick, perhaps more than once; never raises."""

    def begin_update(self, run: RunBase) -> UpdateLog:
        """Called before an update; the previous tick is committed."""

    def snapshot(self) -> None:
        """Write the state after the latest tick; it is durable when this returns."""

    def wait(self) -> None:
        """Wait until no snapshot is being written in the background."""

    def close(self) -> None:
        """Release the run."""
