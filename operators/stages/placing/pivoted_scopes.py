"""Scopes with pivots: each shard evaluates the scope over its own rows, with no exchange inside.

A stream that the rules read by a pivot and also on every shard enters the scope twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.errors import expect_type
from dbsp.operators.recursion.body import Body
from dbsp.operators.recursion.delta0 import Delta0
from dbsp.operators.recursion.fixpoint import Fixpoint, Leave, fixpoint_of
from dbsp.operators.shards.exchange import Owned
from dbsp.operators.shards.placed_rows import PlacedRows
from dbsp.operators.shards.placements import EVERYWHERE, FIRST_SHARD, Placement
from dbsp.operators.stages.placing.pivots import PivotedScope, outer_node
from dbsp.operators.stages.placing.placed_graph import PlacedGraph
from dbsp.operators.stages.placing.scope_placing import Demand
from dbsp.operators.time.delay import Delay

Entering = Callable[[Node, Placement], Stream]
"""Returns the image of an outer stream in a placement."""


def place_pivoted(placed: PlacedGraph, node: Node, scope: PivotedScope) -> None:
    """Place a fixpoint and the nodes that emit its results."""
    fixpoint = expect_type(node.operator, Fixpoint, "a fixpoint")
    copy = PivotedCopy(scope, placed.checked)
    why = "the rules of the scope read it there"

    def entering(outer: Node, wanted: Placement) -> Stream:
        return placed.image(outer, wanted, node, why)

    image = copy.fixpoint(node, placed.target, list(dict.fromkeys(scope.exports)), entering)
    placed.place(node, image, FIRST_SHARD)
    for reader in results_of(node):
        demand = scope.exports[expect_type(reader.operator, Leave, "a result of a scope").index]
        leave = copy.leave(reader, image, demand, placed.target)
        placed.place(reader, leave, scope.nodes[demand].placement)
    for name, inside in placed.names_in(fixpoint.body):
        for (copied, wanted), found in copy.images.items():
            if copied is inside and wanted != EVERYWHERE:
                placed.target.named.setdefault(name, found)
    placed.changes.append(scope.describe())


def results_of(node: Node) -> list[Node]:
    """Return the nodes that emit the results of a scope."""
    return [
        reader
        for reader in node.graph.nodes
        if isinstance(reader.operator, Leave) and reader.inputs[0].node is node
    ]


class PivotedCopy:
    """The images of the nodes of a scope and the scopes within it, by placement.

    A `checked` copy asserts at run time that rows are where the pivots place them.
    """

    def __init__(self, scope: PivotedScope, checked: bool) -> None:
        self._scope = scope
        self._checked = checked
        self.images: dict[Demand, Stream] = {}

    def fixpoint(self, node: Node, parent: Graph, results: list[Demand], entering: Entering) -> Stream:
        """Add the image of a fixpoint that emits these results of its body."""
        source = expect_type(node.operator, Fixpoint, "a fixpoint").body
        body = Body(source.name, parent, source.max_iterations, source.recursion)
        demands: dict[Node, list[Demand]] = {}
        for demand in self._scope.nodes:
            demands.setdefault(demand[0], []).append(demand)
        for inside in source.nodes:
            if isinstance(inside.operator, Fixpoint):
                self._nested(inside, body, demands)
            elif not isinstance(inside.operator, Leave):
                # Images that stand for another one come last.
                for demand in sorted(demands.get(inside, ()), key=self._is_other):
                    image = self.images[demand] = self._image(demand, body, entering)
                    columns = demand[1].columns
                    if self._checked and columns is not None:
                        body.append(PlacedRows(columns), (image,), image.schema, inside.source)
        for variable, pivot in self._scope.pivots.items():
            if variable.graph is source:
                body.connect(self.images[variable, pivot], self.images[variable.strict[0].node, pivot])
        body.exports = [self.images[demand] for demand in results]
        body.closed = source.closed
        outside = tuple(parent.stream_class(outer) for outer in body.entered)
        return parent.append(Fixpoint(body), outside, node.schema, node.source)

    def _nested(self, node: Node, body: Graph, demands: Mapping[Node, Sequence[Demand]]) -> None:
        """Add the image of a scope within the body, and the images of its results."""
        leaving = [demand for reader in results_of(node) for demand in demands.get(reader, ())]
        others = [demand for demand in leaving if self._is_other(demand)]
        results = {demand: self._scope.nodes[demand].sources[0] for demand in leaving if demand not in others}
        inner = self.fixpoint(
            node,
            body,
            list(dict.fromkeys(results.values())),
            lambda outer, wanted: self.images[outer, wanted],
        )
        for demand, result in results.items():
            self.images[demand] = self.leave(demand[0], inner, result, body)
        for demand in others:
            self.images[demand] = self.images[self._scope.nodes[demand].sources[0]]

    def _is_other(self, demand: Demand) -> bool:
        """Whether the image of the node in another placement serves this demand."""
        return any(node is demand[0] for node, _ in self._scope.nodes[demand].sources)

    def _image(self, demand: Demand, body: Graph, entering: Entering) -> Stream:
        node, wanted = demand
        operator, sources = node.operator, self._scope.nodes[demand].sources
        if self._is_other(demand):
            return self.images[sources[0]]
        if isinstance(operator, Delta0):
            with body.at(node.source):
                return body.enter(entering(outer_node(node), wanted))
        image = body.append(operator, tuple(self.images[each] for each in sources), node.schema, node.source)
        if node.inputs or isinstance(operator, Delay) or wanted == EVERYWHERE:
            return image
        return body.append(Owned(wanted.columns or ()), (image,), node.schema, node.source)

    def leave(self, node: Node, image: Stream, result: Demand, target: Graph) -> Stream:
        """Add the node that emits a result of the image of a scope."""
        operator = expect_type(node.operator, Leave, "a result of a scope")
        exports = fixpoint_of(image).body.exports
        index = [stream.node for stream in exports].index(self.images[result].node)
        kept = exports[index].node.operator.keeps_integral
        return target.append(replace(operator, index=index, kept=kept), (image,), node.schema, node.source)
