"""A run of one circuit in several processes, each with a part of the rows.

    step:  encode the changes, deal them to the shards        (coordinator)
           compute the tick in lockstep, exchanging rows      (shards)
           answer: ready with the deltas, or failed           (shards)
           decide: commit if all are ready, else roll back    (coordinator)
           sum the deltas                                     (coordinator)

The run in the coordinator's process has no state of its own: it encodes changes as a plain run
does, and the shards keep the rows. All or nothing: a tick is committed by all shards or by none.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Mapping
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.circuit.graph import Graph
from dbsp.data.batch import Batch, merge_sorted
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.view import View
from dbsp.display.displayed import Displayed
from dbsp.durable.step_memory import signature
from dbsp.errors import CircuitError, ShardError, counted, expect_present, expect_type, wrong_argument
from dbsp.runtime.compaction import Compacted
from dbsp.runtime.memory import MAX_SIZE, capacity_of
from dbsp.runtime.open_work import OpenWork
from dbsp.runtime.ports import InputPort, OutputPort
from dbsp.runtime.replanning import Planner
from dbsp.runtime.scope import Scope
from dbsp.shards.dealing import Dealer, DistributedPorts, SummedPort
from dbsp.shards.group_start import GroupStart
from dbsp.shards.placed_circuit import Distribute, PlacedCircuit
from dbsp.shards.remote_shard import RemoteShard, result_of
from dbsp.shards.resharding import reshard
from dbsp.shards.shard_commands import (
    Ask,
    Command,
    Compact,
    Latest,
    ReadInput,
    ReadLatest,
    ReadStats,
    ReadView,
    WriteSnapshot,
)
from dbsp.shards.shard_folder import ShardFolder
from dbsp.shards.shard_group import ShardGroup
from dbsp.shards.shard_questions import Question
from dbsp.shards.shard_stats import ShardStats, ShardStatsList
from dbsp.shards.sharded_update import ShardedUpdates
from dbsp.shards.shared_log import SharedLog
from dbsp.shards.shipped_graph import refuse_in_shard
from dbsp.shards.snapshot_plan import ShardStatus

DEFAULT_MEMORY = "50%"
"""The share of the machine's memory for gathered recursions if there is no limit."""


