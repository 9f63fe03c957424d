"""The lock of a folder: one writer at a time, among threads and processes, on every system."""

from __future__ import annotations

import contextlib
import os
import weakref
from pathlib import Path

from filelock import FileLock, Timeout

from dbsp.errors import CheckpointError, system_reason

try:
    import fcntl
except ImportError:  # Windows, where nobody can remove the file of a lock that is held
    fcntl = None  # type: ignore[assignment]


def folder_lock(folder: Path) -> FileLock:
    """Return the lock of a folder, in the file `lock`; any thread may release it.

    The system releases it when the process ends in any way.
    """
    return FileLock(folder / "lock", thread_local=False)


class FolderOwner:
    """The only writer of a folder, until it is released; a forked child is not the owner.

    The owner locks the file `lock` and, where the system has such locks, the folder itself, so that
    removing the file lets nobody in. The file `owner` has its process id.
    """

    def __init__(self, folder: Path) -> None:
        """Take the folder without waiting.

        Raises CheckpointError with the owner if there is one, OSError if the folder cannot be used.
        """
        self._descriptor = -1
        self.folder = folder
        self.process = os.getpid()
        self._lock = folder_lock(folder)
        # A separate file, since Windows does not allow reading a locked file.
        owner = folder / "owner"
        try:
            self._lock.acquire(blocking=False)
        except Timeout:
            raise _in_use(folder, owner) from None
        try:
            if not self._lock_folder():
                raise _in_use(folder, owner)
            owner.write_text(str(self.process))
        except BaseException:
            self.release()
            raise
        _OWNERS.add(self)

    def _lock_folder(self) -> bool:
        if fcntl is None:
            return True
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except OSError:  # a file system that locks no folders
            os.close(descriptor)
            return True
        self._descriptor = descriptor
        return True

    def check(self) -> None:
        """Raise CheckpointError if this process is not the owner, or if the folder was replaced."""
        if os.getpid() != self.process:
            raise CheckpointError(
                f"{self.folder} is in use by process {self.process}, from which this process was forked; "
                "start a run with another folder in the forked process",
                code="checkpoint-in-use",
            )
        if self._descriptor < 0:
            return
        try:
            there = os.path.samestat(os.stat(self.folder), os.fstat(self._descriptor))
        except OSError:
            there = False
        if not there:
            raise CheckpointError(
                f"{self.folder} was removed or replaced while this run writes to it; restore the folder, or "
                "start the run again",
                code="checkpoint-write",
            )

    def release(self) -> None:
        """Let others in; a forked child only forgets the folder."""
        self._lock.release()
        self._close()

    def __del__(self) -> None:
        # A run that nobody closed and nobody has any more, as after an interrupted start.
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1


_OWNERS: weakref.WeakSet[FolderOwner] = weakref.WeakSet()


def _forget_in_child() -> None:
    """Close the descriptors, so that the lock ends with the parent; the child does not own it."""
    for owner in list(_OWNERS):
        owner._close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


def unusable(folder: Path, error: OSError) -> CheckpointError:
    """Return the error for a folder that the system refuses to make or to lock."""
    return CheckpointError(
        f"cannot use the folder {folder}: {system_reason(error, folder)}", code="checkpoint-write"
    )


def _in_use(folder: Path, owner: Path) -> CheckpointError:
    try:
        number = owner.read_text().strip()
    except (OSError, ValueError):
        number = ""
    return CheckpointError(
        f"{folder} is in use by process {number or 'unknown'}; a checkpoint belongs to one run at a "
        "time: close the other run, or choose another folder",
        code="checkpoint-in-use",
    )
