"""Find linear recursion: scopes whose iterations are joins of one variable with entering streams.

    v = distinct(s_1 + s_2 + ... + pi_1(v join e_1) + pi_2(v join e_2) + ...)

Here s_i and e_i enter from the outer circuit; while a scope has no iterations in its times, no row
of them has a negative weight. After the first iteration of a tick only the variable changes, so
that an iteration is a lookup of each of its new rows in the arrangements of the e_i. Transitive
closures and reachability have this form. Definition of linear rules: Abiteboul, Hull, Vianu,
Foundations of Databases, section 12.
"""

from __future__ import annotations

from typing import NamedTuple

from dbsp.circuit.graph import Graph, Node
from dbsp.operators.groups.distinct import DeltaDistinct
from dbsp.operators.joins.join import DeltaJoin
from dbsp.operators.linear.union import Union
from dbsp.operators.recursion.delta0 import Delta0
from dbsp.operators.time.delay import Delay
from dbsp.operators.traces.arrange import Arrange, key_first, order_of


class LinearJoin(NamedTuple):
    """A join of the variable with an entering stream."""

    side: Node
    """The arrangement of the entering stream."""
    key: tuple[int, ...]
    """The columns of the variable that are equal to the leading columns of `side`."""
    columns: tuple[int, ...]
    """The result: column v of the variable for v >= 0, column -v - 1 of `side` for v < 0."""


class LinearBody(NamedTuple):
    """The nodes of a scope with linear recursion."""

    carried: tuple[int, ...]
    """The columns of the variable whose values every join leaves as they are; at least one other
    column is left."""

    variable: Node
    distinct: Node
    arrangements: tuple[Node, ...]
    """The arrangements of the variable."""
    joins: tuple[LinearJoin, ...]

    @property
    def searches_values(self) -> bool:
        """Whether the joins are edges of a graph over values (`dbsp.kernels.group_search`)."""
        (*_, value), carried = key_first(self.carried, self.variable.schema.arity), self.carried
        return len(carried) == self.variable.schema.arity - 1 and all(
            join.key == (value,) and join.columns[value] < 0 for join in self.joins
        )


def linear_body(body: Graph) -> LinearBody | None:
    """Return the parts of a scope whose recursion is linear, in one variable; None of others."""
    variables = [node for node in body.nodes if isinstance(node.operator, Delay)]
    if len(variables) != 1:
        return None
    (variable,) = variables
    if not variable.schema.arity:
        return None  # a row without columns has no hash
    (defined,) = variable.strict
    distinct = defined.node
    if not isinstance(distinct.operator, DeltaDistinct):
        return None
    if any(export.node is not distinct for export in body.exports):
        return None
    (candidates,) = distinct.inputs
    joins: list[LinearJoin] = []
    arrangements: dict[Node, None] = {}
    known = {variable, distinct, candidates.node}
    waiting = [candidates.node.inputs[0].node]
    while waiting:
        part = waiting.pop()
        known.add(part)
        if isinstance(part.operator, Union):
            waiting += [stream.node for stream in part.inputs]
        elif not isinstance(part.operator, Delta0):
            found = _linear_join(part, variable)
            if found is None:
                return None
            arrangement, join = found
            arrangements[arrangement] = None
            joins.append(join)
    known.update(arrangements)
    if not joins or not all(node in known or _enters(node) for node in body.nodes):
        return None
    carried = [c for c in range(variable.schema.arity) if all(join.columns[c] == c for join in joins)]
    del carried[variable.schema.arity - 1 :]
    return LinearBody(tuple(carried), variable, distinct, tuple(arrangements), tuple(joins))


def _linear_join(node: Node, variable: Node) -> tuple[Node, LinearJoin] | None:
    """Return the arrangement of the variable that a node joins with an entering stream, and the
    join."""
    join = node.operator
    # Joins of ranges and of intervals are subclasses, with conditions beside the key.
    if type(join) is not DeltaJoin or join.null_mismatch or join.realign:
        return None
    left, right = node.inputs
    if _arranges(left.node, variable) and _enters(right.node):
        mine, side, turned = left, right, list(join.columns)
    elif _arranges(right.node, variable) and _enters(left.node):
        mine, side, turned = right, left, [-v - 1 for v in join.columns]
    else:
        return None
    order = order_of(mine)
    columns = tuple(order[v] if v >= 0 else v for v in turned)
    return mine.node, LinearJoin(side.node, tuple(order[: join.key]), columns)


def _arranges(node: Node, variable: Node) -> bool:
    return isinstance(node.operator, Arrange) and node.inputs[0].node is variable


def _enters(node: Node) -> bool:
    """Whether a node is an entering stream, or an arrangement of one."""
    if isinstance(node.operator, Arrange):
        (arranged,) = node.inputs
        node = arranged.node
    return isinstance(node.operator, Delta0)
