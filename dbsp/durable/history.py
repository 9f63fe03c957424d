"""The snapshots that are older than the previous one, from which the past can be opened.

    history/40.json    the manifest of the snapshot after tick 40, as it was

A manifest moves here when it is neither the current nor the previous one any more. The state files
that it names and the journal since the oldest one stay. Sorted runs are immutable, and snapshots
share the files of those that did not change in between, so a history costs the size of the changes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from pathlib import Path

from dbsp.durable.atomic_files import reports_full_disk, sync_folder
from dbsp.durable.history_window import HistoryWindow, clock
from dbsp.durable.manifest import CURRENT, PREVIOUS, Manifest, read_manifest
from dbsp.durable.sealed_files import unreadable
from dbsp.errors import CheckpointError
from dbsp.lazy_dataclass import dataclass

HISTORY = "history"
"""The folder of the kept manifests."""


def history_name(tick: int) -> str:
    """Return the place of a kept manifest in its checkpoint."""
    return f"{HISTORY}/{tick}.json"


def history_files(folder: Path) -> list[tuple[int, Path]]:
    """Return the files of kept manifests, each with its tick, in their order."""
    found = (folder / HISTORY).glob("*.json")
    return sorted((int(p.stem), p) for p in found if p.stem.isdecimal() and p.stem.isascii())


@dataclass(frozen=True, slots=True)
class DamagedManifest:
    """A manifest that cannot be read; the tick of the current and the previous one is unknown."""

    tick: float
    error: CheckpointError


def kept_manifests(folder: Path) -> tuple[list[Manifest], list[DamagedManifest]]:
    """Return all manifests of a checkpoint by their ticks, and the damaged ones.

    A file that another process removes meanwhile is left out.
    """
    manifests: list[Manifest] = []
    damaged: list[DamagedManifest] = []

    def read(tick: float, path: Path, place: str) -> None:
        try:
            manifest = read_manifest(path, place)
        except CheckpointError as error:
            damaged.append(DamagedManifest(tick, error))
            return
        if manifest is not None and manifest not in manifests:
            manifests.append(manifest)
        elif manifest is None and path.name == CURRENT:
            damaged.append(DamagedManifest(tick, unreadable(path, "the file is missing")))

    # In the order in which a writer moves a manifest, so that none is missed.
    read(math.inf, folder / CURRENT, "manifest")
    read(math.inf, folder / PREVIOUS, "manifest")
    for tick, path in history_files(folder):
        read(tick, path, history_name(tick))
    # Of several with the same tick, that of CURRENT is the last.
    manifests.reverse()
    damaged.reverse()
    manifests.sort(key=lambda manifest: manifest.tick)
    damaged.sort(key=lambda each: each.tick)
    return manifests, damaged


class History:
    """The kept manifests of one checkpoint, for its writer."""

    def __init__(self, folder: Path, sync: bool) -> None:
        self.folder = folder
        self.sync = sync
        self._loaded: list[Manifest] | None = None
        """The intact manifests by their ticks; None before they are needed."""

    def _manifests(self) -> list[Manifest]:
        if self._loaded is None:
            self._loaded = []
            for tick, path in history_files(self.folder):
                with contextlib.suppress(CheckpointError):  # the one before it and the journal replace it
                    manifest = read_manifest(path, history_name(tick))
                    if manifest is not None:
                        self._loaded.append(manifest)
        return self._loaded

    def add(self, manifest: Manifest, following: Manifest, latest: int, always: bool = False) -> None:
        """Keep a manifest that is about to be replaced, if the window needs it.

        `following` is the manifest after it, and `latest` is the latest tick. With `always`, an
        earlier manifest that is near does not replace it; nor does that of another program, since
        the ticks of a program begin with its first manifest. Raises CheckpointError when it cannot
        be written.
        """
        window = HistoryWindow.of(following.keep or 0)
        if not window or window.begins_at(following, latest, clock()):
            return
        kept = self._manifests()
        if kept and kept[-1].tick >= manifest.tick:
            return
        always = always or not kept or kept[-1].query != manifest.query
        if not always and not window.wants(manifest, kept[-1]):
            return
        folder = self.folder / HISTORY
        with reports_full_disk(folder):
            if not folder.exists():
                folder.mkdir()
                if self.sync:
                    sync_folder(self.folder)
        name = history_name(manifest.tick)
        manifest.write(self.folder, self.sync, name, name)
        kept.append(manifest)

    def expire(self, current: Sequence[Manifest]) -> list[Manifest]:
        """Remove the manifests that are older than the window; return the others.

        `current` are the manifests that stay in any case, the latest first. May raise OSError.
        """
        window = HistoryWindow.of(current[0].keep or 0)
        now, latest = clock(), current[0].tick
        kept = self._manifests()
        everything = sorted((*kept, *current), key=lambda manifest: manifest.tick)
        first = current[-1].tick if not window else everything[0].tick
        for manifest in everything:
            if window and window.begins_at(manifest, latest, now):
                first = manifest.tick
        stay = [manifest for manifest in kept if manifest.tick >= first]
        gone = [path for tick, path in history_files(self.folder) if tick < first]
        for path in gone:
            path.unlink(missing_ok=True)
        if gone and self.sync:  # before the files that they name are removed
            sync_folder(self.folder / HISTORY)
        self._loaded = stay
        return stay
