"""The commit record of a sharded run: the latest tick that counts on every shard.

    commits    the number of a tick and of its attempt, in two slots that commits overwrite in turn

Each shard records a tick in its own journal before the record names it. So a tick counts on every
shard or on none, wherever a process ends: a shard may have one tick more than the record, which is
removed when the shard is opened. Without a valid slot nothing is known, so opening raises.
"""

from __future__ import annotations

import hashlib
import os
import struct
from pathlib import Path

from dbsp.durable.atomic_files import reports_full_disk, sync_data, write_all, write_atomically
from dbsp.durable.sealed_files import read_bytes, unreadable
from dbsp.lazy_dataclass import dataclass

COMMITS = "commits"
_SLOT = struct.Struct("<QQ")
_CHECK = 8
_SIZE = _SLOT.size + _CHECK


@dataclass(frozen=True, order=True, slots=True)
class Commit:
    """A tick that counts, and the number of its attempt; later attempts have larger numbers."""

    tick: int = 0
    attempt: int = 0


class CommitRecord:
    """The file `commits` in the folder of a sharded run; `id` is the unique name of the folder."""

    def __init__(self, folder: Path, id_: str, sync: bool) -> None:
        self.path = folder / COMMITS
        self.sync = sync
        self._id = id_
        self._file = -1

    def create(self) -> None:
        """Write the record of a new folder, without ticks. Raises CheckpointError."""
        with reports_full_disk(self.path):
            write_atomically(self.path, 2 * self._slot(Commit()), self.sync)

    def read(self) -> Commit:
        """Return the latest commit. Raises CheckpointError."""
        content = bytes(read_bytes(self.path))
        slots = [self._read_slot(content[at : at + _SIZE]) for at in (0, _SIZE)]
        found = [slot for slot in slots if slot is not None]
        if not found or len(content) != 2 * _SIZE:
            raise unreadable(self.path, "its content does not match its checksum")
        return max(found)

    def write(self, commit: Commit) -> None:
        """Write a commit, which is durable when this returns.

        Raises CheckpointError; `read` returns whether the commit counts all the same.
        """
        with reports_full_disk(self.path, "the tick was rolled back"):
            if self._file < 0:
                self._file = os.open(self.path, os.O_RDWR | getattr(os, "O_BINARY", 0))
            os.lseek(self._file, commit.tick % 2 * _SIZE, os.SEEK_SET)
            write_all(self._file, self._slot(commit))
            if self.sync:
                sync_data(self._file)

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, -1  # an interrupt must not let the file be closed twice
        if file >= 0:
            os.close(file)

    def _slot(self, commit: Commit) -> bytes:
        content = _SLOT.pack(commit.tick, commit.attempt)
        key = self._id.encode()
        return content + hashlib.blake2b(content, digest_size=_CHECK, key=key).digest()

    def _read_slot(self, content: bytes) -> Commit | None:
        if len(content) < _SIZE:
            return None
        commit = Commit(*_SLOT.unpack_from(content))
        return commit if content == self._slot(commit) else None
