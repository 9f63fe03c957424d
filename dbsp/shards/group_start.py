"""Start and restart of the shards of a run, from a checkpoint if it has one."""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.data.interner import Interner
from dbsp.shards.shard_folder import ShardFolder
from dbsp.shards.shard_group import ShardGroup
from dbsp.shards.shard_store import ShardPlace
from dbsp.shards.shipped_graph import ShippedGraph

REPEATS = 3
"""How often a call starts shards again that have ended, before it raises."""


class GroupStart:
    """Everything that is needed to start the processes of the shards, also again."""

    def __init__(
        self,
        shards: int,
        graph: ShippedGraph,
        memory_limit: int | None,
        interner: Interner,
        folder: ShardFolder | None,
    ) -> None:
        self.folder = folder
        self._shards = shards
        self.graph = graph
        """The circuit; another one after replanning."""
        self._memory_limit = memory_limit
        self.interner = interner
        """The interner of the coordinator."""

    def __call__(self, shards: int | None = None) -> ShardGroup:
        """Start the shards; with a folder they are at the latest tick that counts.

        `shards` is their number, if it is another one than that of the run. Raises ShardError if a
        process cannot be started, CheckpointError if the folder is damaged.
        """
        number = self._shards if shards is None else shards
        folder = self.folder
        if folder is None:
            return self._start(number, None)
        return folder.recover(lambda tick: self.on([folder.place(n, tick) for n in range(number)]))

    def on(self, places: Sequence[ShardPlace]) -> ShardGroup:
        """Start shards that continue from their checkpoints."""
        return self._start(len(places), places)

    def _start(self, shards: int, places: Sequence[ShardPlace] | None) -> ShardGroup:
        return ShardGroup(shards, self.graph, self._memory_limit, self.interner, places, self.consequence)

    @property
    def consequence(self) -> str:
        """What the end of a process means for the run."""
        if self.folder is None:
            return "its part of the state is lost, so the run has ended"
        return f"the next call starts the shards again from {self.folder.folder}"
