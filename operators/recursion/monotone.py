"""Find the negated entering streams of a scope: more of their rows may mean fewer result rows.

A scope whose body is monotone in its variables has a least fixpoint, and the fixpoint grows with
the entering streams:

    a <= b  implies  fix(body)(a) <= fix(body)(b)

So after a tick with insertions only, its evaluation may continue from the previous fixpoint
(semi-naive evaluation; Abiteboul, Hull, Vianu, Foundations of Databases, section 13.1). This fails
for negated streams: the more rows B has, the fewer A - (A semijoin B) has.
"""

from __future__ import annotations

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.operators.joins.join import DeltaJoin
from dbsp.operators.linear.union import Minus
from dbsp.operators.recursion.delta0 import Delta0
from dbsp.operators.shards.exchange import Placing
from dbsp.operators.time.delay import Delay
from dbsp.operators.traces.arrange import Arrange

NegatedSources = frozenset[Node]


def negated_imports(body: Graph) -> frozenset[int] | None:
    """Return the numbers of the negated entering streams.

    None if a variable of the scope is negated, or if this cannot be determined.
    """
    rising: dict[Node, NegatedSources] = {}
    falling: dict[Node, NegatedSources] = {}
    for node in body.nodes:
        if isinstance(node.operator, Delta0 | Delay):
            rising[node], falling[node] = frozenset((node,)), frozenset()
            continue
        up = frozenset[Node]().union(*(rising[stream.node] for stream in node.inputs))
        down = frozenset[Node]().union(*(falling[stream.node] for stream in node.inputs))
        if node.operator.monotone:
            rising[node], falling[node] = up, down
        elif (keys := _subtracted_keys(node)) is not None:
            rising[node] = rising[node.inputs[0].node]
            falling[node] = down | rising[keys.node]
        else:
            rising[node], falling[node] = frozenset(), up | down
    results = {stream.node for node in body.nodes for stream in node.strict}
    results |= {stream.node for stream in body.exports}
    found = frozenset[Node]().union(*(falling[node] for node in results))
    numbers = set()
    for node in found:
        if not isinstance(node.operator, Delta0):
            return None
        numbers.add(node.operator.index)
    return frozenset(numbers)


def never_negative(node: Node) -> bool:
    """Whether no output row of a node of the outer circuit can have a negative total weight.

    A set has no negative weights, nor has the output of a monotone operator over sets. An input of
    arbitrary weights may have some.
    """
    waiting, seen = [node], {node}
    while waiting:
        node = waiting.pop()
        if node.is_set:
            continue
        if not node.operator.monotone or not node.inputs:
            return False
        before = {source.node for source in node.inputs} - seen
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
