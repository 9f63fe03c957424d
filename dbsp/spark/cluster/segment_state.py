"""The state of the segments on the executors: kept by worker processes, made durable in files.

The state of a segment of a shard after tick t is a *version*: an image (`dbsp.durable.state_image`)
and the journal of the ticks after it, which has the messages that each tick received. A version is
named by the attempt that made it, and the driver says from which version a tick starts. A worker
process keeps the latest version of each segment that it has run. If that is the version that the
driver names, it steps on; if it is an earlier one of the same image, it first applies the ticks of
the journal that it has missed; otherwise it reads the files. So a stale, repeated or moved task
starts from the right state.
"""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dbsp.durable.sealed_files import unreadable
from dbsp.operators.stages.segments import Segment
from dbsp.shards.segment_run import SegmentRun
from dbsp.spark.cluster.shared_folder import SharedFolder

Received = Mapping[str, Sequence[bytes]]
"""The messages of a tick by input of the segment."""


@dataclass(frozen=True, slots=True)
class Version:
    """The state of one segment of one shard after a tick."""

    name: str = ""
    """The attempt that made it; empty before the first tick."""
    image: str | None = None
    """The folder of the image; None if the journal begins at the first tick."""
    journal: tuple[str | None, ...] = ()
    """By tick after the image its file, or None for a tick without messages."""
    journal_bytes: int = 0
    """The bytes of these files, of small ones rather more."""
    image_bytes: int = 0

    def precedes(self, other: Version) -> bool:
        """Return whether the ticks of the journal of another version lead from this one to it.

        Attempts choose the names of files, so equal names have equal content. A tick without
        messages has no file, and leads from equal states to equal states.
        """
        return self.image == other.image and self.journal == other.journal[: len(self.journal)]


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
    """A message that a segment of a shard receives in the next tick, in a file."""

    level: int
    shard: int
    input: str
    file: str

    @staticmethod
    def written(folder: SharedFolder, place: Place, input: str, message: bytes) -> HeldRows:
        """Write a message for the next tick of a place. Raises CheckpointError."""
        file = f"held/{uuid.uuid4().hex}"
        folder.write(file, message)
        return HeldRows(place.level, place.shard, input, file)

    def read(self, folder: SharedFolder) -> bytes:
        """Return the message. Raises CheckpointError."""
        content = folder.read(self.file)
        if content is None:
            raise unreadable(Path(folder.location) / self.file, "the file is missing")
        return content


_KEPT: dict[Place, tuple[Version, SegmentRun]] = {}
"""The runs that this process keeps, with their versions."""
_LEAST, _EMPTY = 1 << 16, 1 << 10
"""What a file of a journal counts at least, and a tick without messages: a commit names all."""


def opened(place: Place, segment: Segment, version: Version, folder: SharedFolder) -> SegmentRun:
    """Return a run of the segment at a version; the caller steps it, and then keeps it.

    O(1) if this process has kept it, O(ticks since) if it has kept an earlier version of the same
    image, else O(journal). Raises CheckpointError.
    """
    known, run = _KEPT.pop(place, (Version(), None))
    if run is None or not known.precedes(version):
        known, run = Version(image=version.image), _of_image(place, segment, version.image, folder)
    for file in version.journal[len(known.journal) :]:
        run.step({} if file is None else read_journal(folder, file))
    return run


def _of_image(place: Place, segment: Segment, image: str | None, folder: SharedFolder) -> SegmentRun:
    with tempfile.TemporaryDirectory(prefix="dbsp-image-") as copy:
        path = None if image is None else folder.fetched_folder(image, Path(copy))
        return SegmentRun(segment.graph, place.shard, place.shards, path)
        # Files that are mapped stay until the process ends, so the copy can be removed.


def keep(place: Place, version: Version, run: SegmentRun) -> None:
    """Keep a run for the ticks that start from this version, or from a later one."""
    _KEPT[place] = version, run


def forget_all() -> None:
    """Drop the runs of all queries in this process; the next tasks read their files."""
    _KEPT.clear()


def forget_query(query: str) -> None:
    """Drop the runs of a query in this process."""
    for place in [place for place in _KEPT if place.query == query]:
        del _KEPT[place]


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

    Writes an image once the journal since the last one is larger than that image, and than
    `image_from` bytes; so images cost at most as much as the journal. A small file counts as one
    of 64 KiB and a tick without messages as 1 KiB: the length of the journal is limited, too.
    """
    content = written_journal(received)
    size = before.journal_bytes + (max(len(content), _LEAST) if content else _EMPTY)
    if size > max(image_from, before.image_bytes):
        image = f"{place.folder}/{name}.image"
        return Version(name, image, (), 0, _written_image(run, folder, image))
    file = None
    if content:
        file = f"{place.folder}/{name}.journal"
        folder.write(file, content)
    return Version(name, before.image, (*before.journal, file), size, before.image_bytes)


def _written_image(run: SegmentRun, folder: SharedFolder, name: str) -> int:
    """Write the state of a run to the shared folder; return its bytes."""
    if folder.local is not None:
        target = folder.local / name
        target.mkdir(parents=True)
        run.write(target)
        return _size(target)
    with tempfile.TemporaryDirectory(prefix="dbsp-image-") as copy:
        run.write(Path(copy))
        folder.send_folder(Path(copy), name)
        return _size(Path(copy))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def written_journal(received: Received) -> bytes:
    """Return the messages of a tick as the content of a file; empty without messages."""
    parts = [(name, message) for name, messages in received.items() for message in messages]
    if not parts:
        return b""
    head = json.dumps([(name, len(message)) for name, message in parts]).encode()
    return b"".join((head, b"\n", *(message for _, message in parts)))


def read_journal(folder: SharedFolder, file: str) -> dict[str, list[bytes]]:
    """Return the messages of `written_journal` in a file. Raises CheckpointError."""
    content = folder.read(file)
    if content is None:
        raise unreadable(Path(folder.location) / file, "the file is missing")
    head, _, body = content.partition(b"\n")
    received: dict[str, list[bytes]] = {}
    start = 0
    for name, length in json.loads(head):
        received.setdefault(name, []).append(body[start : start + length])
        start += length
    return received
