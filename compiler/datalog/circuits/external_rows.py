"""External rows of a query's circuit: what it stores of them, and which traces of them it reads.

The circuit of a query starts without the past of the rows that an index outside of it keeps. That
is right if everything that it stores is empty as long as the relation of the query's arguments is.
A trace of rows that come from external inputs alone would lack the past.
"""

from __future__ import annotations

from dbsp.circuit.graph import Graph, Node
from dbsp.errors import InvariantError
from dbsp.operators.ports.input import Input
from dbsp.operators.traces.arrange import Arrange, is_external


def check_external_rows(graph: Graph) -> None:
    """Raise InvariantError if a node of the physical circuit stores external rows. O(nodes)."""
    node = stores_external_rows(graph)
    if node is not None:
        raise InvariantError(
            "the circuit would store rows that come from the facts alone; this is a defect of dbsp",
            where=node.describe(),
        )


def stores_external_rows(graph: Graph) -> Node | None:
    """Return a node of the physical circuit that stores external rows; None if no node does."""
    return _storing(graph, set())


def external_orders(graph: Graph) -> list[tuple[str, tuple[int, ...]]]:
    """Return the traces that a physical circuit reads: the external input and the column order."""
    found: dict[tuple[str, tuple[int, ...]], None] = {}
    for node in graph.walk():
        if isinstance(node.operator, Arrange) and is_external(node.inputs[0]):
            source = node.inputs[0]
            while not isinstance(source.node.operator, Input):
                source = source.node.inputs[0] if source.node.inputs else source.graph.outer_of(source)
            found[source.node.operator.relation, node.operator.order] = None
    return list(found)


def _storing(graph: Graph, tainted: set[Node]) -> Node | None:
    for outer, inside in graph.entered.items():
        if outer in tainted:
            tainted.add(inside.node)
    for node in graph.nodes:
        operator = node.operator
        inputs = [stream.node for stream in node.inputs]
        if operator.stored_outside or (inputs and all(source in tainted for source in inputs)):
            tainted.add(node)
            if operator.keeps_integral and not _reads_the_index(node):
                return node
        for child in operator.children():
            found = _storing(child, tainted)
            if found is not None:
                return found
    return None


def _reads_the_index(node: Node) -> bool:
    return isinstance(node.operator, Arrange) and all(map(is_external, node.inputs))
