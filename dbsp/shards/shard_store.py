"""The checkpoint of one shard: it follows the decisions that are taken for all shards together.

An ordinary checkpoint, except that

- a tick counts when the commit record of the run names it, and is removed from the journal if the
  shards decide against it;
- a snapshot is written when it is ordered for all shards, and replaces none that all shards have;
- opening it repeats the ticks from a given snapshot up to the commit record, together with the
  other shards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from dbsp.data.batch import Batch
from dbsp.durable.journal_replay import Replay
from dbsp.durable.manifest import CURRENT, Manifest
from dbsp.durable.recovery import read_intact
from dbsp.durable.sealed_files import unreadable
from dbsp.durable.snapshot_writer import SavedSnapshot
from dbsp.durable.store import Store
from dbsp.durable.tick_journal import TickChanges
from dbsp.errors import expect_present
from dbsp.lazy_dataclass import dataclass
from dbsp.runtime.run import Run
from dbsp.runtime.run_base import RunBase
from dbsp.runtime.tick_result import TickResult
from dbsp.runtime.update_report import Updated
from dbsp.shards.common_decision import WithdrawnError
from dbsp.shards.shard_update import ShardUpdate
from dbsp.shards.snapshot_plan import ShardStatus


@dataclass(frozen=True)
class ShardPlace:
    """Where a shard continues. It can be pickled, and is sent to the process of the shard."""

    folder: Path
    """The folder of the shard."""
    query: str
    """The identity of the query in it."""
    start: int
    """The tick of the snapshot from which all shards continue."""
    until: int
    """The latest tick that counts."""
    signature: str = ""
    """The signature of the circuit of that snapshot; without it, any."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options of the checkpoint."""


