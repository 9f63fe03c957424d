"""Segments: a distributed circuit cut at its exchanges, so that no part waits inside a tick.

The *level* of a node is the number of exchanges on the longest way to it:

    level(n) = the largest of level(m) for the inputs m of n, plus 1 for each m that is an exchange

The nodes of one level are a segment, a circuit of its own. Where a stream leaves a segment, its
node sends the rows to the shards, and `Received` nodes of later segments emit what arrives. So one
tick of all shards is: each shard steps segment 0, the rows that leave it move, each shard steps
segment 1, and so on. An engine that has stages and a shuffle between them can run that.

An arrangement belongs to the segments of its readers: its state is where it is probed, and a stream
that is read in several segments is arranged in each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.graph_copy import GraphCopy
from dbsp.errors import CircuitError
from dbsp.operators.ports.input import DealtInput
from dbsp.operators.ports.output import Output
from dbsp.operators.ports.segment_ports import Carried, Received
from dbsp.operators.shards.exchange import Broadcast, Exchange, Gather
from dbsp.operators.time.watermark import Watermark
from dbsp.operators.traces.arrange import Arrange

MOVERS = (Exchange, Gather, Broadcast, Carried)
"""The operators that send rows to other segments, each with one exchange of messages in a tick."""


@dataclass(frozen=True)
class Crossing:
    """A stream that leaves a segment, and the later segments that read it."""

    name: str
    readers: tuple[int, ...]


@dataclass(frozen=True)
class Segment:
    """The nodes of one level as a circuit."""

    level: int
    graph: Graph
    sends: tuple[Crossing, ...]
    """What its exchanges send, in the order in which a tick steps them."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs of the query that the segment has."""
        return tuple(
            node.operator.relation for node in self.graph.nodes if isinstance(node.operator, DealtInput)
        )

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs of the query that the segment has."""
        return tuple(node.operator.relation for node in self.graph.nodes if isinstance(node.operator, Output))


def segments_of(distributed: Graph) -> list[Segment]:
    """Return the segments of a distributed circuit, by level. O(nodes * levels).

    Raises CircuitError if an exchange is inside a recursive scope, or on the way back to a delay.
    """
    _refuse_inner_exchanges(distributed)
    levels = _levels(distributed)
    places = _places(distributed, levels)
    readers = _readers(distributed, levels, places)
    count = 1 + max((max(at) for at in places.values() if at), default=0)
    return [_segment(distributed, level, levels, places, readers) for level in range(count)]


def _refuse_inner_exchanges(distributed: Graph) -> None:
    for node in distributed.walk():
        if node.graph is not distributed and isinstance(node.operator, MOVERS):
            raise CircuitError(
                "expected a circuit without exchanges inside of recursions, got one that exchanges rows in "
                "every iteration; distribute it with recursions on one shard",
                where=node.describe(),
                code="not-shardable",
            )


def _levels(distributed: Graph) -> dict[Node, int]:
    """Return the level of each node; of an exchange the level that sends."""
    levels = dict.fromkeys(distributed.nodes, 0)
    movers = sum(isinstance(node.operator, MOVERS) for node in distributed.nodes)
    changed = True
    while changed:
        changed = False
        for node in distributed.nodes:
            level = max((_available(levels, stream) for stream in _read(node)), default=0)
            if level > levels[node]:
                levels[node], changed = level, True
            if level > movers:
                raise CircuitError(
                    "this node reads what it has caused in the tick before, and the rows move between shards "
                    "on the way, so one tick would wait for the next; run the circuit in one process",
                    where=node.describe(),
                    code="not-shardable",
                )
    return levels


def _read(node: Node) -> Sequence[Stream]:
    return (*node.inputs, *node.strict)


def _available(levels: Mapping[Node, int], stream: Stream) -> int:
    """Return the first level that can read a stream."""
    return levels[stream.node] + isinstance(stream.node.operator, MOVERS)


def _places(distributed: Graph, levels: Mapping[Node, int]) -> dict[Node, set[int]]:
    """Return the levels at which each node is stepped: an arrangement at those of its readers."""
    places: dict[Node, set[int]] = {node: set() for node in distributed.nodes}
    for node in reversed(distributed.nodes):
        if not isinstance(node.operator, Arrange):
            places[node].add(levels[node])
        for stream in _read(node):
            if isinstance(stream.node.operator, Arrange):
                places[stream.node] |= places[node]
    for node in distributed.nodes:  # arrangements that come after their reader, or have none
        if isinstance(node.operator, Arrange) and not places[node]:
            places[node].add(levels[node])
    return places


def _readers(
    distributed: Graph, levels: Mapping[Node, int], places: Mapping[Node, set[int]]
) -> dict[Node, set[int]]:
    """Return for each stream that crosses segments the later levels that read it."""
    readers: dict[Node, set[int]] = {}
    for node in distributed.nodes:
        for stream in _read(node):
            source = stream.node
            sent = isinstance(source.operator, MOVERS)
            later = {level for level in places[node] if sent or level not in places[source]}
            if later:
                readers.setdefault(source, set()).update(later)
    return readers


def _segment(
    distributed: Graph,
    level: int,
    levels: Mapping[Node, int],
    places: Mapping[Node, set[int]],
    readers: Mapping[Node, set[int]],
) -> Segment:
    target = Graph(f"{distributed.name}, segment {level}")
    copy = GraphCopy(lambda node: node.graph is not distributed or level in places[node])
    for node, at in readers.items():
        if level in at:
            copy.place(node, _received(target, node))
    copy.fill(distributed, target)
    crossing = {node: at for node, at in readers.items() if levels[node] == level}
    for node in crossing:
        if not isinstance(node.operator, MOVERS):
            target.append(Carried(), (copy.image(node),), node.schema, node.source)
    target.validate()
    return Segment(level, target, tuple(_sends(distributed, target, crossing, level, levels)))


def _received(target: Graph, node: Node) -> Stream:
    """Append the stream of a node of an earlier segment."""
    operator = Received(_name(node), node.schema, sets_only=node.is_set)
    stream = target.append(operator, (), node.schema, node.source)
    if isinstance(node.operator, Watermark):  # its readers expect a watermark: that of one row
        stream = target.append(Watermark(0, 0), (stream,), node.schema, node.source)
    return stream


def _name(node: Node) -> str:
    """Return the name of a stream between segments; no relation has such a name."""
    return f"#{node.id}"


def _sends(
    distributed: Graph,
    target: Graph,
    crossing: Mapping[Node, set[int]],
    level: int,
    levels: Mapping[Node, int],
) -> Iterator[Crossing]:
    """Yield the crossings in the order of the sending nodes of a segment."""
    for node in distributed.nodes:
        if isinstance(node.operator, MOVERS) and levels[node] == level:
            yield Crossing(_name(node), tuple(sorted(crossing.get(node, ()))))
    for node, at in crossing.items():
        if not isinstance(node.operator, MOVERS):
            yield Crossing(_name(node), tuple(sorted(at)))
