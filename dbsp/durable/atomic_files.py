"""Write files completely or not at all."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from dbsp.durable.background import in_background, pause
from dbsp.errors import CheckpointError

if TYPE_CHECKING:
    import pyarrow as pa

Content: TypeAlias = "bytes | bytearray | memoryview | pa.Buffer"


def write_atomically(path: Path, content: Content | Sequence[Content], sync: bool) -> None:
    """Write a temporary file and rename it to `path`; with `sync` it survives a power loss."""
    draft = _draft(path, content, sync)
    os.replace(draft, path)
    if sync:
        sync_folder(path.parent)


def _draft(path: Path, content: Content | Sequence[Content], sync: bool) -> Path:
    """Write the content under a temporary name; remove it again if the disk is full."""
    draft = draft_of(path)
    try:
        with open(draft, "wb", buffering=0) as file:
            for part in content if isinstance(content, list | tuple) else (content,):
                write_all(file.fileno(), part)
                if sync:
                    sync_gently(file.fileno())
            if sync:
                os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    return draft


def sync_gently(descriptor: int) -> None:
    """Synchronize a part of a file, as background work, and leave the disk to others as long.

    The end of a large file then does not wait for all of it, nor do the ticks that are written
    meanwhile.
    """
    if in_background():
        began = time.perf_counter()
        sync_data(descriptor)
        pause(time.perf_counter() - began)


sync_data = getattr(os, "fdatasync", os.fsync)


def draft_of(path: Path) -> Path:
    """Return the name that a file has until it is complete."""
    return path.with_name(f".{path.name}.{os.getpid()}")


def write_all(descriptor: int, content: Any) -> None:
    """Write the whole content at the place of an open file."""
    left = memoryview(content).cast("B")
    while len(left):  # one call may write a part, as when the disk is nearly full
        left = left[os.write(descriptor, left) :]


@contextmanager
def reports_full_disk(path: Path, consequence: str = "") -> Iterator[None]:
    """Raise CheckpointError with the path if the system refuses to write."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        ending = f"; {consequence}" if consequence else ""
        raise CheckpointError(f"cannot write {path}: {reason}{ending}", code="checkpoint-write") from None


def sync_file(path: Path) -> None:
    """Make the content of a file survive a power loss."""
    with open(path, "r+b") as file:  # Windows does not synchronize a file opened for reading only
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power loss, where the system supports it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # a system that does not open folders
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