class ShardStore(Store):
    """The checkpoint of one shard.

    `decide` is called when the shard has computed and recorded a tick, `decide_update` when it has
    written the state of another program. It returns whether the tick counts on every shard; if it
    does not, the tick is rolled back and removed from the journal. If `decide` raises, nobody
    knows: then the tick stays in the journal until it is opened.
    `before_repeating` is called with the run and each tick of the journal before it is repeated.
    """

    def __init__(
        self,
        place: ShardPlace,
        decide: Callable[[RunBase], bool],
        before_repeating: Callable[[Run, int], None] = lambda run, tick: None,
        decide_update: Callable[[RunBase, Updated], bool] = lambda run, done: False,
    ) -> None:
        self.place = place
        self.decide = decide
        self.before_repeating = before_repeating
        self.decide_update = decide_update
        self.identity = place.query
        """The identity of the query; manifests of another one do not count."""
        self.signature = place.signature
        """The signature of the circuit that counts on every shard; without it, any."""
        self._decided = 0
        """The latest tick that counts on every shard."""
        self._ordered: int | None = None
        """The tick of the common snapshot, if a snapshot is ordered."""
        super().__init__(place.folder, **place.options)
        self._manifests = [
            each for each in self._manifests if not isinstance(each, Manifest) or each.query == self.identity
        ]
        self._manifest = next((each for each in self._manifests if isinstance(each, Manifest)), None)

    def _refuse_shards(self) -> None:
        """A shard opens its own folder."""

    # --- continuing -------------------------------------------------------------------------------

    def attach(self, run: Run, query: str | None = None) -> None:
        """Bring a run without ticks to the latest tick that counts, and log its next ticks.

        All shards call this together. Raises CheckpointError.
        """
        if self._manifest is None and self.place.until:
            self.close()
            raise unreadable(self.folder / CURRENT, "the file is missing")
        self._decided = self.place.until
        super().attach(run, self.place.query)

    def _read(self) -> None:
        """Verify and read the snapshot of the tick from which all shards continue."""
        if self._recovered is not None or self._manifest is None:
            return
        start, until = self.place.start, self.place.until
        manifests = [each for each in self._own() if each.tick == start]
        if not manifests:
            raise unreadable(self.folder, f"it has no intact snapshot of tick {start}")
        self._recovered = read_intact(self.folder, manifests, self._journal, self.verify, until)
        self._manifest, self._manifests = self._recovered.manifest, [*manifests]

    def _repeat(self, replay: Replay, changes: TickChanges) -> TickResult:
        self.before_repeating(replay.run, changes.tick)
        return super()._repeat(replay, changes)

    def begin_after(self, run: Run, tick: int, label: Any) -> None:
        """Write the state of a run as that after a tick, which no journal has.

        The checkpoint is new, and the run was stepped without a log. Raises CheckpointError.
        """
        run.tick = self._decided = tick
        self.label = label
        self._recorder.end = self._recorder.used = run.interner.end
        self._write_now(lambda newest: (newest, []))

    # --- ticks ------------------------------------------------------------------------------------

    def begin(self, run: RunBase) -> None:
        """Begin the snapshot that was ordered before a tick.

        Raises CheckpointError if the snapshot before could not be written; the tick then does not
        take place.
        """
        self._expect_owner().check()
        self._writer.take_over(self._install)
        common, self._ordered = self._ordered, None
        if common is not None:
            self._start_snapshot(run, self._common(common), [])
        self._recorder.begin(run)

    def record(self, tick: int, staged: Mapping[str, Batch], run: RunBase, label: Any) -> None:
        """Write the changes of the inputs in a tick; when this returns, it counts on every shard.

        Raises WithdrawnError if it counts nowhere.
        """
        super().record(tick, staged, run, label)
        if not self.decide(run):
            self._journal.withdraw()
            raise WithdrawnError
        self._decided = tick

    def recorded(self, tick: int) -> bool:
        """Return whether a tick counts on every shard."""
        return tick == self._decided and super().recorded(tick)

    # --- snapshots --------------------------------------------------------------------------------

    def order_snapshot(self, common: int) -> None:
        """Begin a snapshot before the next tick; `common` is the tick of the common one."""
        self._ordered = common

    def snapshot_now(self, common: int, other_circuit: bool = False) -> None:
        """Write a snapshot, and wait until it is durable; `common` is as in `order_snapshot`.

        A snapshot of another circuit than that of the common one is always written; it counts when
        the header of the run has that circuit. Raises CheckpointError.
        """
        self._write_now(lambda newest: (self._common(common), []), always=other_circuit)

    def begin_update(self, run: RunBase) -> ShardUpdate:
        """Prepare the update to another program; `order_snapshot` has named the common snapshot.

        Raises CheckpointError.
        """
        self._begin_update(run)
        common = self._common(expect_present(self._ordered, "the common snapshot of an update"))
        self._ordered = None

        def withdrawn() -> None:
            self._manifests, self._manifest = [common], common

        return ShardUpdate(self._files((common,)), self._continue_update, self.decide_update, withdrawn)

    def _continue_update(self, saved: SavedSnapshot, result: TickResult) -> None:
        super()._continue_update(saved, result)
        files = expect_present(saved.manifest.snapshot, "the snapshot of an update")
        self.identity, self.signature, self._decided = saved.manifest.query, files.signature, result.number

    def snapshot(self) -> None:
        """Do nothing, as after `compact` of the shard: all shards write snapshots together."""

    def status(self) -> ShardStatus:
        """Return what the run needs to know to order the next snapshot."""
        tick = max(each.tick for each in self._own())
        return ShardStatus(tick, self._writer.work is not None, self._journal.written)

    def _common(self, tick: int) -> Manifest:
        """Return the manifest of the common snapshot."""
        for each in self._own():
            if each.tick == tick:
                return each
        raise AssertionError(f"{self.folder} has no snapshot of tick {tick}, which all shards have")

    def _own(self) -> list[Manifest]:
        """Return the manifests whose circuit counts: not those of a circuit that was withdrawn."""
        found = [each for each in self._manifests or [self._expect_manifest()] if isinstance(each, Manifest)]
        return [each for each in found if is_of_circuit(each, self.signature)]


def is_of_circuit(manifest: Manifest, signature: str) -> bool:
    """Return whether a snapshot is of a circuit; without a signature, of any circuit."""
    return not signature or manifest.snapshot is None or manifest.snapshot.signature == signature
