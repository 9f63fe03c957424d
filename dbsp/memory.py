"""Giving memory back to the system.

The C library keeps what was freed, for the next time; after large arrays were merged that can be as much as
is in use.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


def give_back() -> None:
    """Return freed memory to the system, where the C library can (glibc); milliseconds for gigabytes."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
    return found
