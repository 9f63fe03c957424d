"""Batches by name as packets: the changes of inputs, and the deltas of outputs.

A packet of `dbsp.shards.value_packets` is a list of buffers, and a message has one list of buffers.
So the message says how many buffers each packet has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.shards.command_channel import Buffer
from dbsp.shards.value_packets import Inbox, Outbox


@dataclass(frozen=True, slots=True)
class PackedBatches:
    """The names of batches, the numbers of buffers of their packets, and all buffers."""

    names: tuple[str, ...]
    packets: tuple[int, ...]
    buffers: Sequence[Buffer]


class BatchPost:
    """Both directions between the coordinator and one shard, at one of the two ends."""

    def __init__(self, interner: Interner) -> None:
        self._outbox = Outbox(interner)
        self._inbox = Inbox(interner)

    def use(self, interner: Interner) -> None:
        """Continue with the interner that replaces the one of the rows."""
        self._outbox.interner = self._inbox.interner = interner

    def forget(self) -> None:
        """Forget which values were sent; the other end does so before the next message."""
        self._outbox.reset()
        self._inbox.reset()

    def pack(self, batches: Mapping[str, Batch], schemas: Mapping[str, Schema]) -> PackedBatches:
        packed = [self._outbox.pack(batch, schemas[name]) for name, batch in batches.items()]
        buffers = [buffer for packet in packed for buffer in packet]
        return PackedBatches(tuple(batches), tuple(map(len, packed)), buffers)

    def unpack(
        self,
        names: Sequence[str],
        packets: Sequence[int],
        buffers: Sequence[Buffer],
        schemas: Mapping[str, Schema],
    ) -> dict[str, Batch]:
        batches = {}
        start = 0
        for name, count in zip(names, packets, strict=True):
            batch = self._inbox.unpack(buffers[start : start + count], schemas[name])
            start += count
            if batch is not None:
                batches[name] = batch
        return batches
