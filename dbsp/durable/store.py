"""A checkpoint folder: a run continues from it after the process ended at any point.

    manifest.json            the identity of the query and the latest snapshot, written atomically
    manifest.previous.json   the snapshot before it
    runs, small, interned, memory   the files of snapshots (see `dbsp.durable.snapshots`)
    journal/41.ticks         the changes of the inputs in the ticks after a snapshot, from 41 on
    journal/latest           the number of the latest tick
    history/40.json          an earlier manifest (see `dbsp.durable.history`), with `keep`
    spill                    state beyond the memory limit; it need not survive the process
    lock, owner              the lock of the run that writes here, and its process id

A tick is written to the journal before it becomes final in memory, so it is durable when `step`
returns. Opening a checkpoint reads the snapshot and repeats the ticks of the journal. Every file is
verified before it is read; if one of the snapshot is damaged, the previous snapshot and the journal
since then replace it. A tick costs the size of its changes. A snapshot costs the size of the sorted
runs merged since the previous snapshot; `snapshot_every` says when one is written.
"""

from __future__ import annotations

import contextlib
import time
import uuid
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbsp.data.batch import Batch
from dbsp.deferred_signals import call_undisturbed
from dbsp.durable.background import wait_for_folder
from dbsp.durable.captured_state import CapturedState, JournalPlace
from dbsp.durable.circuit_match import expect_query, starting
from dbsp.durable.history import History
from dbsp.durable.history_window import HistoryWindow, clock
from dbsp.durable.journal_replay import Replay
from dbsp.durable.journal_values import JournalValues, values_before_constants
from dbsp.durable.lock import FolderOwner, unusable
from dbsp.durable.manifest import CURRENT, PARTS, SPILL, Manifest
from dbsp.durable.recovery import Recovered, found_manifests, read_intact
from dbsp.durable.shards_header import refuse_sharded
from dbsp.durable.snapshot_policy import DEFAULT, Every, SnapshotPolicy
from dbsp.durable.snapshot_writer import SavedSnapshot, SnapshotWriter
from dbsp.durable.snapshots import Snapshots
from dbsp.durable.step_memory import signature
from dbsp.durable.stored_update import CheckpointFiles, StoredUpdate
from dbsp.durable.tick_journal import TickChanges, TickJournal
from dbsp.durable.tick_recorder import TickRecorder, check_label
from dbsp.durable.typed_values import pickle_refused
from dbsp.errors import (
    CheckpointError,
    CheckpointWarning,
    expect_present,
)
from dbsp.runtime.run import Run
from dbsp.runtime.run_base import RunBase
from dbsp.runtime.tick_result import TickResult
from dbsp.state.spill_folder import remove_spilled

if TYPE_CHECKING:
    from dbsp.circuit.graph import Graph


