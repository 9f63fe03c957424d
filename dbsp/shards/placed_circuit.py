"""A distributed circuit, and what its run needs to know of its recursions.

A recursion without a pivot is *gathered* on the first shard while its state fits there. Beyond that
its rows are exchanged: all shards step it together, in supersteps. The run then switches to the
circuit with the exchanges, which is distributed again from the physical circuit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from dbsp.circuit.graph import Graph
from dbsp.durable.snapshots import written_circuit
from dbsp.lazy_dataclass import dataclass
from dbsp.shards.shipped_graph import ShippedGraph, ship_graph


@dataclass(frozen=True)
class PlacedCircuit:
    """A distributed circuit."""

    graph: Graph
    physical: Graph | None = None
    """The physical circuit that it was made from, if it is known."""
    gathered: tuple[int, ...] = ()
    """The positions of the fixpoints that have all rows on the first shard."""
    supersteps: bool = False
    """Whether scopes without a pivot exchange rows."""
    plans: str | None = None
    """The plans of the physical circuit (see `dbsp.runtime.replanning.Proposal`)."""

    @cached_property
    def shipped(self) -> ShippedGraph:
        """The circuit for the shards. Raises CircuitError if it cannot be sent."""
        return ship_graph(self.graph, self.gathered)

    def written(self) -> WrittenCircuit:
        """Return the circuit for the header of a checkpoint."""
        physical = None if self.physical is None else written_circuit(self.physical)
        return WrittenCircuit(written_circuit(self.graph), physical, self.supersteps, self.plans)


@dataclass(frozen=True, slots=True)
class WrittenCircuit:
    """What the header of a checkpoint has of a circuit; None for a circuit without a JSON form."""

    circuit: str | None = None
    physical: str | None = None
    supersteps: bool = False
    plans: str | None = None


Distribute = Callable[[Graph, bool], PlacedCircuit]
"""Distributes a physical circuit, with or without supersteps."""
