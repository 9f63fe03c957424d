"""Which of the streams that enter a scope may only grow if its results are only to grow.

A scope whose body is monotone in its variables has a least fixpoint, and a larger one if more rows
enter:

    a <= b  implies  fix(body)(a) <= fix(body)(b)

so that after insertions alone its evaluation may continue from the fixpoint it has reached
(semi-naive evaluation; Abiteboul, Hull, Vianu, Foundations of Databases, section 13.1). That fails
for streams that are negated: A - (A semijoin B) has fewer rows the more B has.
"""

from __future__ import annotations

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.operators.joins.join import DeltaJoin
from dbsp.operators.linear.union import Minus
from dbsp.operators.recursion.delta0 import Delta0
from dbsp.operators.time.delay import Delay
from dbsp.operators.traces.arrange import Arrange

NegatedSources = frozenset[Node]


def negated_imports(body: Graph) -> frozenset[int] | None:
    """The numbers of the entering streams of which more rows may mean fewer in some result.

    None when a variable of the scope is among the streams of which that is so, or when it cannot be
    told.
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
        elif (keys := _taken_away(node)) is not None:
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
    """Whether no row that a node of the outer circuit puts out can weigh less than nothing in
    total.

    Sets cannot, nor can what a monotone operator makes of them; an input of any weights can.
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


def _taken_away(node: Node) -> Stream | None:
    """B of a node that is A - (A semijoin B)."""
    if not (isinstance(node.operator, Minus) and node.operator.contained):
        return None
    minuend, subtrahend = node.inputs
    if not isinstance(subtrahend.node.operator, DeltaJoin):
        return None
    left, right = subtrahend.node.inputs
    return right if _unarranged(left).node is _unarranged(minuend).node else None


def _unarranged(stream: Stream) -> Stream:
    return stream.node.inputs[0] if isinstance(stream.node.operator, Arrange) else stream
