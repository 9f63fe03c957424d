"""Numbers of nodes: one node of a circuit has one number, in nested scopes too.

The number of a node within a scope begins with that of the scope: node 3 inside of node 12 is 12.3.
"""

from __future__ import annotations

from dbsp.circuit.graph import Node


def node_number(node: Node) -> str:
    """Return the number of a node in the whole circuit. O(nodes) for a node in a scope."""
    parent = node.graph.parent
    if parent is None:
        return str(node.id)
    scope = next(outer for outer in parent.nodes if node.graph in outer.operator.children())
    return f"{node_number(scope)}.{node.id}"


def numbered(node: Node) -> str:
    """Return the operator, the source line that built it, and the number: this names one node."""
    return f"{node.describe()}, node {node_number(node)}"
