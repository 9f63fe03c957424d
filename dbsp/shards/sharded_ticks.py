"""The ticks of a sharded run: computed by all shards, and committed by all or by none.

A tick is an open work of the coordinator, as in a plain run, but the shards compute it, and its
commit and rollback are decisions that the shards obey. Both can be repeated after an interrupt. A
tick costs one command and one answer per shard, and a commit that has no answer (see
`dbsp.shards.shard_group`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from dbsp.data.batch import Batch
from dbsp.errors import ShardError, expect_present, expect_type
from dbsp.runtime.open_tick import OpenTick
from dbsp.runtime.scope import Scope
from dbsp.runtime.value_freeing import ValueFreeing
from dbsp.shards.abortable_link import TickAbortedError
from dbsp.shards.dealing import Dealer, DistributedPorts
from dbsp.shards.group_start import REPEATS, GroupStart
from dbsp.shards.remote_shard import RemoteShard
from dbsp.shards.shard_commands import Ready, StepTick
from dbsp.shards.shard_folder import ShardFolder
from dbsp.shards.shard_group import ShardGroup
from dbsp.shards.snapshot_plan import ShardStatus

T = TypeVar("T")


class ShardedTicks(ValueFreeing):
    """The part of a sharded run that applies changes."""

    _start: GroupStart
    """Starts the shards, again after their end if the run has a folder."""
    _group: ShardGroup
    _dealer: Dealer
    _ports: DistributedPorts
    _folder: ShardFolder | None
    _gathered_bytes: int = 0
    """The bytes of the state of the gathered recursions after the latest tick."""
    _generation: int
    """The number of the latest attempt of a tick."""
    _statuses: list[ShardStatus]
    """The states of the checkpoints of the shards, which have recorded the open tick."""

    def _compute(self, staged: dict[str, Batch], release: bool = False) -> None:
        """Let the shards compute a tick; the ports then have its deltas and counts."""
        self._together(lambda: self._compute_once(staged))

    def _together(self, act: Callable[[], T]) -> T:
        """Return the result of a call that all shards compute together."""
        while True:
            try:
                return self._repeated(act)
            except TickAbortedError:
                # Not an interrupt of this process: the signal for an earlier tick came after its
                # end, or another program has sent it.
                self._group.roll_back()

    def _compute_once(self, staged: Mapping[str, Batch]) -> None:
        group = self._group
        self._generation += 1
        epoch = group.next_epoch()
        folder, label = self._folder, expect_type(self._work, OpenTick, "an open tick").label
        common = folder.plan.common if folder is not None and folder.snapshot_due() else None
        messages, changed = [], frozenset(staged)
        for shard, changes in zip(group, self._dealer.deal(staged), strict=True):
            packed = shard.post.pack(changes, self.inputs)
            names, packets = packed.names, packed.packets
            command = StepTick(epoch, self._generation, names, packets, changed, label, common)
            messages.append((command, packed.buffers))
        shards = group.ask(messages, f"during tick {self._ticks + 1}")
        answers = [expect_type(shard.answer, Ready, "the results of a tick") for shard in shards]
        self._sum_up(shards, answers)
        self._gathered_bytes = sum(answer.gathered for answer in answers)
        self._statuses = [answer.status for answer in answers if answer.status is not None]
        group.succeeded()

    def _repeated(self, act: Callable[[], T]) -> T:
        """Return the result of a call to the shards.

        With a folder, shards whose processes have ended are started again, and the call is
        repeated. Raises ShardError if they end each time.
        """
        left = REPEATS
        while True:
            try:
                if self._group.lost is not None:
                    self._restart()
                return act()
            except ShardError as error:
                if self._folder is None or error.code != "shard-lost" or not left:
                    raise
                left -= 1
                self._group.end(error)

    def _restart(self) -> None:
        """Start shards that have ended again, at the latest tick that counts."""
        folder = expect_present(self._folder, "the folder of a run that continues")
        self._start.interner = self.interner
        group = self._start()
        self._generation = max(self._generation, folder.tick)
        self._group = group

    def _sum_up(self, shards: list[RemoteShard], answers: Sequence[Ready]) -> None:
        """Set the deltas and the counts of the ports to the sums over the shards."""
        for port in self.input_ports.values():
            port.absent = sum(answer.absent.get(port.relation, 0) for answer in answers)
            port.present = sum(answer.present.get(port.relation, 0) for answer in answers)
        deltas: dict[str, list[Batch]] = {}
        schemas = self.outputs
        for shard, answer in zip(shards, answers, strict=True):
            changed = shard.post.unpack(answer.changed, answer.packets, shard.take_buffers(), schemas)
            for name, batch in changed.items():
                deltas.setdefault(name, []).append(batch)
        for name, output in self._ports.outputs.items():
            output.add_up(deltas.get(name, []))

    def commit(self, work: OpenTick) -> None:
        self._group.commit()
        if self._folder is not None:
            self._folder.note(self._statuses)
        super().commit(work)

    def adopt(self, scope: Scope) -> None:
        super().adopt(scope)
        self._dealer.use(self.interner)
        for shard in self._group:
            shard.post.use(self.interner)
            shard.post.reset()

    def roll_back(self) -> None:
        self._group.roll_back()
        super().roll_back()
