"""Removing nodes that no result depends on."""

from __future__ import annotations

from collections.abc import Iterable

from dbsp.circuit.graph import Graph, Node


def prune(graph: Graph, roots: Iterable[Node]) -> None:
    """Keep only the nodes that `roots` depend on, through strict inputs too; renumber them.

    Nodes of nested scopes that nothing outside asks for go as well, and then what only those read.
    O(nodes + edges) for every time that a scope turns out to read less.
    """
    roots = list(roots)
    narrowed = True
    while narrowed:
        readers = _readers(roots)
        graph.keep(readers.keys())
        narrowed = False
        for node in graph.nodes:
            narrowed |= node.operator.prune(node, readers[node])


def _readers(roots: Iterable[Node]) -> dict[Node, list[Node]]:
    """Every node that the roots depend on, with those of them that read it."""
    readers: dict[Node, list[Node]] = {root: [] for root in roots}
    waiting = list(readers)
    while waiting:
        node = waiting.pop()
        for stream in (*node.inputs, *node.strict):
            if stream.node not in readers:
                readers[stream.node] = []
                waiting.append(stream.node)
            readers[stream.node].append(node)
    return readers
