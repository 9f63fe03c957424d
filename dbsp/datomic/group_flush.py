"""Makes committed transactions durable together, in a thread, a short time after the first one."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final

INTERVAL: Final = 0.01
"""Seconds from a transaction to the fsync that makes it survive a power loss."""


class GroupFlush:
    """Calls fsync on a file that others write, at most once per interval.

    The file is the write-ahead log of SQLite. An fsync of any descriptor flushes its pages.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1
        self._condition = threading.Condition()
        self._requested = False
        self._closing = False
        self._failure: OSError | None = None
        self._thread: threading.Thread | None = None

    def request(self) -> None:
        """Have the file flushed after the interval."""
        with self._condition:
            if self._descriptor < 0:
                self._descriptor = os.open(self._path, os.O_RDWR)
                self._thread = threading.Thread(target=self._run, name="dbsp-group-flush", daemon=True)
                self._thread.start()
            if not self._requested:
                self._requested = True
                self._condition.notify_all()

    def raise_failure(self) -> None:
        """Raise the error of an earlier flush: its transactions may not survive a power loss."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Flush what is requested, and end the thread. Raises OSError if a flush has failed."""
        with self._condition:
            self._closing = True
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self.raise_failure()

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._requested or self._closing)
                if not self._requested:
                    return
                self._condition.wait_for(lambda: self._closing, INTERVAL)
                self._requested = False
            try:
                os.fsync(self._descriptor)
            except OSError as error:
                self._failure = error
                return
