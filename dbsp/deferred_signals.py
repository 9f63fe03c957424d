"""Defer signals during calls that no exception may interrupt, wait so that signals are handled, and
find disguised interrupts.
"""

from __future__ import annotations

# The functions of `signal` look for each number and handler in an enum, which takes ten times as
# long.
import _signal  # type: ignore[import-not-found]
import select
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

_SIGNALS = tuple(sorted(map(int, signal.valid_signals())))


class _Deferral:
    """A signal handler that waits with the signal during `call`, and else passes it on.

    An error can leave it in place after the call, such as a MemoryError in the lines that remove
    it. So not a flag says whether the call lasts, but the stack.
    """

    def __init__(self, number: int, handler: Callable[[int, FrameType | None], Any], call: FrameType) -> None:
        self.number = number
        self.handler = handler
        self.call: FrameType | None = call
        self.waiting = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        caller = frame
        while caller is not None and caller is not self.call:
            caller = caller.f_back
        if caller is None:
            self.handler(number, frame)
        else:
            self.waiting = True


def call_undisturbed(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function; the signals that arrive meanwhile are handled after it.

    Only signals with a handler in Python are deferred, and only in the main thread, which is the
    one that handles signals.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*arguments)
    deferrals: list[_Deferral] = []
    try:
        for number, handler in zip(_SIGNALS, map(_signal.getsignal, _SIGNALS), strict=True):
            if callable(handler):
                deferrals.append(_Deferral(number, handler, sys._getframe()))
                _signal.signal(number, deferrals[-1])
        return function(*arguments)
    finally:
        for deferral in deferrals:
            deferral.call = None  # even if a signal interrupts the next lines
        for deferral in deferrals:
            _signal.signal(deferral.number, deferral.handler)
        for deferral in deferrals:
            if deferral.waiting:
                deferral.handler(deferral.number, sys._getframe())


_HANDLED_EVERY = 500.0


def poll_interruptibly(poll: select.poll, milliseconds: float | None = None) -> list[tuple[int, int]]:
    """Return what a poll finds, after so many milliseconds at most; handle signals meanwhile.

    A poll of the main thread ends for a signal only if this thread receives it during the poll.
    Another thread may receive it, or it arrives between the last bytecode and the poll. So a wait
    without a limit consists of several polls, half a second each.
    """
    if milliseconds is not None:
        return poll.poll(milliseconds)
    while not (found := poll.poll(_HANDLED_EVERY)):
        pass
    return found


def interrupt_behind(error: BaseException) -> BaseException:
    """Return the interrupt that Numba reports as a SystemError at the first call of a kernel.

    Return any other error unchanged.
    """
    cause: BaseException | None = error
    while isinstance(cause, SystemError):
        cause = cause.__cause__
    return cause if isinstance(cause, KeyboardInterrupt | MemoryError) else error
