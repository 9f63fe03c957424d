"""Circuits without the nodes that no result depends on."""

from __future__ import annotations

from collections.abc import Iterable

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.graph_copy import GraphCopy
from dbsp.circuit.operator_roles import ScopeBoundary


def prune(graph: Graph, roots: Iterable[Node]) -> Graph:
    """The circuit with the nodes that `roots` depend on, through strict inputs too.

    Nodes of nested scopes that no root depends on are dropped as well. O(nodes + edges).
    """
    needed = _needed(roots)
    pruned = Graph(graph.name)
    GraphCopy(lambda node: node in needed).fill(graph, pruned)
    return pruned


def _needed(roots: Iterable[Node]) -> set[Node]:
    """The roots and every node that they depend on, in nested scopes too."""
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
