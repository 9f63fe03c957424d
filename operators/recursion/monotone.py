"""Find how the results of a scope depend on its entering streams: rising, falling, or both.

A scope whose body is monotone in its variables has a least fixpoint, and the fixpoint grows with
the entering streams:

    a <= b  implies  fix(body)(a) <= fix(body)(b)

So after a tick with insertions only, its evaluation may continue from the previous fixpoint
(semi-naive evaluation; Abiteboul, Hull, Vianu, Foundations of Databases, section 13.1). The
fixpoint falls with a negated stream: the more rows B has, the fewer A - (A semijoin B) has.
"""

from __future__ import annotations

from typing import NamedTuple

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.operators.groups.distinct import DeltaDistinct
from dbsp.operators.joins.delta_semijoin import DeltaSemijoin
from dbsp.operators.joins.join import DeltaJoin
from dbsp.operators.linear.union import Minus
from dbsp.operators.recursion.delta0 import Delta0
from dbsp.operators.shards.exchange import Placing
from dbsp.operators.time.delay import Delay
from dbsp.operators.traces.arrange import Arrange

Sources = frozenset[Node]


class Directions(NamedTuple):
    """How a scope whose variables are not negated depends on its entering streams."""

    negated: frozenset[int]
    """The entering streams whose insertions may remove rows."""
    separable: bool
    """Whether every variable, result and distinct only loses rows while rows are removed from the
    streams that are not negated and added to the negated ones."""


def directions(body: Graph) -> Directions | None:
    """Return how the results depend on the entering streams.

    None if a variable of the scope is negated, or if this cannot be determined.
    """
    rising: dict[Node, Sources] = {}
    falling: dict[Node, Sources] = {}
    for node in body.nodes:
        if isinstance(node.operator, Delta0 | Delay):
            rising[node], falling[node] = frozenset((node,)), frozenset()
            continue
        up = frozenset[Node]().union(*(rising[stream.node] for stream in node.inputs))
        down = frozenset[Node]().union(*(falling[stream.node] for stream in node.inputs))
        if node.operator.monotone:
            rising[node], falling[node] = up, down
        elif (keys := _subtracted_keys(node)) is not None:
            minuend = node.inputs[0].node
            rising[node] = rising[minuend] | falling[keys.node]
            falling[node] = falling[minuend] | rising[keys.node]
        else:
            rising[node] = falling[node] = up | down
    results = {stream.node for node in body.nodes for stream in node.strict}
    results |= {stream.node for stream in body.exports}
    negated = frozenset[Node]().union(*(falling[node] for node in results))
    if not all(isinstance(node.operator, Delta0) for node in negated):
        return None
    numbers = frozenset(node.operator.index for node in negated if isinstance(node.operator, Delta0))
    distinct = {node for node in body.nodes if isinstance(node.operator, DeltaDistinct)}
    separable = all(not rising[node] & negated and falling[node] <= negated for node in results | distinct)
    return Directions(numbers, separable)


def never_negative(node: Node) -> bool:
    """Whether no output row of a node of the outer circuit can have a negative total weight.

    A set has no negative weights, nor has the output of a monotone operator over sets. A semijoin
    or antijoin emits rows of its left input, with their weights. An input of arbitrary weights may
    have some.
    """
    waiting, seen = [node], {node}
    while waiting:
        node = waiting.pop()
        if node.is_set:
            continue
        restricts = isinstance(node.operator, DeltaSemijoin)
        if not (node.operator.monotone or restricts) or not node.inputs:
            return False
        before = {source.node for source in node.inputs[: 1 if restricts else None]} - seen
        seen |= before
        waiting += before
    return True


def _subtracted_keys(node: Node) -> Stream | None:
    """Return B for a node that computes A - (A semijoin B), else None."""
    if not (isinstance(node.operator, Minus) and node.operator.contained):
        return None
    minuend, subtrahend = node.inputs
    if not isinstance(subtrahend.node.operator, DeltaJoin):
        return None
    left, right = subtrahend.node.inputs
    return right if _unarranged(left).node is _unarranged(minuend).node else None


def _unarranged(stream: Stream) -> Stream:
    while isinstance(stream.node.operator, Arrange | Placing):
        (stream,) = stream.node.inputs
    return stream
