"""The update of a run to another program, in its checkpoint: it counts completely or not at all.

Files are written in an order that makes every end of the process harmless:

    journal/41.ticks       begins with the record of tick 41, the update
    runs/, memory/, ...    the state after tick 41, of the new circuit
    history/38.json        the latest manifest of the old program, if the checkpoint keeps a history
    manifest.previous.json removed, so that no damage can bring back the old program
    manifest.json          replaced by that of the new program: this rename is the decision

Before the rename, the folder belongs to the old program, and opening it removes what was written.
After it, the folder belongs to the new program only. Files that no manifest names are removed last.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dbsp.data.batch import Batch
from dbsp.durable.atomic_files import reports_full_disk, sync_folder
from dbsp.durable.history import History
from dbsp.durable.lock import FolderOwner
from dbsp.durable.manifest import CURRENT, PREVIOUS, Manifest
from dbsp.durable.sealed_files import unreadable
from dbsp.durable.snapshot_writer import SavedSnapshot, SnapshotWriter
from dbsp.durable.snapshots import Snapshots, WrittenSnapshot
from dbsp.durable.tick_journal import TickJournal
from dbsp.durable.tick_recorder import TickRecorder
from dbsp.lazy_dataclass import dataclass
from dbsp.runtime.run_base import RunBase
from dbsp.runtime.run_log import UpdatedProgram, UpdateLog
from dbsp.runtime.tick_result import TickResult
from dbsp.runtime.update_report import Updated


@dataclass(frozen=True)
class CheckpointFiles:
    """What an update needs to write to a checkpoint."""

    folder: Path
    sync: bool
    snapshots: Snapshots
    journal: TickJournal
    recorder: TickRecorder
    history: History
    writer: SnapshotWriter
    owner: FolderOwner
    manifests: Sequence[Manifest]
    """The manifests of the old program: the current one, and the one before it if there is one."""
    label: Any
    """The label of the latest tick, which the tick of the update keeps."""


class StoredUpdate(UpdateLog):
    """One update in a checkpoint. `install` makes the checkpoint continue from its snapshot."""

    def __init__(self, files: CheckpointFiles, install: Callable[[SavedSnapshot, TickResult], None]) -> None:
        self._files = files
        self._install = install
        self._written: WrittenSnapshot | None = None
        self._saved: SavedSnapshot | None = None
        """The snapshot whose manifest decides, from the moment when it may be in the folder."""
        self._without_previous = False

    def record(
        self, program: UpdatedProgram, staged: Mapping[str, Batch], run: RunBase, done: Updated
    ) -> None:
        files, before = self._files, self._files.manifests[0]
        saved = self._write_state(program, staged, run, done)
        for earlier in files.manifests[:0:-1]:
            files.history.add(earlier, before, saved.manifest.tick)
        files.history.add(before, saved.manifest, saved.manifest.tick, always=True)
        self._remove_previous()
        self._saved = saved
        saved.manifest.write(files.folder, files.sync)

    def _write_state(
        self, program: UpdatedProgram, staged: Mapping[str, Batch], run: RunBase, done: Updated
    ) -> SavedSnapshot:
        """Write the record of the tick and the state after it, but not the manifest."""
        files, before, tick = self._files, self._files.manifests[0], done.deltas.number
        files.owner.check()
        place = files.recorder.record_update(tick, staged, run, files.label, program.identity)
        captured = files.snapshots.capture(run, done.deltas, place)
        state = replace(captured, tick=tick, plans=program.plans)
        written = self._written = files.snapshots.write(state, before.id)
        manifest = replace(
            before,
            name=run.graph.name,
            query=program.identity,
            source=program.source or None,  # the shards of a run have none
            tick=tick,
            label=files.label,
            journal=place.digest,
            snapshot=written.files,
            time=place.tick_time,
            interned=place.end,
        )
        return SavedSnapshot(place, manifest, manifest, written)

    def _remove_previous(self) -> None:
        """Remove the manifest before the current one. Raises CheckpointError."""
        path = self._files.folder / PREVIOUS
        self._without_previous = True
        with reports_full_disk(path, "the update was undone"):
            path.unlink(missing_ok=True)
            if self._files.sync:
                sync_folder(self._files.folder)

    def decided(self) -> bool:
        if self._saved is None:
            return False
        path = self._files.folder / CURRENT
        try:
            found = path.read_bytes()
        except FileNotFoundError:
            return False
        except OSError as error:
            # Neither outcome may be assumed: the run asks again before its next use.
            raise unreadable(path, str(error)) from None
        return found == self._saved.manifest.content()

    def withdraw(self) -> None:
        files = self._files
        files.journal.withdraw()
        if self._written is not None:
            self._written.remove()
        if self._without_previous and len(files.manifests) > 1:
            with contextlib.suppress(Exception):  # the next snapshot writes it again
                files.manifests[1].write(files.folder, files.sync, PREVIOUS)

    def committed(self, result: TickResult) -> None:
        saved = self._saved
        if saved is None:
            raise AssertionError("the update was not recorded")
        self._install(saved, result)
        with contextlib.suppress(OSError):  # the next snapshot tries again
            self._files.writer.collect([saved.manifest])
