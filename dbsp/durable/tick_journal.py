"""The journal of a checkpoint: a file per tick with the changes of its inputs, and the latest tick.

Each file has the checksum of the file before it, so a file of another history does not fit. The
file `latest` has the number and the checksum of the latest tick in two slots, which ticks overwrite
in turn. It is written after the tick and need not be complete: it only tells that a file is
missing at the end.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from dbsp.durable.atomic_files import reports_full_disk, write_atomically, write_new
from dbsp.durable.frames import frames, read_frames
from dbsp.durable.sealed_files import decoding, read_sealed, seal, unreadable
from dbsp.errors import CheckpointError, CheckpointWarning
from dbsp.kernels.arrays import Codes

_SLOT = struct.Struct("<Q16s8s")
"""A number of a tick, the checksum of its file, and a checksum of both."""


@dataclass(frozen=True)
class TickChanges:
    """The content of the file of a tick."""

    tick: int
    path: Path
    head: dict[str, Any]
    """The label, the new values of the interner, and the inputs with the width of their rows."""
    arrays: list[Codes]
    """By input the flat rows and the weights."""


class TickJournal:
    """The folder `journal` of a checkpoint; `id` is the unique name of the checkpoint."""

    def __init__(self, folder: Path, sync: bool) -> None:
        self.folder = folder / "journal"
        self.sync = sync
        self.id = ""
        self.digest = ""
        """The checksum of the latest tick; empty before the first one."""
        self._latest: BinaryIO | None = None
        self._drafted: tuple[int, os.stat_result] | None = None
        self._drafted_digest = ""

    def path(self, tick: int) -> Path:
        """Return the place of the file of a tick."""
        return self.folder / f"{tick}.tick"

    def ticks(self) -> list[int]:
        """Return the ticks with a file, in ascending order."""
        names = (path.stem for path in self.folder.glob("*.tick"))
        return sorted(int(name) for name in names if name.isdecimal() and name.isascii())

    # --- reading ----------------------------------------------------------------------------------

    def read(self, after: int, digest: str) -> list[TickChanges]:
        """Return all ticks after a tick with this checksum. Raises CheckpointError."""
        found, expected = [], after + 1
        for tick in self.ticks():
            if tick < expected:
                continue  # in the snapshot
            path = self.path(tick)
            if tick != expected:
                raise CheckpointError(
                    f"tick {expected} is missing from the journal, which continues with {path}; "
                    "restore the folder from a copy, or start in an empty folder",
                    code="checkpoint-unreadable",
                )
            file = read_sealed(path, self._place(tick))
            head, arrays = read_frames(file)
            with decoding(path):
                before = head["before"]
            if before != digest:
                raise unreadable(path, "it does not follow the ticks before it")
            found.append(TickChanges(tick, path, head, arrays))
            digest, expected = file.digest, tick + 1
        self._check_end(expected - 1, digest)
        self.digest = digest
        return found

    def _check_end(self, tick: int, digest: str) -> None:
        """Raise CheckpointError if the file of a later tick is missing."""
        path = self.folder / "latest"
        try:
            content = path.read_bytes()
        except OSError:
            content = b""
        slots = [slot for start in (0, _SLOT.size) if (slot := _read_slot(content[start:])) is not None]
        if not slots:
            warnings.warn(
                f"{path} is missing or damaged; all ticks were read that have a file, but a file that is "
                "missing at the end would not be noticed",
                CheckpointWarning,
                stacklevel=2,
            )
            return
        latest, known = max(slots)
        if latest > tick:
            raise unreadable(self.path(latest), "the file is missing")
        if latest == tick and digest and known.hex() != digest:
            raise unreadable(self.path(tick), "it is not the file that was written there last")

    def _place(self, tick: int) -> str:
        return f"{self.id}/journal/{tick}"

    # --- writing ----------------------------------------------------------------------------------

    def create(self) -> None:
        """Write the file `latest` of a new journal. Raises CheckpointError."""
        path = self.folder / "latest"
        with reports_full_disk(path):
            write_atomically(path, _slot(0, "") + _slot(0, ""), self.sync)

    def open(self, tick: int) -> None:
        """Prepare for writing after this tick; write `latest` again if it is damaged."""
        path = self.folder / "latest"
        if not path.exists() or path.stat().st_size != 2 * _SLOT.size:
            self.create()
        with reports_full_disk(path):
            self._latest = open(path, "r+b", buffering=0)  # noqa: SIM115  # closed by close()
        self._note(tick)

    def write(self, tick: int, head: dict[str, Any], arrays: Sequence[Codes]) -> None:
        """Write the file of a tick, which is durable when this returns.

        Raises CheckpointError; `recorded` tells whether the tick is in the journal all the same.
        """
        file = seal(self._place(tick), frames({**head, "before": self.digest}, arrays))
        path = self.path(tick)

        def drafted(identity: os.stat_result) -> None:
            self._drafted, self._drafted_digest = (tick, identity), file.digest

        try:
            write_new(path, file.parts, self.sync, drafted)
        except FileExistsError:
            raise CheckpointError(
                f"{path} exists already, so another process writes ticks of this run; the tick was rolled "
                "back; start the run again",
                code="checkpoint-write",
            ) from None
        except OSError as error:
            if self.recorded(tick):  # it would be read later
                with contextlib.suppress(OSError):
                    path.unlink()
            raise CheckpointError(
                f"cannot write tick {tick} to {path}: {error.strerror or error}; the tick was rolled back",
                code="checkpoint-write",
            ) from None
        self.note(tick)

    def recorded(self, tick: int) -> bool:
        """Return whether this process has put the file of a tick into the journal."""
        if self._drafted is None or self._drafted[0] != tick:
            return False
        try:
            return os.path.samestat(os.stat(self.path(tick)), self._drafted[1])
        except OSError:
            return False

    def note(self, tick: int) -> None:
        """Note that a recorded tick is the latest; never raises, and may be repeated."""
        if self._drafted is not None and self._drafted[0] == tick:
            self.digest = self._drafted_digest
            self._note(tick)

    def _note(self, tick: int) -> None:
        if self._latest is None:
            return
        with contextlib.suppress(OSError):  # an older tick there does no harm
            self._latest.seek(tick % 2 * _SLOT.size)
            self._latest.write(_slot(tick, self.digest))

    def remove_until(self, tick: int) -> None:
        """Remove the files of all ticks up to this one."""
        for number in self.ticks():
            if number <= tick:
                self.path(number).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file `latest`."""
        if self._latest is not None:
            self._latest.close()
            self._latest = None


def _slot(tick: int, digest: str) -> bytes:
    content = _SLOT.pack(tick, bytes.fromhex(digest), b"")[:-8]
    return content + hashlib.blake2b(content, digest_size=8).digest()


def _read_slot(content: bytes) -> tuple[int, bytes] | None:
    if len(content) < _SLOT.size:
        return None
    tick, digest, _ = _SLOT.unpack_from(content)
    intact = content[: _SLOT.size] == _slot(tick, digest.hex())
    return (tick, digest) if intact else None
