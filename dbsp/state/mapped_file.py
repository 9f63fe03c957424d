"""Map a file for reading, without keeping a descriptor.

A run has a mapped file for each large sorted run, and may have more of them than a process may have
open files. Before Python 3.13, `mmap` keeps a descriptor for each mapping, so this calls the C
library. Windows has no such limit.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

_READ, _SHARED = 1, 1
"""PROT_READ and MAP_SHARED of all POSIX systems."""


class MappedFile:
    """The first `size` bytes of a file; they stay mapped as long as the object exists.

    Raises OSError, and ValueError for a file that is too short.
    """

    __slots__ = ("__weakref__", "_content", "address")

    def __init__(self, path: Path, size: int) -> None:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        try:
            length = os.fstat(descriptor).st_size
            if length < size:
                raise ValueError(f"expected a file of {size:,} bytes, got {length:,}")
            functions = _functions()
            self._content: mmap.mmap | None = None
            if functions is None:
                self._content = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
                self.address: int = np.frombuffer(self._content, np.uint8).ctypes.data
                return
            map_, unmap = functions
            address = map_(None, size, _READ, _SHARED, descriptor, 0)
            if address == ctypes.c_void_p(-1).value:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(path))
            self.address = address
            # Not at the end of the process: other threads may still read the pages.
            weakref.finalize(self, unmap, address, size).atexit = False
        finally:
            os.close(descriptor)

    def read(self, part: slice) -> bytes:
        """Return a part of the content."""
        return ctypes.string_at(self.address + part.start, part.stop - part.start)

    def when_released(self, call: Callable[[], None]) -> None:
        """Call a function when the file is not mapped any more, or is about to be unmapped."""
        # On Windows, a mapped file cannot be removed.
        weakref.finalize(self if self._content is None else self._content, call)


@cache
def _functions() -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """Return `mmap` and `munmap` of the C library; None on Windows."""
    if os.name != "posix":
        return None
    library = ctypes.CDLL(None, use_errno=True)
    map_, unmap = library.mmap, library.munmap
    map_.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    )
    map_.restype = ctypes.c_void_p
    unmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return map_, unmap
