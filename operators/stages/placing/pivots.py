"""Pivots: columns by which a recursive scope is divided, with no exchange inside.

A column of a variable that passes unchanged through every recursive rule is a pivot: all rows that
are derived from a row have its value, so they are all on its shard.

    path(x, z) :- path(x, y), edge(y, z).      x is a pivot: path is placed by x, edge is everywhere

Generalised pivoting: every variable of the scope has a pivot, and each rule keeps all of them
(Seib and Lausen, PODS 1991; BigDatalog, SIGMOD 2016). Each shard then computes its own fixpoint
and decides alone about restarts. The search removes columns that a rule does not keep, until the
others are consistent, and tries some of their combinations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.recursion.delta0 import Delta0
from dbsp.operators.shards.placements import EVERYWHERE, UNKNOWN, Placement, by
from dbsp.operators.stages.placing.scope_placing import Demand, PlacedNode, ScopePlacing
from dbsp.operators.time.delay import Delay
from dbsp.operators.traces.arrange import Arrange

TRIED = 32
"""The number of combinations of pivots that are compared."""

SHOWN = 3
"""The number of other columns that an explanation names."""

Pivots = Mapping[Node, Placement]
Lost = dict[Demand, Node]
"""By variable and placement, the node that does not keep it."""


@dataclass(frozen=True)
class PivotedScope:
    """The placements of all nodes of a scope and the scopes within it, for chosen pivots."""

    body: Graph
    pivots: Pivots
    exports: tuple[Demand, ...]
    """The results of the scope, in order."""
    nodes: Mapping[Demand, PlacedNode]
    """The placed nodes. A node is present more than once if its readers want it in several
    placements."""
    rejected: str = ""
    """Why other columns are not the pivots, in words."""

    @property
    def entering(self) -> list[Demand]:
        """The outer streams that enter the scope, by the placements in which they enter."""
        return [
            (outer_node(node), wanted)
            for node, wanted in self.nodes
            if node.graph is self.body and isinstance(node.operator, Delta0)
        ]

    @property
    def cost(self) -> tuple[int, int]:
        """The number of streams that every shard gets, then of all streams that enter."""
        entering = set(self.entering)
        return sum(wanted == EVERYWHERE for _, wanted in entering), len(entering)

    def describe(self) -> str:
        """Return the choice in words."""
        parts = []
        for node, pivot in self.pivots.items():
            columns = ", ".join(node.schema.names[column] for column in pivot.columns or ())
            parts.append(f"{variable_name(node)} by its column {columns}")
        copies = dict.fromkeys(stream_name(node) for node, wanted in self.entering if wanted == EVERYWHERE)
        everywhere = f"; on every shard: {', '.join(copies)}" if copies else ""
        return (
            f"{self.body.name} is divided with no exchange inside, because every recursive rule keeps "
            f"these columns: {', '.join(parts)}{everywhere}{self.rejected}"
        )


def pivoted_scope(body: Graph) -> PivotedScope | None:
    """Return the pivots with the fewest streams on every shard, or None if there are none."""
    lost: Lost = {}
    kept = _kept_columns(body, lost)
    scopes = (_scope(body, pivots) for pivots in islice(_solutions(body, kept), TRIED))
    best = min((scope for scope in scopes if scope is not None), key=lambda scope: scope.cost, default=None)
    if best is None:
        return None
    reasons = [
        f"not {_column(node, column)}, since no fewer streams would be on every shard"
        for node, placements in kept.items()
        for column in [(placement.columns or (0,))[0] for placement in placements]
        if by((column,)) != best.pivots[node]
    ]
    return replace(
        best, rejected="".join(f"; {reason}" for reason in [*_lost_columns(lost), *reasons][:SHOWN])
    )


def without_pivot(body: Graph) -> str:
    """Return in words why a scope has no pivots."""
    lost: Lost = {}
    kept = _kept_columns(body, lost)
    without = next((node for node, placements in kept.items() if not placements), None)
    if without is None:
        return f"{body.name} has no pivots that all of its rules keep"
    reasons = _lost_columns({demand: node for demand, node in lost.items() if demand[0] is without})
    return (
        f"{body.name} has no pivot, because no column of {variable_name(without)} passes unchanged "
        f"through all rules: {', '.join(reasons)}"
    )


def _lost_columns(lost: Lost) -> list[str]:
    """Return for each lost column which operator does not keep it."""
    return [
        f"not {_column(node, column)}, which {named(breaking)} does not keep"
        for (node, placement), breaking in lost.items()
        for column in placement.columns or ()
    ]


def _column(node: Node, column: int) -> str:
    return f"{variable_name(node)}'s column {node.schema.names[column]}"


def _kept_columns(body: Graph, lost: Lost) -> dict[Node, list[Placement]]:
    """Return for each variable the placements by a column that its rules keep."""
    variables = [node for node in body.walk() if isinstance(node.operator, Delay)]
    columns = {node: [by((column,)) for column in range(node.schema.arity)] for node in variables}
    return _consistent(body, columns, lost)


def _consistent(
    body: Graph, placements: Mapping[Node, list[Placement]], lost: Lost
) -> dict[Node, list[Placement]]:
    """Return the placements that the definition of each variable can have, given the others.

    `lost` receives for each of the others the node that does not keep it.
    """
    left = dict(placements)
    while True:
        placing = ScopePlacing(body, left)
        kept: dict[Node, list[Placement]] = {}
        for node, found in left.items():
            kept[node] = []
            for placement in found:
                definition = node.strict[0].node
                if placing.find(definition, placement) is None:
                    lost[node, placement] = placing.breaking(definition, placement)
                else:
                    kept[node].append(placement)
        if kept == left:
            return left
        left = kept


def _solutions(body: Graph, left: Mapping[Node, list[Placement]]) -> Iterator[Pivots]:
    """Yield combinations of one placement for each variable, with consistent definitions."""
    if not all(left.values()):
        return
    undecided = next((node for node, placements in left.items() if len(placements) > 1), None)
    if undecided is None:
        yield {node: placement for node, (placement,) in left.items()}
        return
    for placement in left[undecided]:
        yield from _solutions(body, _consistent(body, {**left, undecided: [placement]}, {}))


def _scope(body: Graph, pivots: Pivots) -> PivotedScope | None:
    """Return the placements of all nodes, or None if a result or a check cannot be placed."""
    placing = ScopePlacing(body, {node: (placement,) for node, placement in pivots.items()})
    exports = []
    for stream in body.exports:
        # A result that its definition places by a column can be read without an exchange.
        wanted = [pivot for node, pivot in pivots.items() if node.strict[0].node is stream.node]
        exports.append((stream.node, next(iter(wanted), UNKNOWN)))
    roots = [*exports, *((node.strict[0].node, pivot) for node, pivot in pivots.items())]
    for node in body.walk():
        if node.operator.is_port and not node.operator.children():
            roots.append((node, UNKNOWN))
    found: dict[Demand, PlacedNode] = {}
    waiting: list[Demand] = [*roots, *pivots.items()]
    while waiting:
        # A stream that is wanted anywhere is taken where other readers want it, so these go first.
        waiting.sort(key=lambda demand: demand[1] != UNKNOWN)
        demand = waiting.pop()
        if demand in found:
            continue
        same = [each for each in found if each[0] is demand[0] and each[1].keyed]
        if demand[1] == UNKNOWN and same:
            placed: PlacedNode | None = PlacedNode((same[0],), found[same[0]].placement)
        else:
            placed = placing.find(*demand)
        if placed is None:
            return None
        found[demand] = placed
        waiting += placed.sources
    return PivotedScope(body, pivots, tuple(exports), found)


def outer_node(node: Node) -> Node:
    """Return the node whose stream enters a scope as `node`."""
    return node.graph.outer_of(Stream(node)).node


def variable_name(node: Node) -> str:
    """Return the name of a recursive variable."""
    operator = node.operator
    return operator.variable if isinstance(operator, Delay) and operator.variable else "a variable"


def stream_name(node: Node) -> str:
    """Return the name of the rows of a node in the program, or a label."""
    if isinstance(node.operator, Arrange):
        return stream_name(node.inputs[0].node)
    names = (name for name, stream in node.graph.named.items() if stream.node is node)
    return next(names, named(node))


def named(node: Node) -> str:
    """Return the label of a node and its source line."""
    return f"{node.label} ({node.source})" if node.source else node.label
