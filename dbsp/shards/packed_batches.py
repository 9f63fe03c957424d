"""Batches by name as packets: the changes of inputs, and the deltas of outputs.

A packet of `dbsp.shards.value_packets` is a list of buffers, and a message has one list of buffers.
So the message says how many buffers each packet has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbsp.data.batch import Batch
from dbsp.data.schema import Schema
from dbsp.lazy_dataclass import dataclass
from dbsp.shards.command_channel import Buffer
from dbsp.shards.value_packets import PacketConnection


@dataclass(frozen=True, slots=True)
class PackedBatches:
    """The names of batches, the numbers of buffers of their packets, and all buffers."""

    names: tuple[str, ...]
    packets: tuple[int, ...]
    buffers: Sequence[Buffer]


class BatchPost(PacketConnection):
    """The connection between the coordinator and one shard, for batches by name."""

    __slots__ = ()

    def pack(self, batches: Mapping[str, Batch], schemas: Mapping[str, Schema]) -> PackedBatches:
        packed = [self.outbox.pack(batch, schemas[name]) for name, batch in batches.items()]
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
            batch = self.inbox.unpack(buffers[start : start + count], schemas[name])
            start += count
            if batch is not None:
                batches[name] = batch
        return batches
