"""Equality of nodes of circuits, by operators and inputs.

Two nodes are equal if their operators are equal and their inputs are equal. On cycles, equality is
the coarsest partition with this property (bisimulation). It is correct because a cycle passes
through a delay, and equations guarded by delays have one solution (DBSP paper, arXiv 2203.16684,
section 2.3). Partition refinement finds it, as for the states of automata (Moore 1956).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.operator_roles import Forgetful, fingerprint


def shape(graph: Graph) -> Hashable:
    """Return the shape of a nested scope: equal shapes have equal nodes in the same order.

    The exports are not part of it, since they only select streams. O(nodes + edges).
    """
    nodes = tuple((fingerprint(node), _numbers(node.inputs), _numbers(node.strict)) for node in graph.nodes)
    entered = _numbers(graph.entered.values())
    return graph.name, tuple(sorted(graph.settings().items())), nodes, entered


def equal_nodes(graphs: Sequence[Graph]) -> dict[Node, int]:
    """Return a number for every top-level node of the graphs; equal numbers mean equal streams.

    The output of an input node depends on its operator only, so the arrangement with its past rows
    does not count; nor do the watermarks by which a state forgets rows. O((nodes + edges) *
    consecutive delays on a cycle).
    """
    operators = {node: fingerprint(node) for graph in graphs for node in graph.nodes}
    numbers: dict[Node, int] = {}
    classes = 0
    while True:
        known: dict[Hashable, int] = {}
        refined: dict[Node, int] = {}
        for graph in graphs:
            for node in graph.nodes:
                read = tuple(refined[stream.node] for stream in node.inputs)
                late = tuple(numbers.get(s.node, 0) for s in node.strict) if _delays(node) else ()
                refined[node] = known.setdefault((operators[node], read, late), len(known))
        numbers = refined
        if len(known) == classes:
            return numbers
        classes = len(known)


def _delays(node: Node) -> bool:
    return node.operator.law != "source" and not isinstance(node.operator, Forgetful)


def _numbers(streams: Iterable[Stream]) -> tuple[int, ...]:
    return tuple(stream.node.id for stream in streams)
