"""distribute: the physical circuit in a form that several shards can run.

Every input says by which columns its rows are dealt to the shards, and exchanges bring rows to the
shard where their reader needs them (see `dbsp.operators.stages.placing.placing_rules`). On one
shard the result runs like the physical circuit.
"""

from __future__ import annotations

from dbsp.circuit.graph import Graph
from dbsp.operators.stages.placing.placed_graph import PlacedGraph
from dbsp.operators.stages.placing.placing_rules import place_node
from dbsp.operators.stages.placing.wanted_columns import wanted_columns


def distribute(physical: Graph, changes: list[str] | None = None, *, checked: bool = False) -> Graph:
    """Return the distributed circuit of a physical circuit. O(nodes).

    `changes` receives one line per exchange with its reason. A `checked` circuit asserts at run
    time that every row that an operator reads by a key is on its shard.
    """
    target = Graph(physical.name)
    reasons = [] if changes is None else changes
    placed = PlacedGraph(physical, target, wanted_columns(physical), reasons, checked)
    for node in physical.nodes:
        place_node(placed, node)
    placed.finish()
    return target
