"""The log of a sharded run: it makes a tick count that all shards have recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakMethod

from dbsp.data.batch import Batch
from dbsp.durable.tick_recorder import check_label
from dbsp.errors import expect_present
from dbsp.runtime.run_base import RunBase
from dbsp.runtime.run_log import RunLog, UpdateLog
from dbsp.runtime.tick_result import TickResult
from dbsp.shards.shard_folder import ShardFolder


class SharedLog(RunLog):
    """The log of the run in the coordinator's process; the shards have the changes in their logs.

    `write_snapshots` lets all shards write snapshots now, and `end` ends the run. They are weak, so
    that the processes of a run that nobody has any more end at once.
    """

    def __init__(
        self,
        folder: ShardFolder,
        write_snapshots: WeakMethod[Callable[[], None]],
        end: WeakMethod[Callable[[], None]],
    ) -> None:
        self.folder = folder
        self.label: Any = None
        self.result: TickResult | None = None
        self._write_snapshots = write_snapshots
        self._end = end

    @property
    def id(self) -> str:
        return expect_present(self.folder.header, "the header of a started run").id

    def begin(self, run: RunBase) -> None:
        """Do nothing: the command of a tick orders the snapshots."""

    def record(self, tick: int, staged: Mapping[str, Batch], run: RunBase, label: Any) -> None:
        """Make a tick count. Raises CheckpointError if it does not."""
        self.folder.commit(tick)

    def check_label(self, label: Any) -> None:
        check_label(label)

    def record_part(self, tick: int, staged: Mapping[str, Batch], run: RunBase) -> None:
        raise AssertionError("a sharded run has no transactions")

    def discard_parts(self) -> None:
        """Do nothing: there are no parts."""

    def recorded(self, tick: int) -> bool:
        return self.folder.committed(tick)

    def committed(self, result: TickResult, label: Any) -> None:
        self.result, self.label = result, label

    def begin_update(self, run: RunBase) -> UpdateLog:
        raise AssertionError("a sharded run has no updates")

    def snapshot(self) -> None:
        """Write snapshots of all shards; they are durable when this returns."""
        expect_present(self._write_snapshots(), "the run of a log")()

    def wait(self) -> None:
        """Do nothing: the end of a shard waits for its snapshot."""

    def close(self) -> None:
        """End the shards and release the folder; the run cannot be used any more."""
        expect_present(self._end(), "the run of a log")()
