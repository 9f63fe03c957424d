"""Find a stream of a running circuit: by the name of a relation, by its node, or by the query's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.data.schema import Schema, suggestion
from dbsp.errors import InputError, wrong_argument
from dbsp.lazy_dataclass import dataclass
from dbsp.runtime.ports import InputPort, OutputPort

StreamChoice: TypeAlias = str | Stream | Node
"""A relation of the run, the path of a node such as "3/0", a stream of the query, or a node."""


@dataclass(frozen=True)
class FoundStream:
    """A stream of a circuit, and the columns to show its rows with."""

    node: Node
    columns: Schema


class StreamLookup:
    """The streams of one circuit by everything that names them. `ports` are those of its run."""

    def __init__(
        self, graph: Graph, inputs: Mapping[str, InputPort], outputs: Mapping[str, OutputPort]
    ) -> None:
        self.graph = graph
        self._inputs = {name: FoundStream(port.node, port.columns) for name, port in inputs.items()}
        self._outputs = {name: FoundStream(port.node, port.columns) for name, port in outputs.items()}

    def paths(self) -> dict[str, Node]:
        """Return every node by its path: "3", or "3/0" inside the scope of node 3."""
        return dict(_paths(self.graph, ""))

    def find(self, stream: StreamChoice) -> FoundStream:
        """Return a stream of the circuit.

        Raises InputError if the circuit does not compute it, ArgumentError for another value.
        """
        if isinstance(stream, str):
            return self._named(stream)
        if isinstance(stream, Stream):
            stream = stream.node
        if not isinstance(stream, Node):
            raise wrong_argument("stream", "the name of a relation, a stream or a node", stream)
        if _root_of(stream) is self.graph:
            return FoundStream(stream, stream.schema)
        image = self.graph.origins.get(stream)
        if image is None or image.schema.types != stream.schema.types:
            raise InputError(
                f"the run does not compute the stream of {stream.describe()}: it belongs to another circuit, "
                "or the optimised circuit does not need it; make the stream an output, or choose a node of "
                "run.graph",
                code="unknown-stream",
            )
        return FoundStream(image.node, stream.schema)

    def lasting(self, stream: StreamChoice) -> StreamChoice:
        """Return a choice that means no other stream after the run has switched circuits.

        A path becomes its node. Raises as `find`.
        """
        found = self.find(stream)
        relations = (*self._outputs, *self._inputs, *self.graph.named)
        return found.node if isinstance(stream, str) and stream not in relations else stream

    def _named(self, name: str) -> FoundStream:
        for found in (self._outputs.get(name), self._inputs.get(name)):
            if found is not None:
                return found
        relation = self.graph.named.get(name)
        if relation is not None:
            return FoundStream(relation.node, relation.schema)
        node = self.paths().get(name)
        if node is not None:
            return FoundStream(node, node.schema)
        known = sorted({*self._outputs, *self._inputs, *self.graph.named})
        listed = (
            f"; the relations are {', '.join(known[:10])}, and a node is named by its path, such as '3/0'"
        )
        hint = suggestion(name, known) or listed
        raise InputError(f"unknown stream {name!r}{hint}", code="unknown-stream")

    def name_of(self, node: Node) -> str:
        """Return the relation that a node computes, or else its label."""
        for name, found in (*self._outputs.items(), *self._inputs.items()):
            if found.node is node:
                return name
        for name, stream in self.graph.named.items():
            if stream.node is node:
                return name
        return node.label


def _paths(graph: Graph, prefix: str) -> Iterator[tuple[str, Node]]:
    for node in graph.nodes:
        yield f"{prefix}{node.id}", node
        for child in node.operator.children():
            yield from _paths(child, f"{prefix}{node.id}/")


def scope_name(graph: Graph) -> str:
    """Return the name of a scope as in `Run.iterations`, "outer/inner"; "" for the circuit."""
    names = []
    while graph.parent is not None:
        names.append(graph.name)
        graph = graph.parent
    return "/".join(reversed(names))


def _root_of(node: Node) -> Graph:
    return node.graph.root
