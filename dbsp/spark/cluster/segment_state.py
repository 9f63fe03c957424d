"""The state of the segments on the executors: kept by worker processes, made durable in files.

The state of a segment of a shard after tick t is a *version*: an image (`dbsp.durable.state_image`)
and the journal of the ticks after it, which has the messages that each tick received. A version is
named by the attempt that made it, and the driver says from which version a tick starts. A worker
process keeps the latest version of each segment that it has run. If that is the version that the
driver names, it steps on; if it is an earlier one of the same image, it first applies the ticks of
the journal that it has missed; otherwise it reads the files. So a stale, repeated or moved task
starts from the right state. It drops what no later task can use.
"""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from dbsp.durable.sealed_files import decoding, seal, sealed_size, unreadable, unseal
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.stages.segments import Segment
from dbsp.shards.segment_run import SegmentRun
from dbsp.spark.cluster.shared_folder import SharedFolder

Received = Mapping[str, Sequence[bytes]]
"""The messages of a tick by input of the segment."""
_IMAGE_TICKS, _IMAGE_EMPTY = 32, 2048
"""So many ticks with and without messages cost at least as much as the smallest image."""
_BEHIND = 16
"""The ticks that a run which a process keeps may be behind."""
_UNUSED = 600.0
"""Seconds after which a process drops the runs of a query without tasks."""


@dataclass(frozen=True, slots=True)
class Version:
    """The state of one segment of one shard after a tick."""

    name: str = ""
    """The attempt that made it; empty before the first tick."""
    image: str | None = None
    """The folder of the image; None if the journal begins at the first tick."""
    journal: tuple[str | int, ...] = ()
    """The ticks after the image: the file of a tick, or a number of ticks without messages."""
    journal_cost: int = 0
    """The bytes of these files, and bytes for the time that replaying a tick takes."""
    image_bytes: int = 0

    def missed(self, later: Version) -> Sequence[str | int] | None:
        """Return the ticks of a journal from this version to a later one; None if none lead there.

        Attempts choose the names of files, so equal names have equal content. A tick without
        messages has no file, and leads from equal states to equal states.
        """
        count = len(self.journal)
        if self.image != later.image or count > len(later.journal):
            return None
        if self.journal == later.journal[:count]:
            return later.journal[count:]
        mine, theirs = self.journal[-1], later.journal[count - 1]
        if (
            self.journal[:-1] == later.journal[: count - 1]
            and isinstance(mine, int)
            and isinstance(theirs, int)
        ):
            return (theirs - mine, *later.journal[count:]) if theirs > mine else None
        return None


@dataclass(frozen=True, slots=True)
class Place:
    """One segment of one shard of a query."""

    query: str
    level: int
    shard: int
    shards: int

    @property
    def folder(self) -> str:
        """The folder of its files in the shared folder."""
        return f"state/{self.level}-{self.shard}"


@dataclass(frozen=True, slots=True)
class HeldRows:
    """A message in a file, for a segment of a shard in the next tick, or in the next job."""

    level: int
    shard: int
    input: str
    file: str

    @staticmethod
    def written(
        folder: SharedFolder, level: int, shard: int, input: str, message: bytes, within: str = "held"
    ) -> HeldRows:
        """Write a message for a segment of a shard to a folder. Raises CheckpointError."""
        file = f"{within}/{uuid.uuid4().hex}"
        folder.write(file, message)
        return HeldRows(level, shard, input, file)

    def read(self, folder: SharedFolder) -> bytes:
        """Return the message. Raises CheckpointError."""
        content = folder.read(self.file)
        if content is None:
            raise unreadable(Path(folder.location) / self.file, "the file is missing")
        return content


@dataclass(slots=True)
class _Kept:
    """A run that this process keeps."""

    version: Version
    segment: Segment
    run: SegmentRun
    used: float
    """When, by the monotonic clock."""
    files: tuple[str, ...] = ()
    """What it has received in the tick after the version, if it waits in that tick."""


_KEPT: dict[Place, _Kept] = {}


def opened(
    place: Place, segment: Segment, version: Version, folder: SharedFolder, memory_limit: int | None = None
) -> SegmentRun:
    """Return a run of the segment at a version; the caller steps it, and then keeps it.

    O(1) if this process has kept it, O(ticks since) if it has kept an earlier version of the same
    image, else O(journal). Raises CheckpointError.
    """
    known = _KEPT.pop(place, None)
    ticks = None
    if known is not None and known.segment is segment and known.run.memory_limit == memory_limit:
        ticks = known.version.missed(version)
    if known is None or ticks is None:
        if known is not None:
            known.run.abandon()
            known = None  # its memory is free before the other run needs as much
        run, ticks = _of_image(place, segment, version.image, folder, memory_limit), version.journal
    else:
        run = known.run
        run.abandon()
    for entry in ticks:
        if isinstance(entry, str):
            run.step(read_journal(folder, place, entry))
        else:
            for _ in range(entry):
                run.step({})
    return run


