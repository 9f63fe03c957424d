"""Removing nodes that no result depends on."""

from __future__ import annotations

from collections.abc import Iterable

from dbsp.graph import Graph, Node


def prune(graph: Graph, roots: Iterable[Node]) -> None:
    """Keep only the nodes that `roots` depend on, through strict inputs too; renumber them.

    Nodes of nested scopes that nothing outside asks for go as well. O(nodes + edges).
    """
    alive: set[Node] = set()
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if node in alive:
            continue
        alive.add(node)
        node.operator.prune(node)
        waiting += (stream.node for stream in (*node.inputs, *node.strict))
    graph.keep(alive)
