"""Ctrl-C while a tick is computed: either the tick is rolled back, or it commits completely."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from dbsp.runtime.run import Run


@contextmanager
def ends_tick(run: Run) -> Iterator[None]:
    """Raise KeyboardInterrupt for the first interrupt while the tick can still roll back.

    Ignores further interrupts during the rollback, and any interrupt during the commit.
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
