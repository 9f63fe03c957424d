"""The transport of the exchanges between the shards of one run: messages from all to all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from dbsp.errors import ShardError
from dbsp.shards.packet_frames import Buffer


class ShardAborted(ShardError):
    """Another shard gave up the current generation, so this one has to do the same.

    Attributes:
        shard: the number of the other shard.
    """

    code = "shard-aborted"

    def __init__(self, shard: int) -> None:
        super().__init__(f"shard {shard} gave up the tick, which is rolled back on all shards")
        self.shard = shard


class ShardLost(ShardError):
    """The process of another shard has ended.

    Attributes:
        shard: the number of that shard.
    """

    code = "shard-lost"

    def __init__(self, shard: int) -> None:
        super().__init__(f"the process of shard {shard} ended during a run; start the run again")
        self.shard = shard


class Transport(ABC):
    """Moves messages between shards that all call `exchange` equally often and in the same order.

    A *generation* is one attempt of one tick. Its exchanges are numbered. When a shard gives up a
    generation, all shards do; late messages of a generation that is over are dropped.
    """

    shard: int
    """The number of this shard, from 0 on."""
    shards: int
    """The number of shards."""

    @abstractmethod
    def begin(self, generation: int) -> None:
        """Begin a generation; its number is greater than that of all generations before."""

    @abstractmethod
    def exchange(self, name: str, messages: Sequence[Sequence[Buffer]]) -> list[list[Buffer]]:
        """Send `messages[s]` to each shard s; return by shard the messages that this one gets.

        A message is a list of buffers. The buffers that arrive from others are writable and aligned
        to 8 bytes; the own message is returned as it is. The buffers that are sent must not change
        before the next generation. Waits for all shards, for messages of any size.

        Raises:
            ShardAborted: a shard gave up this generation.
            ShardLost: the process of a shard has ended.
            InvariantError: another shard is at another exchange: the names or the numbers differ.
            MemoryLimitError: the messages do not fit into memory.
        """

    @abstractmethod
    def abort(self) -> None:
        """Give up this generation: pending and later exchanges of it raise ShardAborted on all."""

    @abstractmethod
    def close(self) -> None:
        """End the connections. The other shards notice: their exchanges raise ShardLost."""
