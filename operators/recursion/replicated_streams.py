"""Find the streams of a distributed circuit of which every shard has all rows."""

from __future__ import annotations

from dbsp.circuit.graph import Node, Stream
from dbsp.operators.recursion.delta0 import Delta0
from dbsp.operators.shards.exchange import Broadcast, Placing


def is_replicated(node: Node) -> bool:
    """Whether every shard has all rows of a node: it follows from a broadcast on all paths.

    A node without inputs, such as a constant, emits its rows on every shard; an input does not.
    O(nodes).
    """
    return _is_replicated(node, set())


def _is_replicated(node: Node, assumed: set[Node]) -> bool:
    # A variable is replicated if its definition is, under the assumption that the variable is.
    if node in assumed:
        return True
    assumed.add(node)
    operator = node.operator
    if isinstance(operator, Broadcast):
        return True
    if isinstance(operator, Placing):
        return False
    if isinstance(operator, Delta0):
        return _is_replicated(node.graph.outer_of(Stream(node)).node, assumed)
    if operator.is_port and not node.inputs:
        return False
    results = [stream for body in operator.children() for stream in body.exports]
    return all(_is_replicated(stream.node, assumed) for stream in results or (*node.inputs, *node.strict))
