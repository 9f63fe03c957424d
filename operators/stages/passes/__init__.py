"""What is done to a query before it is run: small rewritings, one after the other.

Each pass is a function from a circuit to an equal circuit that costs less; it notes what it changed,
for `explain`. They work on the query, before the rules of incrementalisation: there a join is one
node and not two terms, and the rules then give the right deltas whatever the passes did.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dbsp.circuit.graph import Graph
from dbsp.circuit.prune import prune
from dbsp.operators.stages.passes.cancel import cancel
from dbsp.operators.stages.passes.expand_composites import expand
from dbsp.operators.stages.passes.fuse import fuse
from dbsp.operators.stages.passes.push_filters import push_filters
from dbsp.operators.stages.passes.push_projections import push_projections


@dataclass(frozen=True)
class AppliedPass:
    """What one pass did: its changes, and the number of nodes before and after it."""

    name: str
    changes: tuple[str, ...]
    before: int
    after: int


PASSES: tuple[Callable[[Graph, list[str]], Graph], ...] = (
    expand,
    cancel,
    push_filters,
    push_projections,
    fuse,
)


def optimise(query: Graph) -> tuple[Graph, list[AppliedPass]]:
    """The query after all passes, and what each of them did."""
    applied = []
    for one in PASSES:
        changes: list[str] = []
        before = sum(1 for _ in query.walk())
        query = one(query, changes)
        query = prune(query, [node for node in query.nodes if node.operator.is_port])
        applied.append(AppliedPass(one.__name__, tuple(changes), before, sum(1 for _ in query.walk())))
    return query, applied
