"""The readers of nodes."""

from __future__ import annotations

from collections import Counter

from dbsp.circuit.graph import Graph, Node
from dbsp.operators.recursion.fixpoint import Fixpoint


def count_readers(query: Graph) -> Counter[Node]:
    """Count, for each node, the inputs, strict inputs and scope results that refer to it."""
    readers: Counter[Node] = Counter()
    for node in query.walk():
        readers.update(stream.node for stream in (*node.inputs, *node.strict))
        if isinstance(node.operator, Fixpoint):
            readers.update(stream.node for stream in node.operator.body.exports)
    return readers
