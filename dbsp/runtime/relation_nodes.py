"""The nodes of the relations of a circuit."""

from __future__ import annotations

from dbsp.circuit.graph import Graph, Node
from dbsp.runtime.recorded_tick import leaving


def relation_nodes(graph: Graph) -> dict[str, Node]:
    """Return the top-level node that emits each relation: of a recursive one, the result of its
    scope. Relations that do not leave their scope are left out. O(nodes)."""
    found: dict[str, Node] = {}
    for name, stream in graph.named.items():
        node: Node | None = stream.node
        while node is not None and node.graph is not graph:
            node = leaving(node)
        if node is not None:
            found[name] = node
    return found
