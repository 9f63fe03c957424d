"""Make files and their names survive a power failure, on file systems of this machine and on NFS.

A file needs its own synchronization, and each folder on its path needs one after a name was written
into it. A process remembers the folders whose paths it has made durable, so a file in one of them
costs two synchronizations: of the file and of its folder. `top` is the shared folder: those above
it are synchronized only if they are new.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dbsp.durable.atomic_files import sync_file, sync_folder

_REMEMBERED = 10_000
_DURABLE: set[Path] = set()
"""Folders whose names are durable in all folders up to their top."""


def make_synced_folder(folder: Path, top: Path, make: Callable[[], object]) -> None:
    """Call `make`, which makes a folder and those above it; make their names durable.

    Raises OSError.
    """
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    _DURABLE.difference_update(missing)  # one of that name was removed
    make()
    for new in reversed(missing):
        sync_folder(new.parent)
        if _durable(new.parent, top):
            _remember([new])


def sync_written(path: Path, top: Path) -> None:
    """Make a new file, and its name, durable. Raises OSError."""
    sync_file(path)
    sync_name(path, top)


def sync_name(path: Path, top: Path) -> None:
    """Make the name of a file or folder durable. Raises OSError."""
    folder = path.parent
    sync_folder(folder)
    found = []
    while not _durable(folder, top):  # another process has made it, and may not have synchronized it
        found.append(folder)
        folder = folder.parent
        sync_folder(folder)
    _remember(found)


def _durable(folder: Path, top: Path) -> bool:
    return folder in _DURABLE or folder == top or top not in folder.parents


def _remember(folders: list[Path]) -> None:
    if len(_DURABLE) + len(folders) > _REMEMBERED:
        _DURABLE.clear()
    _DURABLE.update(folders)
