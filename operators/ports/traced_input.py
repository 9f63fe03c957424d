"""A circuit that only keeps the rows of its input, sorted."""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.circuit.graph import Graph
from dbsp.data.schema import Schema
from dbsp.operators.ports.input import Input
from dbsp.operators.traces.arrange import Arrange


def traced_input(name: str, schema: Schema, order: Sequence[int]) -> Graph:
    """Return a circuit with one input, whose rows it keeps sorted by the columns `order`."""
    graph = Graph("trace")
    graph.add(Arrange(tuple(order)), graph.add_source(Input(name, schema)))
    return graph
