"""Work on a run that has started and has not ended, such as a tick.

An exception may end a tick at any bytecode: a signal handler raises, an allocation fails, a
function of the user raises. Even the code that undoes a tick may be interrupted. So a run notes its
work before it starts, and whether the work is decided: undecided work is undone, decided work is
completed. Both can be repeated, and the next use of the run repeats what an interrupt has prevented
(`RunBase.settle`).
"""

from __future__ import annotations

import sys
import threading
from types import FrameType

from dbsp.errors import CircuitError


class OpenWork:
    """One piece of work on a run; `name` is the method that does it.

    `frame` is the frame of the call that does the work: the work is abandoned when this call has
    ended. `decided` says whether the work is to be completed or to be undone.
    """

    __slots__ = ("_thread", "decided", "frame", "name")

    def __init__(self, name: str, frame: FrameType | None) -> None:
        self.name = name
        self.frame = frame
        self._thread = threading.get_ident()
        self.decided = False

    def settle(self) -> None:
        """Complete decided work, undo other work. If this is interrupted, call it again."""

    def runs_here(self) -> bool:
        """Return whether a caller of this function does the work.

        Raises CircuitError when another thread does.
        """
        if self._thread == threading.get_ident():
            return _among_callers(self.frame, sys._getframe())
        if _among_callers(self.frame, sys._current_frames().get(self._thread)):
            names = {thread.ident: thread.name for thread in threading.enumerate()}
            raise CircuitError(
                f"{self.name} is running in thread '{names.get(self._thread, self._thread)}', and a run "
                "serves one thread at a time; call the run from one thread, or protect it with a lock",
                code="run-in-other-thread",
            )
        return False


def _among_callers(frame: FrameType | None, caller: FrameType | None) -> bool:
    while caller is not None:
        if caller is frame:
            return True
        caller = caller.f_back
    return False
