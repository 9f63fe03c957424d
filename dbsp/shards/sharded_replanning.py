"""Replanning of a sharded run: all shards switch to another circuit between two ticks.

    propose:  plan for the rows of all shards                              (coordinator)
    rebuild:  move the state into the new circuit, exchanging rows         (shards)
    record:   write a snapshot of the new state, if there is a checkpoint  (shards)
    answer:   ready with the new circuit, or failed                        (shards)
    decide:   write the circuit to the header of the checkpoint            (coordinator)
    continue: with the new circuit if all are ready, else with the old one (shards)

All or nothing: until the header has the new circuit, a restart continues with the old one.
"""

from __future__ import annotations

import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.circuit.graph import Graph
from dbsp.circuit.operator_roles import RowCopying, RowMoving
from dbsp.data.batch import Batch, merge_sorted
from dbsp.data.schema import Schema
from dbsp.display.amounts import memory
from dbsp.durable.shards_header import ShardsHeader
from dbsp.errors import CircuitError, expect_type, wrong_argument
from dbsp.kernels.arrays import Codes
from dbsp.lazy_dataclass import dataclass
from dbsp.runtime.open_tick import OpenTick
from dbsp.runtime.open_work import OpenWork
from dbsp.runtime.replanning import Planner, Proposal, Replanned
from dbsp.runtime.stored_relations import drift_between
from dbsp.shards import shard_questions
from dbsp.shards.dealing import Dealer, DealtRelation, DistributedPorts, SummedPort
from dbsp.shards.gathered_reports import GatheredReports
from dbsp.shards.placed_circuit import Distribute, PlacedCircuit
from dbsp.shards.remote_shard import result_of
from dbsp.shards.shard_commands import Ask, Command, ReadRelation, SwitchCircuit, Switched
from dbsp.shards.shard_questions import relation_schema
from dbsp.shards.sharded_ticks import ShardedTicks

MOVERS = RowMoving | RowCopying


@dataclass(frozen=True, slots=True)
class ReadyCircuit:
    """A distributed circuit that the shards can switch to."""

    placed: PlacedCircuit
    ports: DistributedPorts


