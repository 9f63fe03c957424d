"""From a circuit of relational operators to the graph that maintains it incrementally.

    Q^D = D . Q . I        (DBSP paper, arXiv 2203.16684, definition 3.1)

Every operator knows its own incremental form; this module walks the circuit and lets each say it.
By the chain rule (proposition 3.2) the incremental form of a circuit is the circuit of the
incremental forms. Equal nodes over equal inputs are made one on the way, so a trace is shared by
all its readers.
"""

from __future__ import annotations

from collections.abc import Callable

from dbsp.graph import Graph, Node, Stream
from dbsp.operator import Operator
from dbsp.prune import prune


class Lowering:
    """The state of one rewriting: where each stream of the source went, and what exists already."""

    def __init__(self, target: Graph) -> None:
        self.target = target
        self._known: dict[tuple[Graph, Operator, tuple[Node, ...]], Stream] = {}
        self._image: dict[Node, Stream] = {}
        self._last: list[tuple[str, Callable[[], object]]] = []
        self._graphs: dict[Graph, Graph] = {}
        self._source = ""

    def lower(self, source: Graph) -> None:
        """Add the incremental form of every node of `source`, strict cycles included."""
        closing: list[Node] = []
        for node in source.nodes:
            self._source = node.source
            if node not in self._image:  # streams that enter a scope are placed by the fixpoint
                inputs = [self._image[stream.node] for stream in node.inputs]
                self._image[node] = node.operator.incremental(self, node, inputs)
            if node.strict:
                closing.append(node)
        for node in closing:
            image = self._image[node]
            image.graph.connect(image, *(self._image[stream.node] for stream in node.strict))

    def finish(self) -> None:
        """Do what was put off until everything else is known."""
        for source, action in self._last:
            self._source = source
            action()

    def finally_(self, action: Callable[[], object]) -> None:
        """Put an action off to the end, when all arrangements that others need exist."""
        self._last.append((self._source, action))

    def image(self, stream: Stream) -> Stream:
        """The lowered form of a stream of the source."""
        return self._image[stream.node]

    def place(self, node: Node, image: Stream) -> None:
        """Say where a node's stream went without lowering the node."""
        self._image[node] = image

    def map_graph(self, source: Graph, image: Graph) -> None:
        """Say which lowered scope stands for a scope of the source."""
        self._graphs[source] = image

    def graph_of(self, source: Graph) -> Graph:
        """The lowered scope that stands for `source`."""
        return self._graphs.get(source, self.target)

    def add(self, operator: Operator, *inputs: Stream, graph: Graph | None = None) -> Stream:
        """A node of the lowered graph, or the equal one that is there already.

        It is placed in the innermost scope of its inputs, or in `graph` when it has none: work
        inside a scope that depends on nothing of the scope is hoisted out of it.
        """
        place = max((s.graph for s in inputs), key=lambda g: g.depth, default=graph or self.target)
        inputs = tuple(place.enter(stream) for stream in inputs)
        key = (place, operator, tuple(stream.node for stream in inputs))
        if operator.shareable and key in self._known:
            return self._known[key]
        with place.at(self._source):
            stream = place.add(operator, *inputs) if inputs else place.add_source(operator)
        self._known[key] = stream
        return stream

    def find(self, kind: type[Operator], stream: Stream) -> Stream | None:
        """The first node whose operator is of that kind and reads just this stream, if any."""
        for node in stream.graph.nodes:
            if isinstance(node.operator, kind) and [s.node for s in node.inputs] == [stream.node]:
                return type(stream)(node)
        return None


def incrementalize(circuit: Graph, target: Graph) -> Graph:
    """Lower `circuit` into `target` and check the result; returns `target`.

    Feeding the result deltas yields the deltas of what `circuit` would yield on the integrated
    inputs. Cost: O(nodes).
    """
    lowering = Lowering(target)
    lowering.lower(circuit)
    lowering.finish()
    prune(target, [node for node in target.nodes if node.operator.is_port])
    target.validate()
    return target
