"""Work in a daemon thread beside the ticks of a run, in pieces that do not delay them.

Python computes in one thread at a time, and a thread that computes keeps the others waiting for 5
ms, which is many ticks. So the work calls `rest` between pieces of a fraction of a millisecond;
system calls, checksums and operations on large arrays release the interpreter by themselves.

The end of the interpreter waits for the work, and so does opening a folder in which a run of this
process, which nobody has any more, still writes.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from dbsp.deferred_signals import call_undisturbed

T = TypeVar("T")

_PIECE = 0.0002
"""The seconds for which work computes at most before it rests, if it calls `rest` often enough."""

_REST = 0.001
"""The seconds of a rest; the thread of the ticks needs a fraction of this to wake up."""


class BackgroundWork(Generic[T]):
    """A call of a function in a thread; `folder` is the folder in which it writes."""

    def __init__(self, folder: Path, function: Callable[[], T]) -> None:
        self.folder = folder.absolute()
        self.process = os.getpid()
        self.rested = 0.0
        """When the work has rested last."""
        self.hurried = False
        """Whether somebody waits, so that the work does not rest."""
        self._function: Callable[[], T] | None = function
        self._result: list[T] = []
        self.error: BaseException | None = None
        """What the function has raised."""
        # Whether the thread works or never will; the first one who decides it sets the only key.
        self._decided: dict[None, bool] = {}
        self._thread = threading.Thread(target=self._work, name=f"snapshot of {folder}", daemon=True)
        self.done = False

    def start(self) -> None:
        """Start the thread. Raises RuntimeError if the system has no more threads."""
        _RUNNING.add(self)
        try:
            call_undisturbed(self._thread.start)
        except BaseException:
            if self.abandoned:
                _RUNNING.discard(self)
            raise

    def _work(self) -> None:
        if not self._decided.setdefault(None, True):
            return
        _LOCAL.work = self
        rest()  # the tick that has started this continues first
        try:
            if self._function is not None:
                self._result.append(self._function())
        except BaseException as error:
            self.error = error
        finally:
            self._function = None  # it refers to the captured state, and to the lock of the folder
            self.done = True
            _RUNNING.discard(self)

    @property
    def abandoned(self) -> bool:
        """Whether the thread was never started, as after an interrupt; it then never will work."""
        return self._thread.ident is None and not self._decided.setdefault(None, False)

    @property
    def result(self) -> T:
        """What the function has returned, if the work is done without an error."""
        return self._result[0]

    def wait(self) -> None:
        """Wait for the end of the work, which does not rest any more."""
        self.hurried = True
        if self._thread.ident is not None and self.process == os.getpid():
            self._thread.join()


class _Local(threading.local):
    work: BackgroundWork[Any] | None = None


_LOCAL = _Local()
_RUNNING: set[BackgroundWork[Any]] = set()


def rest() -> None:
    """Let other threads compute, if this is background work that has computed for a while."""
    work = _LOCAL.work
    if work is not None and not work.hurried and time.perf_counter() - work.rested > _PIECE:
        time.sleep(_REST)
        work.rested = time.perf_counter()


def pause(seconds: float) -> None:
    """Rest for some time, if this is background work."""
    if in_background():
        time.sleep(seconds)


def in_background() -> bool:
    """Return whether the caller is background work that should rest."""
    work = _LOCAL.work
    return work is not None and not work.hurried


def wait_for_folder(folder: Path) -> None:
    """Wait until no work of this process writes in a folder."""
    for work in list(_RUNNING):
        if work.folder == folder.absolute():
            work.wait()


@atexit.register
def _wait_for_all() -> None:
    for work in list(_RUNNING):
        work.wait()
