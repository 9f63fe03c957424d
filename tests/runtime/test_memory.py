"""Freed memory returns to the system where the C library supports that."""

from __future__ import annotations

import ctypes
from pathlib import Path

from dbsp.runtime.memory import give_back

STATUS = Path("/proc/self/statm")


def test_freed_memory_goes_back() -> None:
    if not STATUS.exists() or not hasattr(ctypes.CDLL(None), "malloc_trim"):
        give_back()  # nothing to do, and no error
        return
    # Every tenth block stays, so that the others leave holes that the library would keep.
    blocks = [bytearray(60_000) for _ in range(1_000)]
    kept = blocks[::10]
    before = resident()
    del blocks
    give_back()
    assert before - resident() > 20_000_000
    assert len(kept) == 100


def resident() -> int:
    return int(STATUS.read_text().split()[1]) * 4096
