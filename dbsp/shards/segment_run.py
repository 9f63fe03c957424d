"""The run of one segment of a distributed circuit on one shard.

A tick of a segment receives the rows that other segments have sent, and returns the rows that it
sends; it never waits for another shard. The rows travel as *messages*: packets that need no other
packet. Every reader of a message gets the same rows, however often it reads it. Messages are
small, because Spark holds many of them at once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dbsp.circuit.graph import Graph
from dbsp.circuit.shard_link import Exchanged, SentRows, ShardLink
from dbsp.data.batch import Batch, merge_sorted
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.durable.state_image import read_image, write_image
from dbsp.errors import InvariantError
from dbsp.runtime.run import Run
from dbsp.runtime.tick_result import TickResult
from dbsp.shards.packet_frames import Buffer
from dbsp.shards.value_packets import Inbox, Outbox

_LENGTH = struct.Struct("<Q")
MESSAGE_BYTES = 2 << 20
"""The most bytes of a message, unless it has one row only."""


@dataclass(frozen=True, slots=True)
class MovedRows:
    """The rows that one exchange of a segment sends to one shard."""

    exchange: str
    """The name of the exchange, as steps give it to their link."""
    shard: int
    message: bytes


class SegmentLink(ShardLink):
    """Keeps what the exchanges of a segment send; their rows arrive in later segments."""

    def __init__(self, shard: int, shards: int, interner: Interner) -> None:
        self.shard = shard
        self.shards = shards
        self._interner = interner
        self._sent: list[MovedRows] = []

    def take(self) -> list[MovedRows]:
        """Return what the tick has sent, and begin the next tick."""
        sent, self._sent = self._sent, []
        return sent

    def exchange(self, node: str, parts: Sequence[Batch | None], schema: Schema) -> Batch | None:
        for shard, part in enumerate(parts):
            if part is not None:
                for message in written_rows(part, schema, self._interner):
                    self._sent.append(MovedRows(node, shard, message))
        return None

    def exchange_all(self, node: str, sent: Sequence[SentRows], numbers: Sequence[int]) -> Exchanged:
        raise _waiting(node)

    def vote(self, numbers: Sequence[int]) -> list[tuple[int, ...]]:
        raise _waiting("a recursion")


def _waiting(node: str) -> InvariantError:
    return InvariantError(
        f"expected a segment whose nodes do not wait for other shards, got {node}; this is a defect of dbsp"
    )


class SegmentRun:
    """A run of the circuit of a segment, for one shard of a number of shards."""

    def __init__(
        self,
        graph: Graph,
        shard: int,
        shards: int,
        image: Path | None = None,
        memory_limit: int | None = None,
    ) -> None:
        """Start without rows, or with the state that `write` has written to the folder `image`."""
        self.memory_limit = memory_limit
        self._interner = Interner()
        self._link = SegmentLink(shard, shards, self._interner)
        if image is None:
            self.run = Run(graph, interner=self._interner, memory_limit=memory_limit, link=self._link)
        else:
            self.run = read_image(image, graph, self._interner, self._link, memory_limit)

    def write(self, image: Path, sync: bool = False) -> None:
        """Write the state to an empty folder. O(state). Raises CheckpointError."""
        write_image(self.run, image, sync)

    def step(self, received: Mapping[str, Iterable[bytes]]) -> tuple[list[MovedRows], TickResult]:
        """Apply the messages of a tick by input; return what is sent, and the deltas of outputs.

        Raises as `Run.step`; the run is then as before the tick.
        """
        self._link.take()  # of a tick that has failed
        staged: dict[str, Batch] = {}
        for name, messages in received.items():
            batch = read_rows(messages, self.run.inputs[name], self._interner)
            if batch is not None:
                staged[name] = batch
        result = self.run.step_staged(staged)
        return self._link.take(), result


def written_rows(batch: Batch, schema: Schema, interner: Interner) -> Iterator[bytes]:
    """Yield a batch as messages. Raises InputError for a value without a typed encoding."""
    rows = max(1, MESSAGE_BYTES // (8 * (batch.arity + 1)))
    for start in range(0, len(batch), rows):
        part = Batch(batch.rows[start : start + rows], batch.weights[start : start + rows])
        yield from _messages(part, schema, interner)


def _messages(batch: Batch, schema: Schema, interner: Interner) -> Iterator[bytes]:
    """Yield a batch as one message, or halves of it as messages if its values are too large."""
    message = _message(batch, schema, interner)
    if len(message) <= MESSAGE_BYTES or len(batch) == 1:
        yield message
        return
    middle = len(batch) // 2
    for half in (slice(None, middle), slice(middle, None)):
        yield from _messages(Batch(batch.rows[half], batch.weights[half]), schema, interner)


def _message(batch: Batch, schema: Schema, interner: Interner) -> bytes:
    buffers = [memoryview(buffer).cast("B") for buffer in Outbox(interner).pack(batch, schema)]
    lengths = b"".join(_LENGTH.pack(len(buffer)) for buffer in buffers)
    return b"".join((_LENGTH.pack(len(buffers)), lengths, *buffers))


def read_rows(messages: Iterable[bytes], schema: Schema, interner: Interner) -> Batch | None:
    """Return the sum of the rows of messages, as ids of the interner."""
    parts = [Inbox(interner).unpack(_buffers(message), schema) for message in messages]
    return merge_sorted([(part.rows, part.weights) for part in parts if part is not None])


def _buffers(message: bytes) -> list[Buffer]:
    (count,) = _LENGTH.unpack_from(message)
    start = _LENGTH.size * (1 + count)
    buffers: list[Buffer] = []
    for place in range(count):
        (length,) = _LENGTH.unpack_from(message, _LENGTH.size * (1 + place))
        buffers.append(memoryview(message)[start : start + length])
        start += length
    if start != len(message):
        raise InvariantError("expected a message with the length of its packet; this is a defect of dbsp")
    return buffers
