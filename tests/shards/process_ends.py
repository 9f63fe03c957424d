"""Whether processes have ended, which need not be children of this process."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path


def alive(process: int) -> bool:
    """Whether a process runs. One that its parent has not waited for yet has ended."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def expect_end(processes: Iterable[int]) -> None:
    """Wait until processes have ended; the time limit of the test ends the wait."""
    while any(map(alive, processes)):
        time.sleep(0.001)
