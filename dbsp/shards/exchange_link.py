"""The link of one shard: batches as packets of values over a transport.

    out_i = sum over j of part_i of shard j

The own part stays as it is. Each pair of shards has an `Outbox` and an `Inbox` per direction, which
send each interned value once. After a tick that was given up, all shards call `reset`, since a
packet may not have arrived.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from dbsp.circuit.shard_link import Exchanged, SentRows, ShardLink
from dbsp.data.batch import Batch, merge_sorted
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.errors import InvariantError
from dbsp.lazy_dataclass import dataclass
from dbsp.shards.packet_frames import Buffer
from dbsp.shards.transport import Transport
from dbsp.shards.value_packets import PacketConnection

_VOTE = "vote"
_NUMBER_SIZE = 8


@dataclass(slots=True)
class ExchangeCounters:
    """What one exchange has moved since the start, also in ticks that were given up."""

    rows_to: list[int]
    """By shard, the rows of the parts for it; a heavy key makes one of them large."""
    calls: int = 0
    rows_received: int = 0
    """The rows that came from other shards."""
    bytes_sent: int = 0
    bytes_received: int = 0
    largest_parts: int = 0
    """The sum over all calls of the rows of the largest part."""

    @property
    def rows(self) -> int:
        """The rows of all parts, the own one included."""
        return sum(self.rows_to)

    @property
    def largest_part(self) -> int:
        """The rows of all parts for the shard that gets most."""
        return max(self.rows_to)


class PackedParts(NamedTuple):
    """The parts of one exchange, and by shard the message with its part."""

    node: str
    parts: Sequence[Batch | None]
    schema: Schema
    messages: Sequence[Sequence[Buffer]]


class ExchangeLink(ShardLink):
    """A link over a transport."""

    def __init__(self, transport: Transport, interner: Interner) -> None:
        self.shard = transport.shard
        self.shards = transport.shards
        self.counters: dict[str, ExchangeCounters] = {}
        """What was moved, by the name of the exchange, which no other exchange has."""
        self.votes = 0
        """The number of votes since the start."""
        self._transport = transport
        self._interner = interner
        self._connections = {
            shard: PacketConnection(interner) for shard in range(self.shards) if shard != self.shard
        }

    @property
    def interner(self) -> Interner:
        """The interner of the rows. The owner replaces it when the run replaces its own."""
        return self._interner

    @interner.setter
    def interner(self, interner: Interner) -> None:
        self._interner = interner
        for connection in self._connections.values():
            connection.use(interner)

    def begin(self, generation: int) -> None:
        """Begin an attempt of a tick; its number is greater than all before."""
        self._transport.begin(generation)

    def abort(self) -> None:
        """Give up the tick: exchanges and votes of all shards raise ShardAborted until `begin`."""
        self._transport.abort()

    def reset(self) -> None:
        """Forget which values were sent, as all shards do after a tick that was given up."""
        for connection in self._connections.values():
            connection.reset()

    def close(self) -> None:
        """End the connections to the other shards."""
        self._transport.close()

    def exchange(self, node: str, parts: Sequence[Batch | None], schema: Schema) -> Batch | None:
        (received,) = self.exchange_packed([self.pack(node, parts, schema)])
        return received

    def pack(self, node: str, parts: Sequence[Batch | None], schema: Schema) -> PackedParts:
        messages: list[Sequence[Buffer]] = [()] * self.shards
        for shard, connection in self._connections.items():
            messages[shard] = connection.outbox.pack(parts[shard], schema)
        return PackedParts(node, parts, schema, messages)

    def exchange_packed(self, packed: Sequence[PackedParts]) -> list[Batch | None]:
        shards, count = range(self.shards), len(packed)
        joined = [_joined([each.messages[shard] for each in packed]) for shard in shards]
        answers = self._transport.exchange(packed[0].node, joined)
        parted = [_parted(answers[shard], count) if shard != self.shard else () for shard in shards]
        return [
            self._unpack(each, [replies[number] if replies else () for replies in parted])
            for number, each in enumerate(packed)
        ]

    def _unpack(self, packed: PackedParts, replies: Sequence[Sequence[Buffer]]) -> Batch | None:
        """Return the sum of the parts for this shard."""
        received = [
            batch
            for shard, connection in self._connections.items()
            if replies[shard]
            and (batch := connection.inbox.unpack(replies[shard], packed.schema)) is not None
        ]
        self._count(packed.node, [packed.parts], packed.messages, replies, sum(map(len, received)))
        return _sum(packed.parts[self.shard], received)

    def exchange_all(self, node: str, sent: Sequence[SentRows], numbers: Sequence[int]) -> Exchanged:
        messages: list[Sequence[Buffer]] = [[] for _ in range(self.shards)]
        for shard, connection in self._connections.items():
            packets = [connection.outbox.pack(stream.parts[shard], stream.schema) for stream in sent]
            head = _packed([*map(len, packets), *numbers])
            messages[shard] = [head, *(buffer for packet in packets for buffer in packet)]
        replies = self._transport.exchange(node, messages)
        votes = [tuple(numbers)] * self.shards
        parts = [[stream.parts[self.shard]] * self.shards for stream in sent]
        received = 0
        for shard, connection in self._connections.items():
            at = 1
            counts = _unpacked(replies[shard][0])
            if len(counts) != len(sent) + len(numbers):
                raise InvariantError(
                    f"{node} sends {len(sent)} streams and {len(numbers)} numbers, and shard {shard} sends "
                    f"{len(counts)} of both; this is a defect of dbsp"
                )
            votes[shard] = counts[len(sent) :]
            for number, (stream, size) in enumerate(zip(sent, counts, strict=False)):
                batch = connection.inbox.unpack_unsorted(replies[shard][at : at + size], stream.schema)
                at += size
                parts[number][shard] = batch
                received += 0 if batch is None else len(batch)
        self._count(node, [stream.parts for stream in sent], messages, replies, received)
        return Exchanged(parts, votes)

    def vote(self, numbers: Sequence[int]) -> list[tuple[int, ...]]:
        message = _packed(numbers)
        replies = self._transport.exchange(_VOTE, [[message]] * self.shards)
        self.votes += 1
        votes = [_unpacked(reply) for (reply,) in replies]
        if any(len(vote) != len(numbers) for vote in votes):
            raise InvariantError(
                f"the shards vote with different numbers of numbers: {votes}; this is a defect of dbsp"
            )
        return votes

    def _count(
        self,
        node: str,
        streams: Sequence[Sequence[Batch | None]],
        messages: Sequence[Sequence[Buffer]],
        replies: Sequence[Sequence[Buffer]],
        rows_received: int,
    ) -> None:
        counters = self.counters.get(node)
        if counters is None:
            counters = self.counters[node] = ExchangeCounters([0] * self.shards)
        sizes = [0] * self.shards
        for parts in streams:
            for shard, part in enumerate(parts):
                sizes[shard] += 0 if part is None else len(part)
        counters.calls += 1
        if any(sizes):
            counters.rows_to = [old + new for old, new in zip(counters.rows_to, sizes, strict=True)]
            counters.largest_parts += max(sizes)
            counters.bytes_sent += _size(messages)
        if rows_received:
            counters.rows_received += rows_received
            counters.bytes_received += _size(replies)


def _joined(messages: Sequence[Sequence[Buffer]]) -> Sequence[Buffer]:
    """Return several messages as one: the numbers of their buffers, then the buffers."""
    if len(messages) == 1:
        return messages[0]
    buffers = [buffer for message in messages for buffer in message]
    return [struct.pack(f"<{len(messages)}Q", *map(len, messages)), *buffers] if buffers else buffers


def _parted(joined: Sequence[Buffer], count: int) -> Sequence[Sequence[Buffer]]:
    """Return the messages of `_joined`; none if all are empty."""
    if count == 1:
        return [joined]
    if not joined:
        return ()
    if len(joined[0]) != count * _NUMBER_SIZE:
        raise InvariantError("another shard does other exchanges at once; this is a defect of dbsp")
    messages, start = [], 1
    for size in struct.unpack(f"<{count}Q", joined[0]):
        messages.append(joined[start : start + size])
        start += size
    return messages


def _packed(numbers: Sequence[int]) -> bytes:
    try:
        return struct.pack(f"<{len(numbers)}q", *numbers)
    except struct.error:
        raise InvariantError(f"a vote expects numbers of 64 bits, got {list(numbers)}") from None


def _unpacked(message: Buffer) -> tuple[int, ...]:
    return struct.unpack(f"<{memoryview(message).nbytes // _NUMBER_SIZE}q", message)


def _size(messages: Sequence[Sequence[Buffer]]) -> int:
    return sum(memoryview(buffer).nbytes for message in messages for buffer in message)


def _sum(own: Batch | None, received: list[Batch]) -> Batch | None:
    return merge_sorted([piece for piece in (own, *received) if piece])
