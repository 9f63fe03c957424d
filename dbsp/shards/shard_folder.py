"""The checkpoint of a sharded run: the checkpoints of its shards, and what counts on all of them.

The coordinator of the run owns the folder (see `dbsp.durable.shards_header` for its files). A tick:

1. every shard computes the tick, and records its part in its own journal;
2. when all have done so, the coordinator writes the commit record (`commit`): the tick now counts;
3. every shard makes its part final.

A process that ends before step 2 undoes the tick on all shards, since the records in their journals
are removed when they are opened again; one that ends later undoes nothing. `recover` finds the tick
from whose snapshots all shards can continue.
"""

from __future__ import annotations

import itertools
import shutil
import time
import uuid
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeVar

from dbsp.deferred_signals import call_undisturbed
from dbsp.durable.background import wait_for_folder
from dbsp.durable.circuit_match import expect_query
from dbsp.durable.commit_record import Commit, CommitRecord
from dbsp.durable.lock import FolderOwner, unusable
from dbsp.durable.manifest import CURRENT, PREVIOUS, Manifest, read_manifest
from dbsp.durable.sealed_files import unreadable
from dbsp.durable.shards_header import HEADER, ShardsHeader, read_shards_header
from dbsp.durable.snapshot_policy import DEFAULT, Every, SnapshotPolicy
from dbsp.errors import CheckpointError, CheckpointWarning, counted, expect_present
from dbsp.shards.placed_circuit import WrittenCircuit
from dbsp.shards.shard_store import ShardPlace, is_of_circuit
from dbsp.shards.snapshot_plan import ShardStatus, SnapshotPlan

T = TypeVar("T")

PATIENCE = 30.0
"""The seconds to wait for shards of a run that has ended, which may still compute their tick."""


