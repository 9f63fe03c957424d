"""Rows as messages: packets that need no other packet, so any process can read them repeatedly.

The readers of a message get the same rows, however often and in any order they read. Messages are
small, because Spark holds many of them at once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from dbsp.data.batch import Batch, merge_sorted
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.errors import InvariantError
from dbsp.shards.packet_frames import Buffer
from dbsp.shards.value_packets import Inbox, Outbox

_LENGTH = struct.Struct("<Q")
MESSAGE_BYTES = 2 << 20
"""The most bytes of a message, unless it has one row only."""


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
    return merge_sorted([part for part in parts if part is not None])


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
