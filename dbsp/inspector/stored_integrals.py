"""The integral of the stream of a node, where the circuit keeps it."""

from __future__ import annotations

from dbsp.circuit.graph import Node, Stream
from dbsp.circuit.step_roles import Arranged
from dbsp.data.schema import Schema
from dbsp.data.zset import ZSet
from dbsp.runtime.ports import InputPort, OutputPort
from dbsp.runtime.run import Run
from dbsp.runtime.scope import Scope


def stored_integral(run: Run, node: Node) -> ZSet | None:
    """Return the rows of the stream of a node after the latest tick; None if no step keeps them.

    An arrangement has the rows of the stream that it sorts, in the column order of this stream.
    """
    scope = _scope_of(run.scope, node)
    step = scope.by_node[node]
    if isinstance(step, OutputPort):
        return ZSet.wrap(step.columns, run.interner, step.view())
    if isinstance(step, Arranged) and step.complete:
        return ZSet.wrap(_sorted_stream(node).schema, run.interner, step.integral())
    keeper = scope.keeper(node)
    if keeper is None:
        return None
    schema: Schema = step.columns if isinstance(step, InputPort) else node.schema
    return ZSet.wrap(schema, run.interner, keeper.integral())


def _scope_of(scope: Scope, node: Node) -> Scope:
    return next(each for each in scope.scopes() if node in each.by_node)


def _sorted_stream(node: Node) -> Node:
    """Return the node whose stream an arrangement sorts, also of one that enters a scope."""
    if node.inputs:
        return node.inputs[0].node
    return _sorted_stream(node.graph.outer_of(Stream(node)).node)
