"""Packets of rows between two processes, each with its own interner: every value travels once.

An `Outbox` numbers the interned values that it sends 0, 1, 2, ... and the `Inbox` at the other end
keeps the id of each number in its own interner. A packet has the rows with such numbers in place of
ids, and *pieces* with the values that are new. A value that was sent before costs one look-up per
row at each end.

Numbers are counted per *space*, since the meaning of an id depends on the type of its column: one
space for strings, bytes and objects, and one for each type of lists, structs and records. A piece
refers to the parts of its values by their numbers, so the pieces of parts come before, and nothing
recurses into values.

Ids are never used for another value, also when values are freed. The owner of an Outbox or Inbox
replaces `interner` when the run replaces its own (see `dbsp.data.live_values`). Then an Outbox
begins again, so it has no more numbers than its interner has values; an Inbox keeps the pieces, and
reads them again when a packet refers to values that were freed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import xxhash

from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.types import Type
from dbsp.durable.typed_values import UnsupportedValueError
from dbsp.errors import InputError, InvariantError, shorten
from dbsp.kernels import consolidate
from dbsp.kernels.arrays import Codes
from dbsp.shards.packet_frames import Buffer, PacketHead, numbers_of, packet, read_packet
from dbsp.shards.received_values import Piece, ReceivedValues
from dbsp.shards.sent_values import Pieces, SentValues


class Outbox:
    """The sending end of a connection."""

    def __init__(self, interner: Interner, allow_pickle: bool = False) -> None:
        self.interner = interner
        """The interner of the rows to send; the owner replaces it as the run does."""
        self._allow_pickle = allow_pickle
        self.reset()

    def reset(self) -> None:
        """Forget what was sent: the next packet makes the other end forget all earlier ones."""
        self._values = SentValues(self.interner, self._allow_pickle)
        self._generation = self.interner.generation
        self._sent = 0

    def pack(self, batch: Batch | None, schema: Schema) -> list[Buffer]:
        """Return the buffers of a packet with these rows; none for no rows.

        Without interned columns the buffers show the memory of the batch. Raises InputError for a
        value without a typed encoding; the next packet then begins again.
        """
        if batch is None or not len(batch):
            return []
        if self.interner.generation != self._generation:
            self.reset()
        self._values.follow(self.interner)
        try:
            return self._packet(batch, schema)
        except BaseException:
            self.reset()
            raise

    def _packet(self, batch: Batch, schema: Schema) -> list[Buffer]:
        pieces, rows = Pieces(), batch.rows
        form = _form(schema.types)
        for column in form.interned:
            rows = rows.copy() if rows is batch.rows else rows
            try:
                self._values.number(rows, column, schema.types[column], pieces)
            except UnsupportedValueError as error:
                raise _refused(error, schema.names[column]) from None
        # Most packets insert each row once or retract it.
        weight = int(batch.weights[0])
        common = weight if (batch.weights == weight).all() else 0
        head = PacketHead(not self._sent, self._sent, form.fingerprint, len(batch), common, pieces.heads)
        buffers = packet(head, [*pieces.arrays, rows, *([] if common else [batch.weights])])
        self._sent += 1
        return buffers


class Inbox:
    """The receiving end of a connection."""

    def __init__(self, interner: Interner, allow_pickle: bool = False) -> None:
        self.interner = interner
        """The interner of the received rows; the owner replaces it as the run does."""
        self._allow_pickle = allow_pickle
        self.reset()

    def reset(self) -> None:
        """Forget all packets: the next one must be the first after a reset of the other end."""
        self._values = ReceivedValues(self.interner, self._allow_pickle)
        self._received = 0

    def unpack(self, buffers: Sequence[Buffer], schema: Schema) -> Batch | None:
        """Return the rows of a packet, or None for no buffers.

        The rows are in the memory of the buffers, which changes, if it can be written and starts at
        a multiple of 8; otherwise in a copy. Raises InvariantError for a packet that is damaged, of
        other columns, or not the next one; then the next packet must follow a reset of the other
        end.
        """
        batch = self.unpack_unsorted(buffers, schema)
        if batch is None or not _form(schema.types).interned:
            return batch
        # The ids of the values are in another order here than at the sender.
        return Batch(*consolidate(batch.rows, batch.weights))

    def unpack_unsorted(self, buffers: Sequence[Buffer], schema: Schema) -> Batch | None:
        """Do as `unpack`, but return the rows in the order of the sender."""
        if not buffers:
            return None
        try:
            return Batch(*self._rows(buffers, schema))
        except BaseException:
            self.reset()
            raise

    def _rows(self, buffers: Sequence[Buffer], schema: Schema) -> tuple[Codes, Codes]:
        head, arrays = read_packet(buffers)
        if head.fresh:
            self.reset()
        if head.number != self._received:
            raise InvariantError(
                f"expected packet {self._received} of this connection, got packet {head.number}"
            )
        form = _form(schema.types)
        if head.fingerprint != form.fingerprint:
            raise InvariantError(f"expected a packet of rows ({schema.describe()}), got one of other columns")
        if self.interner is not self._values.interner:
            self._values.follow(self.interner)
        count, at = head.rows, 0
        if form.interned:
            pieces = []
            for kind, space, details, used in head.pieces:
                # Copies, since a buffer may show the memory of a whole message.
                pieces.append(Piece(kind, space, details, list(map(bytes, arrays[at : at + used]))))
                at += used
            self._values.receive(pieces, schema.types)
        rows = numbers_of(arrays[at], schema.arity) if schema.arity else np.empty((count, 0), np.int64)
        weights = np.full(count, head.weight, np.int64) if head.weight else numbers_of(arrays[at + 1])
        if len(rows) != count or len(weights) != count:
            raise InvariantError("expected a packet with as many rows as weights")
        for column in form.interned:
            self._values.translate(rows, column, schema.types[column])
        self._received += 1
        return rows, weights


class PacketConnection:
    """Both directions of the packets between two processes, at one of the two ends."""

    __slots__ = ("inbox", "outbox")

    def __init__(self, interner: Interner) -> None:
        self.outbox = Outbox(interner)
        self.inbox = Inbox(interner)

    def use(self, interner: Interner) -> None:
        """Continue with the interner that replaces the one of the rows."""
        self.outbox.interner = self.inbox.interner = interner

    def reset(self) -> None:
        """Forget which values were sent; the other end does so before the next packet."""
        self.outbox.reset()
        self.inbox.reset()


class _Form(NamedTuple):
    """What a packet depends on in the types of the columns."""

    fingerprint: int
    interned: tuple[int, ...]
    """The columns with interned values."""


@lru_cache(maxsize=1024)
def _form(types: tuple[Type, ...]) -> _Form:
    fingerprint = xxhash.xxh3_64_intdigest("; ".join(type_.written for type_ in types).encode())
    return _Form(fingerprint, tuple(column for column, type_ in enumerate(types) if type_.interned))


def _refused(error: UnsupportedValueError, column: str) -> InputError:
    """Return the error for a value of a column that has no typed encoding."""
    reason = error.reason and f" ({error.reason})"
    return InputError(
        f"column {column!r} holds {shorten(error.value)} of class {type(error.value).__name__}, which one "
        f"shard cannot send to another{reason}; use values of the standard classes, such as tuples, "
        "strings and numbers, or run on one shard",
        code="unsupported-value",
    )
