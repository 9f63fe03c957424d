"""The manifest of a checkpoint: the identity of its query, and the files of a snapshot.

`manifest.json` is written when the folder is made, so that the folder belongs to one query from the
beginning, and again by every snapshot. `manifest.previous.json` is the one before it; its files and
the journal since then are kept.
"""

from __future__ import annotations

import json
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from dbsp.durable.atomic_files import reports_full_disk, write_atomically
from dbsp.durable.sealed_files import decoding, read_header, sealed_json
from dbsp.lazy_dataclass import dataclass

FORMAT = "dbsp checkpoint"
VERSION = 3
EARLIER = frozenset({2})
"""The other versions that are read: in version 2, large runs are sealed frames, not run files."""
CURRENT, PREVIOUS = "manifest.json", "manifest.previous.json"
PARTS = ("runs", "small", "interned", "memory", "tables", "journal")
"""The folders of a checkpoint."""
SPILL = "spill"
"""The folder of state beyond the memory limit; no manifest names its files."""


@dataclass(frozen=True)
class SnapshotFiles:
    """The files of a snapshot and their checksums."""

    signature: str
    """A hash of the circuit that ran."""
    circuit: str | None
    """The circuit as JSON; None if it has no JSON form."""
    traces: list[list[str | int]]
    """By trace its sorted runs: a file, or a number in the file of small runs."""
    small: str
    memory: str
    result: str
    interned: list[str]
    ends: list[int]
    """For each file of interned values, the id after the last one."""
    next_file: int
    digests: dict[str, str]
    tables: list[list[tuple[str, int]]] = field(default_factory=list)
    """By table its pieces, oldest first, each with the number of its entries."""
    plans: str | None = None
    """The plans of the circuit as JSON, for its compiler; None if the program alone gives them."""

    def __post_init__(self) -> None:
        named = {file for files in self.traces for file in files if isinstance(file, str)}
        named.update(name for pieces in self.tables for name, _ in pieces)
        named.update((self.small, self.memory, self.result, *self.interned))
        if named != self.digests.keys() or len(self.interned) != len(self.ends):
            raise ValueError("the checksums are of other files")
        for name in named:
            part, _, file = name.partition("/")
            if part not in PARTS or not file or "/" in file or "\\" in file or file.startswith("."):
                raise ValueError(f"{name!r} is not a file of a snapshot")


@dataclass(frozen=True)
class Manifest:
    """The content of a manifest; `snapshot` is None before the first one."""

    id: str
    """The unique name of the checkpoint, which its files repeat."""
    name: str
    """The name of the circuit."""
    query: str
    """The identity of the query."""
    pickle: bool
    """Whether the folder may have pickled values."""
    tick: int = 0
    label: Any = None
    journal: str = ""
    """The checksum of the journal's file of this tick."""
    snapshot: SnapshotFiles | None = None
    time: float | None = None
    """When the tick was written, in seconds since 1970; None if an earlier version wrote it."""
    keep: int | str | None = None
    """How much of the past is kept (see `dbsp.durable.history_window`)."""
    interned: int | None = None
    """The end of the ids in the journal up to the tick; None if that of the snapshot's files."""
    source: dict[str, Any] | None = None
    """The program as JSON, for its compiler; None for a circuit that was built by hand."""

    def content(self, place: str = "manifest") -> bytes:
        """Return the file."""
        document = {"format": FORMAT, "version": VERSION, **asdict(self)}
        return sealed_json(place, document, indent=1)

    def write(self, folder: Path, sync: bool, file: str = CURRENT, place: str = "manifest") -> None:
        """Write the manifest. Raises CheckpointError."""
        path, content = folder / file, self.content(place)
        with reports_full_disk(path):
            try:
                write_atomically(path, content, sync)
            except OSError:
                # It may be there although the folder cannot be synchronized; then it counts.
                if not path.exists() or path.read_bytes() != content:
                    raise


def read_manifest(path: Path, place: str = "manifest") -> Manifest | None:
    """Return a manifest; None if there is no file. Raises CheckpointError."""
    document = read_header(path, FORMAT, VERSION, place, EARLIER)
    if document is None:
        return None
    with decoding(path):
        del document["format"], document["version"]
        files = document.pop("snapshot")
        manifest = Manifest(**document, snapshot=None if files is None else SnapshotFiles(**files))
        expected = (str, str, str, bool, int, str)
        got = (manifest.id, manifest.name, manifest.query, manifest.pickle, manifest.tick, manifest.journal)
        if tuple(map(type, got)) != expected:
            raise TypeError(f"unexpected types in {json.dumps(got)}")
        if (
            not isinstance(manifest.time, float | None)
            or not isinstance(manifest.keep, int | str | None)
            or not isinstance(manifest.interned, int | None)
            or not isinstance(manifest.source, dict | None)
        ):
            raise TypeError(
                "unexpected types in "
                + json.dumps([manifest.time, manifest.keep, manifest.interned, manifest.source])
            )
        return manifest
