"""A running circuit: it takes changes and returns exact deltas, one tick at a time."""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.circuit.graph import Graph
from dbsp.circuit.shard_link import ShardLink
from dbsp.data.interner import Interner
from dbsp.display.displayed import Displayed
from dbsp.errors import CircuitError, counted, expect_present, wrong_argument
from dbsp.runtime.compaction import Compaction
from dbsp.runtime.memory import capacity_of, give_back
from dbsp.runtime.open_work import OpenWork
from dbsp.runtime.replanning import Planner, Proposal, Replanned
from dbsp.runtime.run_subscribing import Subscribing
from dbsp.runtime.run_watching import Watching
from dbsp.runtime.transplant import Transplant
from dbsp.runtime.unknown_members import unknown_member
from dbsp.state.external_traces import ExternalTraces
from dbsp.state.memory_budget import MemoryBudget
from dbsp.state.spill_folder import SpillFolder

_TABLE_ROW = 200
"""An estimate of the bytes of a key and its value in a table."""


class Run(Subscribing, Compaction, Watching, Displayed):
    """A running circuit. `step` applies changes and returns the delta of every output.

    `Circuit.start` and `Program.start` return runs. A tick is all or nothing: when `step` raises,
    every view is as it was after the previous tick. A run is not thread-safe.

    Examples:
        >>> circuit = Circuit("shop")
        >>> circuit.output("big", circuit.input("sale", x=int).filter(col("x") > 5))
        >>> run = circuit.start()
        >>> run.step({"sale": [(7,), (3,)]})["big"].to_dict()
        {(7,): 1}
        >>> run
        <run of 'shop': (sale) -> (big), 1 tick, 1 row stored>
    """

    public_names = (
        "asserted",
        "changed",
        "compact",
        "draw",
        "drift",
        "evaluations",
        "file_bytes",
        "graph",
        "input",
        "inputs",
        "iterations",
        "join_terms",
        "kept_changes",
        "log",
        "observe",
        "outputs",
        "prepare",
        "preview",
        "preview_update",
        "record",
        "record_sizes",
        "replan",
        "snapshot",
        "state_bytes",
        "state_rows",
        "stats",
        "step",
        "step_staged",
        "subscribe",
        "subscriptions",
        "switch_to",
        "tick",
        "trace_tick",
        "transaction",
        "update",
        "view",
        "watch",
    )
    """The names that `dir` shows, and so the completion of a shell; other modules call more."""

    def __init__(
        self,
        graph: Graph,
        planner: Planner | None = None,
        *,
        interner: Interner | None = None,
        traces: ExternalTraces | None = None,
        memory_limit: int | str | None = None,
        spill: Path | None = None,
        link: ShardLink | None = None,
    ) -> None:
        limit = capacity_of(memory_limit)
        budget = None
        if limit is not None:
            # Weak, so that the memory of a run that nobody has any more is released at once.
            this = weakref.ref(self)
            budget = MemoryBudget(limit, SpillFolder(spill), give_back, lambda: _table_bytes(this()))
        super().__init__(graph, interner, traces, budget, link)
        self.planner = planner
        """The planner that chooses the circuit when the run is replanned, if there is one."""

    _described_by = "dbsp.runtime.run_display:run_document"

    def __repr__(self) -> str:
        ports = f"({', '.join(self.input_ports)}) -> ({', '.join(self.output_ports)})"
        ticks, rows = counted(self.tick, "tick"), counted(self.state_rows, "row")
        return f"<run of '{self.graph.name}': {ports}, {ticks}, {rows} stored>"

    def __dir__(self) -> list[str]:
        return list(self.public_names)

    if not TYPE_CHECKING:  # a type checker reports unknown attributes itself

        def __getattr__(self, name):
            # Copy, pickle and others look up names with underscores, also before there are ports.
            known = {} if name.startswith("_") else vars(self)
            if "input_ports" not in known or "output_ports" not in known:
                raise AttributeError(name)
            raise unknown_member(name, self.public_names, known["input_ports"], known["output_ports"])

    def __reduce__(self) -> NoReturn:
        raise CircuitError(
            "a run cannot be pickled or copied; pickle the program or circuit and start it again, or start "
            "the run with checkpoint=...",
            code="not-serialisable",
        )

    def __del__(self) -> None:
        # Steps refer to each other, so the collector may come late; the memory is in the traces.
        if hasattr(self, "_scope"):
            self._scope.release()
        live = getattr(self, "_live", None)
        if live is not None:
            live.end()

    @ends_at_caller
    def snapshot(self) -> None:
        """Write the state to the checkpoint now, and wait until it is durable.

        The next start then replays no ticks. A run with a checkpoint writes snapshots by itself
        (`snapshot_every` of `dbsp.durable.Store`), so this is useful before a planned end.

        Raises:
            CircuitError: the run has no checkpoint, or the call comes from a function of the
                circuit.
            CheckpointError: the snapshot cannot be written; the journal has all ticks all the same.

        Examples:
            >>> import tempfile
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", x=int))
            >>> run = circuit.start(checkpoint=tempfile.mkdtemp())
            >>> _ = run.step({"sale": [(7,)]})
            >>> run.snapshot()
            >>> run.log.close()
        """
        self.refuse_inside_tick("snapshot")
        if self.log is None:
            raise CircuitError(
                "this run has no checkpoint, so it cannot write a snapshot; start it with checkpoint=folder",
                code="no-checkpoint",
            )
        self.log.snapshot()

    @ends_at_caller
    def replan(self, circuit: Graph | None = None) -> Replanned:
        """Switch to the circuit best suited to the current data, without losing a tick.

        A run of a compiled program has a planner, which chooses the circuit by counting the stored
        rows. State that both circuits keep is taken over, the rest is rebuilt from it (see
        `dbsp.runtime.transplant`); no output emits anything. All or nothing: when this raises, the
        run continues with its current circuit. A checkpoint restores the new circuit from the next
        snapshot on.

        Parameters:
            circuit: the physical form of another circuit of the same query, as
                `other.circuit("physical")` returns it; needed if the circuit was built by hand.

        Returns:
            The changes of the plan, and the number of traces and tables kept, rebuilt and dropped.

        Raises:
            CircuitError: there is no planner and no circuit; or the circuit is of another query,
                needs rows that the run does not keep, or has a new node that depends on ticks (a
                delay, a watermark).
            DbspError: the evaluation of a new node fails.

        Examples:
            >>> program = dbsp.compile('''
            ...     .decl a(x: number) .input a
            ...     .decl b(x: number) .output b
            ...     b(x) :- a(x).
            ... ''')
            >>> run = program.start()
            >>> _ = run.step({"a": [(1,), (2,)]})
            >>> run.replan().changes
            ()
        """
        self.refuse_inside_tick("replan")
        started = time.perf_counter()
        if circuit is not None:
            if not isinstance(circuit, Graph):
                raise wrong_argument("circuit", "a physical circuit of the same query", circuit)
            done = self.switch_to(Proposal(circuit))
        elif self.planner is None:
            raise CircuitError(
                "this run has no planner, because its circuit was built by hand or is not physical; "
                'give the new circuit: run.replan(other.circuit("physical"))',
                code="no-planner",
            )
        else:
            planner = expect_present(self.planner, "a planner of a run without a circuit to switch to")
            proposal = planner.propose(self)
            done = Replanned() if proposal is None else self.switch_to(proposal)
            if proposal is not None:
                planner.adopt(proposal)
        self.record_sizes()
        return replace(done, seconds=time.perf_counter() - started)

    @ends_at_caller
    def switch_to(self, proposal: Proposal) -> Replanned:
        """Switch to a circuit that the caller has chosen, as `replan` does.

        Parameters:
            proposal: the circuit, and a description of the changes of its plan.

        Returns:
            The changes, and the number of traces and tables kept, rebuilt and dropped.

        Raises:
            CircuitError: as `replan`; or the run has a checkpoint and the circuit cannot be written
                as JSON.

        Examples:
            >>> from dbsp.runtime.replanning import Proposal
            >>> circuit = Circuit("shop")
            >>> circuit.output("all", circuit.input("sale", x=int, kind="set"))
            >>> run = circuit.start()
            >>> _ = run.step({"sale": [(7,)]})
            >>> run.switch_to(Proposal(circuit.circuit("physical"))).rebuilt
            0
        """
        if self.log is not None:
            proposal.graph.to_json()  # a later snapshot writes the circuit; raises if it cannot
            self.log.wait()
        self._notify()
        transplant = self.switch_circuit(proposal.graph, plans=proposal.plans)
        return Replanned(proposal.changes, transplant.kept, transplant.rebuilt, transplant.dropped)

    def switch_circuit(
        self,
        graph: Graph,
        agree: Callable[[Transplant], None] = lambda transplant: None,
        plans: str | None = None,
    ) -> Transplant:
        """Switch to another circuit unless `agree` raises, which is called with the new circuit.

        `plans` are those of the circuit (see `Proposal`).
        Raises the errors of `switch_to` and of `agree`; the run then has its circuit of before.
        """
        work = OpenSwitch(self, sys._getframe(), plans)
        self.begin(work)
        try:
            transplant = work.transplant = Transplant(self._scope, graph)
            self.install(graph, transplant.scope)
            agree(transplant)
            work.decided = True
        finally:
            self.settle()
        return transplant


def _table_bytes(run: Run | None) -> int:
    """Return an estimate of the bytes of the tables of a run."""
    return 0 if run is None else _TABLE_ROW * sum(table.rows for table in run._scope.tables)


class OpenSwitch(OpenWork):
    """The switch of a run to another circuit."""

    __slots__ = ("_graph", "_plans", "_run", "_scope", "transplant")

    def __init__(self, run: Run, frame: FrameType, plans: str | None) -> None:
        super().__init__("replan", frame)
        self._run = run
        self._plans = plans
        self._graph = run.graph
        self._scope = run._scope
        self.transplant: Transplant | None = None

    def settle(self) -> None:
        if self.transplant is not None and self.decided:
            self._run.stored_plans = self._plans
            self.transplant.release()
            return
        self._run.install(self._graph, self._scope)
        self._run.roll_back()
        if self.transplant is not None:
            self.transplant.withdraw()
