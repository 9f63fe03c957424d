"""Writes captured states with their manifests: at once, or in the background.

The order of the files makes every end of the process harmless: first the files of the state, which
no manifest names yet, then the manifest before, then the new one. What no manifest needs is removed
last.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from dbsp.durable.background import BackgroundWork, rest
from dbsp.durable.captured_state import CapturedState, JournalPlace
from dbsp.durable.history import History
from dbsp.durable.lock import FolderOwner
from dbsp.durable.manifest import PARTS, PREVIOUS, Manifest
from dbsp.durable.snapshots import Snapshots, WrittenSnapshot
from dbsp.durable.tick_journal import TickJournal
from dbsp.errors import CheckpointError
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True)
class SavedSnapshot:
    """A snapshot whose manifest is durable."""

    journal: JournalPlace
    manifest: Manifest
    before: Manifest
    written: WrittenSnapshot


class SnapshotWriter:
    """Writes the snapshots of one run, one at a time."""

    def __init__(
        self, folder: Path, sync: bool, snapshots: Snapshots, journal: TickJournal, history: History
    ) -> None:
        self.folder = folder
        self.sync = sync
        self._snapshots = snapshots
        self._journal = journal
        self._history = history
        self.work: BackgroundWork[SavedSnapshot] | None = None
        """The snapshot that is being written in the background, or waits to be taken over."""

    def start(
        self, state: CapturedState, before: Manifest, earlier: Sequence[Manifest], owner: FolderOwner
    ) -> None:
        """Write a state in the background; until then the owner keeps the folder.

        Raises CheckpointError if the system has no more threads.
        """

        def write() -> SavedSnapshot:
            owner.check()
            return self.write(state, before, earlier)

        self.work = BackgroundWork(self.folder, write)
        try:
            self.work.start()
        except RuntimeError as error:
            raise CheckpointError(
                f"cannot write a snapshot of {self.folder} in the background: {error}; open the folder with "
                "Store(folder, background=False)",
                code="checkpoint-write",
            ) from None

    def wait(self) -> None:
        """Wait until no snapshot is being written in the background."""
        if self.work is not None:
            self.work.wait()

    def take_over(self, install: Callable[[SavedSnapshot], None]) -> None:
        """Install a snapshot that has been written in the background. Raises its errors.

        If this is interrupted, call it again; so `install` may be called more than once.
        """
        work = self.work
        if work is None:
            return
        if work.done:
            if work.error is None:
                install(work.result)
            self.work = None
            if work.error is not None:
                raise work.error
        elif work.abandoned:
            self.work = None

    def write(self, state: CapturedState, before: Manifest, earlier: Sequence[Manifest]) -> SavedSnapshot:
        """Write a captured state after the snapshot of the manifest `before`.

        The manifests `earlier` go to the history. Safe in another thread; the run may take more
        ticks meanwhile. Raises CheckpointError.
        """
        written = self._snapshots.write(state, before.id)
        manifest = replace(
            before,
            tick=state.tick,
            label=state.journal.label,
            journal=state.journal.digest,
            snapshot=written.files,
            time=state.journal.tick_time,
            interned=state.journal.end,
        )
        try:
            rest()
            for replaced in earlier:
                self._history.add(replaced, before, state.tick)
            before.write(self.folder, self.sync, PREVIOUS)
            rest()
            manifest.write(self.folder, self.sync)
        except CheckpointError:
            written.remove()
            raise
        rest()
        with contextlib.suppress(OSError):  # the next snapshot tries again
            self.collect([manifest, before])
        return SavedSnapshot(state.journal, manifest, before, written)

    def collect(self, current: Sequence[Manifest]) -> None:
        """Remove what no manifest needs: earlier state, and leftovers of ended processes."""
        manifests = [*current, *self._history.expire(current)]
        kept: set[str] = set()
        for manifest in manifests:
            kept |= set() if manifest.snapshot is None else manifest.snapshot.digests.keys()
        self._journal.remove_until(min(manifest.tick for manifest in manifests))
        for part in ("", *PARTS):
            for path in (self.folder / part).iterdir():
                rest()
                unnamed = part not in ("", "journal") and f"{part}/{path.name}" not in kept
                if unnamed or path.name.startswith("."):
                    path.unlink()
