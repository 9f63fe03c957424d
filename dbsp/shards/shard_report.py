"""Text about a sharded run: how rows and work are spread over its shards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dbsp.circuit.graph import Graph, Node, placed
from dbsp.circuit.node_numbers import node_number, numbered
from dbsp.circuit.operator_roles import HashPlaced
from dbsp.display.amounts import memory, row_count
from dbsp.errors import counted, shorten
from dbsp.lazy_dataclass import dataclass
from dbsp.shards.shard_questions import HeavyKey
from dbsp.shards.shard_stats import ShardStats

HEAVY = 0.1
"""A key with at least this share of the rows of a stream is named."""


def skew(amounts: Sequence[float]) -> float:
    """Return the largest amount as a multiple of the mean; 1.0 if all are 0."""
    mean = sum(amounts) / len(amounts)
    return max(amounts) / mean if mean else 1.0


@dataclass(frozen=True, slots=True)
class MovedRows:
    """What an exchange has moved since the start, over all shards."""

    where: str
    """The node of the exchange, with its number."""
    rows: int
    """All rows that it has placed."""
    received: int
    """The rows among them that came from another shard."""
    bytes: int
    """The bytes that the shards have sent."""
    rows_to: tuple[int, ...]
    """By shard, the rows that it has placed there."""


def moved_rows(stats: Sequence[ShardStats]) -> list[MovedRows]:
    """Return what each exchange has moved, in the order of the circuit."""
    moved = []
    for where in dict.fromkeys(where for one in stats for where in one.exchanges):
        found = [one.exchanges[where] for one in stats if where in one.exchanges]
        rows_to = tuple(map(sum, zip(*(each.rows_to for each in found), strict=True)))
        received = sum(each.rows_received for each in found)
        moved.append(
            MovedRows(where, sum(rows_to), received, sum(each.bytes_sent for each in found), rows_to)
        )
    return moved


def report_lines(
    graph: Graph, stats: Sequence[ShardStats], keys: Mapping[Node, Sequence[HeavyKey]]
) -> Iterator[str]:
    """Yield the state by shard, what the exchanges have moved, and heavy keys."""
    rows = [one.rows for one in stats]
    yield f"{counted(len(stats), 'shard')}, {row_count(sum(rows))} in all"
    for one in stats:
        files = f", {memory(one.file_bytes)} in files" if one.file_bytes else ""
        yield f"  shard {one.shard}: {row_count(one.rows)}, {memory(one.bytes)}{files}"
    if len(stats) > 1:
        yield f"  the largest has {skew(rows):.2f} times the mean"
    exchanges = moved_rows(stats)
    if exchanges:
        yield "exchanges since the start"
    nodes = {numbered(node): node for node in graph.walk()} if exchanges else {}
    for moved in exchanges:
        line = f"  {_between(nodes[moved.where])}: {row_count(moved.rows)}, "
        line += f"{moved.received:,} of them to another shard"
        line += f", {memory(moved.bytes)}"
        if moved.rows and len(stats) > 1:
            line += f"; the largest part has {skew(moved.rows_to):.2f} times the mean"
        yield line
    named = [line for node, found in keys.items() for line in _heavy(node, found)]
    if named:
        yield "heavy keys: all rows of a key are on one shard"
        yield from named


def _between(mover: Node) -> str:
    """Return the number of an exchange, its columns, and the nodes before and after it."""
    operator, (source,) = mover.operator, mover.inputs
    columns = operator.placed_by if isinstance(operator, HashPlaced) else ()
    by = f" by ({', '.join(mover.schema.names[column] for column in columns)})" if columns else ""
    readers = ", ".join(dict.fromkeys(reader.label for reader in _readers(mover)))
    return placed(
        f"node {node_number(mover)}, {operator.name}{by} of {source.node.label} for {readers}", mover.source
    )


def _readers(node: Node) -> Iterator[Node]:
    """Yield the nodes that read the rows of a node, behind its arrangements."""
    for reader in node.graph.nodes:
        if any(stream.node is node for stream in (*reader.inputs, *reader.strict)):
            if reader.label.startswith("Arrange"):
                yield from _readers(reader)
            else:
                yield reader


def _heavy(node: Node, found: Sequence[HeavyKey]) -> Iterator[str]:
    """Yield the heaviest key of a stream, if its share of the rows is large."""
    heaviest = max(found, key=lambda key: key.rows)
    total = sum(key.all_rows for key in found)
    operator = node.operator
    if not isinstance(operator, HashPlaced) or heaviest.rows < max(2.0, HEAVY * total):
        return
    names = (node.schema.names[column] for column in operator.placed_by)
    key = ", ".join(f"{name} = {shorten(value)}" for name, value in zip(names, heaviest.key, strict=True))
    place = f" ({node.source})" if node.source else ""
    yield f"  {node.label}{place}: {key} has {heaviest.rows / total:.0%} of {row_count(total)}"
