"""Abort of a tick that a shard computes, by a signal of the coordinator.

The coordinator of a sharded run is interrupted, as by Ctrl-C, while its shards compute. It sends a
signal, and the shard raises TickAbortedError in whatever it computes; a run undoes a tick after an
exception at any bytecode. But an exchange must not be interrupted, because it counts the bytes that
it has sent. So a shard in an exchange aborts after it. Every exchange ends: a shard that has
aborted before releases the others, and if all shards have reached it then it completes. An import
is not interrupted either, since it would leave a module in part; the coordinator repeats the
signal.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from types import FrameType
from typing import Any

from dbsp.circuit.shard_link import Exchanged, SentRows, ShardLink
from dbsp.data.batch import Batch
from dbsp.data.schema import Schema

ABORT_SIGNAL = signal.SIGINT
"""Terminals send it to the coordinator only, since each shard is in a session of its own."""

_IMPORT_SYSTEM = "<frozen importlib._bootstrap>"


class TickAbortedError(KeyboardInterrupt):
    """The coordinator aborts the tick."""


class AbortableLink(ShardLink):
    """The link of a shard, whose tick can be aborted outside of exchanges."""

    def __init__(self, link: ShardLink) -> None:
        self.shard = link.shard
        self.shards = link.shards
        self._link = link
        self._computing = False
        self._exchanging = False
        self._asked = False

    def install(self) -> None:
        """Handle the signal from now on, in the main thread of a shard process."""
        signal.signal(ABORT_SIGNAL, self._handle)

    def begin_computing(self) -> None:
        """Allow the abort, which may have been requested since the command for this tick arrived.

        Call this inside of the block that handles TickAbortedError.
        """
        self._computing = True
        self._raise_if_asked()

    def end_computing(self) -> None:
        """Raise TickAbortedError no more."""
        self._computing = False

    def end_tick(self) -> None:
        """Drop a request that came too late. Call this before the answers that end the tick.

        A request may come even later. It aborts the next tick, which the coordinator then repeats.
        """
        self._asked = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._asked = True
        if not _imports(frame):
            self._raise_if_asked()

    def _raise_if_asked(self) -> None:
        if self._asked and self._computing and not self._exchanging:
            self._computing = False  # once: the code that undoes the tick is not aborted
            raise TickAbortedError

    def exchange(self, node: str, parts: Sequence[Batch | None], schema: Schema) -> Batch | None:
        self._exchanging = True
        try:
            return self._link.exchange(node, parts, schema)
        finally:
            self._exchanging = False
            self._raise_if_asked()

    def exchange_all(self, node: str, sent: Sequence[SentRows], numbers: Sequence[int]) -> Exchanged:
        self._exchanging = True
        try:
            return self._link.exchange_all(node, sent, numbers)
        finally:
            self._exchanging = False
            self._raise_if_asked()

    def pack(self, node: str, parts: Sequence[Batch | None], schema: Schema) -> Any:
        return self._link.pack(node, parts, schema)

    def exchange_packed(self, packed: Sequence[Any]) -> list[Batch | None]:
        self._exchanging = True
        try:
            return self._link.exchange_packed(packed)
        finally:
            self._exchanging = False
            self._raise_if_asked()

    def vote(self, numbers: Sequence[int]) -> list[tuple[int, ...]]:
        self._exchanging = True
        try:
            return self._link.vote(numbers)
        finally:
            self._exchanging = False
            self._raise_if_asked()


def _imports(frame: FrameType | None) -> bool:
    """Return whether a caller of this frame imports a module."""
    while frame is not None:
        if frame.f_code.co_filename == _IMPORT_SYSTEM:
            return True
        frame = frame.f_back
    return False
