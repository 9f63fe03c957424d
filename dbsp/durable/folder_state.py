"""Read a folder that another process may change at the same time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dbsp.errors import CheckpointError

T = TypeVar("T")

_TRIES = 5


def folder_state(folder: Path) -> list[tuple[str, int]]:
    """Return the names of all files, and when they were changed."""
    found = []
    for path in folder.rglob("*"):
        try:
            found.append((str(path), path.stat().st_mtime_ns))
        except OSError:
            found.append((str(path), 0))
    return sorted(found)


def undisturbed(folder: Path, read: Callable[[], T]) -> T:
    """Return the result of `read`; repeat it if a file is missing because the folder has changed.

    Raises CheckpointError when the folder is damaged, or changes too often.
    """
    for attempt in range(1, _TRIES + 1):
        before = folder_state(folder)
        try:
            return read()
        except CheckpointError as error:
            if error.code != "checkpoint-unreadable" or attempt == _TRIES or folder_state(folder) == before:
                raise
    raise AssertionError  # pragma: no cover
