"""A running circuit: changes in, exact deltas out, one tick at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dbsp.circuit.graph import Graph
from dbsp.errors import CircuitError
from dbsp.runtime.inspection import Inspection
from dbsp.runtime.replanning import Planner, Proposal, Replanned
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

    def spark_sink(self, relation: str, **settings: Any) -> Callable[[Any, int], None]:
        """The function that feeds an input from Spark: `df.writeStream.foreachBatch(run.spark_sink("edge"))`.

        The same as `dbsp.spark.feed(run, relation, ...)`.
        """
        from dbsp.spark import feed

        return feed(self, relation, **settings)

    def replan(self, circuit: Graph | None = None) -> Replanned:
        """Go on with the circuit that is best for the data of now; the ticks go on as if nothing was.

        A run of a compiled program has a planner, which chooses the circuit by counting the rows
        that are there. For a circuit built by hand give the physical form of another one of the same
        query, `run.replan(other.circuit("physical"))`. What both circuits keep goes over as it is, the
        rest is made anew from it (see `dbsp.runtime.transplant`); no output hands out anything. All or
        nothing: when this raises, the run goes on with the circuit that it has. With a checkpoint, the
        new circuit is what a run goes on with from the next snapshot on.

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
            proposal = self.planner.propose(self)
            done = Replanned() if proposal is None else self.switch_to(proposal)
            if proposal is not None:
                self.planner.adopt(proposal)
        self.record_sizes()
        return replace(done, seconds=time.perf_counter() - started)

    def switch_to(self, proposal: Proposal) -> Replanned:
        """Exchange the circuit, as `replan` does, for one that somebody has chosen already."""
        if self.log is not None:
            proposal.graph.to_json()  # a later snapshot has to tell the circuit; raises if it cannot
        self._stepping = True
        try:
            made = Transplant(self.scope, proposal.graph)
        finally:
            self._stepping = False
        self.install(proposal.graph, made.scope)
        made.release()
        return Replanned(proposal.changes, made.kept, made.rebuilt, made.dropped)
