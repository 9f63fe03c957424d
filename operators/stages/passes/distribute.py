"""distribute: the physical circuit in a form that several shards can run.

Every input says by which columns its rows are dealt to the shards, and exchanges bring rows to the
shard where their reader needs them. On one shard the result runs like the physical circuit.
"""

from __future__ import annotations

from dataclasses import fields

from dbsp.circuit.graph import Graph, Node
from dbsp.circuit.graph_copy import GraphCopy
from dbsp.circuit.operator import Operator
from dbsp.operators.ports.input import DealtInput, Input


def distribute(physical: Graph) -> Graph:
    """Return the distributed circuit of a physical circuit. O(nodes)."""
    dealt: dict[Node, Operator] = {
        node: _dealt(node.operator, ()) for node in physical.nodes if isinstance(node.operator, Input)
    }
    target = Graph(physical.name)
    GraphCopy(lambda node: True, dealt).fill(physical, target)
    return target


def _dealt(operator: Input, columns: tuple[int, ...]) -> DealtInput:
    own = {one.name: getattr(operator, one.name) for one in fields(Input)}
    return DealtInput(**own, dealt=columns)
