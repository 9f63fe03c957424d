"""A folder of file sets, one per tick, each of which is published completely or not at all.

    log.json                         the format and the outputs of the log, written before a tick
    ticks/tick=000000000041/         the file set of a tick, published by a rename
        tick.json                    the tick's number, label, and files of the changed outputs
        path.parquet                 the delta of one output
    views/tick=000000000040/         sometimes, the views of the outputs after a tick
    drafts/                          file sets being written; leftovers if there is no writer
    lock                             held while writing

Reading takes no lock, because published files never change. This module knows only numbers, names
and paths; `DeltaLog` interprets the files. It imports only small modules, because short-lived
processes use it.
"""

from __future__ import annotations

import json
import os
import shutil
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbsp.durable.atomic_files import read_header, sync_file, sync_folder, write_atomically
from dbsp.durable.lock import folder_lock
from dbsp.errors import CheckpointError

FORMAT = "dbsp delta log"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """The content of the `tick.json` of a tick; `rows` and `files` are by changed output."""

    tick: int
    label: Any
    rows: Mapping[str, int]
    files: Mapping[str, Path]
    pending: int
    """The rows of all deltas since the latest stored view, this tick included."""


class Ledger:
    """The published file sets of a folder."""

    def __init__(self, folder: str | Path, *, sync: bool = True) -> None:
        self.folder = Path(folder)
        self.sync = sync

    # --- reading ----------------------------------------------------------------------------------

    def header(self) -> dict[str, Any] | None:
        """Return the content of `log.json`; None before the first tick. Raises CheckpointError."""
        return read_header(self.folder / "log.json", FORMAT, VERSION)

    def ticks(self, part: str = "ticks") -> list[int]:
        """Return the published ticks in ascending order. O(n log n) for n ticks."""
        try:
            names = os.listdir(self.folder / part)
        except FileNotFoundError:
            return []
        numbers = (name.removeprefix("tick=") for name in names)
        return sorted(int(number) for number in numbers if number.isdigit())

    def has(self, tick: int, part: str = "ticks") -> bool:
        """Whether a tick is published. O(1)."""
        return self._place(tick, part).exists()

    def entry(self, tick: int, part: str = "ticks") -> Entry:
        """Return the entry of a published tick. Raises CheckpointError if there is no such tick."""
        place = self._place(tick, part)
        try:
            manifest = json.loads((place / "tick.json").read_bytes())
        except (OSError, ValueError) as error:
            raise CheckpointError(f"cannot read {place}: {error}", code="checkpoint-unreadable") from None
        files = {name: place / file_name(name) for name in manifest["rows"]}
        return Entry(manifest["tick"], manifest["label"], manifest["rows"], files, manifest["pending"])

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
            raise CheckpointError(
                f"cannot use the folder {self.folder}: {error.strerror}", code="checkpoint-write"
            ) from None
        try:
            for left in (self.folder / "drafts").iterdir():
                shutil.rmtree(left)
            yield
        finally:
            lock.release()

    def write_header(self, header: Mapping[str, Any]) -> None:
        """Write the header of the log. Call this only within `writing`."""
        document = {"format": FORMAT, "version": VERSION, **header}
        write_atomically(self.folder / "log.json", json.dumps(document, indent=1).encode(), self.sync)

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
        published when this returns; an error before that leaves only a draft.
        """
        place = self._place(tick, part)
        draft = self.folder / "drafts" / f"{part}-{place.name}"
        draft.mkdir()
        manifest = {"tick": tick, "label": label, "rows": dict(rows), "pending": pending}
        (draft / "tick.json").write_text(json.dumps(manifest))
        for name in rows:
            write(name, draft / file_name(name))
        if self.sync:
            for path in draft.iterdir():
                sync_file(path)
            sync_folder(draft)
        os.rename(draft, place)
        if self.sync:
            sync_folder(place.parent)


def file_name(output: str) -> str:
    """Return the file name of an output's delta: its name, escaped for file systems and Spark."""
    quoted = urllib.parse.quote(output, safe="")
    if quoted[:1] in ("_", "."):  # such files are hidden from Spark
        quoted = f"%{ord(quoted[0]):02X}{quoted[1:]}"
    return f"{quoted}.parquet"
