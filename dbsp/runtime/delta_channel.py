"""A channel of deltas from the thread of a run to other threads and to coroutines."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from dbsp.data.zset import ZSet
from dbsp.errors import DbspError

if TYPE_CHECKING:
    import asyncio


class DeltaChannel:
    """Deltas in the order of their ticks, until the channel is closed. Thread-safe.

    `error` is the reason for which it was closed, if there is one: readers get it after the deltas.
    """

    def __init__(self) -> None:
        self._deltas: deque[tuple[int, ZSet]] = deque()
        self._taken = -1
        """The tick of the latest delta that a reader has taken."""
        self._changed = threading.Condition()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self.closed = False
        self.error: DbspError | None = None

    def put(self, tick: int, delta: ZSet) -> None:
        """Append the delta of a tick, and wake the readers.

        If this is interrupted, call it again: the channel gets each delta once.
        """
        with self._changed:
            if tick > (self._deltas[-1][0] if self._deltas else self._taken):
                self._deltas.append((tick, delta))
            self._wake()

    def close(self, error: DbspError | None = None) -> None:
        """End the channel: readers get the deltas that are in it, and then the end."""
        with self._changed:
            if not self.closed:
                self.error = error
                self.closed = True
            self._wake()

    def _wake(self) -> None:
        self._changed.notify_all()
        for loop, event in self._waiting:
            with suppress(RuntimeError):  # the loop of the reader has been closed
                loop.call_soon_threadsafe(event.set)
        self._waiting.clear()

    def drain(self) -> list[ZSet]:
        """Remove and return the deltas that are in the channel; do not wait."""
        with self._changed:
            found: list[ZSet] = []
            while self._deltas:
                found.append(self._take())
            return found

    def take(self) -> ZSet | None:
        """Remove and return the next delta; wait for it. None at the end. Raises `error`."""
        with self._changed:
            while not self._deltas and not self.closed:
                self._changed.wait()
            return self._next()

    async def take_async(self) -> ZSet | None:
        """Do the same without blocking the event loop."""
        import asyncio  # loads slowly

        while True:
            with self._changed:
                if self._deltas or self.closed:
                    return self._next()
                event = asyncio.Event()
                self._waiting.append((asyncio.get_running_loop(), event))
            await event.wait()

    def _next(self) -> ZSet | None:
        if self._deltas:
            return self._take()
        if self.error is not None:
            raise self.error
        return None

    def _take(self) -> ZSet:
        self._taken, delta = self._deltas[0]
        self._deltas.popleft()
        return delta
