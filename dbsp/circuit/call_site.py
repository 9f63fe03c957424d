"""The source line of the caller of this package."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

from dbsp.caller_tracebacks import is_own


def call_site() -> str:
    """Return `file:line` of the innermost frame outside this package, or "" if there is none.

    A frame belongs to the package if its globals do. So methods that dataclasses generate are
    skipped, and code run by `python -c` or `exec` is found. The file of a cell of a notebook is
    `In[3]`, as in its tracebacks. O(depth of the stack).
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own(frame):
        frame = frame.f_back
    return "" if frame is None else f"{_file_name(frame.f_code.co_filename)}:{frame.f_lineno}"


def _file_name(path: str) -> str:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None:
        cell: tuple[str, str] | None = shell.compile.format_code_name(path)
        if cell is not None:
            return cell[1]
    return Path(path).name
