"""The distributed circuit under construction: the images of each physical stream, by placement.

A stream may be read in several placements, and then has several images; each but the first follows
an exchange of the first. Images, and arrangements of them, are built when a reader wants them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.shards.exchange import Broadcast, Exchange, Gather, Owned, Placing
from dbsp.operators.shards.placed_rows import PlacedRows
from dbsp.operators.shards.placements import EVERYWHERE, FIRST_SHARD, UNKNOWN, Placement
from dbsp.operators.stages.placing.pivots import PivotedScope, named
from dbsp.operators.stages.placing.wanted_columns import Wish
from dbsp.operators.time.forgetting import ForgettingArrange
from dbsp.operators.traces.arrange import Arrange


@dataclass(frozen=True)
class Image:
    """A stream of the distributed circuit, and the placement of its rows."""

    stream: Stream
    placement: Placement


class PlacedGraph:
    """The images of the nodes of `source` in `target`.

    `wanted` has the keys of the readers, `pivots` the scopes that are divided by pivots. Other
    scopes have exchanges inside if `supersteps`, else they are gathered. `changes` receives a line
    for each exchange and each choice. A `checked` circuit asserts at run time that rows are where
    their readers expect them. With `whole_outputs` each row of an output is on one shard.
    """

    def __init__(
        self,
        source: Graph,
        target: Graph,
        wanted: Mapping[Node, Sequence[Wish]],
        pivots: Mapping[Node, PivotedScope],
        changes: list[str],
        *,
        supersteps: bool = False,
        inner_exchanges: bool = True,
        checked: bool = False,
        whole_outputs: bool = False,
    ) -> None:
        self.source = source
        self.target = target
        self.wanted = wanted
        self.pivots = pivots
        self.changes = changes
        self.supersteps = supersteps
        self.inner_exchanges = inner_exchanges
        self.checked = checked
        self.whole_outputs = whole_outputs
        self._images: dict[Node, list[Image]] = {}
        self._arranged: dict[tuple[Node, Node], Stream] = {}
        self._checks: set[tuple[Node, tuple[int, ...]]] = set()
        self._last: list[Callable[[], object]] = []

    # --- building ---------------------------------------------------------------------------------

    def add(self, node: Node, operator: Operator, *inputs: Stream) -> Stream:
        """Append a node of the columns and the source line of a physical node."""
        return self.target.append(operator, inputs, node.schema, node.source)

    def place(self, node: Node, stream: Stream, placement: Placement) -> None:
        """Add an image of a node."""
        self._images.setdefault(node, []).append(Image(stream, placement))

    def at_end(self, action: Callable[[], object]) -> None:
        """Defer an action until all nodes have their images, such as closing a cycle."""
        self._last.append(action)

    def finish(self) -> None:
        """Run the deferred actions, and copy the names of streams."""
        while self._last:
            self._last.pop(0)()
        for name, stream in self.source.named.items():
            if stream.node in self._images:
                self.target.named[name] = self.kept_image(stream.node).stream

    def names_in(self, body: Graph) -> list[tuple[str, Node]]:
        """Return the names of nodes of a scope within this graph, which has them."""
        return [
            (name, stream.node) for name, stream in self.source.named.items() if stream.node.graph is body
        ]

    # --- images -----------------------------------------------------------------------------------

    def images(self, node: Node) -> Sequence[Image]:
        """Return the images of the stream that a node emits or arranges; the first is its own."""
        return self._images[arranged_node(node)]

    def placement(self, node: Node) -> Placement:
        """Return the placement of the first image of a node, by the node's own columns."""
        (first, *_) = self.images(node)
        return _in_order(first.placement, node)

    def columns_of(self, node: Node) -> list[tuple[int, ...]]:
        """Return the columns by which images of a node are placed."""
        placements = (_in_order(image.placement, node) for image in self.images(node))
        return [placement.columns for placement in placements if placement.columns is not None]

    def wanted_of(self, node: Node) -> list[Wish]:
        """Return the wishes of all readers of the rows of a node, by the node's own columns."""
        wishes = self.wanted.get(arranged_node(node), ())
        if not isinstance(node.operator, Arrange):
            return list(wishes)
        order = node.operator.order
        return [replace(wish, key=frozenset(map(order.index, wish.key))) for wish in wishes]

    def has(self, node: Node, placement: Placement) -> bool:
        """Return whether an image of the node has this placement."""
        return any(_in_order(image.placement, node) == placement for image in self.images(node))

    def image(self, node: Node, placement: Placement, reader: Node, why: str) -> Stream:
        """Return the image of a node in a placement; `why` says why `reader` needs it.

        UNKNOWN stands for any placement in which each row is on one shard only.
        """
        base = arranged_node(node)
        stream = self._moved(base, _of_base(placement, node), reader, why)
        if placement.keyed:
            self.check(reader, stream, _of_base(placement, node))
        return stream if base is node else self.arrangement(node, stream)

    def own_image(self, node: Node) -> Stream:
        """Return the first image of a node, wherever its rows are."""
        first = self.images(node)[0].stream
        return first if arranged_node(node) is node else self.arrangement(node, first)

    def arrangement(self, node: Node, stream: Stream) -> Stream:
        """Return the arrangement `node` over an image of the stream that it arranges."""
        key = (node, stream.node)
        if key not in self._arranged:
            image = self._arranged[key] = self.add(node, node.operator, stream)
            if isinstance(node.operator, ForgettingArrange):
                self.follow_marks(node, image)
        return self._arranged[key]

    def kept_image(self, node: Node) -> Image:
        """Return an image of which some node keeps the integral, if there is one.

        An image that every shard has is the last choice.
        """
        kept = {inputs[1] for inputs, stream in self._arranged.items() if _keeps_all(stream)}
        return min(
            self._images[node],
            key=lambda image: (
                image.placement == EVERYWHERE,
                self.whole_outputs and image.placement == UNKNOWN,
                image.stream.node not in kept and not image.stream.node.operator.keeps_integral,
            ),
        )

    def arrangement_of(self, stream: Stream) -> Stream | None:
        """Return an arrangement of an image that keeps all rows, if a reader wanted one."""
        for (_, over), kept in self._arranged.items():
            if over is stream.node and _keeps_all(kept):
                return kept
        return None

    def arrange(self, node: Node, stream: Stream) -> Stream:
        """Add an arrangement in the order of the columns for a port, which is `node`."""
        order = tuple(range(stream.schema.arity))
        kept = self.target.append(Arrange(order), (stream,), stream.schema.select(order), node.source)
        self._arranged[node, stream.node] = kept
        return kept

    def follow_marks(self, node: Node, image: Stream) -> None:
        """Connect an operator that forgets rows with its watermarks, which every shard has."""
        why = "every shard forgets the rows that the watermark has passed"

        def connect() -> None:
            marks = [self.image(stream.node, EVERYWHERE, node, why) for stream in node.strict]
            self.target.connect(image, *marks)

        self.at_end(connect)

    # --- exchanges --------------------------------------------------------------------------------

    def _moved(self, node: Node, placement: Placement, reader: Node, why: str) -> Stream:
        images = self._images[node]
        own = images[0].placement
        for image in images:
            if image.placement == placement or (placement == UNKNOWN and image.placement != EVERYWHERE):
                return image.stream
        operator = _mover(own, placement)
        stream = self.add(node, operator, images[0].stream)
        self.place(node, stream, placement if placement != UNKNOWN else FIRST_SHARD)
        where = f"the rows are {own.text(node.schema)} and must be {placement.text(node.schema)}"
        self.changed(operator, node, reader, f"{why}; {where}")
        return stream

    def changed(self, operator: Placing, node: Node, reader: Node, why: str) -> None:
        """Add the reason of an exchange of the rows of a node."""
        moved = f"of {named(node)}: for {named(reader)}," if node is not reader else f"in {named(node)}:"
        self.changes.append(f"{operator.name} {moved} {why}")

    def stays(self, node: Node, why: str) -> None:
        """Add the reason why a node needs no exchange."""
        self.changes.append(f"No exchange for {named(node)}: {why}")

    def check(self, reader: Node, stream: Stream, placement: Placement) -> None:
        """In a checked circuit, assert that the rows that a reader reads are on their shards."""
        columns = placement.columns
        if self.checked and columns is not None and (stream.node, columns) not in self._checks:
            self._checks.add((stream.node, columns))
            self.target.append(PlacedRows(columns), (stream,), stream.schema, reader.source)


def arranged_node(node: Node) -> Node:
    """Return the node whose rows a node has: for an arrangement, the node of its input."""
    return node.inputs[0].node if isinstance(node.operator, Arrange) else node


def _mover(own: Placement, placement: Placement) -> Placing:
    """Return the operator that brings rows from one placement to another."""
    if own == EVERYWHERE:
        return Owned(placement.columns or ())
    if placement == EVERYWHERE:
        return Broadcast()
    return Exchange(placement.columns) if placement.columns else Gather()


def _of_base(placement: Placement, node: Node) -> Placement:
    """Return a placement by the columns of a node as one by the columns of `arranged_node`."""
    return placement.moved(node.operator.order) if isinstance(node.operator, Arrange) else placement


def _in_order(placement: Placement, node: Node) -> Placement:
    """Return a placement by the columns of `arranged_node` as one by the columns of the node."""
    if not isinstance(node.operator, Arrange):
        return placement
    order = node.operator.order
    return placement.moved([order.index(column) for column in range(len(order))])


def _keeps_all(stream: Stream) -> bool:
    return not isinstance(stream.node.operator, ForgettingArrange)
