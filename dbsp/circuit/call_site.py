"""The source line of the caller of this package."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

from dbsp.caller_tracebacks import is_own


def call_site() -> str:
    """Return `file:line` of the innermost frame outside this package, or "" if there is none.

    A frame belongs to the package if its globals do. So methods that dataclasses generate are
    skipped, and code run by `python -c` or `exec` is found. O(depth of the stack).
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own(frame):
        frame = frame.f_back
    return "" if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
