"""The modes of evaluation that a recursive scope allows (see `dbsp.operators.recursion.modes`)."""

from __future__ import annotations

from typing import NamedTuple

from dbsp.circuit.graph import Node
from dbsp.circuit.operator_roles import depends_on_ticks
from dbsp.operators.recursion.body import Body
from dbsp.operators.recursion.delta0 import Delta0
from dbsp.operators.recursion.modes import INCREMENTAL_MODE, Recursion, describe_insert_only
from dbsp.operators.recursion.monotone import directions, never_negative
from dbsp.operators.shards.exchange import Placing
from dbsp.operators.traces.arrange import Arrange


class EvaluationOptions(NamedTuple):
    """The abilities of a scope besides incremental evaluation by tick and iteration."""

    restarts: bool = False
    """Whether it can restart: evaluate a new scope over all of its input rows."""
    insert_only: bool = False
    """Whether it continues from the previous fixpoint, keeping no iterations."""
    negated: frozenset[int] | None = None
    """The entering streams that must not change for the results to only grow. None if the results
    may shrink when an input grows."""
    deletes: bool = False
    """Whether it can delete rows without restarting while it keeps no iterations and no integral of
    an entering stream has a negative weight."""
    signed: frozenset[int] = frozenset()
    """The entering streams whose integrals may have negative weights."""
    converges: bool = False
    """Whether the variables only grow from iteration to iteration, so that an iteration without new
    rows is the last."""


def evaluation_options(body: Body) -> EvaluationOptions:
    """Return what the nesting of the scope, its nodes and the requested mode allow."""
    nodes = [node.operator for node in body.nodes if not isinstance(node.operator, Placing)]
    if body.depth != 1:
        return EvaluationOptions()
    if any(operator.is_port or operator.children() for operator in nodes):
        return EvaluationOptions()
    if any(map(depends_on_ticks, body.nodes)):
        return EvaluationOptions()
    found = directions(body)
    negated = None if found is None else found.negated
    # A restart emits the difference from the previous results, so these must be kept.
    kept = all(keeps_stream(s.node) and not isinstance(s.node.operator, Delta0) for s in body.exports)
    restarts = kept and body.recursion is not Recursion.INCREMENTAL
    insert_only = restarts and found is not None
    signed = frozenset(index for index, node in enumerate(body.entered) if not never_negative(node))
    deletes = insert_only and found is not None and found.separable
    return EvaluationOptions(
        restarts, insert_only, negated, deletes, signed, converges=found is not None and not signed
    )


def describe_evaluation(body: Body) -> str:
    """Describe the evaluation of a scope, for reports."""
    options = evaluation_options(body)
    if options.insert_only:
        return describe_insert_only(body.recursion is Recursion.AUTO, options.deletes)
    if body.recursion is Recursion.INCREMENTAL:
        return INCREMENTAL_MODE
    restarts = "; restarts where that costs less" if options.restarts else ""
    why = " (its variables may shrink when its inputs grow)" if options.negated is None else ""
    return f"{INCREMENTAL_MODE}{restarts}{why}"


def keeps_stream(node: Node) -> bool:
    """Whether a node or an arrangement of its stream keeps the integral of its output."""
    return node.operator.keeps_integral or any(
        isinstance(reader.operator, Arrange) and reader.inputs[0].node is node for reader in node.graph.nodes
    )
