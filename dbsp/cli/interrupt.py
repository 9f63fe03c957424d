"""Ctrl-C while a tick is computed: it ends the tick or comes too late, and nothing in between."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from dbsp.runtime.run import Run


@contextmanager
def ends_tick(run: Run) -> Iterator[None]:
    """An interrupt raises KeyboardInterrupt once, while what the tick does can still be undone.

    Later ones wait until that is done, and one that comes when the tick is becoming final is dropped.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    raised = False

    def interrupted(number: int, frame: FrameType | None) -> None:
        nonlocal raised
        if run.stepping and not raised:
            raised = True
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