class ShardFolder:
    """The checkpoint of one sharded run, with a lock against a second run."""

    def __init__(
        self,
        folder: str | Path,
        *,
        snapshot_every: Every = DEFAULT,
        sync: bool = True,
        allow_pickle: bool = False,
        verify: bool = True,
        background: bool = True,
        reshard: bool = False,
    ) -> None:
        """Open and lock a folder; create it if it does not exist.

        The options are those of `dbsp.durable.Store`; the limits of `snapshot_every` are of each
        shard. With `reshard` the run may start with another number of shards than before (see
        `dbsp.shards.resharding`). Raises CheckpointError when another process uses the folder, or
        it is damaged or not that of a sharded run, ArgumentError for a wrong `snapshot_every`.
        """
        self.folder = Path(folder)
        self.sync = sync
        self.reshard = reshard
        self.plan = SnapshotPlan(SnapshotPolicy.of(snapshot_every))
        """When the shards write snapshots."""
        self._options = {
            "sync": sync,
            "allow_pickle": allow_pickle,
            "verify": verify,
            "background": background,
        }
        self.header: ShardsHeader | None = None
        """The identity of the query, and the folders of the shards; None in a new folder."""
        self.commit_of = Commit()
        """The latest commit."""
        self._record: CommitRecord | None = None
        self._owner: FolderOwner | None = _owned(self.folder)
        try:
            self.header = read_shards_header(self.folder)
            if self.header is None:
                self._expect_new()
            else:
                self._record = CommitRecord(self.folder, self.header.id, sync)
                self.commit_of = max(self._record.read(), Commit(self.header.since))
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"ShardFolder('{self.folder}')"

    @property
    def tick(self) -> int:
        """The latest tick that counts."""
        return self.commit_of.tick

    def _expect_new(self) -> None:
        """Raise CheckpointError if a folder without a header has other files of runs."""
        if (self.folder / CURRENT).exists() or (self.folder / PREVIOUS).exists():
            raise CheckpointError(
                f"{self.folder} is the checkpoint of a run without shards; start the run without shards=, or "
                "choose another folder",
                code="checkpoint-other-program",
            )
        if any(self.folder.glob(f"shard-*/{CURRENT}")):
            raise unreadable(self.folder / HEADER, "the file is missing")

    # --- starting ---------------------------------------------------------------------------------

    def expect(self, query: str, name: str, shards: int, circuit: WrittenCircuit | None = None) -> None:
        """Check that the folder is of this query and number of shards; begin a new folder.

        `query` is the identity of the query, `name` the name of its circuit, and `circuit` the
        circuit, which may change until the first tick. Raises CheckpointError; the folder
        is then released.
        """
        circuit = circuit or WrittenCircuit()
        try:
            if self.header is None:
                self._begin(query, name, shards, circuit)
                return
            found = len(self.header.shards)
            if self.header.query != query:
                raise CheckpointError(
                    f"{self.folder} is the checkpoint of another query ('{self.header.name}'); "
                    "start the same query, or choose another folder",
                    code="checkpoint-other-program",
                )
            if found != shards and not self.reshard:
                raise CheckpointError(
                    f"{self.folder} is the checkpoint of a run with {counted(found, 'shard')}, got "
                    f"shards={shards}; start the run with shards={found}, open the folder with "
                    "ShardFolder(folder, reshard=True), or choose another folder",
                    code="checkpoint-other-shards",
                )
            if not self.tick and self.header.circuit != circuit.circuit:
                self._write(replace(self.header, **asdict(circuit), signature="", since=0))
        except BaseException:
            self.close()
            raise

    def _begin(self, query: str, name: str, shards: int, circuit: WrittenCircuit) -> None:
        header = ShardsHeader(
            uuid.uuid4().hex, name, query, [f"shard-{n}" for n in range(shards)], **asdict(circuit)
        )
        record = CommitRecord(self.folder, header.id, self.sync)
        record.create()
        header.write(self.folder, self.sync)  # last: it makes the folder one of a sharded run
        self.header, self._record = header, record

    def recover(self, start: Callable[[int], T]) -> T:
        """Return the result of `start`, called with the tick from which all shards continue.

        That is the latest tick of which every shard has a snapshot, or 0. `start` opens the shards
        (see `place`), which repeat the ticks since then together. If a file of a shard is damaged,
        it raises checkpoint-unreadable and is called again with an earlier tick; a warning says so.
        Raises CheckpointError if no tick is left. No process may have the shards open.
        """
        failure: CheckpointError | None = None
        for tick in self.starting_ticks():
            try:
                started = start(tick)
            except CheckpointError as error:
                if error.code != "checkpoint-unreadable":
                    raise
                failure = failure or error
                continue
            if failure is not None:
                warnings.warn(
                    f"{failure.message.partition('; ')[0]}; nothing is lost, since the snapshots of tick "
                    f"{tick} and the journals replace it",
                    CheckpointWarning,
                    stacklevel=2,
                )
            self.plan.continue_from(tick)
            return started
        raise expect_present(failure, "an error for a sharded run that cannot be started")

    def starting_ticks(self) -> list[int]:
        """Return the ticks of which all shards have snapshots, latest first.

        Waits until the shards of a run that has ended have released their folders. Raises
        CheckpointError if there is no such tick.
        """
        header = self.expect_header()
        common: set[int] | None = None
        failure: CheckpointError | None = None
        deadline = time.monotonic() + PATIENCE
        for shard, name in enumerate(header.shards):
            folder = self.folder / name
            _wait_for_owner(folder, deadline)
            found, damage = self._snapshots(folder, header.identity(shard))
            failure = failure or damage
            common = found if common is None else common & found
        if not common:
            raise failure or unreadable(self.folder, "its shards have no snapshots of the same tick")
        return sorted(common, reverse=True)

    def _snapshots(self, folder: Path, query: str) -> tuple[set[int], CheckpointError | None]:
        """Return the ticks of the snapshots of a shard, and what is wrong with one of them.

        A snapshot of another query does not count: it is of the program before an update, or of an
        update that was withdrawn. Raises CheckpointError if there is no other one.
        """
        found: set[int] = set()
        damage = other = None
        for file in (CURRENT, PREVIOUS):
            try:
                manifest = read_manifest(folder / file)
            except CheckpointError as error:
                if error.code == "checkpoint-version":
                    raise
                damage = damage or error
                continue
            if manifest is not None and manifest.query != query:
                other = manifest
            elif manifest is not None:
                self._expect_counted(folder / file, manifest)
                header = self.expect_header()
                if manifest.tick >= header.since and is_of_circuit(manifest, header.signature):
                    found.add(manifest.tick)
        if not found and damage is None and other is not None:
            expect_query(folder, other, query)
        if not found and damage is None and not self.tick:
            found.add(0)  # the run ended before this shard wrote its first file
        return found, damage or (None if found else unreadable(folder / CURRENT, "the file is missing"))

    def _expect_counted(self, path: Path, manifest: Manifest) -> None:
        if manifest.tick > self.tick:
            raise unreadable(path, f"it is of tick {manifest.tick}, but the latest tick is {self.tick}")

    def place(self, shard: int, tick: int) -> ShardPlace:
        """Return where a shard continues, from its snapshot of this tick."""
        header = self.expect_header()
        return ShardPlace(
            folder=(self.folder / header.shards[shard]).absolute(),
            query=header.identity(shard),
            start=tick,
            until=self.tick,
            signature=header.signature,
            options=self._options,
        )

    # --- another number of shards -----------------------------------------------------------------

    def next_header(self, shards: int) -> ShardsHeader:
        """Return the header of the same run with another number of shards, in new folders."""
        header = self.expect_header()
        used = {path.name for path in self.folder.glob("shard-*")}
        layout = next(n for n in itertools.count(1) if not any(name.endswith(f".{n}") for name in used))
        return replace(header, shards=[f"shard-{number}.{layout}" for number in range(shards)])

    def new_places(self, header: ShardsHeader) -> list[ShardPlace]:
        """Return where the shards of a new header begin, without ticks."""
        return [
            ShardPlace((self.folder / name).absolute(), header.identity(shard), 0, 0, options=self._options)
            for shard, name in enumerate(header.shards)
        ]

    def adopt(self, header: ShardsHeader) -> None:
        """Continue with the shards of a new header, and remove others. Raises CheckpointError."""
        self._write(header)
        for path in self.folder.glob("shard-*"):
            if path.name not in header.shards:
                shutil.rmtree(path, ignore_errors=True)  # what stays is never read

    def _write(self, header: ShardsHeader) -> None:
        self._expect_owner().check()
        header.write(self.folder, self.sync)
        self.header = header

    # --- another circuit --------------------------------------------------------------------------

    def note_circuit(self, signature: str) -> None:
        """Note the circuit that the shards have, before they write snapshots of another one.

        Raises CheckpointError.
        """
        header = self.expect_header()
        if header.signature != signature:
            self._write(replace(header, signature=signature))

    def next_circuit(self, circuit: WrittenCircuit, signature: str) -> ShardsHeader:
        """Return the header with another circuit, of which all shards have snapshots."""
        return replace(self.expect_header(), **asdict(circuit), signature=signature, since=self.tick)

    def next_program(self, name: str, query: str, circuit: WrittenCircuit, tick: int) -> ShardsHeader:
        """Return the header after the update to another program, without its signature.

        The header decides the update, and with it the tick.
        """
        return replace(
            self.expect_header(),
            name=name,
            query=query,
            **asdict(circuit),
            signature="",
            since=tick,
            edition=uuid.uuid4().hex,
        )

    def switch(self, header: ShardsHeader) -> None:
        """Continue with another circuit. Raises CheckpointError if it does not count."""
        try:
            self._write(header)
        except CheckpointError:
            if not self.switched(header):
                raise
        self._continue_after(header)

    def switched(self, header: ShardsHeader) -> bool:
        """Return whether a header counts whose writing was interrupted or has failed."""
        found = read_shards_header(self.folder)
        if found == header:
            self.header = header
            self._continue_after(header)
        return found == header

    def _continue_after(self, header: ShardsHeader) -> None:
        """Note the tick of a header that counts, of which all shards have snapshots."""
        self.commit_of = max(self.commit_of, Commit(header.since))
        self.plan.continue_from(self.tick)

    # --- ticks ------------------------------------------------------------------------------------

    def commit(self, tick: int, attempt: int = 0) -> None:
        """Make a tick count that all shards have recorded; it is durable when this returns.

        Raises CheckpointError if it cannot be written and does not count, so that all shards must
        roll it back.
        """
        self._expect_owner().check()
        record = expect_present(self._record, "the commit record of a started run")
        commit = Commit(tick, attempt)
        try:
            record.write(commit)
        except CheckpointError:
            if not self._counts(commit):
                raise
        self.commit_of = commit

    def _counts(self, commit: Commit) -> bool:
        """Return whether the record names a commit whose writing was interrupted or has failed."""
        try:
            return expect_present(self._record, "the commit record").read() == commit
        except CheckpointError:
            return False

    def committed(self, tick: int) -> bool:
        """Return whether a tick counts: an interrupt may follow its commit."""
        if self.tick < tick and self._record is not None:
            self.commit_of = max(self.commit_of, self._record.read())
        return self.tick >= tick

    def note(self, statuses: Sequence[ShardStatus]) -> None:
        """Note by shard the state of its checkpoint after a tick."""
        self.plan.note(statuses)

    def snapshot_due(self) -> bool:
        """Return whether the shards must write snapshots of the latest tick before the next."""
        return self.plan.due(self.tick)

    def expect_header(self) -> ShardsHeader:
        """Return the header of a started run."""
        return expect_present(self.header, "the header of a started run")

    def _expect_owner(self) -> FolderOwner:
        return expect_present(self._owner, "the owner of the folder")

    def close(self) -> None:
        """Release the folder. The shards must have closed their checkpoints."""
        if self._record is not None:
            self._record.close()
        if self._owner is not None:
            self._owner.release()
            self._owner = None


def _owned(folder: Path) -> FolderOwner:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return call_undisturbed(FolderOwner, folder)
    except OSError as error:
        raise unusable(folder, error) from None


def _wait_for_owner(folder: Path, deadline: float) -> None:
    """Wait until nobody owns the folder of a shard. Raises CheckpointError after the deadline."""
    if not folder.exists():
        return
    wait_for_folder(folder)
    while True:
        try:
            _owned(folder).release()
            return
        except CheckpointError as error:
            if error.code != "checkpoint-in-use" or time.monotonic() > deadline:
                raise
        time.sleep(0.02)
