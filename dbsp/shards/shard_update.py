"""The update of one shard to another program, in its checkpoint: all shards decide it together.

A shard writes the record of the tick, the state after it, and two manifests:

    manifest.previous.json   that of the common snapshot, from which the old program continues
    manifest.json            that of the new program, with the identity of this attempt

Then it waits. The header of the run decides: it has the identities of the shards, so the manifests
of one of the two programs do not count (see `dbsp.durable.shards_header`). Until the decision, a
restart continues with the common snapshot and the ticks since then; after it, with the new state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from dbsp.data.batch import Batch
from dbsp.durable.manifest import PREVIOUS
from dbsp.durable.snapshot_writer import SavedSnapshot
from dbsp.durable.stored_update import CheckpointFiles, StoredUpdate
from dbsp.runtime.run_base import RunBase
from dbsp.runtime.run_log import UpdatedProgram
from dbsp.runtime.tick_result import TickResult
from dbsp.runtime.update_report import Updated
from dbsp.shards.common_decision import WithdrawnError


class ShardUpdate(StoredUpdate):
    """One update in the checkpoint of a shard.

    The first of the manifests of `files` is that of the common snapshot. `decide` sends the results
    to the coordinator, waits, and returns whether the update counts. `withdrawn` is called if it
    does not, and the folder has no other manifest of the old program any more.
    """

    def __init__(
        self,
        files: CheckpointFiles,
        install: Callable[[SavedSnapshot, TickResult], None],
        decide: Callable[[RunBase, Updated], bool],
        withdrawn: Callable[[], None],
    ) -> None:
        super().__init__(files, install)
        self._decide = decide
        self._withdrawn = withdrawn
        self._replaced = False
        """Whether manifests of the old program may have been replaced."""
        self._decided = False

    def record(
        self, program: UpdatedProgram, staged: Mapping[str, Batch], run: RunBase, done: Updated
    ) -> None:
        files, common = self._files, self._files.manifests[0]
        saved = self._write_state(program, staged, run, done)
        self._replaced = True
        common.write(files.folder, files.sync, PREVIOUS)
        saved.manifest.write(files.folder, files.sync)
        if not self._decide(run, done):
            raise WithdrawnError
        self._saved, self._decided = saved, True

    def decided(self) -> bool:
        return self._decided

    def withdraw(self) -> None:
        files = self._files
        files.journal.withdraw()
        if self._replaced:
            self._withdrawn()
            with contextlib.suppress(Exception):  # its identity says that it does not count
                files.manifests[0].write(files.folder, files.sync)
        if self._written is not None:
            self._written.remove()

    def committed(self, result: TickResult) -> None:
        with contextlib.suppress(OSError):  # its files are removed, and it does not count
            (self._files.folder / PREVIOUS).unlink(missing_ok=True)
        super().committed(result)
