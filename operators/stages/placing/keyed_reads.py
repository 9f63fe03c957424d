"""The keys of operators: rows that agree in the key columns must be on one shard.

Any part of the key is sufficient: rows that agree in the whole key agree in its part.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.circuit.graph import Node
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.groups.aggregate import AccumulatedAggregate, Aggregate
from dbsp.operators.groups.at_least import AtLeast
from dbsp.operators.groups.choice import ChoiceDomain
from dbsp.operators.groups.distinct import DeltaDistinct
from dbsp.operators.groups.group_step import GroupwiseOperator, RecomputeGroups
from dbsp.operators.groups.ranking import LeadingTopK, Ordered
from dbsp.operators.joins.asof_join import DeltaAsofJoin
from dbsp.operators.joins.delta_semijoin import DeltaSemijoin
from dbsp.operators.joins.join import DeltaJoin
from dbsp.operators.joins.multiway_join import DeltaMultiwayJoin
from dbsp.operators.stages.placing.divided_joins import divided_columns, free_variables
from dbsp.operators.stages.placing.row_columns import targets
from dbsp.operators.time.closing import PerTick
from dbsp.operators.traces.arrange import Arrange

Targets = tuple[int | None, ...]
"""For each column of an input the output column with its value, or None."""


@dataclass(frozen=True)
class KeyedReads:
    """The reads of an operator with a key; columns are those of the inputs as the node reads them.

    `columns[i][p]` is the column of input i at position p of the key.
    """

    columns: tuple[tuple[int, ...], ...]
    carried: tuple[Targets, ...]
    """By input, the output column for each of its columns."""
    copies: tuple[int, ...] = ()
    """The inputs that every shard may have while the others are on the shards of their keys."""

    @property
    def positions(self) -> range:
        """The positions of the key."""
        return range(len(self.columns[0]))

    def emitted(self, position: int) -> int | None:
        """Return an output column with the value of the key at a position."""
        found = (of[key[position]] for key, of in zip(self.columns, self.carried, strict=True))
        return next((column for column in found if column is not None), None)


def keyed_reads(node: Node) -> KeyedReads | None:
    """Return the key by which a node reads its inputs; None if there is no rule for it."""
    operator = node.operator
    arities = [stream.schema.arity for stream in node.inputs]
    if isinstance(operator, DeltaDistinct):
        return _of_group(range(arities[0]), range(arities[0]))
    if isinstance(operator, AccumulatedAggregate):
        return _of_aggregate(node, operator.aggregate)
    if isinstance(operator, RecomputeGroups):
        return _of_groups(node, operator.operator, len(operator.over.names))
    if isinstance(operator, LeadingTopK):
        return _of_groups(node, operator.top, len(operator.over.names))
    if isinstance(operator, PerTick) and isinstance(operator.operator, GroupwiseOperator):
        return _of_groups(node, operator.operator, arities[0])
    if isinstance(operator, DeltaJoin | DeltaSemijoin):
        key = range(operator.key)
        right = tuple(operator.realign) or tuple(key)
        # A shard with a part of the keys takes the others for absent.
        copies = (0, 1) if isinstance(operator, DeltaJoin) else (1,)
        return KeyedReads((tuple(key), right), _picked(operator.columns, arities), copies)
    if isinstance(operator, DeltaAsofJoin):
        in_left, in_right = operator.by_left, operator.by_right
        picked = [
            in_left.index(column) if column >= 0 else -in_right.index(-column - 1) - 1
            for column in operator.join.columns
        ]
        key = range(len(operator.join.left_key))
        return KeyedReads((tuple(key), tuple(key)), _picked(picked, arities), (1,))
    if isinstance(operator, DeltaMultiwayJoin):
        return _of_multiway_join(node, operator)
    return None


def _of_group(group: Sequence[int], kept: Sequence[int | None]) -> KeyedReads:
    return KeyedReads((tuple(group),), (tuple(kept),))


def _of_aggregate(node: Node, aggregate: Aggregate) -> KeyedReads:
    """The key of an aggregate that reads a stream, and arrangements of this stream."""
    key, columns, carried = range(aggregate.key), [], []
    for stream in node.inputs:
        operator = stream.node.operator
        order = operator.order if isinstance(operator, Arrange) else range(stream.schema.arity)
        columns.append(tuple(list(order).index(column) for column in key))
        carried.append(tuple(column if column < aggregate.key else None for column in order))
    return KeyedReads(tuple(columns), tuple(carried))


def _of_groups(node: Node, operator: GroupwiseOperator, arity: int) -> KeyedReads | None:
    """The key of a function of groups, which reads a stream or an arrangement of it."""
    schema = node.inputs[0].schema
    read = node.inputs[0].node.operator
    order = list(read.order) if isinstance(read, Arrange) else list(range(arity))
    own = schema.select([order.index(column) for column in range(arity)])
    groups = operator.groups(own)
    if isinstance(operator, Aggregate):
        kept: list[int | None] = [column if column < operator.key else None for column in order]
    elif isinstance(operator, AtLeast | ChoiceDomain | Ordered):
        kept = [*order]  # the result begins with the columns of the input
    else:
        return None
    return _of_group([order.index(column) for column in groups], kept)


def _picked(columns: Sequence[int], arities: Sequence[int]) -> tuple[Targets, ...]:
    """Return the output columns of two sides; a pick v >= 0 is of the left, -v - 1 of the right."""
    left = [column if column >= 0 else None for column in columns]
    right = [-column - 1 if column < 0 else None for column in columns]
    return tuple(targets(left, arities[0])), tuple(targets(right, arities[1]))


def _of_multiway_join(node: Node, operator: DeltaMultiwayJoin) -> KeyedReads:
    """The key of a multi-way join: the variables of every atom, in one column of each input."""
    join = operator.join
    free = free_variables(join)
    divided = {name: divided_columns(operator, (name,)) for name in free}
    names = [name for name, columns in divided.items() if columns is not None and None not in columns]
    chosen = divided_columns(operator, names) or ()
    columns = tuple(key for key in chosen if key is not None)
    carried = []
    for stream, key in zip(node.inputs, columns, strict=True):
        found: list[int | None] = [None] * stream.schema.arity
        for name, column in zip(names, key, strict=True):
            found[column] = join.columns.index(name) if name in join.columns else None
        carried.append(tuple(found))
    return KeyedReads(columns, tuple(carried))