def kept_in_tick(
    place: Place, segment: Segment, files: Sequence[str]
) -> tuple[SegmentRun, Sequence[str]] | None:
    """Return a run that waits in a tick, and those of the files that it has not received yet.

    Returns None if this process has kept none that has received the first ones of the files.
    """
    known = _KEPT.get(place)
    if known is None or known.segment is not segment or not known.files:
        return None
    count = len(known.files)
    if known.files != tuple(files[:count]):
        return None
    del _KEPT[place]
    return known.run, files[count:]


def _of_image(
    place: Place, segment: Segment, image: str | None, folder: SharedFolder, memory_limit: int | None
) -> SegmentRun:
    with tempfile.TemporaryDirectory(prefix="dbsp-image-") as copy:
        path = None if image is None else folder.fetched_folder(image, Path(copy))
        return SegmentRun(segment.graph, place.shard, place.shards, path, memory_limit)
        # Files that are mapped stay until the process ends, so the copy can be removed.


def keep(
    place: Place, version: Version, segment: Segment, run: SegmentRun, files: Sequence[str] = ()
) -> None:
    """Keep a run for the next task that starts from this version, or from a later one.

    With `files` it waits in the tick after the version, in which it has received them. Drops the
    runs of the query that are far behind, since they would have to read many ticks, and those of
    queries that have ended.
    """
    now = time.monotonic()
    for other, known in list(_KEPT.items()):
        behind = other.query == place.query and known.run.tick < run.tick - _BEHIND
        if behind or now - known.used > _UNUSED:
            _KEPT.pop(other).run.abandon()
    _KEPT[place] = _Kept(version, segment, run, now, tuple(files))


def forget_runs() -> None:
    """Drop all runs that this process keeps."""
    while _KEPT:
        _KEPT.popitem()[1].run.abandon()


def next_version(
    place: Place,
    before: Version,
    name: str,
    received: Received,
    run: SegmentRun,
    folder: SharedFolder,
    image_from: int,
) -> Version:
    """Make the tick that a run has taken durable, and return the version after it, `name`.

    Writes an image once the journal since the last one costs more than that image, and than
    `image_from` bytes; so images cost at most as much as the journal, and a journal stays short.
    """
    size = sum(len(message) for messages in received.values() for message in messages)
    cost = before.journal_cost + max(size, image_from // (_IMAGE_TICKS if received else _IMAGE_EMPTY))
    if cost > max(image_from, before.image_bytes):
        image = f"{place.folder}/{name}.image"
        return Version(name, image, (), 0, _written_image(run, folder, image))
    journal = before.journal
    if received:
        file = f"{place.folder}/{name}.journal"
        folder.write(file, written_journal(place, file, received))
        journal = (*journal, file)
    elif journal and isinstance(latest := journal[-1], int):
        journal = (*journal[:-1], latest + 1)
    else:
        journal = (*journal, 1)
    return Version(name, before.image, journal, cost, before.image_bytes)


def _written_image(run: SegmentRun, folder: SharedFolder, name: str) -> int:
    """Write the state of a run to the shared folder; return its bytes."""
    if (target := folder.make_folder(name)) is not None:
        run.write(target, folder.sync)
        return _size(target)
    with tempfile.TemporaryDirectory(prefix="dbsp-image-") as copy:
        run.write(Path(copy))
        folder.send_folder(Path(copy), name)
        return _size(Path(copy))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def written_journal(place: Place, file: str, received: Received) -> bytes:
    """Return the messages of a tick as the content of a file."""
    parts = [(name, message) for name, messages in received.items() for message in messages]
    head = json.dumps([(name, len(message)) for name, message in parts]).encode()
    sealed = seal(f"{place.query}/{file}", [head, b"\n", *(message for _, message in parts)])
    return b"".join(sealed.parts)


def read_journal(folder: SharedFolder, place: Place, file: str) -> dict[str, list[bytes]]:
    """Return the messages of `written_journal` in a file.

    Raises CheckpointError if it is missing, damaged, or the file of another place.
    """
    content, path = folder.read(file), Path(folder.location) / file
    if content is None:
        raise unreadable(path, "the file is missing")
    view = memoryview(content)
    if (size := sealed_size(path, view)) != len(view):
        raise unreadable(path, f"expected {size:,} bytes, got {len(view):,}")
    head, _, body = bytes(unseal(path, view, f"{place.query}/{file}").content).partition(b"\n")
    received: dict[str, list[bytes]] = {}
    with decoding(path):
        start = 0
        for name, length in json.loads(head):
            received.setdefault(name, []).append(body[start : start + length])
            start += length
    return received
