"""A folder of file sets, one per tick, each of which is published completely or not at all.

    log.json                         the format and the outputs of the log, written before a tick
    latest.json                      the number of the latest tick, or of one before it
    first.json                       the first tick that remains, if earlier ones were removed
    ticks/tick=000000000041/         the file set of a tick, published by a rename
        tick.json                    the tick's number, label, and files of the changed outputs
        path.parquet                 the delta of one output
    views/tick=000000000040/         sometimes, the views of the outputs after a tick
    drafts/                          file sets being written; leftovers if there is no writer
    lock                             held while writing

Reading takes no lock, because published files never change; only old ticks may be removed, and
`first.json` is written before that. The view after the last removed tick stays. Every JSON file is
sealed; `tick.json` has the checksums of the Parquet files and the number of the tick before, so
nothing that is damaged or missing goes unnoticed. This module knows only numbers, names and paths;
`DeltaLog` interprets the files. It imports only small modules, because short-lived processes use
it.
"""

from __future__ import annotations

import os
import shutil
import urllib.parse
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from dbsp.durable.atomic_files import sync_file, sync_folder, write_atomically
from dbsp.durable.history_window import clock
from dbsp.durable.lock import folder_lock, unusable
from dbsp.durable.sealed_files import (
    Fingerprint,
    decoding,
    read_header,
    read_sealed_json,
    sealed_json,
    unreadable,
)
from dbsp.errors import CheckpointError
from dbsp.lazy_dataclass import dataclass

FORMAT = "dbsp delta log"
VERSION = 2


@dataclass(frozen=True, slots=True)
class Entry:
    """The content of the `tick.json` of a tick; `rows` and `files` are by changed output."""

    tick: int
    label: Any
    rows: Mapping[str, int]
    files: Mapping[str, Path]
    pending: int
    """The rows of all deltas since the latest stored view, this tick included."""
    fingerprints: Mapping[str, Fingerprint] = field(default_factory=dict)
    """By changed output the size and checksum of its file."""
    time: float | None = None
    """When the tick was published, in seconds since 1970; None in logs of earlier versions."""

    def read(self, output: str) -> bytearray:
        """Return the content of the file of an output, verified. Raises CheckpointError."""
        return self.fingerprints[output].read(self.files[output])


