"""Temporary folders that disappear with their process, or at the start of the next one."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import uuid
from pathlib import Path

from filelock import FileLock, Timeout

_PREFIX = "dbsp-state-"
_LOCK = ".lock"


def make_folder() -> tuple[Path, FileLock]:
    """Make a temporary folder, with a lock beside it as long as a process uses it."""
    parent = Path(tempfile.gettempdir())
    for found in parent.glob(f"{_PREFIX}*{_LOCK}"):
        _remove_leftover(found)
    path = parent / f"{_PREFIX}{uuid.uuid4().hex[:12]}"
    lock = FileLock(path.with_name(path.name + _LOCK), thread_local=False)
    lock.acquire(timeout=10)  # first: a folder without a lock is a leftover
    path.mkdir(mode=0o700)
    return path, lock


def _remove_leftover(path: Path) -> None:
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except (Timeout, OSError):  # a living process uses it, or one of another user
        return
    remove_folder(path.with_name(path.name.removesuffix(_LOCK)), lock, os.getpid())


def remove_folder(folder: Path, lock: FileLock, process: int) -> None:
    """Remove a temporary folder that this process made, and release its lock."""
    if os.getpid() != process:  # a forked child, which shares the files
        return
    shutil.rmtree(folder, ignore_errors=True)
    lock.release()
    with contextlib.suppress(OSError):
        Path(lock.lock_file).unlink(missing_ok=True)
