"""The threads of this process, and the one verb that uses them: `in_pieces`.

The caller takes pieces, too, so a call always proceeds, also inside a piece of another call. The
threads start at the first call with several pieces. A forked process starts its own.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from dbsp.deferred_signals import call_undisturbed
from dbsp.kernels.thread_count import threads

T = TypeVar("T")


MOST_THREADS = 256
"""No call uses more threads, whatever the caller has set."""


class _Work(Generic[T]):
    """Pieces that several threads take one by one."""

    __slots__ = ("_ended", "_errors", "_function", "_helping", "_lock", "_pieces", "_results")

    def __init__(self, count: int, function: Callable[[int], T]) -> None:
        self._pieces = deque(range(count))
        self._function = function
        self._results: list[Any] = [None] * count
        self._errors: dict[int, BaseException] = {}
        self._lock = threading.Lock()
        self._helping = 0
        """The number of threads that help the caller."""
        self._ended: SimpleQueue[None] = SimpleQueue()
        """An item for each thread that has stopped helping."""

    def help(self) -> None:
        """Take pieces in a thread of the pool."""
        with self._lock:
            self._helping += 1
        try:
            self._take()
        finally:
            with self._lock:
                self._helping -= 1
            self._ended.put(None)

    def _take(self) -> None:
        while True:
            try:
                piece = self._pieces.popleft()
            except IndexError:
                return
            try:
                self._results[piece] = self._function(piece)
            except BaseException as error:
                self._errors[piece] = error
                self._pieces.clear()
                return

    def complete(self) -> list[T]:
        """Take pieces until none is left, wait for the other threads, and return the results."""
        try:
            self._take()
        finally:
            # A thread that starts to help later finds no piece.
            self._pieces.clear()
            while self._helping:
                self._ended.get()
            del self._function  # a thread that wakes later must not keep its arrays alive
        if self._errors:
            # Pieces are taken in order. So each piece before a failed one has run, and the first
            # error is the one that a single thread finds.
            raise self._errors[min(self._errors)]
        return self._results


class _Pool:
    """The threads of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started = 0
        self._offers: SimpleQueue[_Work[Any]] = SimpleQueue()

    def offer(self, work: _Work[Any], helpers: int) -> None:
        """Let so many threads help with the work."""
        with self._lock:
            while self._started < helpers:
                thread = threading.Thread(target=self._serve, name="dbsp worker", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the system allows no further thread
                    break
                self._started += 1
        for _ in range(helpers):
            self._offers.put(work)

    def _serve(self) -> None:
        while True:
            self._offers.get().help()


_pool = _Pool()


def _start_again() -> None:
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_again)


def in_pieces(count: int, function: Callable[[int], T]) -> list[T]:
    """Return [function(0), ..., function(count - 1)], computed by several threads.

    Raises the error of the first piece that fails; later pieces may not run. When the call ends, no
    thread runs a piece any more. Signals are handled after it, as after a kernel.
    """
    helpers = min(threads(), count, MOST_THREADS) - 1
    if helpers < 1:
        return [function(piece) for piece in range(count)]
    return call_undisturbed(_complete, _Work(count, function), helpers)


def _complete(work: _Work[T], helpers: int) -> list[T]:
    try:
        _pool.offer(work, helpers)
    finally:
        results = work.complete()
    return results
