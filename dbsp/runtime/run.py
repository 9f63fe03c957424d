"""A running circuit: changes in, exact deltas out, one tick at a time."""

from __future__ import annotations

import time
from dataclasses import replace

from dbsp.circuit.graph import Graph
from dbsp.errors import CircuitError, expect_present
from dbsp.runtime.replanning import Planner, Proposal, Replanned
from dbsp.runtime.run_inspection import Inspection
from dbsp.runtime.stored_relations import StoredRelations
from dbsp.runtime.ticks import Ticks
from dbsp.runtime.transplant import Transplant


class Run(Ticks, StoredRelations, Inspection):
    """A circuit at work. `step` applies changes and returns the deltas of every output.

    A tick is all or nothing: when `step` raises, every view is as it was after the previous tick.
    A run is not thread-safe. `Ticks` applies changes, `StoredRelations` reads what the circuit keeps,
    `Inspection` reports what its steps did; replanning exchanges the circuit.
    """

    def __init__(self, graph: Graph, planner: Planner | None = None) -> None:
        super().__init__(graph)
        self.planner = planner
        """Who chooses the circuit when the run is replanned, if anybody."""

    def __repr__(self) -> str:
        ports = f"({', '.join(self.input_ports)}) -> ({', '.join(self.output_ports)})"
        return f"<run of '{self.graph.name}': {ports}, {self.tick} ticks, {self.state_rows} rows kept>"

    def __del__(self) -> None:
        # Steps refer to each other, so the collector may come late; the memory is in the traces.
        if hasattr(self, "scope"):
            self.scope.release()

    def replan(self, circuit: Graph | None = None) -> Replanned:
        """Switch to the circuit best suited to the current data, without losing a tick.

        A run of a compiled program has a planner, which chooses the circuit by counting the stored
        rows. For a circuit built by hand give the physical form of another one of the same query,
        `run.replan(other.circuit("physical"))`. State that both circuits keep is taken over, the rest
        is rebuilt from it (see `dbsp.runtime.transplant`); no output emits anything. All or nothing:
        when this raises, the run continues with its present circuit. A checkpoint restores the new
        circuit from the next snapshot on.

        Raises CircuitError when there is no planner and no circuit is given, when the circuit is of
        another query, needs rows that the run does not keep, or has a node that depends on ticks (a
        delay, a watermark) and is not in the present one; also what evaluating new nodes raises.
        """
        if self._stepping:
            raise CircuitError("replan was called from inside a step, by a function of the circuit")
        started = time.perf_counter()
        if circuit is not None:
            done = self.switch_to(Proposal(circuit))
        elif self.planner is None:
            raise CircuitError(
                "this run has no planner, for its circuit was built by hand or is not the physical one; "
                'give the circuit to go on with: run.replan(other.circuit("physical"))'
            )
        else:
            planner = expect_present(self.planner, "a planner of a run without a circuit to go on with")
            proposal = planner.propose(self)
            done = Replanned() if proposal is None else self.switch_to(proposal)
            if proposal is not None:
                planner.adopt(proposal)
        self.record_sizes()
        return replace(done, seconds=time.perf_counter() - started)

    def switch_to(self, proposal: Proposal) -> Replanned:
        """Switch to a circuit that the caller has chosen, as `replan` does."""
        if self.log is not None:
            proposal.graph.to_json()  # a later snapshot writes the circuit; raises if it cannot
        self._stepping = True
        try:
            transplant = Transplant(self.scope, proposal.graph)
        finally:
            self._stepping = False
        self.install(proposal.graph, transplant.scope)
        transplant.release()
        return Replanned(proposal.changes, transplant.kept, transplant.rebuilt, transplant.dropped)