class ShardedReplanning(ShardedTicks, GatheredReports):
    """The part of a sharded run that switches to other circuits."""

    planner: Planner | None
    _ports: DistributedPorts
    _placed: PlacedCircuit
    _distribute: Distribute | None
    """Distributes a physical circuit; None if the run only takes distributed ones."""
    _scopes: str | None
    """Where recursions without a pivot run, "gather" or "exchange"; None if their size decides."""
    _share: int
    """The bytes of memory of one shard."""
    _stays_gathered = ""
    """Why the recursions stay on the first shard although their state is too large."""

    @abstractmethod
    def _read_view(self, port: SummedPort) -> Batch:
        """Return the integral of an output."""

    @abstractmethod
    def _new_ports(self, graph: Graph) -> DistributedPorts:
        """Return the ports of a distributed circuit."""

    @abstractmethod
    def _read(self, what: str, command: Callable[[int], Command], columns: Schema) -> list[Batch]:
        """Return the rows that each shard sends."""

    @ends_at_caller
    def replan(self, circuit: Graph | None = None) -> Replanned:
        """Switch to the circuit best suited to the current data on all shards, as `Run.replan`.

        The rows of the relations that planning counts are gathered here, so the plan is the one
        that one process chooses. The shards rebuild their state together, and move rows that the
        new circuit has on other shards. All or nothing: when this raises, all shards continue with
        their current circuit. With a folder, the new circuit is durable when this returns.

        Parameters:
            circuit: another circuit of the same query, physical or distributed; needed if the
                circuit was built by hand.

        Returns:
            The changes of the plan, and the number of traces and tables that each shard kept,
            rebuilt and dropped.

        Raises:
            CircuitError: as `Run.replan`; or shards cannot run the circuit.
            CheckpointError: the folder cannot be written.
            ShardError: the run is closed, or the process of a shard has ended.
            DbspError: the evaluation of a new node fails.

        Examples:
            >>> program = dbsp.compile('''
            ...     .decl a(x: number) .input a
            ...     .decl b(x: number) .output b
            ...     b(x) :- a(x).
            ... ''')
            >>> with program.start({"a": [(1,), (2,)]}, shards=1) as run:
            ...     run.replan().changes
            ()
        """
        self.refuse_inside_tick("replan")
        started = time.perf_counter()
        if circuit is not None:
            if not isinstance(circuit, Graph):
                raise wrong_argument("circuit", "a circuit of the same query", circuit)
            done = self.switch_to(Proposal(circuit))
        elif self.planner is None:
            raise CircuitError(
                "this run has no planner, because its circuit was built by hand; give the new circuit: "
                'run.replan(other.circuit("distributed"))',
                code="no-planner",
            )
        else:
            proposal = self.planner.propose(self)
            done = Replanned() if proposal is None else self.switch_to(proposal)
            if proposal is not None:
                self.planner.adopt(proposal)
        self.record_sizes()
        return replace(done, seconds=time.perf_counter() - started)

    def switch_to(self, proposal: Proposal) -> Replanned:
        """Switch to a circuit that the caller has chosen, as `replan` does."""
        self.refuse_inside_tick("replan")
        return self._switch(self._place(proposal.graph, proposal.plans), proposal.changes)

    @property
    def placed(self) -> PlacedCircuit:
        """The circuit of the run, and the physical circuit that it was made from."""
        return self._placed

    def _place(self, graph: Graph, plans: str | None) -> PlacedCircuit:
        """Distribute a physical circuit with these plans; a distributed one stays as it is."""
        if self._distribute is None or _is_distributed(graph):
            return PlacedCircuit(graph)
        placed = self._distribute(graph, self._placed.supersteps or self._scopes == "exchange")
        return replace(placed, plans=plans)

    def _ready(self, placed: PlacedCircuit) -> ReadyCircuit:
        """Return a circuit with its ports. Raises CircuitError if the shards cannot run it."""
        if self._folder is not None:
            placed.graph.to_json()  # raises if a restart could not read the circuit
        placed.shipped  # noqa: B018  (raises if the circuit cannot be sent)
        return ReadyCircuit(placed, self._new_ports(placed.graph))

    def _switch(self, placed: PlacedCircuit, changes: tuple[str, ...] = ()) -> Replanned:
        ready = self._ready(placed)
        work = OpenShardedSwitch(self, sys._getframe(), ready)
        self.begin(work)
        try:
            done = self._together(lambda: self._rebuild(ready))
            if self._folder is not None:
                work.header = self._folder.next_circuit(placed.written(), done.signature)
                self._folder.switch(work.header)
            work.decided = True
        finally:
            self.settle()
        return Replanned(changes, done.kept, done.rebuilt, done.dropped)

    def _rebuild(self, ready: ReadyCircuit) -> Switched:
        """Let all shards move their state into a circuit; they then wait for the decision."""
        group, folder, snapshot = self._group, self._folder, None
        when = "during replan"
        if folder is not None:
            ask = Ask(group.next_epoch(), shard_questions.circuit_signature)
            answers = group.ask([(ask, ())] * group.shards, when)
            folder.note_circuit(expect_type(result_of(answers[0]), str, "the signature of a circuit"))
            group.succeeded()
            snapshot = folder.plan.common if folder.tick else None  # a snapshot is of a tick
        self._generation += 1
        command = SwitchCircuit(group.next_epoch(), self._generation, ready.placed.shipped, snapshot)
        answers = group.ask([(command, ())] * group.shards, when)
        done = [expect_type(shard.answer, Switched, "the answer to another circuit") for shard in answers]
        self._statuses = [answer.status for answer in done if answer.status is not None]
        group.succeeded()
        return done[0]

    def continue_with(self, ready: ReadyCircuit) -> None:
        """Continue with a circuit that counts. If this is interrupted, call it again."""
        self._start.graph = ready.placed.shipped
        self._group.commit()
        if self._folder is not None:
            self._folder.note(self._statuses)
        self._ports = ready.ports
        self._dealer = Dealer(ready.ports.inputs, self._group.shards, self.interner)
        self._placed, self._gathered_bytes = ready.placed, 0
        self.install(ready.placed.graph, self._scope)

    # --- recursions that outgrow the first shard --------------------------------------------------

    def begin(self, work: OpenWork) -> None:
        if isinstance(work, OpenTick):
            self._exchange_large_recursions()
        super().begin(work)

    def _exchange_large_recursions(self) -> None:
        """Let all shards step the gathered recursions if the first shard has no room for them."""
        placed = self._placed
        if not placed.gathered or placed.physical is None or self._distribute is None:
            return
        fits = self._scopes == "gather" or (self._scopes is None and self._gathered_bytes <= self._share)
        if fits or self._stays_gathered:
            return
        try:
            self._switch(replace(self._distribute(placed.physical, True), plans=placed.plans))
        except CircuitError as error:  # its state cannot be rebuilt; the run continues
            self._stays_gathered = error.message

    def recursion_lines(self) -> Iterator[str]:
        """Yield which recursions run on the first shard, and which exchange rows."""
        for position, node in enumerate(self.graph.nodes):
            bodies = list(node.operator.children())
            if position in self._placed.gathered:
                yield f"  {node.describe()} runs on the first shard; {self._why_gathered()}"
            elif any(isinstance(each.operator, MOVERS) for body in bodies for each in body.walk()):
                why = 'scopes="exchange"' if self._scopes == "exchange" else "the first shard has no room"
                yield f"  {node.describe()} exchanges rows in supersteps of all shards; {why}"

    def _why_gathered(self) -> str:
        if self._stays_gathered:
            return f"the state is too large, but stays: {self._stays_gathered}"
        if self._scopes == "gather":
            return 'scopes="gather"'
        return f"the state has {memory(self._gathered_bytes)}, and is exchanged beyond {memory(self._share)}"

    # --- the rows and sizes that planning needs ---------------------------------------------------

    def rows(self, relation: str) -> Codes | None:
        """Return the rows of positive weight of a relation from all shards, as `Run.rows`."""
        if relation not in self._sizes():
            return None
        schema = relation_schema(self, relation)
        parts = self._read("replan", lambda epoch: ReadRelation(epoch, relation), schema)
        batch = merge_sorted(parts) or Batch.empty(schema.arity)
        return batch.rows.compress(batch.weights > 0, 0)

    def drift(self) -> float:
        """Return the largest factor by which a stored relation has grown or shrunk since planning.

        As `Run.drift`, for the sums over the shards.
        """
        return drift_between(self._planned_for, self._sizes())

    def record_sizes(self) -> None:
        """Make `drift` compare with the current sizes of the relations."""
        self._planned_for = self._sizes()

    _planned_for: dict[str, int]

    def _sizes(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for answer in self.ask(shard_questions.sizes):
            for name, rows in answer.items():
                sizes[name] = sizes.get(name, 0) + rows
        return sizes


class OpenShardedSwitch(OpenWork):
    """The switch of a sharded run to another circuit."""

    __slots__ = ("_ready", "_run", "header")

    def __init__(self, run: ShardedReplanning, frame: FrameType, ready: ReadyCircuit) -> None:
        super().__init__("replan", frame)
        self._run = run
        self._ready = ready
        self.header: ShardsHeader | None = None
        """The header of the checkpoint with the new circuit: if it is written, it counts."""

    def settle(self) -> None:
        folder = self._run._folder
        if not self.decided and self.header is not None and folder is not None:
            self.decided = folder.switched(self.header)
        if self.decided:
            self._run.continue_with(self._ready)
        else:
            self._run.roll_back()


def _is_distributed(graph: Graph) -> bool:
    return any(isinstance(node.operator, DealtRelation) for node in graph.nodes)
