"""When the shards of a run write snapshots: all of them after the same tick.

A shard cannot repeat a tick alone, because its exchanges need the rows of the others. So all shards
continue from snapshots of one tick and repeat the ticks since then together. The last tick of which
every shard has a snapshot is *common*. A shard keeps that snapshot until a later one is common, and
no snapshot is ordered while a shard still writes one. So a common one exists at all times, whatever
fails on some of the shards.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from dbsp.durable.snapshot_policy import SnapshotPolicy
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """The state of the checkpoint of a shard."""

    snapshot: int
    """The tick of its latest snapshot, 0 before the first one."""
    writing: bool
    """Whether it is writing one."""
    written: int
    """The bytes of its journal that this process has written or read."""


class SnapshotPlan:
    """Decides for all shards of a run when they write snapshots."""

    def __init__(self, policy: SnapshotPolicy) -> None:
        self._policy = policy
        self.common = 0
        """The latest tick of which all shards have a snapshot."""
        self._writing = False
        self._time = time.monotonic()
        self._sizes: list[int] = []
        """By shard the bytes of its journal when the common snapshot was written."""
        self._written: list[int] = []

    def continue_from(self, tick: int) -> None:
        """Note that the shards continue from their snapshots of this tick."""
        self.common, self._writing = tick, False
        self._time, self._sizes, self._written = time.monotonic(), [], []

    def note(self, statuses: Sequence[ShardStatus]) -> None:
        """Note the state of the checkpoint of each shard after a tick."""
        self._written = [status.written for status in statuses]
        self._writing = any(status.writing for status in statuses)
        common = min(status.snapshot for status in statuses)
        if not self._writing and common > self.common:
            self.common, self._time, self._sizes = common, time.monotonic(), self._written
        self._sizes = self._sizes or [0] * len(statuses)

    def due(self, tick: int) -> bool:
        """Return whether the shards must write snapshots of this tick, the latest one."""
        if self._writing:
            return False
        grown = (now - before for now, before in zip(self._written, self._sizes, strict=True))
        return self._policy.due(tick - self.common, time.monotonic() - self._time, max(grown, default=0))
