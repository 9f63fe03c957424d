"""Interrupt a call at a chosen line of dbsp, and count its lines."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class InterruptAt:
    """Sends SIGINT to this process at a line of dbsp, by its number."""

    def __init__(self, line: int) -> None:
        self.left = line

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if "dbsp" not in frame.f_code.co_filename:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                signal.raise_signal(signal.SIGINT)
        return self._trace

    def call(self, function: Callable[[], Any]) -> bool:
        """Call the function; return whether it was interrupted."""
        sys.settrace(self._trace)
        try:
            function()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(None)
        return False


def count_lines(function: Callable[[], Any]) -> int:
    """Call the function; return the number of lines of dbsp that it ran."""
    counter = InterruptAt(0)
    counter.call(function)
    return -counter.left
