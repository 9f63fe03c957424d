"""What every part of a run works with: the circuit, the scope that steps it, its inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping

from dbsp.circuit.graph import Graph
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema, suggestion
from dbsp.errors import InputError
from dbsp.runtime.ports import InputPort, OutputPort
from dbsp.runtime.scope import Scope


class RunBase:
    """A circuit and the scope that steps it; both are exchanged when the run is replanned."""

    def __init__(self, graph: Graph) -> None:
        self.interner = Interner()
        self.tick = 0
        """Ticks committed so far."""
        self.install(graph, Scope(graph, self.interner))

    def install(self, graph: Graph, scope: Scope) -> None:
        """Step this circuit from the next tick on."""
        self.graph = graph
        self.scope = scope
        """The steps of the circuit and their state, for checkpoints and replanning."""
        self.input_ports: Mapping[str, InputPort] = {
            step.relation: step for step in scope.steps if isinstance(step, InputPort)
        }
        """The steps of the inputs, which say what a change of each means."""
        self.output_ports: Mapping[str, OutputPort] = {
            step.relation: step for step in scope.steps if isinstance(step, OutputPort)
        }

    @property
    def inputs(self) -> dict[str, Schema]:
        """Input relations and their columns."""
        return {name: port.columns for name, port in self.input_ports.items()}

    @property
    def outputs(self) -> dict[str, Schema]:
        """Output relations and their columns."""
        return {name: port.columns for name, port in self.output_ports.items()}

    def input_port(self, name: str) -> InputPort:
        """The port of an input. Raises InputError when there is no such input."""
        port = self.input_ports.get(name)
        if port is None:
            if name in self.output_ports:
                raise InputError(f"relation '{name}' is derived; it cannot be changed directly")
            raise InputError(f"there is no input '{name}'{suggestion(str(name), self.input_ports)}")
        return port
