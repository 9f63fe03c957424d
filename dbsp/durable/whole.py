"""Files and folders that are there as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def write_whole(path: Path, content: bytes | pa.Buffer, sync: bool) -> None:
    """Put a file in its place by renaming; with `sync` it also outlives a loss of power."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with open(draft, "wb") as file:
        file.write(content)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    os.replace(draft, path)
    if sync:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder outlive a loss of power, where the system has such a thing."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # a system that does not open folders
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