class Ledger:
    """The published file sets of a folder."""

    def __init__(self, folder: str | Path, *, sync: bool = True) -> None:
        self.folder = Path(folder)
        self.sync = sync
        self._id: str | None = None

    # --- reading ----------------------------------------------------------------------------------

    def header(self) -> dict[str, Any] | None:
        """Return the content of `log.json`; None before the first tick. Raises CheckpointError."""
        path = self.folder / "log.json"
        header = read_header(path, FORMAT, VERSION, "log")
        if header is None and (self._names("ticks") or self._names("views")):
            raise unreadable(path, "the file is missing")
        if header is not None:
            with decoding(path):
                self._id = str(header["id"])
        return header

    def _known_id(self) -> str:
        """Return the unique name of the log. Raises CheckpointError before the first tick."""
        if self._id is None:
            self.header()
        if self._id is None:
            raise unreadable(self.folder / "log.json", "the file is missing")
        return self._id

    def ticks(self, part: str = "ticks") -> list[int]:
        """Return the published ticks that remain, ascending. O(n log n) for n ticks.

        Raises CheckpointError if the latest tick is missing.
        """
        if self.header() is None:
            return []
        latest = 0
        path = self.folder / "latest.json"
        if part == "ticks":  # read before the names, since a tick may be published in between
            with decoding(path):
                latest = int(read_sealed_json(path, f"{self._known_id()}/latest")["tick"])
        numbers = self._names(part)
        if latest and latest not in numbers:
            raise unreadable(self._place(latest, part), "the folder is missing")
        first = self.first()
        if part == "views":
            first -= 1  # the view after the last removed tick
        return sorted(number for number in numbers if number >= first)

    def first(self) -> int:
        """Return the first tick that was not removed, recorded or not; 1 if none was removed."""
        path = self.folder / "first.json"
        if not path.exists():
            return 1
        with decoding(path):
            return int(read_sealed_json(path, f"{self._known_id()}/first")["tick"])

    def ticks_after(self, after: int) -> list[int]:
        """Return the published ticks after a tick, in ascending order.

        Raises CheckpointError if one of them was removed.
        """
        ticks = self.ticks()
        self.expect_kept(after + 1)
        return [tick for tick in ticks if tick > after]

    def expect_kept(self, tick: int) -> None:
        """Raise CheckpointError if a tick was removed. The error names the first that remains."""
        first = self.first()
        if tick < first:
            raise CheckpointError(
                f"{self.folder} has no tick {tick} any more: it begins with tick {first}, because it retains "
                f"the latest ticks only; read the view as of tick {first - 1}, and the ticks after it",
                code="tick-removed",
            )

    def _names(self, part: str) -> set[int]:
        try:
            names = os.listdir(self.folder / part)
        except FileNotFoundError:
            return set()
        except OSError as error:
            raise unreadable(self.folder / part, str(error)) from None
        numbers = (name.removeprefix("tick=") for name in names)
        return {int(number) for number in numbers if number.isascii() and number.isdigit()}

    def has(self, tick: int, part: str = "ticks") -> bool:
        """Whether a tick is published. O(1)."""
        return self._place(tick, part).exists()

    def entry(self, tick: int, part: str = "ticks") -> Entry:
        """Return the entry of a published tick. Raises CheckpointError if there is no such tick."""
        try:
            return self._entry(tick, part)
        except CheckpointError:
            self.expect_kept(tick + 1 if part == "views" else tick)
            raise

    def _entry(self, tick: int, part: str) -> Entry:
        place = self._place(tick, part)
        path = place / "tick.json"
        with decoding(path):
            manifest = read_sealed_json(path, f"{self._known_id()}/{part}/{tick}")
            rows = {str(name): int(count) for name, count in manifest["rows"].items()}
            files = {name: place / file_name(name) for name in rows}
            fingerprints = {name: Fingerprint(**manifest["files"][name]) for name in rows}
            before = int(manifest["before"])
            pending, time = int(manifest["pending"]), manifest.get("time")
            entry = Entry(tick, manifest["label"], rows, files, pending, fingerprints, time)
        if before and not self.has(before) and before >= self.first():
            raise unreadable(self._place(before, "ticks"), "the folder is missing")
        return entry

    def _place(self, tick: int, part: str) -> Path:
        return self.folder / part / f"tick={tick:012d}"

    # --- writing ----------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the folder against other writers, and remove the leftovers of ended writers.

        Raises CheckpointError if the folder cannot be used.
        """
        try:
            for part in ("ticks", "views", "drafts"):
                (self.folder / part).mkdir(parents=True, exist_ok=True)
            lock = folder_lock(self.folder)
            lock.acquire()
        except OSError as error:
            raise unusable(self.folder, error) from None
        try:
            for left in (self.folder / "drafts").iterdir():
                shutil.rmtree(left)
            for left in self.folder.glob(".*.json.*"):
                left.unlink()
            yield
        except OSError as error:
            raise CheckpointError(
                f"cannot write to {self.folder}: {error.strerror or error}; nothing was recorded",
                code="checkpoint-write",
            ) from None
        finally:
            lock.release()

    def write_header(self, header: Mapping[str, Any]) -> None:
        """Write the header of the log. Call this only within `writing`, before the first tick."""
        known = self.header()
        id_ = uuid.uuid4().hex if known is None else known["id"]
        document = {"format": FORMAT, "version": VERSION, "id": id_, **header}
        self._write_latest(id_, 0)
        write_atomically(self.folder / "log.json", sealed_json("log", document, indent=1), self.sync)

    def _write_latest(self, id_: str, tick: int) -> None:
        content = sealed_json(f"{id_}/latest", {"tick": tick})
        write_atomically(self.folder / "latest.json", content, self.sync)

    def publish(
        self,
        tick: int,
        label: Any,
        rows: Mapping[str, int],
        pending: int,
        write: Callable[[str, Path], None],
        part: str = "ticks",
    ) -> None:
        """Publish the file set of a tick; `write(output, path)` writes each file.

        Call this only within `writing`, and only for a tick that is not published. The tick is
        published when this returns; an error before that leaves only a draft, if the disk is full
        not even that.
        """
        id_, place = self._known_id(), self._place(tick, part)
        draft = self.folder / "drafts" / f"{part}-{place.name}"
        try:
            draft.mkdir()
            for name in rows:
                write(name, draft / file_name(name))
            before = max((number for number in self._names("ticks") if number < tick), default=0)
            manifest = {
                "tick": tick,
                "before": before if part == "ticks" else 0,
                "label": label,
                "rows": dict(rows),
                "files": {name: asdict(Fingerprint.of(draft / file_name(name))) for name in rows},
                "pending": pending,
                "time": clock(),
            }
            content = sealed_json(f"{id_}/{part}/{tick}", manifest)
            write_atomically(draft / "tick.json", content, sync=False)
            if self.sync:
                for path in draft.iterdir():
                    sync_file(path)
                sync_folder(draft)
            os.rename(draft, place)
        except OSError:
            with suppress(OSError):
                shutil.rmtree(draft)
            raise
        if self.sync:
            sync_folder(place.parent)
        if part == "ticks":
            with suppress(OSError):  # the tick is published, and an older number does no harm
                self._write_latest(id_, tick)

    def remove_before(self, first: int) -> None:
        """Remove the ticks before `first`; the view after the last one of them must be published.

        Call this only within `writing`. The removal is decided when this returns; it leaves files
        only if the disk fails or the process ends, and the next removal removes these.
        """
        content = sealed_json(f"{self._known_id()}/first", {"tick": first})
        write_atomically(self.folder / "first.json", content, self.sync)
        for part, end in (("ticks", first), ("views", first - 1)):
            for tick in sorted(self._names(part)):
                if tick < end:
                    with suppress(OSError):
                        shutil.rmtree(self._place(tick, part))


def file_name(output: str) -> str:
    """Return the file name of an output's delta: its name, escaped for file systems and Spark."""
    quoted = urllib.parse.quote(output, safe="")
    if quoted[:1] in ("_", "."):  # such files are hidden from Spark
        quoted = f"%{ord(quoted[0]):02X}{quoted[1:]}"
    return f"{quoted}.parquet"
