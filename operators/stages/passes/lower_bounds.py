"""Lower bounds of columns: what a watermark promises about the future changes of a stream.

Bounds (see `dbsp.operators.stages.passes.watermark_bounds`) start at `on_time` rows, at
`recent` and at closed groups, and pass through operators that keep the column. A stream without
bounds may change anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.circuit.graph import Graph, Node
from dbsp.expressions import Column
from dbsp.operators.groups.aggregate import AccumulatedAggregate, Aggregate
from dbsp.operators.groups.at_least import AtLeast
from dbsp.operators.groups.choice import ChoiceDomain
from dbsp.operators.groups.distinct import DeltaDistinct
from dbsp.operators.groups.group_step import GroupwiseOperator, RecomputeGroups
from dbsp.operators.groups.order_statistics import FinishAggregates
from dbsp.operators.groups.ranking import LeadingTopK, Ordered
from dbsp.operators.joins.delta_semijoin import DeltaSemijoin
from dbsp.operators.joins.join import DeltaJoin
from dbsp.operators.joins.multiway_join import DeltaMultiwayJoin
from dbsp.operators.linear.filter import Filter, FilterFunction, SameValue
from dbsp.operators.linear.map import Map
from dbsp.operators.linear.pad import Pad
from dbsp.operators.linear.project import Project, Rename
from dbsp.operators.linear.sample import Sample
from dbsp.operators.linear.scale import Scale
from dbsp.operators.linear.union import Minus, Negate, Union, Widen
from dbsp.operators.stages.passes.trace_reads import changed_values, partners
from dbsp.operators.stages.passes.watermark_bounds import NONE, Bounds, moved, strongest, weakest
from dbsp.operators.time.closing import Close, PerTick
from dbsp.operators.time.recent import DeltaRecent
from dbsp.operators.time.watermark import Timely, Watermark
from dbsp.operators.time.window import Window
from dbsp.operators.traces.arrange import Arrange

_SAME_ROWS = (DeltaDistinct, Filter, FilterFunction, Negate, Rename, SameValue, Sample, Scale, Widen)
"""Operators with one input whose changes are rows of its changes, perhaps with other weights."""

_KEEP_GROUP_COLUMNS = (AtLeast, ChoiceDomain, Ordered)
"""Functions of groups whose results begin with the columns of their input."""


def lower_bounds(circuit: Graph) -> dict[Node, Bounds]:
    """Return the bounds of every top-level stream of a physical circuit. O(nodes)."""
    known: dict[Node, Bounds] = {}
    for node in circuit.nodes:
        inputs = [known.get(stream.node, NONE) for stream in node.inputs]
        known[node] = _bounds(node, inputs)
    return known


def _bounds(node: Node, inputs: Sequence[Bounds]) -> Bounds:
    operator = node.operator
    if isinstance(operator, Timely):
        return dict(inputs[0]) if operator.late else strongest((inputs[0], _marked(node, operator.column, 0)))
    if isinstance(operator, DeltaRecent):
        # A row is retracted when a later watermark passes it: bounds of other columns end here.
        return _marked(node, operator.column, 1)
    if isinstance(operator, Close):
        return _marked(node, operator.end, 1)
    if isinstance(operator, _SAME_ROWS):
        return inputs[0]
    if isinstance(operator, Union | Minus):
        return weakest(inputs)
    if isinstance(operator, DeltaJoin | DeltaSemijoin):
        return _of_join(operator, inputs)
    if isinstance(operator, DeltaMultiwayJoin):
        terms = changed_values(operator, inputs)
        found = [weakest(term.get(name, NONE) for term in terms) for name in operator.join.columns]
        return strongest(moved(values, [None] * column + [0]) for column, values in enumerate(found))
    if isinstance(operator, Arrange):
        return moved(inputs[0], operator.order)
    if isinstance(operator, Project | Pad):
        return moved(inputs[0], operator.columns)
    if isinstance(operator, Map):
        schema = operator.over or node.inputs[0].schema
        plain = (e.name if isinstance(e, Column) else None for e in operator.expressions)
        return moved(inputs[0], [None if name is None else schema.index(name) for name in plain])
    if isinstance(operator, FinishAggregates):
        return moved(inputs[0], [c if isinstance(c, int) else None for c in operator.columns])
    if isinstance(operator, Window):
        return strongest((inputs[0], _of_window(operator, inputs[0], node.inputs[0].schema.arity)))
    if isinstance(operator, AccumulatedAggregate):
        return moved(inputs[0], range(operator.aggregate.key))
    if isinstance(operator, RecomputeGroups):
        return _of_groups(operator.operator, inputs[0], operator.operator.groups(operator.over))
    if isinstance(operator, LeadingTopK):
        return _of_groups(operator.top, inputs[0], operator.top.partition)
    if isinstance(operator, PerTick) and isinstance(operator.operator, Aggregate):
        return moved(inputs[0], range(operator.operator.key))
    return NONE


def _marked(node: Node, column: int, offset: int) -> Bounds:
    """The bound by the watermark that is the second input of a node."""
    if not isinstance(node.inputs[1].node.operator, Watermark):
        return NONE
    return {(frozenset([node.inputs[1].node]), column): offset}


def _of_window(window: Window, bounds: Bounds, arity: int) -> Bounds:
    """The bounds of start and end of the windows of a time: start > time - size and end > time."""
    found = {}
    for (marks, column), offset in bounds.items():
        if column == window.column:
            found[marks, arity] = offset - window.size + 1
            found[marks, arity + 1] = offset + 1
    return found


def _of_join(join: DeltaJoin | DeltaSemijoin, inputs: Sequence[Bounds]) -> Bounds:
    """The bounds of a join: a change of one side brings rows of the other, down to its partners.

    A semijoin or antijoin emits the columns of its left side.
    """
    sides = [weakest(pair) for pair in zip(inputs, partners(join, inputs), strict=True)]
    picked = [(0, column) if column >= 0 else (1, -column - 1) for column in join.columns]
    return strongest(
        moved(bounds, [column if own == side else None for own, column in picked])
        for side, bounds in enumerate(sides)
    )


def _of_groups(operator: GroupwiseOperator, arranged: Bounds, groups: Sequence[int]) -> Bounds:
    """The bounds of a function of groups, over an arrangement that begins with their columns.

    Every row of a group can change when one of them does, so only the columns of the groups keep
    their bounds.
    """
    if isinstance(operator, Aggregate):
        return moved(arranged, range(operator.key))
    if isinstance(operator, _KEEP_GROUP_COLUMNS):
        place = {column: number for number, column in enumerate(groups)}
        return moved(arranged, [place.get(column) for column in range(max(groups, default=-1) + 1)])
    return NONE
