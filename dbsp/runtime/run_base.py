"""The base of a run: the circuit, the scope that steps it, its inputs and outputs, open work."""

from __future__ import annotations

from collections.abc import Mapping

from dbsp.circuit.graph import Graph
from dbsp.circuit.shard_link import ShardLink
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.errors import CircuitError
from dbsp.runtime.bulk_progress import BulkProgress
from dbsp.runtime.open_work import OpenWork
from dbsp.runtime.pass_observer import PassObserver
from dbsp.runtime.ports import InputPort, OutputPort
from dbsp.runtime.scope import Scope
from dbsp.runtime.unknown_names import UnknownOutputError, unknown_input
from dbsp.state.external_traces import ExternalTraces
from dbsp.state.memory_budget import MemoryBudget


class RunBase:
    """A circuit and the scope that steps it; replanning replaces both."""

    stored_plans: str | None = None
    """The plans that chose the circuit, as the planner reads them from a checkpoint; None if the
    query alone gives them, or if they are not known."""

    def __init__(
        self,
        graph: Graph,
        interner: Interner | None = None,
        traces: ExternalTraces | None = None,
        budget: MemoryBudget | None = None,
        link: ShardLink | None = None,
    ) -> None:
        self.budget = budget
        """The memory that the state may use, if there is a limit."""
        self.interner = Interner() if interner is None else interner
        self.shares_interner = interner is not None or traces is not None
        """Whether values of the interner may be used outside of this run."""
        self._work: OpenWork | None = None
        self._bulk: BulkProgress | None = None
        """The open transaction."""
        self._ticks = 0
        self.observers: list[PassObserver] = []
        """The watches and recordings, which follow the run when it switches circuits."""
        shared = () if traces is None else (traces,)
        self.install(graph, Scope(graph, self.interner, shared=shared, budget=budget, link=link))

    def install(self, graph: Graph, scope: Scope) -> None:
        """Step this circuit from the next tick on."""
        self.graph = graph
        self._scope = scope
        for observer in self.observers:
            observer.observe(scope)
        self.input_ports, self.output_ports = self.ports_of(scope)

    def ports_of(self, scope: Scope) -> tuple[Mapping[str, InputPort], Mapping[str, OutputPort]]:
        """Return the inputs and outputs of a scope; each defines the meaning of its changes."""
        inputs = {step.relation: step for step in scope.steps if isinstance(step, InputPort)}
        outputs = {step.relation: step for step in scope.steps if isinstance(step, OutputPort)}
        return inputs, outputs

    @property
    def tick(self) -> int:
        """The number of committed ticks."""
        self.recover()
        return self._ticks

    @tick.setter
    def tick(self, number: int) -> None:
        self._ticks = number

    @property
    def scope(self) -> Scope:
        """The steps of the circuit and their state, for checkpoints and replanning."""
        self.recover()
        return self._scope

    # --- open work --------------------------------------------------------------------------------

    def begin(self, work: OpenWork) -> None:
        """Note that this work begins. Raises CircuitError inside other work."""
        if self._work is not None or self._bulk is not None:
            self.refuse_inside_tick(work.name)
        self._work = work

    def refuse_inside_tick(self, name: str) -> None:
        """Raise CircuitError inside other work or a transaction; settle what has been abandoned."""
        self.refuse_inside_work(name)
        self.refuse_inside_bulk(name)

    def refuse_inside_bulk(self, name: str) -> None:
        """Raise CircuitError inside a transaction; settle one that has been abandoned."""
        bulk = self._bulk
        if bulk is None:
            return
        if bulk.abandoned():
            self.settle_bulk()
        elif not bulk.ending:
            raise CircuitError(
                f"{name} was called inside a transaction of this run; call it after the block, and apply the "
                "changes inside the block by the step of the transaction",
                code="inside-transaction",
            )

    def refuse_inside_work(self, name: str) -> None:
        """Raise CircuitError inside other work; settle work whose call has ended."""
        if self._work is None:
            return
        if self._work.runs_here():
            raise CircuitError(
                f"{name} was called inside a tick, by a function of the circuit; call it after the tick",
                code="tick-in-progress",
            )
        self.settle()

    def recover(self) -> None:
        """Settle work whose call has ended, and an abandoned transaction; do nothing in a tick."""
        if self._work is not None and not self._work.runs_here():
            self.settle()
        if self._bulk is not None and self._work is None and self._bulk.abandoned():
            self.settle_bulk()

    def settle_bulk(self) -> None:
        """Undo the open transaction, unless its tick is final, and close it.

        If this is interrupted, call it again.
        """

    def settle(self) -> None:
        """Complete or undo the open work, and close it. If this is interrupted, call it again."""
        work = self._work
        if work is not None:
            work.settle()
            self.repair()
            self.close_work(work)

    def repair(self) -> None:
        """Make the traces usable after an interrupt. If this is interrupted, call it again."""
        self._scope.repair()

    def close_work(self, work: OpenWork) -> None:
        """Note that this work has ended."""
        self._work = None
        work.frame = None  # the frame refers to the work, and keeps the arrays of the tick alive

    def free_many_values(self) -> None:
        """Free interned values if many are new, or many rows gone, since the latest search.

        A checkpoint calls this before a snapshot, which then has fewer values to write. The
        searches cost O(1) per new value or row, and at most about half of all values are not used.
        """

    # --- inputs and outputs -----------------------------------------------------------------------

    @property
    def inputs(self) -> dict[str, Schema]:
        """The inputs: for each name the schema of its rows."""
        return {name: port.columns for name, port in self.input_ports.items()}

    @property
    def outputs(self) -> dict[str, Schema]:
        """The outputs: for each name the schema of its rows."""
        return {name: port.columns for name, port in self.output_ports.items()}

    def input_port(self, name: str) -> InputPort:
        """Return the port of an input. Raises InputError when there is no such input."""
        self.recover()
        port = self.input_ports.get(name) if isinstance(name, str) else None
        if port is None:
            raise unknown_input(name, self.input_ports, self.output_ports)
        return port

    def output_port(self, name: str) -> OutputPort:
        """Return the port of an output. Raises InputError when there is no such output."""
        self.recover()
        port = self.output_ports.get(name) if isinstance(name, str) else None
        if port is None:
            raise UnknownOutputError(name, self.input_ports, self.output_ports)
        return port
