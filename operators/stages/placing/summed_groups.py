"""Linear aggregates whose groups are not on one shard: partial sums are exchanged, not rows."""

from __future__ import annotations

from dbsp.circuit.graph import Node, Stream
from dbsp.errors import expect_type
from dbsp.operators.groups.aggregate import AccumulatedAggregate
from dbsp.operators.groups.partial_sums import PartialSums, SummedAggregate, has_partial_sums
from dbsp.operators.shards.exchange import Exchange, Gather
from dbsp.operators.shards.placements import EVERYWHERE, by
from dbsp.operators.stages.placing.keyed_reads import keyed_reads
from dbsp.operators.stages.placing.placed_graph import PlacedGraph, arranged_node
from dbsp.operators.traces.arrange import Arrange


def is_summed(placed: PlacedGraph, node: Node, columns: tuple[int, ...]) -> bool:
    """Return whether an aggregate by these columns exchanges partial sums.

    It does not if its rows are there already, or if another reader needs the exchanged rows.
    """
    source = node.inputs[0].node
    own = placed.placement(source)
    if not has_partial_sums(node) or own == EVERYWHERE or placed.has(source, by(columns)):
        return False
    readers = {reader for reader in source.graph.nodes if source in map(_read_node, reader.inputs)}
    return not any(_reads_by(reader, columns) for reader in readers - {node})


def _read_node(stream: Stream) -> Node:
    return arranged_node(stream.node)


def _reads_by(reader: Node, columns: tuple[int, ...]) -> bool:
    """Return whether a node reads rows by a key that has these columns."""
    reads = keyed_reads(reader)
    if reads is None or not columns or has_partial_sums(reader):
        return False
    keys = zip(reader.inputs, reads.columns, strict=True)
    return any(set(columns) <= {_base_column(stream, column) for column in key} for stream, key in keys)


def _base_column(stream: Stream, column: int) -> int:
    operator = stream.node.operator
    return operator.order[column] if isinstance(operator, Arrange) else column


def place_sums(placed: PlacedGraph, node: Node, columns: tuple[int, ...]) -> None:
    """Place an aggregate over partial sums that are exchanged by columns of its key."""
    operator = expect_type(node.operator, AccumulatedAggregate, "an aggregate with accumulators")
    source = node.inputs[0].node
    partial = PartialSums(operator.aggregate)
    schema = partial.checked_schema(source.schema)
    sums = placed.target.append(partial, (placed.own_image(source),), schema, node.source)
    mover = Exchange(columns) if columns else Gather()
    moved = placed.target.append(mover, (sums,), schema, node.source)
    names = ", ".join(source.schema.names[column] for column in columns)
    why = f"one row with sums per shard and ({names})" if names else "one row with sums per shard"
    placed.changed(mover, source, node, f"{why}, since the function is linear")
    placed.check(node, moved, by(columns))
    summed = SummedAggregate(operator.aggregate, (), over=source.schema)
    placed.place(node, placed.add(node, summed, moved), by(columns))
