"""distribute: the physical circuit in a form that several shards can run.

Every input says by which columns its rows are dealt to the shards, and exchanges bring rows to the
shard where their reader needs them (see `dbsp.operators.stages.placing.placing_rules`). On one
shard the result runs like the physical circuit.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias

from dbsp.circuit.graph import Graph
from dbsp.errors import choice
from dbsp.operators.stages.placing.placed_graph import PlacedGraph
from dbsp.operators.stages.placing.placed_scopes import pivots_of
from dbsp.operators.stages.placing.placing_rules import place_node
from dbsp.operators.stages.placing.wanted_columns import wanted_columns


class ScopePolicy(StrEnum):
    """Where a recursive scope without a pivot runs."""

    GATHER = "gather"
    EXCHANGE = "exchange"


ScopePolicyName: TypeAlias = Literal["gather", "exchange"]
"""The name of a policy."""


def distribute(
    physical: Graph,
    changes: list[str] | None = None,
    *,
    scopes: str = "gather",
    inner_exchanges: bool = True,
    whole_outputs: bool = False,
    checked: bool = False,
) -> Graph:
    """Return the distributed circuit of a physical circuit. O(nodes), without the search of pivots.

    `changes` receives one line per exchange with its reason, and one per join, aggregate or
    distinct that needs none. Recursive scopes without a pivot run on the first shard, or with
    `scopes="exchange"` in supersteps on all shards. Without `inner_exchanges`, no multi-way join
    exchanges prefixes; it is divided by one variable, with the other relations on every shard. A
    circuit without exchanges inside of nodes can be cut into segments. With `whole_outputs` equal
    rows of an output are on one shard, so that no shard retracts what another one inserts. A
    `checked` circuit asserts at run time that every row that an operator reads by a key is on its
    shard.
    """
    target = Graph(physical.name)
    reasons = [] if changes is None else changes
    pivots = pivots_of(physical)
    supersteps = choice("scopes", ScopePolicy, scopes) is ScopePolicy.EXCHANGE
    placed = PlacedGraph(
        physical,
        target,
        wanted_columns(physical, pivots),
        pivots,
        reasons,
        supersteps=supersteps,
        inner_exchanges=inner_exchanges,
        checked=checked,
        whole_outputs=whole_outputs,
    )
    for node in physical.nodes:
        place_node(placed, node)
    placed.finish()
    return target
