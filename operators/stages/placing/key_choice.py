"""The choice of the part of a key by which the inputs of an operator are placed.

The candidates are the whole key, the placements that its inputs have already, and the parts that
its readers want, or other readers of its inputs. The one with the fewest exchanges is chosen; of
several the one that serves most other readers. A whole key spreads the rows best; a
part of it is not chosen for an aggregate with partial sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dbsp.circuit.graph import Node
from dbsp.operators.groups.aggregate import AccumulatedAggregate, Aggregate
from dbsp.operators.groups.distinct import DeltaDistinct
from dbsp.operators.groups.group_step import RecomputeGroups
from dbsp.operators.joins.delta_semijoin import DeltaSemijoin
from dbsp.operators.joins.join import DeltaJoin
from dbsp.operators.ports.constant import Constant
from dbsp.operators.shards.placements import EVERYWHERE, FIRST_SHARD, by
from dbsp.operators.stages.placing.keyed_reads import KeyedReads
from dbsp.operators.stages.placing.placed_graph import PlacedGraph, arranged_node
from dbsp.operators.stages.placing.row_columns import row_columns
from dbsp.operators.stages.placing.wanted_columns import SPREAD, preferred_columns, served
from dbsp.operators.traces.arrange import Arrange

Part = tuple[int, ...]
"""Positions of a key, in the order in which their columns are hashed."""


def chosen_part(placed: PlacedGraph, node: Node, reads: KeyedReads, moved: Sequence[int]) -> Part:
    """Return the part of the key by which the inputs `moved` are placed."""
    parts = dict.fromkeys(_candidates(placed, node, reads, moved))
    return max(parts, key=lambda part: _score(placed, node, reads, moved, part))


def _candidates(placed: PlacedGraph, node: Node, reads: KeyedReads, moved: Sequence[int]) -> Iterator[Part]:
    yield tuple(reads.positions)
    if all(placed.placement(node.inputs[place].node) == FIRST_SHARD for place in moved):
        yield ()  # else the other shards would have nothing to do
    for place in moved:
        source, key = node.inputs[place].node, reads.columns[place]
        for columns in placed.columns_of(source):
            if columns and set(columns) <= set(key):
                yield tuple(key.index(column) for column in columns)
        preferred = preferred_columns(placed.wanted_of(source), key)
        yield tuple(position for position in reads.positions if key[position] in preferred)
    for wish in placed.wanted_of(node):
        part = tuple(position for position in reads.positions if reads.emitted(position) in wish.key)
        if part:
            yield part


def _score(
    placed: PlacedGraph, node: Node, reads: KeyedReads, moved: Sequence[int], part: Part
) -> tuple[float, ...]:
    exchanges, served_wishes = 0, 0.0
    for place in moved:
        source, columns = node.inputs[place].node, columns_at(reads, place, part)
        exchanges += not placed.has(source, by(columns))
        served_wishes += served(columns, placed.wanted_of(source))
    emitted = [column for position in part if (column := reads.emitted(position)) is not None]
    if part and len(emitted) == len(part):
        served_wishes += served(emitted, placed.wanted_of(node))
    spread = SPREAD * (len(part) == len(reads.positions))
    return -exchanges, served_wishes + spread, len(part)


def columns_at(reads: KeyedReads, place: int, part: Part) -> tuple[int, ...]:
    """Return the columns of an input at these positions of the key."""
    return tuple(reads.columns[place][position] for position in part)


def copied_inputs(placed: PlacedGraph, node: Node, reads: KeyedReads) -> list[int]:
    """Return the inputs that every shard has or receives: the single rows of a product."""
    if not set(reads.copies):
        return []
    copied = [place for place in reads.copies if placed.placement(node.inputs[place].node) == EVERYWHERE]
    if not copied and not reads.positions:
        copied = [place for place in reads.copies if is_small(arranged_node(node.inputs[place].node))][:1]
        if all(placed.placement(stream.node) == FIRST_SHARD for stream in node.inputs):
            return []
    return copied


def is_small(node: Node) -> bool:
    """Return whether a stream has few rows: constants, aggregates of all rows, or their results.

    A stream without columns has at most one row.
    """
    operator = node.operator
    if isinstance(operator, Constant) or not node.schema.arity:
        return True
    if isinstance(operator, AccumulatedAggregate):
        return operator.aggregate.key == 0
    if isinstance(operator, RecomputeGroups) and isinstance(operator.operator, Aggregate):
        return operator.operator.key == 0
    if isinstance(operator, DeltaSemijoin):
        return is_small(node.inputs[0].node)
    kept = isinstance(operator, Arrange | DeltaDistinct | DeltaJoin) or row_columns(node) is not None
    return kept and bool(node.inputs) and all(is_small(stream.node) for stream in node.inputs)
