"""Rewriting a circuit, node by node, into a circuit of another form.

A *form* says what becomes of one node, given what has become of its inputs. Every stage of a query
is such a rewriting of the one before (see `dbsp.operators.stages.three_stages`). Equal nodes over
equal inputs are made one on the way, and work inside a scope that depends on nothing of the scope
moves out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.operator import Operator

Form: TypeAlias = "Callable[[Rewriting, Node, Sequence[Stream]], Stream]"


class Rewriting:
    """One rewriting under way: where each stream of the source went, and what exists already."""

    def __init__(self, target: Graph, form: Form) -> None:
        self.target = target
        self.form = form
        self._known: dict[tuple[Graph, Operator, tuple[Node, ...]], Stream] = {}
        self._readers: dict[Node, list[Stream]] = {}
        self._image: dict[Node, Stream] = {}
        self._cycles: list[tuple[str, Callable[[], object]]] = []
        self._last: list[tuple[str, Callable[[], object]]] = []
        self._graphs: dict[Graph, Graph] = {}

    def rewrite(self, source: Graph) -> None:
        """Add the new form of every node of `source`, and close its cycles."""
        outer, self._cycles = self._cycles, []
        for node in self.nodes_of(source):
            if node not in self._image:  # streams that enter a scope are placed by the fixpoint
                inputs = [self._image[stream.node] for stream in self.inputs_of(node)]
                with self.target.at(node.source):
                    self._image[node] = self.form(self, node, inputs)
        for origin, close in self._cycles:
            with self.target.at(origin):
                close()
        self._cycles = outer

    def nodes_of(self, source: Graph) -> Iterable[Node]:
        """The nodes of `source` that are rewritten, in an order in which inputs come first: all."""
        return source.nodes

    def inputs_of(self, node: Node) -> Sequence[Stream]:
        """The streams of which the form gets the images: the inputs of the node."""
        return node.inputs

    def finish(self, source: Graph) -> None:
        """Run the deferred actions, and give the names of streams to their images."""
        for origin, action in self._last:
            with self.target.at(origin):
                action()
        for name, stream in source.named.items():
            if stream.node in self._image:
                self.target.named[name] = self._image[stream.node]

    def at_cycles(self, close: Callable[[], object]) -> None:
        """Put closing a cycle off until every node of the present graph has its image."""
        self._cycles.append((self.target.current_source(), close))

    def finally_(self, action: Callable[[], object]) -> None:
        """Put an action off to the very end, when all nodes that others need exist."""
        self._last.append((self.target.current_source(), action))

    def image(self, stream: Stream) -> Stream:
        """What has become of a stream of the source."""
        return self._image[stream.node]

    def place(self, node: Node, image: Stream) -> None:
        """Say what a node becomes without asking the form."""
        self._image[node] = image

    def map_graph(self, source: Graph, image: Graph) -> None:
        """Register the new scope of a scope of the source."""
        self._graphs[source] = image

    def graph_of(self, source: Graph) -> Graph:
        """The new scope of `source`."""
        return self._graphs.get(source, self.target)

    def add(self, operator: Operator, *inputs: Stream, graph: Graph | None = None) -> Stream:
        """A node of the new graph, or the equal one that is there already.

        It is placed in the innermost scope of its inputs, or in `graph` when it has none.
        """
        place = max((s.graph for s in inputs), key=lambda g: g.depth, default=graph or self.target)
        inputs = tuple(place.enter(stream) for stream in inputs)
        key = (place, operator, tuple(stream.node for stream in inputs))
        if operator.shareable and key in self._known:
            return self._known[key]
        stream = place.add(operator, *inputs) if inputs else place.add_source(operator)
        self._known[key] = stream
        for node in key[2]:
            self._readers.setdefault(node, []).append(stream)
        return stream

    def add_strict(self, operator: Operator, stream: Stream) -> Stream:
        """A node that reads `stream` as it was one step before, or the equal one that is there."""
        key = (stream.graph, operator, (stream.node,))
        if key not in self._known:
            self._known[key] = stream.graph.add_source(operator)
            stream.graph.connect(self._known[key], stream)
        return self._known[key]

    def find(self, kind: type[Operator], stream: Stream) -> Stream | None:
        """The first node whose operator is of that kind and reads just this stream, if any."""
        for reader in self._readers.get(stream.node, ()):
            if isinstance(reader.node.operator, kind) and len(reader.node.inputs) == 1:
                return reader
        return None


def rewrite(source: Graph, form: Form) -> Graph:
    """The circuit that `form` makes of `source`, validated; O(nodes)."""
    target = Graph(source.name)
    rewriting = Rewriting(target, form)
    rewriting.rewrite(source)
    rewriting.finish(source)
    target.validate()
    return target
