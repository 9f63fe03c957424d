"""The process of one shard: it runs its part of the circuit and obeys the coordinator.

The main module of the coordinator is imported only if the circuit has functions of it. The process
ends when its coordinator does, even in a long tick.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from dbsp.circuit.operator_roles import RowMoving
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.durable.step_memory import signature
from dbsp.errors import expect_present, expect_type
from dbsp.kernels.thread_count import set_threads
from dbsp.runtime.compaction import Compacted
from dbsp.runtime.program_update import ProposedUpdate
from dbsp.runtime.run import Run
from dbsp.runtime.run_base import RunBase
from dbsp.runtime.transplant import Transplant
from dbsp.runtime.update_report import Updated
from dbsp.shards.abortable_link import ABORT_SIGNAL, AbortableLink, TickAbortedError
from dbsp.shards.command_channel import Buffer, ChannelClosedError, CommandChannel
from dbsp.shards.common_decision import CommonDecision, WithdrawnError
from dbsp.shards.exchange_link import ExchangeLink
from dbsp.shards.packed_batches import BatchPost
from dbsp.shards.shard_commands import (
    Ask,
    Command,
    Commit,
    Compact,
    Done,
    Failed,
    Latest,
    ReadInput,
    ReadInputs,
    ReadLatest,
    ReadRelation,
    ReadStats,
    ReadView,
    Ready,
    Rebuild,
    RollBack,
    SentBatches,
    Start,
    StepTick,
    Stop,
    SwitchCircuit,
    Switched,
    UpdateProgram,
    Updating,
    WriteSnapshot,
)
from dbsp.shards.shard_questions import gathered_bytes, input_rows, relation_schema
from dbsp.shards.shard_stats import ShardStats
from dbsp.shards.shard_store import ShardStore
from dbsp.shards.shipped_errors import ship_error
from dbsp.shards.shipped_graph import receive_graph
from dbsp.shards.snapshot_plan import ShardStatus
from dbsp.shards.socket_mesh import MeshEnds, SocketMesh

_COORDINATOR_ENDED = 3
"""The exit status of a shard whose coordinator has ended."""


def main(commands: int, coordinator: int, mesh: Sequence[tuple[int, int] | None]) -> None:
    """Run a shard. The arguments are descriptors: of the channel for commands, of a pipe that the
    coordinator keeps open while it lives, and by shard of the two sockets of `connected_mesh`.
    """
    signal.signal(ABORT_SIGNAL, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(coordinator,), daemon=True).start()
    channel = CommandChannel(socket.socket(fileno=commands))
    ends = [
        None if pair is None else (socket.socket(fileno=pair[0]), socket.socket(fileno=pair[1]))
        for pair in mesh
    ]
    try:
        _serve(channel, ends)
    except ChannelClosedError:
        os._exit(_COORDINATOR_ENDED)


def _end_with(coordinator: int) -> None:
    """End this process, in whatever it does, when the coordinator has ended."""
    os.read(coordinator, 1)
    os._exit(_COORDINATOR_ENDED)


def _serve(channel: CommandChannel, ends: MeshEnds) -> None:
    start, _ = channel.receive()
    try:
        shard = Shard(expect_type(start, Start, "the command to start"), channel, ends)
    except Exception as error:
        channel.send(Failed(ship_error(error)))
        return
    channel.send(Done(os.getpid()))
    shard.serve()


class Shard:
    """The run of one shard."""

    def __init__(self, start: Start, channel: CommandChannel, ends: MeshEnds) -> None:
        set_threads(start.threads)
        graph = receive_graph(start.graph)
        interner = Interner()  # until the run has one
        self._channel = channel
        self._exchanges = ExchangeLink(SocketMesh(start.shard, ends), interner)
        self._link = AbortableLink(self._exchanges)
        self._post = BatchPost(interner)
        self._epoch = 0
        self._gathered = start.graph.gathered
        self._ready = False
        """Whether the results of the open tick have been sent."""
        self._committing = False
        """Whether the coordinator has committed the open tick."""
        self._late: BaseException | None = None
        """The error of work after the commit of the latest tick."""
        store: ShardStore | None = None
        if start.place is not None:
            store = ShardStore(start.place, self._decide, self._before_repeating, self._decide_update)
        self.store = store
        """The checkpoint of the shard, if the run has one."""
        self.run = Run(
            graph,
            memory_limit=start.memory_limit,
            spill=None if store is None else store.spill,
            link=self._link,
        )
        if store is None:
            self.run.log = CommonDecision(self._decide, self._decide_update)
        else:
            store.attach(self.run)
        self._use(self.run.interner)
        self._link.install()

    def _use(self, interner: Interner) -> None:
        """Continue with the interner of the run, which it may have replaced."""
        self._exchanges.interner = interner
        self._post.use(interner)

    def _before_repeating(self, run: Run, tick: int) -> None:
        """Begin a tick of the journal, which all shards repeat together."""
        self._use(run.interner)
        self._exchanges.begin(tick)

    def serve(self) -> None:
        """Obey commands until Stop."""
        while True:
            command, buffers = self._channel.receive()
            if isinstance(command, Stop):
                if self.store is not None:
                    self.store.close()
                return
            if command.epoch != self._epoch:
                self._epoch = command.epoch
                self._post.reset()
                self._exchanges.reset()
            if isinstance(command, StepTick | SwitchCircuit | UpdateProgram):
                self._act_together(command, buffers)
            else:
                self._read(command, buffers)

    # --- a tick, and another circuit --------------------------------------------------------------

    def _act_together(
        self, command: StepTick | SwitchCircuit | UpdateProgram, buffers: Sequence[Buffer]
    ) -> None:
        error: BaseException | None = None
        try:
            try:
                self._ready = self._committing = False
                self._exchanges.begin(command.generation)
                self._raise_late()
                self._link.begin_computing()
                if isinstance(command, StepTick):
                    self._compute(command, buffers)
                elif isinstance(command, SwitchCircuit):
                    self._switch(command)
                else:
                    self._update(command, buffers)
            except WithdrawnError:
                pass  # the run has rolled it back
            except ChannelClosedError:
                raise
            except BaseException as failure:
                error = failure
            finally:
                self._link.end_computing()
        except TickAbortedError as failure:
            error = error or failure  # the abort came while another error ended the tick
        if self._committing:
            self._late = error
            if error is not None:
                self.run.recover()
            return  # no answer
        self._link.end_tick()
        if error is None:
            self._channel.send(Done())
            return
        if not self._ready:
            self._exchanges.abort()
        self.run.recover()
        self._channel.send(Failed(ship_error(error)))

    def _raise_late(self) -> None:
        """Raise the error of work after the latest commit, which no answer has reported."""
        error, self._late = self._late, None
        if error is not None:
            raise error

    def _compute(self, command: StepTick, buffers: Sequence[Buffer]) -> None:
        staged = self._post.unpack(command.staged, command.packets, buffers, self.run.inputs)
        if self.store is not None and command.snapshot is not None:
            self.store.order_snapshot(command.snapshot)
        try:
            self._link.changed = command.changed
            self.run.step_staged(staged, command.label)
        finally:
            self._link.changed = None

    def _decide(self, run: RunBase) -> bool:
        """Send the results of the tick; return whether the coordinator commits it."""
        deltas = {name: port.out for name, port in run.output_ports.items() if port.out is not None}
        absent = {name: port.absent for name, port in run.input_ports.items() if port.absent}
        present = {name: port.present for name, port in run.input_ports.items() if port.present}
        packed = self._post.pack(deltas, run.outputs)
        gathered = gathered_bytes(run, self._gathered)
        answer = Ready(packed.names, packed.packets, absent, present, self._status(), gathered)
        return self._decided(answer, packed.buffers)

    def _status(self) -> ShardStatus | None:
        return None if self.store is None else self.store.status()

    def _switch(self, command: SwitchCircuit) -> None:
        graph = receive_graph(command.graph)
        after = signature(graph)
        store = self.store
        if store is not None:
            store.signature = signature(self.run.graph)

        def agree(done: Transplant) -> None:
            """Return when all shards have the circuit. Raises WithdrawnError if they do not."""
            if store is not None and command.snapshot is not None:
                store.snapshot_now(command.snapshot, other_circuit=True)
            answer = Switched(
                status=self._status(),
                signature=after,
                kept=done.kept,
                rebuilt=done.rebuilt,
                dropped=done.dropped,
            )
            if not self._decided(answer):
                raise WithdrawnError
            if store is not None:
                store.signature = after
            self._gathered = command.graph.gathered
            self._exchanges.counters.clear()  # their names are those of the circuit before

        self.run.switch_circuit(graph, agree)

    def _update(self, command: UpdateProgram, buffers: Sequence[Buffer]) -> None:
        def encode() -> Mapping[str, Batch] | None:
            """Return the changed facts, for the inputs of the new circuit."""
            if not command.changed:
                return None
            self._link.changed = command.changed
            return self._post.unpack(command.staged, command.packets, buffers, self.run.inputs)

        def adopt() -> None:
            self._gathered = command.graph.gathered
            self._exchanges.counters.clear()  # their names are those of the circuit before

        if self.store is not None and command.snapshot is not None:
            self.store.order_snapshot(command.snapshot)
        try:
            graph = receive_graph(command.graph)
            self.run.switch_program(ProposedUpdate(graph, command.query, {}, None, {}, adopt), encode)
        finally:
            self._link.changed = None

    def _decide_update(self, run: RunBase, done: Updated) -> bool:
        """Send the results of an update; return whether the coordinator commits it."""
        deltas = {name: delta.stored for name, delta in done.deltas.items() if delta}
        packed = self._post.pack(deltas, run.outputs)
        answer = Updating(
            packed.names,
            packed.packets,
            done.deltas.absent,
            done.deltas.present,
            self._status(),
            relations=done.relations,
            signature="" if self.store is None else signature(run.graph),
            kept=done.kept,
            rebuilt=done.rebuilt,
            dropped=done.dropped,
            replayed_rows=done.replayed_rows,
        )
        return self._decided(answer, packed.buffers)

    def _decided(self, answer: Ready, buffers: Sequence[Buffer] = ()) -> bool:
        """Send the results, wait, and return whether the coordinator commits them."""
        self._link.end_computing()
        # Here, since after the decision it may be the request to abort the next tick.
        self._link.end_tick()
        self._ready = True
        self._channel.send(answer, buffers)
        decision, _ = self._channel.receive()
        self._committing = isinstance(decision, Commit)
        if not self._committing:
            expect_type(decision, RollBack, "the decision of the coordinator")
        return self._committing

    # --- other commands ---------------------------------------------------------------------------

    def _read(self, command: Command, received: Sequence[Buffer]) -> None:
        """Answer a command that is not a tick."""
        result: Any = None
        buffers: Sequence[Buffer] = ()
        try:
            self._raise_late()
            match command:
                case ReadView(output=name):
                    port = self.run.output_port(name)
                    packed = self._post.pack({name: port.view()}, {name: port.columns})
                    buffers = packed.buffers
                case ReadInput(input=name):
                    rows = input_rows(self.run, name)
                    packed = self._post.pack({name: rows}, {name: self.run.inputs[name]})
                    buffers = packed.buffers
                case ReadRelation(relation=name):
                    keeper = expect_present(self.run.keeper(name), "the rows of a relation")
                    schema = relation_schema(self.run, name)
                    buffers = self._post.pack({name: keeper.integral()}, {name: schema}).buffers
                case Ask(question=question):
                    result = question(self.run)
                case ReadStats():
                    result = self._stats()
                case Compact():
                    result = self._compact()
                case WriteSnapshot(common=common):
                    store = expect_present(self.store, "the checkpoint of a shard")
                    store.snapshot_now(common)
                    result = store.status()
                case ReadLatest():
                    result, buffers = self._latest()
                case ReadInputs():
                    result, buffers = self._inputs()
                case Rebuild():
                    self._rebuild(command, received)
                case _:
                    raise AssertionError(f"expected a command, got {command!r}")
        except Exception as error:
            self._channel.send(Failed(ship_error(error)))
            return
        self._channel.send(Done(result), buffers)

    def _compact(self) -> Compacted:
        """Compact the run, and forget what was sent: the next command begins a new epoch."""
        done = self.run.compact()
        self._use(self.run.interner)
        self._post.reset()
        self._exchanges.reset()
        return done

    def _latest(self) -> tuple[Latest, Sequence[Buffer]]:
        store = expect_present(self.store, "the checkpoint of a shard")
        found = store.result
        if found is None:
            return Latest(Ready(), store.label), ()
        packed = self._post.pack(
            {name: delta.batch for name, delta in found.items() if delta}, self.run.outputs
        )
        results = Ready(packed.names, packed.packets, found.absent, found.present)
        return Latest(results, store.label), packed.buffers

    def _inputs(self) -> tuple[SentBatches, Sequence[Buffer]]:
        """Return the integrals of the inputs, which an arrangement may keep after an exchange."""
        run = self.run
        kept: dict[str, Batch] = {}
        missing = []
        for name, port in run.input_ports.items():
            moved = [
                node
                for node in run.graph.nodes
                if isinstance(node.operator, RowMoving) and node.inputs[0].node is port.node
            ]
            keepers = [run.scope.keeper(node) for node in (port.node, *moved)]
            keeper = next((keeper for keeper in keepers if keeper is not None), None)
            if keeper is None:
                missing.append(name)
            else:
                kept[name] = keeper.integral()
        packed = self._post.pack(kept, run.inputs)
        return SentBatches(packed.names, packed.packets, tuple(missing)), packed.buffers

    def _rebuild(self, command: Rebuild, buffers: Sequence[Buffer]) -> None:
        """Compute the state after a tick from the integrals of the inputs."""
        run, store = self.run, expect_present(self.store, "the checkpoint of a shard")
        staged = self._post.unpack(command.staged, command.packets, buffers, run.inputs)
        self._exchanges.begin(command.tick)
        run.log = None
        run.step_staged(staged)
        run.log = store
        store.begin_after(run, command.tick, command.label)

    def _stats(self) -> ShardStats:
        run = self.run
        return ShardStats(
            self._link.shard,
            os.getpid(),
            run.state_rows,
            run.state_bytes,
            run.file_bytes,
            len(run.interner),
            dict(self._exchanges.counters),
        )
