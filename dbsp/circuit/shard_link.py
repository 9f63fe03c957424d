"""The connection of a step to the other shards that run the same circuit.

A *sharded run* runs one distributed circuit in several processes, each on a part of the rows. Every
process steps the same nodes in the same order, so the n-th exchange of a tick meets the n-th
exchange of every other shard. `Alone` is the connection of a run with a single shard.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from dbsp.data.batch import Batch
from dbsp.data.schema import Schema
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SentRows:
    """The parts of a stream that a shard sends to each shard, whose rows are in any order."""

    parts: Sequence[Batch | None]
    schema: Schema


@dataclass(frozen=True, slots=True)
class Exchanged:
    """What an exchange of several streams brings: what each shard has sent, as it was sent."""

    parts: Sequence[Sequence[Batch | None]]
    """By stream and shard, the rows in the order of that shard. Values are ids of the receiver."""
    numbers: Sequence[tuple[int, ...]]
    """By shard, the numbers of its vote."""


class ShardLink(ABC):
    """What the steps of one shard ask of the others. All shards make the same calls in order."""

    shard: int
    """The number of this shard, from 0 on."""
    shards: int
    """The number of shards."""
    changed: frozenset[str] | None = None
    """The inputs that this tick changes on any shard; None if that is not known."""

    @abstractmethod
    def exchange(self, node: str, parts: Sequence[Batch | None], schema: Schema) -> Batch | None:
        """Send `parts[s]` to each shard s; return the sum of the parts that all send to this one.

        `node` names the exchange in errors and statistics, and no other exchange. The rows have the
        columns of `schema`; the values of interned columns travel, and are ids of the receiver in
        the result.
        """

    def pack(self, node: str, parts: Sequence[Batch | None], schema: Schema) -> Any:
        """Return the arguments of an exchange as `exchange_packed` expects them."""
        return node, parts, schema

    def exchange_packed(self, packed: Sequence[Any]) -> list[Batch | None]:
        """Do several exchanges at once, in the order in which they were packed; return the results.

        So exchanges that do not need the results of each other wait once for the other shards.
        """
        return [self.exchange(*each) for each in packed]

    @abstractmethod
    def exchange_all(self, node: str, sent: Sequence[SentRows], numbers: Sequence[int]) -> Exchanged:
        """Send the parts of several streams at once, and vote with `numbers` as `vote` does.

        All shards pass the same number of streams with the same schemas, in the same order.
        """

    @abstractmethod
    def vote(self, numbers: Sequence[int]) -> list[tuple[int, ...]]:
        """Return by shard the numbers that it passes to this call; the shards pass equally many."""


class Alone(ShardLink):
    """A run with a single shard."""

    shard = 0
    shards = 1

    def exchange(self, node: str, parts: Sequence[Batch | None], schema: Schema) -> Batch | None:
        return parts[0]

    def exchange_all(self, node: str, sent: Sequence[SentRows], numbers: Sequence[int]) -> Exchanged:
        return Exchanged([stream.parts for stream in sent], [tuple(numbers)])

    def vote(self, numbers: Sequence[int]) -> list[tuple[int, ...]]:
        return [tuple(numbers)]
