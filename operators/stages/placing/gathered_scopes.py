"""Scopes that are gathered: all streams that enter are on the first shard, and so are the results.

The other shards have the same scope without rows. Every choice of the evaluation, such as a
restart, depends on the rows of the first shard only.
"""

from __future__ import annotations

from dataclasses import replace

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.graph_copy import GraphCopy
from dbsp.circuit.operator import Operator
from dbsp.errors import expect_type
from dbsp.operators.ports.constant import Constant
from dbsp.operators.recursion.fixpoint import Fixpoint, Leave, fixpoint_of
from dbsp.operators.shards.exchange import Owned
from dbsp.operators.shards.placements import FIRST_SHARD
from dbsp.operators.stages.placing.placed_graph import PlacedGraph


class ScopeCopy(GraphCopy):
    """A copy of a scope whose constants have their rows on the first shard only."""

    def __init__(self) -> None:
        super().__init__(lambda node: True)

    def appended(self, target: Graph, node: Node, operator: Operator, inputs: tuple[Stream, ...]) -> Stream:
        stream = super().appended(target, node, operator, inputs)
        if isinstance(operator, Constant):
            return target.append(Owned(()), (stream,), node.schema, node.source)
        return stream


def gather_scope(placed: PlacedGraph, node: Node) -> None:
    """Place a fixpoint and the nodes that emit its results."""
    fixpoint = expect_type(node.operator, Fixpoint, "a fixpoint")
    why = "a scope without a pivot runs on one shard"
    copy = ScopeCopy()
    copy.map_graph(node.graph, placed.target)
    for stream in node.inputs:
        copy.place(stream.node, placed.image(stream.node, FIRST_SHARD, node, why))
    image = fixpoint.copied(node, copy)
    placed.place(node, image, FIRST_SHARD)
    exports = [stream.node for stream in fixpoint_of(image).body.exports]
    for reader in placed.source.nodes:
        operator = reader.operator
        if isinstance(operator, Leave) and reader.inputs[0].node is node:
            export = copy.image(fixpoint.body.exports[operator.index].node).node
            leave = replace(operator, index=exports.index(export), kept=export.operator.keeps_integral)
            placed.place(reader, placed.add(reader, leave, image), FIRST_SHARD)
    for name, inside in placed.names_in(fixpoint.body):
        placed.target.named[name] = copy.image(inside)
