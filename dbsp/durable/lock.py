"""The lock of a folder: one writer at a time, among threads and processes, on every system."""

from __future__ import annotations

import os
from pathlib import Path

from filelock import FileLock, Timeout

from dbsp.errors import CheckpointError


def folder_lock(folder: Path) -> FileLock:
    """Return the lock of a folder, in the file `lock`; any thread may release it.

    The system releases it when the process ends in any way.
    """
    return FileLock(folder / "lock", thread_local=False)


def own_folder(folder: Path) -> FileLock:
    """Take the lock of a folder without waiting, and write the process id to the file `owner`.

    Raises CheckpointError with the owner if the lock is taken, OSError if the folder cannot be
    used.
    """
    lock = folder_lock(folder)
    owner = folder / "owner"  # a separate file, since Windows does not allow reading a locked file
    try:
        lock.acquire(blocking=False)
    except Timeout:
        number = owner.read_text().strip() if owner.exists() else ""
        raise CheckpointError(
            f"{folder} is in use by process {number or 'unknown'}; a checkpoint belongs to one run at a "
            "time: close the other run, or choose another folder",
            code="checkpoint-in-use",
        ) from None
    try:
        owner.write_text(str(os.getpid()))
    except BaseException:
        lock.release()
        raise
    return lock
