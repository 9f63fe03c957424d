"""The placing of recursive scopes.

A scope with pivots is divided by them. Of the others, all rows are on the first shard, or the scope
has exchanges inside and runs in supersteps.
"""

from __future__ import annotations

from collections.abc import Callable

from dbsp.circuit.graph import Graph, Node
from dbsp.operators.recursion.fixpoint import Fixpoint
from dbsp.operators.stages.placing.gathered_scopes import gather_scope
from dbsp.operators.stages.placing.pivoted_scopes import place_pivoted
from dbsp.operators.stages.placing.pivots import PivotedScope, pivoted_scope, without_pivot
from dbsp.operators.stages.placing.placed_graph import PlacedGraph
from dbsp.operators.stages.placing.superstep_scopes import SuperstepScope
from dbsp.operators.stages.placing.wanted_columns import wanted_columns

PlaceNode = Callable[[PlacedGraph, Node], None]


def place_scope(placed: PlacedGraph, node: Node, place_node: PlaceNode) -> None:
    """Place a fixpoint and the nodes that emit its results; `place_node` places a node inside."""
    scope = placed.pivots.get(node)
    if scope is not None:
        return place_pivoted(placed, node, scope)
    (body,) = node.operator.children()
    if not placed.supersteps:
        placed.changes.append(f"{without_pivot(body)}; it runs on the first shard")
        return gather_scope(placed, node)
    placed.changes.append(f"{without_pivot(body)}; it runs in supersteps, with exchanges inside")
    pivots = pivots_of(body)
    inner = SuperstepScope(placed, node, wanted_columns(body, pivots), pivots)
    for inside in body.nodes:
        place_node(inner, inside)
    inner.leave()


def pivots_of(graph: Graph) -> dict[Node, PivotedScope]:
    """Return the scopes of a graph that have pivots."""
    scopes = {
        node: pivoted_scope(node.operator.body) for node in graph.nodes if isinstance(node.operator, Fixpoint)
    }
    return {node: scope for node, scope in scopes.items() if scope is not None}
