"""A folder of file sets, one per tick, each of which is published completely or not at all.

    log.json                         what the log is, written before its first tick
    ticks/tick=000000000041/         the file set of a tick, renamed into its place: the names are the ledger
        tick.json                    the tick's number and label, and the files of the outputs that changed
        path.parquet                 one output's delta
    views/tick=000000000040/         now and then, what the outputs held after a tick
    drafts/                          file sets being written; without a writer these are leftovers
    lock                             held while writing

Reading takes no lock: what has been published never changes. Only numbers, names and paths are
known here; what the files hold is `DeltaLog`'s business. Imports nothing heavy, for it is read in
processes that live for a moment.
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
    """What the `tick.json` of a tick says; `rows` and `files` are by output that changed."""

    tick: int
    label: Any
    rows: Mapping[str, int]
    files: Mapping[str, Path]
    pending: int
    """Rows of all deltas since the latest view that was kept, those of this tick included."""


class Ledger:
    """The published file sets of a folder."""

    def __init__(self, folder: str | Path, *, sync: bool = True) -> None:
        self.folder = Path(folder)
        self.sync = sync

    # --- reading -----------------------------------------------------------------------------------

    def header(self) -> dict[str, Any] | None:
        """The content of `log.json`; None before the first tick. Raises CheckpointError."""
        return read_header(self.folder / "log.json", FORMAT, VERSION)

    def ticks(self, part: str = "ticks") -> list[int]:
        """The published ticks, ascending. O(n log n) for n ticks."""
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
        """What a published tick consists of. Raises CheckpointError if there is no such tick."""
        place = self._place(tick, part)
        try:
            manifest = json.loads((place / "tick.json").read_bytes())
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{place} cannot be read: {error}") from None
        files = {name: place / file_name(name) for name in manifest["rows"]}
        return Entry(manifest["tick"], manifest["label"], manifest["rows"], files, manifest["pending"])

    def _place(self, tick: int, part: str) -> Path:
        return self.folder / part / f"tick={tick:012d}"

    # --- writing -----------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the folder against other writers, and remove what ended writers left behind.

        Raises CheckpointError if the folder cannot be used.
        """
        try:
            for part in ("ticks", "views", "drafts"):
                (self.folder / part).mkdir(parents=True, exist_ok=True)
            lock = folder_lock(self.folder)
            lock.acquire()
        except OSError as error:
            raise CheckpointError(f"{self.folder} cannot be used: {error.strerror}") from None
        try:
            for left in (self.folder / "drafts").iterdir():
                shutil.rmtree(left)
            yield
        finally:
            lock.release()

    def write_header(self, header: Mapping[str, Any]) -> None:
        """Write the header of the log. Only while `writing`."""
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
        """Put the file set of a tick in its place; `write(output, path)` writes each file.

        Only while `writing`, and only a tick that is not there. The tick is published when this
        returns; whatever raises before that leaves nothing but a draft.
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
    """The file of an output's delta: its name, escaped where file systems or Spark would mind."""
    quoted = urllib.parse.quote(output, safe="")
    if quoted[:1] in ("_", "."):  # such files are hidden from Spark
        quoted = f"%{ord(quoted[0]):02X}{quoted[1:]}"
    return f"{quoted}.parquet"
