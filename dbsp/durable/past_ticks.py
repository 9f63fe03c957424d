"""Read the past of a checkpoint: the state as of a tick, and the results of the ticks.

Nothing is locked or written, so this works while a run writes to the folder. Files may vanish
meanwhile, when a tick leaves the history; then reading begins again.

After an update of the run, its ticks belong to several programs: each tick is opened with the
program that made it. The ticks of a program begin with a manifest and end before the next update.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby, takewhile
from pathlib import Path

from dbsp.circuit.graph import Graph
from dbsp.data.zset import ZSet
from dbsp.durable.circuit_match import expect_query, starting
from dbsp.durable.folder_state import undisturbed
from dbsp.durable.history import DamagedManifest, kept_manifests
from dbsp.durable.history_window import clock
from dbsp.durable.journal_replay import Replay
from dbsp.durable.journal_values import JournalValues, values_before_constants
from dbsp.durable.manifest import CURRENT, PREVIOUS, Manifest
from dbsp.durable.moments import Moment, PastMoment, shown_time
from dbsp.durable.past_run import JournalPosition, PastRun
from dbsp.durable.recovery import replacement
from dbsp.durable.shards_header import refuse_sharded
from dbsp.durable.snapshots import Snapshots, load_snapshot
from dbsp.durable.step_memory import signature
from dbsp.durable.tick_journal import TickChanges, TickJournal
from dbsp.durable.typed_values import pickle_refused
from dbsp.errors import CheckpointError, CheckpointWarning, expect_present
from dbsp.runtime.tick_recording import Recording
from dbsp.runtime.tick_result import TickResult


class PastTicks:
    """The ticks of one checkpoint that can be opened.

    `build` returns the graph to run for the circuit of a snapshot as JSON, or for None. `progress`
    is called with the number of every tick that is repeated.
    """

    def __init__(
        self,
        folder: str | Path,
        query: Graph | str,
        build: Callable[[str | None], Graph],
        *,
        allow_pickle: bool = False,
        verify: bool = True,
        memory_limit: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self._query = query if isinstance(query, str) else signature(query)
        self._build = build
        self._allow_pickle = allow_pickle
        self._verify = verify
        self._memory_limit = memory_limit
        self._progress = progress

    def open(self, as_of: Moment | None = None) -> PastRun:
        """Return the run as of a moment, by default the latest tick. Raises CheckpointError."""
        return self._opened(None if as_of is None else PastMoment.of(as_of))

    def openable(self, tick: int) -> range:
        """Return the ticks around this one that can be opened. Raises CheckpointError."""
        return undisturbed(self.folder, partial(self._openable, tick))

    def results(self, since: PastMoment, until: PastMoment) -> Iterator[TickResult]:
        """Return the results of the ticks after a moment, up to another. Raises CheckpointError."""
        return self._results(self._opened(since), until)

    def recorded(
        self, since: PastMoment, until: PastMoment, begin: Callable[[PastRun], Recording]
    ) -> Recording:
        """Return what `begin` returns for a run at a moment, after it has repeated the ticks up to
        another moment. Raises CheckpointError."""

        def repeat() -> Recording:
            run = self._opened(since)
            recording = begin(run)
            for _ in self._advance(run, until):
                pass
            return recording

        return undisturbed(self.folder, repeat)

    def change(self, output: str, since: PastMoment, until: PastMoment, known: PastRun) -> ZSet:
        """Return the change of an output between two moments; `known` is a run that is open."""
        first = self._opened(since)
        manifests, _ = kept_manifests(self.folder)
        if not any(manifest.tick > first.tick and until.includes(manifest) for manifest in manifests):
            deltas = (result[output] for result in self._results(first, until))
            return _sum(deltas, ZSet.empty(first.outputs[output], first.interner))
        before = first.view(output)
        del first
        last = known if until.tick == known.tick else self._opened(until)
        return last.view(output) - before

    # --- opening ----------------------------------------------------------------------------------

    def _opened(self, moment: PastMoment | None) -> PastRun:
        try:
            return undisturbed(self.folder, partial(self._open, moment, fall_back=False))
        except CheckpointError as error:
            if error.code != "checkpoint-unreadable":
                raise
        # Not before the folder is known to be damaged: a file may also vanish while it is read.
        return undisturbed(self.folder, partial(self._open, moment, fall_back=True))

    def _open(self, moment: PastMoment | None, *, fall_back: bool) -> PastRun:
        manifests, damaged = self._manifests()
        bases = [base for base in reversed(manifests) if moment is None or moment.includes(base)]
        if moment is None:
            expect_query(self.folder, bases[0], self._query)
        elif not bases:
            raise self._outside(moment, *self._latest(manifests[-1]))
        if bases[0].query != self._query:
            for each in damaged:
                if each.tick > bases[0].tick:  # it may be the manifest of an update
                    raise each.error
            raise self._other_program(bases[0], expect_present(moment, "a moment of the past"))
        bases = list(takewhile(lambda base: base.query == self._query, bases))
        failures: list[CheckpointError] = []
        for base in bases:
            try:
                run = self._restored(base)
                for _ in self._advance(run, moment):
                    pass
            except CheckpointError as error:
                if error.code != "checkpoint-unreadable" or not fall_back:
                    raise
                failures.append(error)
                continue
            failures += [
                each.error
                for each in damaged
                if base.tick < each.tick and (moment is None or each.tick <= run.tick)
            ]
            if failures and not fall_back:
                raise failures[0]
            if failures:
                warnings.warn(replacement(failures[0], base), CheckpointWarning, stacklevel=6)
            return run
        raise failures[0]

    def _manifests(self) -> tuple[list[Manifest], list[DamagedManifest]]:
        """Return the intact manifests and the damaged ones.

        Raises CheckpointError if no manifest is of this query.
        """
        manifests, damaged = kept_manifests(self.folder)
        if not manifests:
            expect_checkpoint(self.folder)
            raise damaged[0].error
        if all(manifest.query != self._query for manifest in manifests):
            expect_query(self.folder, manifests[-1], self._query)
        if not self._allow_pickle and any(manifest.pickle for manifest in manifests):
            raise pickle_refused(self.folder, "allow_pickle=True")
        return manifests, damaged

    def _restored(self, base: Manifest) -> PastRun:
        """Return the run as of a snapshot."""
        circuit = None if base.snapshot is None else base.snapshot.circuit
        loaded = load_snapshot(self.folder, base, self._verify)
        with starting(self.folder, circuit):
            graph = self._build(circuit)
        position = JournalPosition(base.id, base.journal, base.label, base.time)
        run = PastRun(graph, self, position, self._memory_limit)
        if loaded is not None:
            snapshots = Snapshots(self.folder, False, self._allow_pickle)
            with values_before_constants(run) as interner:
                snapshots.restore_values(interner, loaded)
            snapshots.restore(run, loaded)
        run.replay = Replay(run, JournalValues(run.interner, self.folder, self._allow_pickle))
        return run

    # --- the journal ------------------------------------------------------------------------------

    def _advance(self, run: PastRun, until: PastMoment | None) -> Iterator[TickResult]:
        """Repeat the next ticks, up to a moment; yield their results. Raises CheckpointError."""
        if until is not None and until.tick == run.tick:
            return
        journal = TickJournal(self.folder, sync=False)
        journal.id = run.position.id
        for changes in journal.ticks(run.tick, run.position.journal):
            if until is not None and not until.includes(changes):
                return
            if changes.updated_to is not None:
                self._expect_end(changes)
                break
            position = JournalPosition(journal.id, changes.digest, changes.head["label"], changes.time)
            result = run.repeat(position, changes)
            if self._progress is not None:
                self._progress(run.tick)
            yield result
            if until is not None and until.tick == run.tick:
                return
        if until is not None and not until.is_past(run.tick, run.position.time, clock()):
            raise self._outside(until, run.tick, run.position.time)

    def _expect_end(self, update: TickChanges) -> None:
        """Raise the error of the manifest of an update if it is damaged."""
        for each in kept_manifests(self.folder)[1]:
            if each.tick >= update.tick:
                raise each.error

    def _results(self, run: PastRun, until: PastMoment) -> Iterator[TickResult]:
        reached = -1
        while True:
            try:
                yield from self._advance(run, until)
                return
            except CheckpointError as error:
                if error.code != "checkpoint-unreadable" or run.tick == reached:
                    raise
            # Ticks may have left the history since the files were listed; then this says so.
            reached = run.tick
            run = self._opened(PastMoment.of(reached))

    def _latest(self, newest: Manifest) -> tuple[int, float | None]:
        """Return the latest tick of the journal, and its time."""
        journal = TickJournal(self.folder, sync=False)
        journal.id = newest.id
        tick, time = newest.tick, newest.time
        for changes in journal.ticks(newest.tick, newest.journal):
            if changes.updated_to is not None:
                break
            tick, time = changes.tick, changes.time
        return tick, time

    def _openable(self, tick: int) -> range:
        manifests, _ = self._manifests()
        blocks = [list(block) for _, block in groupby(manifests, key=lambda manifest: manifest.query)]
        known = [block for block in blocks if block[0].tick <= tick] or blocks
        return range(known[-1][0].tick, self._latest(known[-1][-1])[0] + 1)

    def _outside(self, moment: PastMoment, latest: int, time: float | None) -> CheckpointError:
        """Return the error for a moment outside the history, which ends with this tick and time."""
        manifests, _ = self._manifests()
        first = manifests[0]
        reached = [manifest for manifest in manifests if moment.includes(manifest)]
        if reached and reached[-1].query != self._query:
            return self._other_program(reached[-1], moment)
        known = f"tick {first.tick} ({shown_time(first.time)}) to tick {latest} ({shown_time(time)})"
        more = "; Store(folder, keep=...) keeps more of the past from now on"
        return CheckpointError(
            f"{self.folder} can be opened as of {known}, got {moment.text}; choose a moment in that range"
            + ("" if moment.includes(first) else more),
            code="outside-history",
        )

    def _other_program(self, manifest: Manifest, moment: PastMoment) -> CheckpointError:
        """Return the error for a moment in which the run had the program of a manifest."""
        return CheckpointError(
            f"{self.folder} is the checkpoint of another query ('{manifest.name}') as of {moment.text}: an "
            f"update changed the program of the run; open this moment with the program of tick "
            f"{manifest.tick}",
            code="checkpoint-other-program",
        )


def expect_checkpoint(folder: Path) -> None:
    """Raise CheckpointError if a folder has no files of a checkpoint, not even damaged ones.

    A sharded run has a checkpoint of each shard, whose past cannot be opened.
    """
    refuse_sharded(folder)
    if not any((folder / part).exists() for part in (CURRENT, PREVIOUS, "journal")):
        raise CheckpointError(
            f"expected a checkpoint in {folder}, got {'other files' if folder.exists() else 'no folder'}",
            code="checkpoint-unreadable",
        )


def _sum(parts: Iterable[ZSet], zero: ZSet) -> ZSet:
    """Return the sum; each row is merged O(log n) times."""
    sums: list[ZSet] = []
    for part in parts:
        if part:
            sums.append(part)
        while len(sums) > 1 and len(sums[-2]) <= 2 * len(sums[-1]):
            sums.append(sums.pop() + sums.pop())
    while sums:
        zero = zero + sums.pop()
    return zero
