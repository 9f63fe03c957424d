"""The number of threads that compute large batches."""

from __future__ import annotations

import os

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.errors import ArgumentError, shorten

VARIABLE = "DBSP_THREADS"
"""The environment variable with the number of threads of a process."""

_chosen: int | None = None
_default: int | None = None


@ends_at_caller
def set_threads(count: int | None) -> None:
    """Set how many threads compute the large batches of all runs of this process.

    Rows, weights, their order and errors do not depend on it. The shards of a run that starts later
    divide the threads among themselves.

    Parameters:
        count: a positive number of threads. None means the default: the environment variable
            `DBSP_THREADS`, or else all cores that this process may use.

    Raises:
        ArgumentError: `count` is not a positive number.

    Examples:
        >>> dbsp.set_threads(2)
        >>> dbsp.threads()
        2
        >>> dbsp.set_threads(None)
    """
    global _chosen
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
        raise ArgumentError(
            f"threads: expected a positive number of threads, or None for all cores, got {shorten(count)}"
        )
    _chosen = count


@ends_at_caller
def threads() -> int:
    """Return how many threads compute large batches (see `set_threads`).

    Raises:
        ArgumentError: the environment variable `DBSP_THREADS` is not a positive number.

    Examples:
        >>> dbsp.threads() >= 1
        True
    """
    if _chosen is not None:
        return _chosen
    text = os.environ.get(VARIABLE)
    if text is None:
        return available_cores() if _default is None else _default
    if not text.isdecimal() or not text.strip("0"):
        raise ArgumentError(
            f"{VARIABLE}: expected a positive number of threads, got {shorten(text)}; change the "
            "environment variable, or call dbsp.set_threads"
        )
    return int(text)


def use_by_default(count: int) -> None:
    """Use so many threads unless the caller or the environment variable chooses another number."""
    global _default
    _default = count


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
