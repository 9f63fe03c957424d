"""Scopes with exchanges inside: all shards step them through the same iterations.

The nodes inside are placed by the same rules as those of the top level, so each operator with a key
has an exchange before its arrangement unless its rows are in place (see
`dbsp.operators.recursion.shared_decisions`). Streams enter as their readers want them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dbsp.circuit.graph import Node, Stream
from dbsp.errors import expect_type
from dbsp.operators.recursion.body import Body
from dbsp.operators.recursion.delta0 import Delta0
from dbsp.operators.recursion.fixpoint import Fixpoint, Leave
from dbsp.operators.shards.placements import EVERYWHERE, FIRST_SHARD, UNKNOWN, Placement, by
from dbsp.operators.stages.placing.pivoted_scopes import results_of
from dbsp.operators.stages.placing.pivots import PivotedScope, outer_node
from dbsp.operators.stages.placing.placed_graph import PlacedGraph, arranged_node
from dbsp.operators.stages.placing.wanted_columns import Wish, preferred_columns
from dbsp.operators.traces.arrange import is_external


class SuperstepScope(PlacedGraph):
    """The images of the nodes of the body of a fixpoint, which is `node` of the graph `outer`."""

    def __init__(
        self,
        outer: PlacedGraph,
        node: Node,
        wanted: Mapping[Node, Sequence[Wish]],
        pivots: Mapping[Node, PivotedScope],
    ) -> None:
        self._outer = outer
        self._fixpoint = node
        source = expect_type(node.operator, Fixpoint, "a fixpoint").body
        body = Body(source.name, outer.target, source.max_iterations, source.recursion)
        super().__init__(
            source,
            body,
            wanted,
            pivots,
            outer.changes,
            supersteps=True,
            inner_exchanges=outer.inner_exchanges,
            checked=outer.checked,
        )
        for inside in source.nodes:
            if isinstance(inside.operator, Delta0):
                columns = preferred_columns(self.wanted_of(inside), range(inside.schema.arity))
                self._enter(inside, FIRST_SHARD if is_external(Stream(inside)) else by(columns), inside)

    def leave(self) -> None:
        """Complete the scope, and place the nodes that emit its results."""
        self.finish()
        source, body = expect_type(self.source, Body, "a body"), expect_type(self.target, Body, "a body")
        placements = []
        for stream in source.exports:
            image = self.kept_image(arranged_node(stream.node))
            if image.placement == EVERYWHERE:
                why = "the shards' parts of a result add up"
                body.exports.append(self.image(stream.node, UNKNOWN, self._fixpoint, why))
                placements.append(UNKNOWN)
            else:
                body.exports.append(image.stream)
                placements.append(image.placement)
        body.closed = source.closed
        outer, node = self._outer, self._fixpoint
        outside = tuple(outer.target.stream_class(entering) for entering in body.entered)
        fixpoint = outer.target.append(Fixpoint(body), outside, node.schema, node.source)
        outer.place(node, fixpoint, FIRST_SHARD)
        for reader in results_of(node):
            operator = expect_type(reader.operator, Leave, "a result of a scope")
            kept = body.exports[operator.index].node.operator.keeps_integral
            leave = outer.add(reader, replace(operator, kept=kept), fixpoint)
            outer.place(reader, leave, placements[operator.index])
        for name, inside in outer.names_in(source):
            if inside in self._images:
                outer.target.named[name] = self.kept_image(inside).stream

    def _moved(self, node: Node, placement: Placement, reader: Node, why: str) -> Stream:
        """A stream that enters is moved outside of the scope, once per tick."""
        if not isinstance(node.operator, Delta0):
            return super()._moved(node, placement, reader, why)
        for image in self._images[node]:
            if image.placement == placement or (placement == UNKNOWN and image.placement != EVERYWHERE):
                return image.stream
        return self._enter(node, placement, reader, why)

    def _enter(self, node: Node, placement: Placement, reader: Node, why: str = "") -> Stream:
        outer = self._outer.image(outer_node(node), placement, reader, why or "the scope reads it there")
        with self.target.at(node.source):
            image = self.target.enter(outer)
        self.place(node, image, placement)
        return image
