"""Rewriting a circuit, node by node, into a circuit of another form.

A *form* is a function that returns the image of one node, given the images of its inputs. Every
stage of a query is such a rewriting of the stage before (see
`dbsp.operators.stages.circuit_stages`). The rewriting merges equal nodes over equal inputs. It
moves nodes out of a scope if they depend on nothing in the scope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.data.schema import Schema

Form: TypeAlias = "Callable[[Rewriting, Node, Sequence[Stream]], Stream]"


class Rewriting:
    """A rewriting in progress: the images of the streams, and the nodes built so far."""

    def __init__(self, target: Graph, form: Form) -> None:
        self.target = target
        self.form = form
        self._known: dict[tuple[Graph, Operator, tuple[Node, ...]], Stream] = {}
        self._readers: dict[Node, list[Stream]] = {}
        self._image: dict[Node, Stream] = {}
        self._cycles: list[tuple[str, Callable[[], object]]] = []
        self._last: list[tuple[str, Callable[[], object]]] = []
        self._graphs: dict[Graph, Graph] = {}
        self._rewritten: Node | None = None
        """The node of the source whose form is built, or was built last."""

    def rewrite(self, source: Graph) -> None:
        """Add the new form of every node of `source`, and close its cycles."""
        outer, self._cycles = self._cycles, []
        for node in self.nodes_of(source):
            if node not in self._image:  # the fixpoint sets the images of streams that enter its scope
                inputs = [self._image[stream.node] for stream in self.inputs_of(node)]
                self._rewritten = node
                with self.target.at(node.source):
                    self._image[node] = self.form(self, node, inputs)
        for origin, close in self._cycles:
            with self.target.at(origin):
                close()
        self._cycles = outer

    def nodes_of(self, source: Graph) -> Iterable[Node]:
        """Return the nodes of `source` to rewrite, inputs first: all nodes."""
        return source.nodes

    def inputs_of(self, node: Node) -> Sequence[Stream]:
        """Return the streams whose images the form receives: the inputs of the node."""
        return node.inputs

    def finish(self, source: Graph) -> None:
        """Run the deferred actions, and copy the names of streams to their images."""
        for origin, action in self._last:
            with self.target.at(origin):
                action()
        self.target.carry_names(source, self._image)

    def at_cycles(self, close: Callable[[], object]) -> None:
        """Defer closing a cycle until every node of the current graph has its image."""
        self._cycles.append((self.target.current_source(), close))

    def finally_(self, action: Callable[[], object]) -> None:
        """Defer an action to the end of the rewriting, when all nodes exist."""
        self._last.append((self.target.current_source(), action))

    def image(self, stream: Stream) -> Stream:
        """Return the image of a stream of the source."""
        return self._image[stream.node]

    def place(self, node: Node, image: Stream) -> None:
        """Set the image of a node, instead of calling the form."""
        self._image[node] = image

    def map_graph(self, source: Graph, image: Graph) -> None:
        """Record the image of a scope of the source."""
        self._graphs[source] = image

    def graph_of(self, source: Graph) -> Graph:
        """Return the image of the scope `source`."""
        return self._graphs.get(source, self.target)

    def add(self, operator: Operator, *inputs: Stream, graph: Graph | None = None) -> Stream:
        """Add a node to the new graph, or return the equal node that exists already.

        It is added to the innermost scope of its inputs, or to `graph` if it has none.
        """
        place = (graph or self.target) if not inputs else inputs[0].node.graph
        if any(stream.node.graph is not place for stream in inputs):
            place = max((stream.graph for stream in inputs), key=lambda scope: scope.depth)
            inputs = tuple(place.enter(stream) for stream in inputs)
        nodes = tuple([stream.node for stream in inputs])
        key = (place, operator, nodes)
        known = self._known.get(key)
        if known is not None and operator.shareable:
            return known
        stream = place.add_inside(operator, inputs, self._checked(operator, inputs))
        self._known[key] = stream
        for node in nodes:
            self._readers.setdefault(node, []).append(stream)
        return stream

    def _checked(self, operator: Operator, inputs: Sequence[Stream]) -> Schema | None:
        """Return the schema of the output if the source has the operator over the same schemas.

        Most nodes keep their operator in most rewritings, and a check costs more than the node.
        """
        node = self._rewritten
        if node is None or operator is not node.operator or len(inputs) != len(node.inputs):
            return None
        for new, old in zip(inputs, node.inputs, strict=True):
            if new.node.schema is not old.node.schema:
                return None
        return node.schema if inputs else None

    def add_strict(self, operator: Operator, stream: Stream) -> Stream:
        """Add a node that reads `stream` one step late, or return the equal node."""
        key = (stream.graph, operator, (stream.node,))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = stream.graph.add_source(operator)
            stream.graph.connect(known, stream)
        return known

    def find(self, kind: type[Operator], stream: Stream) -> Stream | None:
        """Return the first node with an operator of this class over this stream only, or None."""
        for reader in self._readers.get(stream.node, ()):
            if isinstance(reader.node.operator, kind) and len(reader.node.inputs) == 1:
                return reader
        return None


def rewrite(source: Graph, form: Form) -> Graph:
    """Return the rewriting of `source` by `form`, validated. O(nodes)."""
    target = Graph(source.name)
    rewriting = Rewriting(target, form)
    rewriting.rewrite(source)
    rewriting.finish(source)
    target.validate()
    return target
