"""The base of a run: the circuit, the scope that steps it, its inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping

from dbsp.circuit.graph import Graph
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.runtime.ports import InputPort, OutputPort
from dbsp.runtime.scope import Scope
from dbsp.runtime.unknown_names import UnknownOutputError, unknown_input


class RunBase:
    """A circuit and the scope that steps it; replanning replaces both."""

    def __init__(self, graph: Graph) -> None:
        self.interner = Interner()
        self.tick = 0
        """The number of committed ticks."""
        self.install(graph, Scope(graph, self.interner))

    def install(self, graph: Graph, scope: Scope) -> None:
        """Step this circuit from the next tick on."""
        self.graph = graph
        self.scope = scope
        """The steps of the circuit and their state, for checkpoints and replanning."""
        self.input_ports: Mapping[str, InputPort] = {
            step.relation: step for step in scope.steps if isinstance(step, InputPort)
        }
        """The steps of the inputs; each defines the meaning of its changes."""
        self.output_ports: Mapping[str, OutputPort] = {
            step.relation: step for step in scope.steps if isinstance(step, OutputPort)
        }

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
        port = self.input_ports.get(name)
        if port is None:
            raise unknown_input(name, self.input_ports, self.output_ports)
        return port

    def output_port(self, name: str) -> OutputPort:
        """Return the port of an output. Raises InputError when there is no such output."""
        port = self.output_ports.get(name)
        if port is None:
            raise UnknownOutputError(name, self.input_ports, self.output_ports)
        return port
