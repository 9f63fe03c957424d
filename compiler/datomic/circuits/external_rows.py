"""A check of a query's circuit: it stores nothing that it derives from the facts alone.

The circuit starts without the past of the facts, which are in the indices. That is right because
everything that it stores is empty as long as `query` is. A trace of rows that come from external
inputs alone would lack the past.
"""

from __future__ import annotations

from dbsp.circuit.graph import Graph, Node
from dbsp.errors import InvariantError
from dbsp.operators.traces.arrange import Arrange, is_external


def check_external_rows(graph: Graph) -> None:
    """Raise InvariantError if a node of the physical circuit stores external rows. O(nodes)."""
    _check(graph, set())


def _check(graph: Graph, tainted: set[Node]) -> None:
    for outer, inside in graph.entered.items():
        if outer in tainted:
            tainted.add(inside.node)
    for node in graph.nodes:
        operator = node.operator
        inputs = [stream.node for stream in node.inputs]
        if operator.stored_outside or (inputs and all(source in tainted for source in inputs)):
            tainted.add(node)
            if operator.keeps_integral and not _reads_the_index(node):
                raise InvariantError(
                    "the circuit would store rows that come from the facts alone; this is a defect of dbsp",
                    where=node.describe(),
                )
        for child in operator.children():
            _check(child, tainted)


def _reads_the_index(node: Node) -> bool:
    return isinstance(node.operator, Arrange) and all(map(is_external, node.inputs))
