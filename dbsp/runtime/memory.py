"""Reuse freed memory, return it to the system, and limit the memory of the process.

The C library (glibc) returns the memory of a large array to the system when it is freed, and the
system clears each page of the next one: up to a third of the time of a load. Within a large tick it
keeps such memory for later allocations. After the tick that can be as much memory as is in use.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType

from dbsp.errors import ArgumentError, expect_present, shorten, wrong_argument

_resource: ModuleType | None
try:
    import resource as _resource
except ImportError:  # a system without limits, such as Windows
    _resource = None


def give_back() -> None:
    """Return freed memory to the system if the C library (glibc) can: milliseconds per gigabyte."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    return _function("malloc_trim")


def _function(name: str) -> Callable[..., int] | None:
    """Return a function of the C library, or None if it has none of this name."""
    try:
        found: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):
        return None
    return found


# --- reuse ----------------------------------------------------------------------------------------

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -2, -3, -4
"""The numbers of these settings in `malloc.h`."""

_MB = 1 << 20
_REUSING = {_MMAP_MAX: 0, _TRIM_THRESHOLD: 512 * _MB, _TOP_PAD: 4 * _MB}
"""No array has a mapping of its own; up to 512 MB at the end of the heap stay."""

_USUAL = {_MMAP_MAX: 65_536, _MMAP_THRESHOLD: 32 * _MB, _TRIM_THRESHOLD: 64 * _MB, _TOP_PAD: _MB // 8}
"""What glibc arrives at when a process frees large arrays."""

_NOTICED = 32 * _MB
"""Growth of the heap beyond which unused memory returns to the system at the end of the block."""


@contextmanager
def reused_memory() -> Iterator[None]:
    """Within the block, use freed memory again before more memory is requested from the system.

    Nothing changes without glibc, or if the environment has settings for its allocator.
    """
    heap = _heap()
    if heap is None:
        yield
        return
    configure, end = heap
    before = end(0)
    for setting, value in _REUSING.items():
        configure(setting, value)
    try:
        yield
    finally:
        for setting, value in _USUAL.items():
            configure(setting, value)
        if end(0) - before > _NOTICED:
            give_back()


@cache
def _heap() -> tuple[Callable[[int, int], int], Callable[[int], int]] | None:
    """Return mallopt and sbrk of glibc, or None if its settings are to stay as they are."""
    chosen = [name for name in os.environ if name.startswith("MALLOC_") and name.endswith("_")]
    if chosen or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return None
    configure, end = _function("mallopt"), _function("sbrk")
    if configure is None or end is None or _trim() is None:
        return None
    end.argtypes, end.restype = [ctypes.c_ssize_t], ctypes.c_ssize_t  # type: ignore[attr-defined]
    return configure, end


# --- limits ---------------------------------------------------------------------------------------

MAX_SIZE = 2**62
"""The largest size in bytes; systems refuse limits of more bytes."""
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(?:b?|([kmgt])(?:i?b)?|(%))", re.IGNORECASE)


def capacity(text: str) -> int | None:
    """Return the bytes of a text such as "8G", "500 MB" or "90%"; % is of the installed memory.

    The units are B, K, M, G and T, in upper or lower case. Each is 1024 times the one before: K, kB
    and KiB are 1024 bytes. None for a percentage if the installed memory is unknown. Raises
    ValueError.
    """
    found = _SIZE.fullmatch(text)
    number = float(found[1]) if found else 0.0
    unit = (found[2] or found[3] or "").lower() if found else ""
    if number <= 0 or (unit == "%" and number > 100):
        raise ValueError(f"expected an amount of memory such as 8G, 500M or 90%, got {shorten(text)}")
    if unit == "%":
        installed = _installed()
        return None if installed is None else int(installed * number / 100)
    size = number * 1024 ** " kmgt".index(unit or " ")
    if size > MAX_SIZE:
        raise ValueError(f"expected less than 4,000,000 terabytes, got {shorten(text)}")
    return int(size)


def capacity_of(limit: int | str | None) -> int | None:
    """Return the bytes of the argument `memory_limit`: an int, or a text as for `capacity`.

    Raises ArgumentError.
    """
    if limit is None:
        return None
    expected = 'a positive number of bytes, or an amount such as "8G", "500M" or "25%"'
    if isinstance(limit, str):
        try:
            size = capacity(limit)
        except ValueError as error:
            raise ArgumentError(f"memory_limit: {error}") from None
        if size is None:
            raise ArgumentError(
                f"memory_limit: the installed memory is unknown, so {limit} has no meaning; "
                "give a number of bytes"
            )
        return size
    if isinstance(limit, bool) or not isinstance(limit, int) or limit <= 0:
        raise wrong_argument("memory_limit", expected, limit)
    return limit


def _installed() -> int | None:
    """Return the memory of the machine in bytes, or the limit of the container if that is lower."""
    try:
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
    for place in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(place).read_text().strip()
        except OSError:
            continue
        if text.isdecimal():
            available = min(available, int(text))
    return available


def limit(size: int) -> None:
    """Limit the data of this process to `size` bytes; an allocation beyond that is a MemoryError.

    Uses the system's limit of data segments, where the system enforces one (Linux). A lower limit
    that exists already stays.
    """
    if _resource is not None:
        soft, hard = _resource.getrlimit(_resource.RLIMIT_DATA)
        lowest = min(old for old in (soft, hard, size) if old != _resource.RLIM_INFINITY)
        _resource.setrlimit(_resource.RLIMIT_DATA, (lowest, hard))


def limit_text() -> str:
    """Return the limit as text such as "1.5 GB"; "" if there is none."""
    if _resource is None:
        return ""
    soft, _ = _resource.getrlimit(_resource.RLIMIT_DATA)
    if soft == _resource.RLIM_INFINITY:
        return ""
    return f"{soft / 2**30:.1f} GB" if soft >= 2**30 else f"{soft / 2**20:.0f} MB"


@contextmanager
def limited(size: str | None = None) -> Iterator[None]:
    """Restore the memory limit at the end of the block; with a `size`, set it first."""
    before = None if _resource is None else _resource.getrlimit(_resource.RLIMIT_DATA)
    try:
        number = None if size is None else capacity(size)
        if number is not None:
            limit(number)
        yield
    finally:
        if before is not None:
            resource = expect_present(_resource, "the module resource, which has set the limit")
            resource.setrlimit(resource.RLIMIT_DATA, before)


def memory_message() -> str:
    """Return the message of an error for a failed allocation."""
    limit_ = limit_text()
    return (
        f"the memory limit{f' of {limit_}' if limit_ else ''} is exceeded. Possible causes: a recursion "
        "that never ends because it creates new values, or a join on too few columns. If the data "
        "really needs more memory, raise the limit with --max-memory, or keep state in files with "
        "--memory-limit"
    )
