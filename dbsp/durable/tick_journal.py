"""The journal of a checkpoint: the changes of the inputs by tick, and the latest tick.

    journal/41.ticks   the ticks from 41 on, one after the other; a snapshot begins the next file
    journal/latest     the number and the checksum of the latest tick, in two slots

Each tick is sealed, and has the checksum of the tick before it, so a tick of another history does
not fit. A transaction is written as its steps, one after the other, and then its tick, which has no
changes of its own; each has the checksum of the record before it. Steps without their tick belong
to a transaction that did not end; readers ignore them, and writers remove them. `latest` is written
after the tick; ticks overwrite its two slots in turn. So it distinguishes damage from what a
process has left that ended while it wrote a tick.

The tick of an update has the identity of the new program. The ticks of the old program end before
it; those of the new one continue from the manifest of the update. Without this manifest the update
did not take place, and the record is a leftover (see `dbsp.durable.stored_update`).
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import struct
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from dbsp.durable.array_frames import frames, read_frames
from dbsp.durable.atomic_files import reports_full_disk, sync_folder, write_all, write_atomically
from dbsp.durable.journal_parts import TickPart, changed_rows, first_record, records
from dbsp.durable.sealed_files import decoding, seal, unreadable, unseal
from dbsp.errors import CheckpointError, CheckpointWarning
from dbsp.kernels.arrays import Codes
from dbsp.lazy_dataclass import dataclass

_SLOT = struct.Struct("<Q16s8s")
"""A number of a tick, the checksum of its file, and a checksum of both."""


_SUFFIX = ".ticks"
_sync = getattr(os, "fdatasync", os.fsync)


@dataclass(frozen=True)
class TickChanges:
    """A tick of the journal."""

    tick: int
    path: Path
    """The file that has it."""
    head: dict[str, Any]
    """The label, the new values of the interner, and the inputs with the width of their rows."""
    arrays: list[Codes]
    """By input the flat rows and the weights."""
    digest: str
    end: int
    """The place in the file after this tick."""
    parts: Sequence[TickPart] = ()
    """The steps of a transaction, whose changes are in the file only."""

    @property
    def before(self) -> str | None:
        """The checksum of the tick before it."""
        return self.parts[0].before if self.parts else self.head.get("before")

    @property
    def updated_to(self) -> str | None:
        """The identity of the program to which this tick has updated the run; None without one."""
        return self.head.get("update")

    def changed_rows(self) -> dict[str, int]:
        """Return by input the number of rows that the tick changes."""
        total = changed_rows(self.head, self.arrays)
        for part in self.parts:
            for name, rows in part.rows.items():
                total[name] = total.get(name, 0) + rows
        return total

    @property
    def time(self) -> float | None:
        """When it was written, in seconds since 1970; None if an earlier version wrote it."""
        return self.head.get("time")


class TickJournal:
    """The folder `journal` of a checkpoint; `id` is the unique name of the checkpoint."""

    def __init__(self, folder: Path, sync: bool) -> None:
        self._file = -1
        """The open file to which ticks are appended, or -1."""
        self.folder = folder / "journal"
        self.sync = sync
        self.id = ""
        self.digest = ""
        """The checksum of the latest tick; empty before the first one."""
        self._latest: BinaryIO | None = None
        self._end = 0
        """The place after the latest tick in this file."""
        self.written = 0
        """The bytes of all ticks that this process has read or written."""
        self._attempt = (0, 0, "")
        """The tick that was written last, its end and its checksum."""
        self._parts: tuple[int, str] | None = None
        """The place after the latest step of an open transaction, and its checksum."""

    def files(self) -> list[tuple[int, Path]]:
        """Return the files in their order, each with its first tick."""
        found = self.folder.glob(f"*{_SUFFIX}")
        return sorted((int(p.stem), p) for p in found if p.stem.isdecimal() and p.stem.isascii())

    # --- reading ----------------------------------------------------------------------------------

    def read(self, after: int, digest: str, until: int | None = None) -> list[TickChanges]:
        """Return all ticks after a tick with this checksum.

        With `until`, that is the last tick, and one more may follow it, which is left out. So is
        the leftover of an update that did not take place. Raises CheckpointError.
        """
        found = list(self.ticks(after, digest))
        if found and found[-1].updated_to is not None:
            latest = self._read_latest()
            if latest is None or latest[0] < found[-1].tick:
                found.pop()
        for changes in found:
            if changes.updated_to is not None:
                raise unreadable(
                    changes.path,
                    f"tick {changes.tick} is the update to another program, and its manifest is missing",
                )
        if until is not None:
            self._expect_end(after + len(found), until)
            del found[until - after :]
        self.digest = found[-1].digest if found else digest
        return found

    def ticks(self, after: int, digest: str) -> Iterator[TickChanges]:
        """Yield the ticks after a tick with this checksum, one file in memory at a time.

        Raises CheckpointError.
        """
        latest = self._read_latest()
        expected = after + 1
        last = self.folder / f"{expected}{_SUFFIX}"
        files = self.files()
        for place, (first, path) in enumerate(files):
            following = files[place + 1][0] if place + 1 < len(files) else None
            if following is not None and following <= expected:
                continue  # all of it is in the snapshot
            if first > expected:
                raise unreadable(path, f"tick {expected} is missing from the journal, which continues here")
            start, first = first_record(path, first, expected)
            for changes in self._ticks_of(path, start, first, latest if following is None else None):
                if changes.before != digest:
                    raise unreadable(path, f"tick {expected} does not follow the ticks before it")
                last = path
                digest, expected = changes.digest, expected + 1
                yield changes
        if latest is not None and latest[0] >= expected:
            problem = f"tick {expected} is missing" if last.exists() else "the file is missing"
            raise unreadable(last, problem)
        if latest is not None and latest[0] == expected - 1 > after and latest[1] != digest:
            raise unreadable(last, f"tick {expected - 1} is not the one that was written there last")

    def _expect_end(self, last: int, until: int) -> None:
        """Raise CheckpointError unless the last tick is `until`, or one later that is not final."""
        if last < until:
            raise unreadable(self.folder, f"tick {last + 1} is missing")
        latest = self._read_latest()
        if last > until + 1 or (latest is not None and latest[0] > until):
            raise unreadable(self.folder, f"it has ticks after tick {until}, the latest one of the run")

    def _ticks_of(
        self, path: Path, start: int, first: int, latest: tuple[int, str] | None
    ) -> Iterator[TickChanges]:
        """Yield the ticks of a file from the place of the first one on.

        With `latest`, the file may end with a part of a later tick, which is left out.
        """
        tick = first
        parts: list[TickPart] = []
        try:
            for end, record in records(path, start):
                file = unseal(path, memoryview(record), self._place(tick))
                head, arrays = read_frames(file)
                if not isinstance(head, dict):
                    raise unreadable(path, f"tick {tick} has no head")
                step = head.get("part")
                if (head.get("parts", 0) if step is None else step) != len(parts):
                    raise unreadable(path, f"a step of tick {tick} is missing")
                if parts and head.get("before") != parts[-1].digest:
                    raise unreadable(path, f"tick {tick} does not follow its steps")
                if step is None:
                    yield TickChanges(tick, path, head, arrays, file.digest, end, parts)
                    tick, parts = tick + 1, []
                else:
                    with decoding(path):
                        rows, before = changed_rows(head, arrays), head["before"]
                    parts.append(TickPart(path, start, self._place(tick), file.digest, before, rows))
                start = end
        except CheckpointError as error:
            if latest is not None and tick > latest[0]:
                return
            error.message = error.message.replace("its content does not", f"tick {tick} does not")
            error.message = error.message.replace("it ends within a record", f"tick {tick} is not complete")
            raise

    def _read_latest(self) -> tuple[int, str] | None:
        """Return number and checksum of the latest tick, or of one before it; None if unknown."""
        path = self.folder / "latest"
        try:
            content = path.read_bytes()
        except OSError:
            content = b""
        slots = [slot for start in (0, _SLOT.size) if (slot := _read_slot(content[start:])) is not None]
        if slots:
            return max(slots)
        warnings.warn(
            f"{path} is missing or damaged; all ticks were read that are in the journal, but ticks that are "
            "missing at its end would not be noticed",
            CheckpointWarning,
            stacklevel=2,
        )
        return None

    def _place(self, tick: int) -> str:
        return f"{self.id}/journal/{tick}"

    # --- writing ----------------------------------------------------------------------------------

    def create(self) -> None:
        """Write the file `latest` of a new journal. Raises CheckpointError."""
        path = self.folder / "latest"
        with reports_full_disk(path):
            write_atomically(path, _slot(0, "") + _slot(0, ""), self.sync)

    def open(self, snapshot: int, ticks: Sequence[TickChanges]) -> None:
        """Prepare for writing after the ticks that were read, which follow a snapshot's tick."""
        path = self.folder / "latest"
        if not path.exists() or path.stat().st_size != 2 * _SLOT.size:
            self.create()
        with reports_full_disk(path):
            self._latest = open(path, "r+b", buffering=0)  # noqa: SIM115  # closed by close()
            for first, file in self.files():
                if first > (ticks[-1].tick if ticks else snapshot):
                    file.unlink()  # the process ended before its first tick was complete
        self._note(ticks[-1].tick if ticks else snapshot)
        self.written += sum({changes.path: changes.end for changes in ticks}.values())
        if ticks:
            path = ticks[-1].path
            with reports_full_disk(path):
                self._open_file(path, os.O_RDWR)
                os.ftruncate(self._file, ticks[-1].end)  # a tick that is not complete
            self._end = ticks[-1].end

    def _open_file(self, path: Path, flags: int) -> None:
        self._end = 0  # first: an interrupt leaves no file with the end of another one
        self._file = os.open(path, flags | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o666)

    def write(self, tick: int, head: dict[str, Any], arrays: Sequence[Codes]) -> None:
        """Write a tick, which is durable when this returns; `note` or `withdraw` follows.

        Raises CheckpointError; `recorded` returns whether the tick is in the journal all the same.
        """
        self._append(tick, head, arrays, final=True)

    def write_part(self, tick: int, head: dict[str, Any], arrays: Sequence[Codes]) -> None:
        """Write a step of a transaction, which is durable with its tick. Raises CheckpointError."""
        self._attempt = (0, 0, "")  # of an earlier tick of this number, which was rolled back
        self._parts = self._append(tick, head, arrays, final=False)

    def discard_parts(self) -> None:
        """Remove the steps of a transaction that was rolled back; may be repeated."""
        self._parts = None
        with contextlib.suppress(OSError):  # the next record overwrites them
            if self._file >= 0:
                os.ftruncate(self._file, self._end)

    def _append(
        self, tick: int, head: dict[str, Any], arrays: Sequence[Codes], final: bool
    ) -> tuple[int, str]:
        """Append a record; return the place after it and its checksum."""
        start, before = self._parts or (self._end, self.digest)
        sealed = seal(self._place(tick), frames({**head, "before": before}, arrays))
        content = b"".join(sealed.parts)
        path = self.folder / f"{tick}{_SUFFIX}"
        end = start + len(content)
        try:
            if self._file < 0:
                # An interrupt may have left an empty file; a tick is never overwritten.
                empty = path.exists() and not path.stat().st_size
                self._open_file(path, os.O_RDWR | os.O_CREAT | (0 if empty else os.O_EXCL))
                if self.sync:
                    sync_folder(self.folder)
            elif os.fstat(self._file).st_size != start:
                os.ftruncate(self._file, start)
            if final:
                self._attempt = (tick, end, sealed.digest)
            write_all(self._file, content)
            if final and self.sync:
                _sync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):  # else it would be read later
                if self._file >= 0:
                    os.ftruncate(self._file, start)
            raise CheckpointError(
                f"cannot write tick {tick} to {self.folder}: {error.strerror or error}; the tick was rolled "
                "back",
                code="checkpoint-write",
            ) from None
        return end, sealed.digest

    @property
    def attempted(self) -> str:
        """The checksum of the tick that was written last, which may not count."""
        return self._attempt[2]

    def recorded(self, tick: int) -> bool:
        """Return whether this process has put the whole tick into the journal."""
        attempt, end, _ = self._attempt
        return attempt == tick and self._file >= 0 and os.fstat(self._file).st_size >= end

    def withdraw(self) -> None:
        """Remove a recorded tick that was rolled back; may be repeated."""
        self._attempt = (0, 0, "")
        self.discard_parts()

    def note(self, tick: int) -> None:
        """Note that a recorded tick is the latest; never raises, and may be repeated."""
        attempt, end, digest = self._attempt
        if attempt == tick:
            self.written += end - self._end
            self._end, self.digest, self._parts = end, digest, None
            self._note(tick)

    def _note(self, tick: int) -> None:
        if self._latest is None:
            return
        with contextlib.suppress(OSError):  # an older tick there does no harm
            self._latest.seek(tick % 2 * _SLOT.size)
            self._latest.write(_slot(tick, self.digest))

    def end_file(self) -> None:
        """Write the next tick to a new file, because a snapshot has the ones before it.

        Raises CheckpointError if the file ends with a part of a tick that cannot be removed.
        """
        if self._file >= 0:
            with reports_full_disk(self.folder):
                if os.fstat(self._file).st_size != self._end:
                    os.ftruncate(self._file, self._end)
            self._close_file()

    def __del__(self) -> None:
        self._close_file()  # the journal of a run that nobody closed

    def _close_file(self) -> None:
        # An interrupt may come between the lines, and a file must not be closed twice.
        file, self._file, self._end = self._file, -1, 0
        if file >= 0:
            os.close(file)

    def remove_until(self, tick: int) -> None:
        """Remove the files that have no tick after this one."""
        files = self.files()
        for (_, path), (following, _) in itertools.pairwise(files):
            if following <= tick + 1:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the files."""
        self._close_file()
        if self._latest is not None:
            self._latest.close()
            self._latest = None


def _slot(tick: int, digest: str) -> bytes:
    content = _SLOT.pack(tick, bytes.fromhex(digest), b"")[:-8]
    return content + hashlib.blake2b(content, digest_size=8).digest()


def _read_slot(content: bytes) -> tuple[int, str] | None:
    if len(content) < _SLOT.size:
        return None
    tick, digest, _ = _SLOT.unpack_from(content)
    intact = content[: _SLOT.size] == _slot(tick, digest.hex())
    return (tick, digest.hex() if any(digest) else "") if intact else None
