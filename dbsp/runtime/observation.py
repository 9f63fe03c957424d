"""Statistics per node, of a scope and the scopes nested in it."""

from __future__ import annotations

from collections.abc import Mapping

from dbsp.circuit.graph import Node
from dbsp.circuit.pictures.picture import Measured
from dbsp.runtime.node_stats import NodeStats, StatsList
from dbsp.runtime.scope import Scope


def observe(scope: Scope, on: bool) -> None:
    """Switch the statistics on (from zero) or off."""
    for each in scope.scopes():
        each.stats = [NodeStats(node) for node in each.graph.nodes] if on else None


def collect(scope: Scope) -> list[NodeStats]:
    """Return the statistics of the nodes, those of a nested scope after the scope."""
    return StatsList(stats for each in scope.scopes() for stats in each.stats or ())


def measurements(scope: Scope, kept: Mapping[Node, tuple[int, int]]) -> dict[Node, Measured]:
    """Return what pictures show of each node; `kept` has the rows and bytes of traces by node."""
    measured = {node: Measured(state_rows=rows, state_bytes=size) for node, (rows, size) in kept.items()}
    for stats in collect(scope):
        counts = Measured(stats.seconds, stats.rows_out, stats.steps)
        measured[stats.node] = counts.plus(measured.get(stats.node, Measured()))
    return measured


def resume(scope: Scope, old: Scope, pairs: Mapping[Node, Node]) -> None:
    """Continue the statistics of an old scope; `pairs` maps new nodes to old ones.

    A nested scope also takes over the number of iterations of the old scope of the same name.
    """
    scope.stats = None
    if old.stats is not None:
        counted = {stats.node: stats for stats in old.stats}
        scope.stats = [NodeStats(node) for node in scope.graph.nodes]
        for stats in scope.stats:
            before = counted.get(pairs[stats.node]) if stats.node in pairs else None
            if before is not None:
                stats.resume(before)
    of_name = {child.graph.name: child for child in old.children}
    for child in scope.children:
        old_child = of_name.get(child.graph.name)
        if old_child is None:
            observe(child, old.stats is not None)
        else:
            child.iterations = old_child.iterations
            resume(child, old_child, pairs)
