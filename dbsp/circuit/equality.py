"""Which nodes of two circuits compute the same, by comparing operators and inputs.

Two nodes are equal when their operators are and their inputs are, all the way up. Around a cycle
that is no definition yet: there it is the coarsest partition that is so (bisimulation), which is
right because a cycle passes through a delay, and equations guarded by delays have one solution
(DBSP paper, arXiv 2203.16684, section 2.3). It is found by refinement, as states of automata are
(Moore 1956).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.operator_roles import fingerprint


def shape(graph: Graph) -> Hashable:
    """What a nested scope is, node by node; equal shapes have equal nodes in the same order.

    Not part of it are its exports, which are only a choice of its streams. O(nodes + edges).
    """
    nodes = tuple((fingerprint(node), _numbers(node.inputs), _numbers(node.strict)) for node in graph.nodes)
    entered = _numbers(graph.entered.values())
    return graph.name, tuple(sorted(graph.settings().items())), nodes, entered


def equal_nodes(graphs: Sequence[Graph]) -> dict[Node, int]:
    """A number for every top-level node of the graphs; equal numbers are equal streams.

    What an input says depends on its operator alone, so the arrangement in which it looks up its
    past does not count. O((nodes + edges) * delays in a row on a cycle).
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
    return node.operator.law != "source"


def _numbers(streams: Iterable[Stream]) -> tuple[int, ...]:
    return tuple(stream.node.id for stream in streams)
