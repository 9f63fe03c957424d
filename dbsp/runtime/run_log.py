"""What a run needs of a checkpoint (see `dbsp.durable`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from dbsp.data.batch import Batch
from dbsp.runtime.run_base import RunBase
from dbsp.runtime.tick_result import TickResult


class RunLog(Protocol):
    """Makes the ticks of a run durable."""

    label: Any
    """The label of the latest durable tick."""
    result: TickResult | None
    """What that tick did, if it is known."""

    def begin(self, run: RunBase) -> None:
        """A tick is about to begin; the one before it is settled."""

    def record(self, tick: int, staged: Mapping[str, Batch], run: RunBase, label: Any) -> None:
        """The tick can become final; it does once this returns, and else is undone."""

    def committed(self, result: TickResult, label: Any) -> None:
        """The tick has become final."""

    def snapshot(self) -> None:
        """Write the whole state now."""

    def close(self) -> None:
        """Let go of the run."""
