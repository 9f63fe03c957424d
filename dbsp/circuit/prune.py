"""Removal of the nodes on which no result depends."""

from __future__ import annotations

from collections.abc import Iterable

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.graph_copy import GraphCopy
from dbsp.circuit.operator_roles import ScopeBoundary


def prune(graph: Graph, roots: Iterable[Node]) -> Graph:
    """Return the circuit with only the nodes on which `roots` depend, through strict inputs too.

    This removes nodes of nested scopes as well. A graph without other nodes is returned as it is.
    O(nodes + edges).
    """
    needed = _needed(roots)
    if type(graph) is Graph and all(node in needed for node in graph.walk()):
        return graph
    pruned = Graph(graph.name)
    GraphCopy(lambda node: node in needed).fill(graph, pruned)
    return pruned


def _needed(roots: Iterable[Node]) -> set[Node]:
    """Return the roots and all nodes on which they depend, in nested scopes too."""
    needed = set(roots)
    waiting = list(needed)
    while waiting:
        node = waiting.pop()
        operator = node.operator
        if isinstance(operator, ScopeBoundary):
            sources = set(operator.needs(node))
        else:
            sources = {stream.node for stream in (*node.inputs, *node.strict)}
        sources -= needed
        needed |= sources
        waiting += sources
    return needed