class Store:
    """The checkpoint of one run, with a lock against a second run."""

    def __init__(
        self,
        folder: str | Path,
        *,
        snapshot_every: Every = DEFAULT,
        sync: bool = True,
        allow_pickle: bool = False,
        verify: bool = True,
        background: bool = True,
        keep: int | str | None = None,
    ) -> None:
        """Open and lock a folder; create it if it does not exist.

        `snapshot_every` is a number of ticks, a time such as "30 s" or "5 min", a number of bytes
        of journal such as "64 MB", or a collection of those; the first limit that is reached
        counts. By default these are 1,000 ticks and 16 MB. Without `sync` a checkpoint survives the
        end of the process, but perhaps not a power loss. With `allow_pickle`, values of any class
        are stored, pickled: reading them can run any code, so open only folders that you trust.
        Without `verify`, only the headers of large files are verified, so that opening does not
        read a state that is larger than memory. Without `background`, a tick that begins a snapshot
        waits until it is written. `keep` says how much of the past `program.open` can open: a
        number of ticks, or a duration such as "1 day". 0 ends the history. By default the folder's
        setting stays; in a new folder it is 0.

        Raises CheckpointError when another process uses the folder, or the folder is damaged, is
        not a checkpoint, or has pickled values that are not allowed, ArgumentError when
        `snapshot_every` or `keep` is none of these.
        """
        if keep is not None:
            HistoryWindow.of(keep)
        self.folder = Path(folder)
        self.snapshot_every = SnapshotPolicy.of(snapshot_every)
        self.sync = sync
        self.allow_pickle = allow_pickle
        self.keep = keep
        self.verify = verify
        self.background = background
        self.label: Any = None
        """The label of the latest durable tick."""
        self.result: TickResult | None = None
        """The result of the latest durable tick; None before the first tick."""
        # Weak, so that a run that nobody has any more, as after an interrupt, releases the folder.
        self._run: weakref.ref[Run] | None = None
        self._journal = TickJournal(self.folder, sync)
        self._snapshots = Snapshots(self.folder, sync, allow_pickle)
        self._history = History(self.folder, sync)
        self._writer = SnapshotWriter(self.folder, sync, self._snapshots, self._journal, self._history)
        self._recorder = TickRecorder(self._journal, allow_pickle)
        self._source: dict[str, Any] | None = None
        self._recovered: Recovered | None = None
        """The verified snapshot and the ticks since then, before a run is attached."""
        self._snapshot_time = time.monotonic()
        """When the latest snapshot was written, by the monotonic clock."""
        self._snapshot_size = 0
        """The bytes that the journal had written then."""
        self._refuse_shards()
        self._owner: FolderOwner | None = _owned(self.folder)
        remove_spilled(self.spill)
        try:
            self._manifests = found_manifests(self.folder)
            self._manifest = next((m for m in self._manifests if isinstance(m, Manifest)), None)
            if self._manifest is not None and self._manifest.pickle and not allow_pickle:
                raise pickle_refused(self.folder)
        except BaseException:
            self.close()
            raise

    def _refuse_shards(self) -> None:
        """Raise CheckpointError if the folder is that of a sharded run."""
        refuse_sharded(self.folder)

    def __repr__(self) -> str:
        return f"Store('{self.folder}')"

    @property
    def id(self) -> str:
        """The unique name of an attached checkpoint, which its files repeat."""
        return self._expect_manifest().id

    @property
    def spill(self) -> Path:
        """The folder for state beyond the memory limit of the run; emptied when it is opened."""
        return self.folder / SPILL

    @property
    def query(self) -> str | None:
        """The identity of the query to which the folder belongs; None for a new folder."""
        return None if self._manifest is None else self._manifest.query

    @property
    def source(self) -> dict[str, Any] | None:
        """The program of the folder as JSON (see `dbsp.compiler.stored_source`), if it has one."""
        return None if self._manifest is None else self._manifest.source

    @property
    def circuit(self) -> str | None:
        """The circuit of the snapshot as JSON; None without a snapshot or a JSON form."""
        if self._manifest is None or self._manifest.snapshot is None:
            return None
        return self._manifest.snapshot.circuit

    # --- continuing a run -------------------------------------------------------------------------

    def check(self, query: str) -> None:
        """Raise CheckpointError unless the checkpoint is of this query, given by its identity."""
        if self._manifest is None:
            return
        try:
            expect_query(self.folder, self._manifest, query)
        except CheckpointError:
            self.close()
            raise

    def resume(
        self,
        query: Graph | str,
        start: Callable[[str | None], Run],
        source: dict[str, Any] | None = None,
    ) -> Run:
        """Return a run at the latest durable tick and log it (see `runtime.checkpoints`)."""
        self._source = source
        identity = query if isinstance(query, str) else signature(query)
        self.check(identity)
        try:
            self._read()
            with starting(self.folder, self.circuit):
                run = start(self.circuit)
        except BaseException:
            self.close()
            raise
        self.attach(run, identity)
        return run

    def attach(self, run: Run, query: str) -> None:
        """Bring a run without ticks to the latest durable tick, and log its next ticks.

        A new folder then belongs to this query. Raises CheckpointError when the checkpoint is of
        another query or circuit, or damaged; the folder is then released.
        """
        run.refuse_inside_bulk("attach")
        if run.tick:
            raise CheckpointError(
                f"only a run without ticks can continue from a checkpoint, got a run at tick {run.tick}; "
                "attach the checkpoint before the first step",
                code="run-already-stepped",
            )
        self.check(query)
        try:
            if self._manifest is None:
                self._journal.create()
                manifest = Manifest(
                    uuid.uuid4().hex,
                    run.graph.name,
                    query,
                    self.allow_pickle,
                    time=clock(),
                    keep=self.keep,
                    interned=0,
                    source=self._source,
                )
                manifest.write(self.folder, self.sync)
                self._manifest, self._recovered = manifest, Recovered(manifest, None, [])
            else:
                keep = self._manifest.keep if self.keep is None else self.keep
                pickle = self.allow_pickle or self._manifest.pickle
                changed = replace(self._manifest, pickle=pickle, keep=keep, source=self._source)
                if changed != self._manifest:
                    self._read()
                    changed = replace(self._manifest, pickle=pickle, keep=keep, source=self._source)
                    changed.write(self.folder, self.sync)
                    self._manifest = changed
            self._recover(run)
        except BaseException:
            self.close()
            raise
        self._run = weakref.ref(run)
        run.log = self

    def _read(self) -> None:
        """Verify and read the newest intact snapshot, and the ticks since then."""
        if self._recovered is None and self._manifest is not None:
            self._recovered = read_intact(self.folder, self._manifests, self._journal, self.verify)
            self._manifest = self._recovered.manifest

    def _recover(self, run: Run) -> None:
        self._read()
        manifest = self._expect_manifest()
        self._journal.id = manifest.id
        recovered, self._recovered = self._recovered or Recovered(manifest, None, []), None
        values = self._recover_values(run, recovered)
        if recovered.snapshot is not None:
            self.result = self._snapshots.restore(run, recovered.snapshot)
        self.label = manifest.label
        recorder = self._recorder
        recorder.time = manifest.time or 0.0
        replay = Replay(run, values)
        for changes in recovered.ticks:
            self.result = self._repeat(replay, changes)
            self.label = changes.head["label"]
            recorder.time = max(recorder.time, changes.time or 0.0)
        self._journal.open(manifest.tick, recovered.ticks)
        recorder.used = run.interner.end
        # Values that only this process has interned are written with the next tick.
        if recovered.ticks:
            recorder.end = recovered.ticks[-1].head["interned"]
        elif manifest.interned is not None:
            recorder.end = manifest.interned
        elif recovered.snapshot is not None and recovered.snapshot.files.ends:
            recorder.end = recovered.snapshot.files.ends[-1]
        else:
            recorder.end = run.interner.end
        self._snapshots.describe(run.graph)  # here, since it may take longer than a tick
        with contextlib.suppress(OSError):  # by the clock of the system, which may be set back
            age = time.time() - (self.folder / CURRENT).stat().st_mtime
            self._snapshot_time = time.monotonic() - max(age, 0)

    def _repeat(self, replay: Replay, changes: TickChanges) -> TickResult:
        """Repeat a tick of the journal."""
        return replay.apply(changes)

    def _recover_values(self, run: Run, recovered: Recovered) -> JournalValues:
        """Give a run the values of the snapshot and the journal, and then those of its circuit."""
        snapshot, ticks = recovered.snapshot, recovered.ticks
        complete = snapshot is not None or (len(ticks) > 0 and recovered.manifest.interned == 0)
        with values_before_constants(run) if complete else contextlib.nullcontext(run.interner) as interner:
            if snapshot is not None:
                self._snapshots.restore_values(interner, snapshot)
            values = JournalValues(interner, self.folder, self.allow_pickle)
            values.add_all(ticks)
        return values

    # --- writing ----------------------------------------------------------------------------------

    def begin(self, run: RunBase) -> None:
        """Begin a snapshot before a tick if it is time; the ticks before it are committed.

        Raises CheckpointError if the snapshot before could not be written; the tick then does not
        take place, and the next one begins a snapshot again.
        """
        self._expect_owner().check()
        self._writer.take_over(self._install)
        manifest = self._expect_manifest()
        seconds = time.monotonic() - self._snapshot_time
        size = self._journal.written - self._snapshot_size
        if self._writer.work is None and self.snapshot_every.due(run.tick - manifest.tick, seconds, size):
            run.free_many_values()
            self._start_snapshot(run, manifest, self._earlier(manifest))
        self._recorder.begin(run)

    def _start_snapshot(self, run: RunBase, before: Manifest, earlier: Sequence[Manifest]) -> None:
        """Write a snapshot whose previous one is that of the manifest `before`."""
        state = self._capture(run)
        if self.background:
            self._writer.start(state, before, earlier, self._expect_owner())
        else:
            self._install(self._writer.write(state, before, earlier))

    def record(self, tick: int, staged: Mapping[str, Batch], run: RunBase, label: Any) -> None:
        """Write the changes of the inputs in a tick; they are durable when this returns."""
        self._expect_owner().check()
        self._recorder.record(tick, staged, run, label)

    def record_part(self, tick: int, staged: Mapping[str, Batch], run: RunBase) -> None:
        """Write a step of a transaction; it is durable with the record of its tick."""
        self._expect_owner().check()
        self._recorder.record_part(tick, staged, run)

    def discard_parts(self) -> None:
        """Remove the steps of a transaction that was rolled back; may be repeated."""
        self._journal.discard_parts()

    def check_label(self, label: Any) -> None:
        """Raise ArgumentError for a label that is not a JSON value."""
        check_label(label)

    def recorded(self, tick: int) -> bool:
        """Return whether a tick is in the journal: an interrupt may follow its writing."""
        return self._journal.recorded(tick)

    def committed(self, result: TickResult, label: Any) -> None:
        """Note the commit of the recorded tick."""
        self._recorder.committed(result.number)
        self.result = result
        self.label = label

    def begin_update(self, run: RunBase) -> StoredUpdate:
        """Prepare the update of the run to another program; raises CheckpointError."""
        newest = self._begin_update(run)
        return StoredUpdate(self._files((newest, *self._earlier(newest))), self._continue_update)

    def _begin_update(self, run: RunBase) -> Manifest:
        """Let the folder rest, and return its newest manifest. Raises CheckpointError."""
        self._expect_owner().check()
        self._settle_background()
        self._recorder.begin(run)
        return self._expect_manifest()

    def _files(self, manifests: Sequence[Manifest]) -> CheckpointFiles:
        """Return what an update needs; `manifests` are those that it replaces, latest first."""
        return CheckpointFiles(
            self.folder,
            self.sync,
            self._snapshots,
            self._journal,
            self._recorder,
            self._history,
            self._writer,
            self._expect_owner(),
            manifests,
            self.label,
        )

    def _continue_update(self, saved: SavedSnapshot, result: TickResult) -> None:
        """Continue after an update that is decided. If this is interrupted, call it again."""
        self.committed(result, self.label)
        self._install(saved)
        self._manifests = [saved.manifest]

    # --- snapshots --------------------------------------------------------------------------------

    def snapshot(self) -> None:
        """Write the state after the latest tick, except for the parts that are already written.

        Raises CheckpointError; the snapshot before it and the journal then stay.
        """
        self._write_now(lambda newest: (newest, self._earlier(newest)))

    def _write_now(
        self, replaced: Callable[[Manifest], tuple[Manifest, Sequence[Manifest]]], always: bool = False
    ) -> None:
        """Write a snapshot; `replaced` returns the one before it, and those for the history.

        Unless `always`, a snapshot that would be equal to the one before is not written.
        """
        run = None if self._run is None else self._run()
        if run is None:
            raise CheckpointError(
                "this checkpoint has no run; attach a run before the snapshot, and take no snapshot after "
                "closing",
                code="run-closed",
            )
        run.refuse_inside_bulk("snapshot")
        self._expect_owner().check()
        self._settle_background()
        newest = self._expect_manifest()
        if always or run.tick != newest.tick or self._snapshots.differs(run):
            self._install(self._writer.write(self._capture(run), *replaced(newest)))

    def wait(self) -> None:
        """Wait until no snapshot is being written in the background."""
        self._writer.wait()

    def _settle_background(self) -> None:
        """Take over the snapshot in the background, which a new snapshot replaces if it failed."""
        self.wait()
        with contextlib.suppress(CheckpointError):
            self._writer.take_over(self._install)

    def _earlier(self, before: Manifest) -> list[Manifest]:
        return [each for each in self._manifests if isinstance(each, Manifest) and each.tick < before.tick]

    def _capture(self, run: RunBase) -> CapturedState:
        """Capture the state after the latest tick, and let the journal continue in a new file."""
        self._journal.end_file()
        journal = JournalPlace(
            label=self.label,
            digest=self._journal.digest,
            size=self._journal.written,
            time=time.monotonic(),
            tick_time=self._recorder.time or None,
            end=self._recorder.end,
            used=self._recorder.used,
            lost=self._recorder.lost,
        )
        return self._snapshots.capture(run, self.result, journal)

    def _install(self, saved: SavedSnapshot) -> None:
        """Continue from a snapshot that is durable. If this is interrupted, call it again."""
        self._snapshots.adopt(saved.written)
        self._snapshot_time, self._snapshot_size = saved.journal.time, saved.journal.size
        self._manifests, self._manifest = [saved.manifest, saved.before], saved.manifest

    def _expect_manifest(self) -> Manifest:
        return expect_present(self._manifest, "the manifest of an attached checkpoint")

    def _expect_owner(self) -> FolderOwner:
        return expect_present(self._owner, "the owner of an attached checkpoint")

    def close(self) -> None:
        """Release the folder; the run continues without being logged.

        Waits until a snapshot in the background is written. Warns if it could not be written.
        """
        try:
            self.wait()
            self._writer.take_over(self._install)
        except CheckpointError as error:
            warnings.warn(
                f"{error.message}; nothing is lost, since the journal has all ticks",
                CheckpointWarning,
                stacklevel=2,
            )
        finally:
            self._release()

    def _release(self) -> None:
        run = None if self._run is None else self._run()
        if run is not None:
            run.log = None
        self._run = None
        self._journal.close()
        self._recovered = None
        if self._owner is not None:
            self._owner.release()
            self._owner = None


def _owned(folder: Path) -> FolderOwner:
    wait_for_folder(folder)
    try:
        for part in PARTS:
            (folder / part).mkdir(parents=True, exist_ok=True)
        # A lock that an interrupt separates from its owner would stay until the process ends.
        return call_undisturbed(FolderOwner, folder)
    except OSError as error:
        raise unusable(folder, error) from None