class ShardedRun(ShardedUpdates, Displayed):
    """A running circuit in several processes. `step` returns the deltas that a `Run` returns.

    Every shard is a process that runs the same distributed circuit on a part of the rows; exchanges
    in the circuit move rows to the shard that needs them. A tick is all or nothing on all shards:
    when `step` raises, every view is as it was after the previous tick. Ctrl-C ends the tick, not
    the shards. The shards end with `close`, at the end of a `with` block, and with this process.

    Functions of the circuit run in the shards, so they must be importable: defined at the top level
    of a module. If the module is the main program, that program starts the run under
    `if __name__ == "__main__":`, because each shard imports it.

    With a folder every tick is durable when `step` returns. If the process of a shard ends
    unexpectedly, all shards start again from the folder, and the call continues. Without a folder
    the run ends: the part of the state that the process had is lost.

    Parameters:
        graph: a distributed circuit, as `circuit.circuit("distributed")` returns it.
        shards: the number of processes.
        memory_limit: the memory for the state of all shards: bytes, or an amount such as "8G". The
            state beyond it is stored in temporary files.
        folder: the checkpoint, from which the run continues.
        query: the identity of the query in the checkpoint; by default that of the circuit.
        interner: the interner of the coordinator, if changes are encoded before the start.
        distribute: distributes a physical circuit, for `replan` and recursions that grow.
        placed: what is known of the circuit `graph`, if `distribute` has made it.
        scopes: where recursions without a pivot run: "gather" for the first shard, "exchange" for
            all shards; by default on the first shard until their state is larger than the memory
            of a shard.

    Raises:
        ArgumentError: `shards` or `memory_limit` is not an amount.
        CircuitError: the circuit is not distributed, or has a part that shards cannot run: a
            callback of `inspect`, a function that cannot be imported.
        CheckpointError: the folder is damaged, in use, or of another query or number of shards.
        ShardError: a process cannot be started.

    Examples:
        >>> from dbsp.shards.sharded_run import ShardedRun
        >>> circuit = Circuit("shop")
        >>> circuit.output("big", circuit.input("sale", x=int).filter(col("x") > 5))
        >>> with ShardedRun(circuit.circuit("distributed"), shards=1) as run:
        ...     run.step({"sale": [(7,), (3,)]})["big"].to_dict()
        ...     run
        {(7,): 1}
        <run of 'shop' on 1 shard: (sale) -> (big), 1 tick>
    """

    def __init__(
        self,
        graph: Graph,
        shards: int,
        *,
        memory_limit: int | str | None = None,
        folder: ShardFolder | None = None,
        query: str | None = None,
        interner: Interner | None = None,
        distribute: Distribute | None = None,
        placed: PlacedCircuit | None = None,
        scopes: str | None = None,
    ) -> None:
        refuse_in_shard()
        if isinstance(shards, bool) or not isinstance(shards, int) or shards < 1:
            raise wrong_argument("shards", "a number of processes, 1 or more", shards)
        limit = capacity_of(memory_limit)
        if sys.platform == "win32":
            raise CircuitError(
                "sharded runs need Linux or macOS, where a process inherits sockets; start without shards",
                code="not-shardable",
            )
        if not isinstance(graph, Graph):
            raise wrong_argument("graph", 'a distributed circuit, as circuit.circuit("distributed")', graph)
        self._ports = self._new_ports(graph)
        self._placed = PlacedCircuit(graph) if placed is None else placed
        shipped = self._placed.shipped
        self._owner = os.getpid()
        self._closed = False
        self._generation = 0
        self._statuses = []
        super().__init__(Graph(graph.name), interner)
        self.graph = graph
        self.planner: Planner | None = None
        """The planner that chose the circuit, if there is one."""
        self._distribute, self._scopes = distribute, scopes
        self._planned_for: dict[str, int] = {}
        self._dealer = Dealer(self._ports.inputs, shards, self.interner)
        share = None if limit is None else max(1, limit // shards)
        self._share = (capacity_of(DEFAULT_MEMORY) or MAX_SIZE) // shards if share is None else share
        self._folder = folder
        self._start = GroupStart(shards, shipped, share, self.interner, folder)
        if folder is not None:
            folder.expect(
                signature(graph) if query is None else query, graph.name, shards, self._placed.written()
            )
        try:
            if folder is not None and len(folder.expect_header().shards) != shards:
                reshard(self._start, shards, graph, self._ports, self.interner)
            self._group = self._start()
            if folder is not None:
                self._continue(folder)
        except BaseException:
            self._closed = True
            if folder is not None:
                folder.close()
            raise

    def _continue(self, folder: ShardFolder) -> None:
        """Continue at the latest tick of the folder, where the shards are."""
        log = SharedLog(folder, weakref.WeakMethod(self._write_snapshots), weakref.WeakMethod(self.close))
        if folder.tick:
            answers = self._ask("start", ReadLatest)
            found = [expect_type(result_of(shard), Latest, "a latest tick") for shard in answers]
            self._sum_up(answers, [latest.results for latest in found])
            self._group.succeeded()
            log.label, log.result = found[0].label, self._outcome(folder.tick)[0]
        self._ticks = self._generation = folder.tick
        self.log = log

    def ports_of(self, scope: Scope) -> tuple[Mapping[str, InputPort], Mapping[str, OutputPort]]:
        return self._ports.inputs, self._ports.outputs  # the shards step the circuit, not this scope

    def _new_ports(self, graph: Graph) -> DistributedPorts:
        # Weak, so that the processes of a run that nobody has any more end at once.
        read = weakref.WeakMethod(self._read_view)
        return DistributedPorts.of(graph, lambda port: expect_present(read(), "the run")(port))

    _described_by = "dbsp.shards.sharded_display:sharded_run_document"

    def __repr__(self) -> str:
        ports = f"({', '.join(self.input_ports)}) -> ({', '.join(self.output_ports)})"
        state = "closed" if self._closed else counted(self.tick, "tick")
        return f"<run of '{self.graph.name}' on {counted(self.shards, 'shard')}: {ports}, {state}>"

    def __reduce__(self) -> NoReturn:
        raise CircuitError(
            "a run cannot be pickled or copied; pickle the program or circuit and start it again",
            code="not-serialisable",
        )

    @property
    def shards(self) -> int:
        """The number of shards."""
        return self._group.shards

    # --- the end ----------------------------------------------------------------------------------

    def close(self) -> None:
        """End the shards, and wait for the end of their processes. The state is gone.

        Examples:
            >>> from dbsp.shards.sharded_run import ShardedRun
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", x=int))
            >>> run = ShardedRun(circuit.circuit("distributed"), shards=1)
            >>> run.close()
            >>> run
            <run of 'shop' on 1 shard: (sale) -> (all), closed>
        """
        self._closed = True
        self._group.close()
        if self._folder is not None:
            self._folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_group"):  # else the start has failed
            self._group.kill()
            if self._folder is not None and os.getpid() == self._owner:
                self._folder.close()

    def refuse_inside_work(self, name: str) -> None:
        if self._closed:
            raise ShardError(f"{name} was called on a closed run; call it before close()", code="run-closed")
        if os.getpid() != self._owner:
            raise ShardError(
                f"{name} was called in a forked process, which does not own the shards of the run; call it "
                "in the process that has started the run",
                code="run-in-other-process",
            )
        if self._group.lost is not None and self._folder is None:
            raise self._group.lost
        super().refuse_inside_work(name)

    # --- reading ----------------------------------------------------------------------------------

    @ends_at_caller
    def view(self, name: str) -> View:
        """Return the integral of an output: its rows after the latest tick, from all shards.

        Parameters:
            name: the name of the output.

        Returns:
            The rows with their weights, as a Z-set that later ticks do not change.

        Raises:
            InputError: there is no such output; the error is also a KeyError.
            ShardError: the run is closed, or the process of a shard has ended.

        Examples:
            >>> from dbsp.shards.sharded_run import ShardedRun
            >>> circuit = Circuit("shop")
            >>> circuit.output("big", circuit.input("sale", x=int).filter(col("x") > 5))
            >>> with ShardedRun(circuit.circuit("distributed"), shards=1) as run:
            ...     _ = run.step({"sale": [(7,), (3,)]})
            ...     run.view("big").to_dict()
            {(7,): 1}
        """
        port = self.output_port(name)
        return View.wrap(port.columns, self.interner, port.view())

    def _read_view(self, port: SummedPort) -> Batch:
        return port.total(self._read("view", lambda epoch: ReadView(epoch, port.relation), port.columns))

    def read_input(self, name: str) -> Batch:
        columns = self.input_port(name).columns
        parts = self._read("asserted", lambda epoch: ReadInput(epoch, name), columns)
        return merge_sorted(parts) or Batch.empty(columns.arity)

    def _read(self, what: str, command: Callable[[int], Command], columns: Schema) -> list[Batch]:
        """Return the rows that each shard sends."""
        parts: list[Batch] = []
        for shard in self._ask(what, command):
            buffers = shard.take_buffers()
            parts += shard.post.unpack(("",), (len(buffers),), buffers, {"": columns}).values()
        self._group.succeeded()
        return parts

    def ask(self, question: Question) -> list[Any]:
        found = self._ask("a question", lambda epoch: Ask(epoch, question))
        self._group.succeeded()
        return [result_of(shard) for shard in found]

    def stats(self) -> list[ShardStats]:
        """Return by shard the rows and bytes that it stores, and what it has sent to the others.

        Examples:
            >>> from dbsp.shards.sharded_run import ShardedRun
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", x=int, kind="set"))
            >>> with ShardedRun(circuit.circuit("distributed"), shards=1) as run:
            ...     _ = run.step({"sale": [(7,), (3,)]})
            ...     [(stats.shard, stats.rows) for stats in run.stats()]
            [(0, 2)]
        """
        found = self._ask("stats", ReadStats)
        self._group.succeeded()
        return ShardStatsList(
            expect_type(result_of(shard), ShardStats, "the statistics of a shard") for shard in found
        )

    def compact(self) -> Compacted:
        """Compact every shard, and free the interned values that nothing refers to any more.

        Merging the sorted runs of each trace removes retracted rows. Shards remember the values
        that they have sent to others; they forget them, and send them again when they are needed.

        Returns:
            The sums over the shards and this process.

        Raises:
            CircuitError: the call comes from another thread than that of a tick.
            ShardError: the run is closed, or the process of a shard has ended.

        Examples:
            >>> from dbsp.shards.sharded_run import ShardedRun
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", x=int, kind="set"))
            >>> with ShardedRun(circuit.circuit("distributed"), shards=1) as run:
            ...     _ = run.step({"sale": [(7,), (3,)]})
            ...     _ = run.step({"sale": {(7,): -1}})
            ...     run.compact().rows
            2
        """
        # Not noted as a success: so the next command begins a new epoch.
        answers = self._ask("compact", Compact)
        done = [expect_type(result_of(shard), Compacted, "the result of compact") for shard in answers]
        work = OpenWork("compact", sys._getframe())
        self.begin(work)
        try:
            values, size = self.free_values(0.0)
        finally:
            self.settle()
        if self._folder is not None:
            self._write_snapshots()
        return Compacted(
            values + sum(each.values for each in done),
            sum(each.rows for each in done),
            size + sum(each.bytes for each in done),
            self.values_kept_because(),
        )

    def observe(self, on: bool = True) -> NoReturn:
        """Raise CircuitError: a sharded run counts rows of its exchanges, not those of nodes."""
        raise _unsupported("observe", "stats() and explain() show the rows of shards and exchanges")

    def watch(self, *arguments: Any, **options: Any) -> NoReturn:
        """Raise CircuitError: the streams of a sharded run are in several processes."""
        raise _unsupported("watch", _ONE_PROCESS)

    def record(self, *arguments: Any, **options: Any) -> NoReturn:
        """Raise CircuitError: the streams of a sharded run are in several processes."""
        raise _unsupported("record", _ONE_PROCESS)

    def subscribe(self, *arguments: Any, **options: Any) -> NoReturn:
        """Raise CircuitError: the relations of a sharded run are in several processes."""
        raise _unsupported("subscribe", _ONE_PROCESS)

    def trace_tick(self, *arguments: Any, **options: Any) -> NoReturn:
        """Raise CircuitError: the streams of a sharded run are in several processes."""
        raise _unsupported("trace_tick", _ONE_PROCESS)

    def transaction(self) -> NoReturn:
        """Raise CircuitError: a sharded run has no transactions of several parts."""
        raise _unsupported("transaction", "stage the parts with run.input(name) and call step once")

    def _ask(self, name: str, command: Callable[[int], Command]) -> list[RemoteShard]:
        """Send all shards a command; return them with their answers."""
        self.refuse_inside_tick(name)
        return self._repeated(lambda: self._ask_once(name, command))

    def _ask_once(self, name: str, command: Callable[[int], Command]) -> list[RemoteShard]:
        work = OpenQuestion(name, sys._getframe(), self._group)
        self.begin(work)
        try:
            epoch = self._group.next_epoch()
            return self._group.ask([(command(epoch), ())] * self.shards, f"during {name}")
        finally:
            self.settle()

    @ends_at_caller
    def snapshot(self) -> None:
        """Write the state of all shards to the folder now, and wait until it is durable.

        The next start then repeats no ticks. A run with a folder writes snapshots by itself
        (`snapshot_every` of `ShardFolder`), so this is useful before a planned end.

        Raises:
            CircuitError: the run has no folder.
            CheckpointError: a snapshot cannot be written; the journals have all ticks all the same.
            ShardError: the run is closed.

        Examples:
            >>> import tempfile
            >>> from dbsp.shards.shard_folder import ShardFolder
            >>> from dbsp.shards.sharded_run import ShardedRun
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", x=int))
            >>> graph, folder = circuit.circuit("distributed"), tempfile.mkdtemp()
            >>> with ShardedRun(graph, 1, folder=ShardFolder(folder)) as run:
            ...     _ = run.step({"sale": [(7,)]})
            ...     run.snapshot()
            >>> with ShardedRun(graph, 1, folder=ShardFolder(folder)) as run:
            ...     run.view("all").to_dict()
            {(7,): 1}
        """
        if self._folder is None:
            raise CircuitError(
                "this run has no checkpoint, so it cannot write a snapshot; start it with a folder",
                code="no-checkpoint",
            )
        self._write_snapshots()

    def _write_snapshots(self) -> None:
        folder = expect_present(self._folder, "the folder of a run with a log")
        answers = self._ask("snapshot", lambda epoch: WriteSnapshot(epoch, folder.plan.common))
        self._group.succeeded()
        folder.note(
            [expect_type(result_of(shard), ShardStatus, "the state of a checkpoint") for shard in answers]
        )


class OpenQuestion(OpenWork):
    """A command to all shards that steps nothing."""

    __slots__ = ("_group",)

    def __init__(self, name: str, frame: FrameType, group: ShardGroup) -> None:
        super().__init__(name, frame)
        self._group = group

    def settle(self) -> None:
        self._group.roll_back()


_ONE_PROCESS = "start the circuit without shards= to see the values inside it"


def _unsupported(name: str, advice: str) -> CircuitError:
    return CircuitError(f"a sharded run has no {name}; {advice}", code="not-shardable")
