"""The source line of the caller of this package."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

_PACKAGE = __name__.partition(".")[0]


def call_site() -> str:
    """Return `file:line` of the innermost frame outside this package, or "" if there is none.

    A frame belongs to the package if its globals do. So methods that dataclasses generate are
    skipped, and code run by `python -c` or `exec` is found. O(depth of the stack).
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_own(frame):
        frame = frame.f_back
    return "" if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def _is_own(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__"))
    return name == _PACKAGE or name.startswith(f"{_PACKAGE}.")
