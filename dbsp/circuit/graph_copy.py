"""Copies of a circuit in which some nodes are left out and some operators are replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.operator_roles import ScopeBoundary


class GraphCopy:
    """A copy in progress: the test for the nodes to keep, and the image of each.

    `keeps` must be true for every node on which a kept node depends. `replaced` has other operators
    for nodes outside scopes; they read the same inputs and have the same columns.
    """

    def __init__(
        self, keeps: Callable[[Node], bool], replaced: Mapping[Node, Operator] | None = None
    ) -> None:
        self.keeps = keeps
        self._replaced = replaced or {}
        self._images: dict[Node, Stream] = {}
        self._graphs: dict[Graph, Graph] = {}

    def image(self, node: Node) -> Stream:
        """Return the copy of a node that is copied already."""
        return self._images[node]

    def place(self, node: Node, image: Stream) -> None:
        """Set the image of a node outside of the graph to copy."""
        self._images[node] = image

    def map_graph(self, source: Graph, image: Graph) -> None:
        """Set the image of a graph around the graph to copy."""
        self._graphs[source] = image

    def graph_of(self, source: Graph) -> Graph:
        """Return the copy of a graph."""
        return self._graphs[source]

    def fill(self, source: Graph, target: Graph) -> None:
        """Copy the nodes of `source` into the empty graph `target`, in their order."""
        self._graphs[source] = target
        kept = [node for node in source.nodes if self.keeps(node)]
        for node in kept:
            operator = self._replaced.get(node, node.operator)
            if isinstance(operator, ScopeBoundary):
                self._images[node] = operator.copied(node, self)
                continue
            inputs = tuple(self._images[stream.node] for stream in node.inputs)
            self._images[node] = self.appended(target, node, operator, inputs)
        for node in kept:
            if node.strict:
                target.connect(self._images[node], *(self._images[stream.node] for stream in node.strict))
        target.carry_names(source, self._images)

    def appended(self, target: Graph, node: Node, operator: Operator, inputs: tuple[Stream, ...]) -> Stream:
        """Append the copy of a node; return the stream that the copies of its readers read."""
        return target.append(operator, inputs, node.schema, node.source)
