"""Segments: a distributed circuit cut at its exchanges.

The *level* of a node is the number of exchanges on the longest way to it:

    level(n) = the largest of level(m) for the inputs m of n, plus 1 for each m that is an exchange

The nodes of one level are a segment, a circuit of its own. Where a stream leaves a segment, its
node sends the rows to the shards, and `Received` nodes of later segments emit what arrives. So one
tick of all shards is: each shard steps segment 0, the rows that leave it move, each shard steps
segment 1, and so on. An engine that has stages and a shuffle between them can run that.

An arrangement belongs to the segments of its readers: its state is where it is probed, and a stream
that is read in several segments is arranged in each of them.

A scope with exchanges inside is not cut. Its segment *waits*: the shards step the scope together,
round by round (`dbsp.shards.segment_link`). No other segment waits inside a tick.

A node that reads one tick late may come before what it reads. Then the rows are *held*: they arrive
in its segment in the next tick. For a delay that is all it does, so `Received` takes its place. A
trace that forgets rows below a watermark keeps them for one tick longer, which no output shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.graph_copy import GraphCopy
from dbsp.circuit.node_numbers import numbered
from dbsp.errors import CircuitError
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.joins.placed_multiway_join import PlacedMultiwayJoin
from dbsp.operators.ports.input import DealtInput
from dbsp.operators.ports.output import Output
from dbsp.operators.ports.segment_ports import Carried, Received
from dbsp.operators.shards.exchange import Broadcast, Exchange, Gather
from dbsp.operators.time.delay import Delay
from dbsp.operators.time.watermark import Watermark
from dbsp.operators.traces.arrange import Arrange

MOVERS = (Exchange, Gather, Broadcast, Carried)
"""The operators that send rows to other segments, each with one exchange of messages in a tick."""


@dataclass(frozen=True)
class Crossing:
    """A stream that leaves a segment; its rows arrive in the inputs `name` of its readers."""

    name: str
    readers: tuple[int, ...]
    """The later segments that read it in the same tick."""
    next_readers: tuple[int, ...] = ()
    """The segments that read it in the next tick, as the input `held_name`."""

    @property
    def held_name(self) -> str:
        return f"{self.name} late"


@dataclass(frozen=True)
class Segment:
    """The nodes of one level as a circuit."""

    level: int
    graph: Graph
    sends: Mapping[str, Crossing]
    """What its exchanges send, by their names (`dbsp.circuit.node_numbers`)."""

    @cached_property
    def waits(self) -> bool:
        """Whether a scope has exchanges inside, so that its shards wait for each other there."""
        return any(
            node.graph is not self.graph and isinstance(node.operator, MOVERS) for node in self.graph.walk()
        )

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

    Raises CircuitError if an exchange is inside of a multi-way join.
    """
    _refuse_inner_exchanges(distributed)
    levels = _levels(distributed)
    cut = Cut(distributed, levels, _places(distributed, levels))
    return [cut.segment(level) for level in range(1 + max(map(max, cut.places.values()), default=0))]


def _refuse_inner_exchanges(distributed: Graph) -> None:
    for node in distributed.walk():
        if isinstance(node.operator, PlacedMultiwayJoin):
            raise CircuitError(
                "expected a circuit without exchanges inside of joins, got one that waits for other shards "
                "there; distribute it with inner_exchanges=False",
                where=node.describe(),
                code="not-shardable",
            )


def _levels(distributed: Graph) -> dict[Node, int]:
    """Return the level of each node; of an exchange the level that sends."""
    levels: dict[Node, int] = {}
    for node in distributed.nodes:
        levels[node] = max((_available(levels, stream.node) for stream in node.inputs), default=0)
    return levels


def _available(levels: Mapping[Node, int], node: Node) -> int:
    """Return the first level that can read what a node emits."""
    return levels[node] + isinstance(node.operator, MOVERS)


def _places(distributed: Graph, levels: Mapping[Node, int]) -> dict[Node, set[int]]:
    """Return the levels at which each node is stepped: an arrangement at those of its readers."""
    places: dict[Node, set[int]] = {node: set() for node in distributed.nodes}
    for node in reversed(distributed.nodes):
        if not isinstance(node.operator, Arrange):
            places[node].add(levels[node])
        for stream in (*node.inputs, *node.strict):
            if isinstance(stream.node.operator, Arrange):
                places[stream.node] |= places[node]
    for node, at in places.items():
        if not at:  # an arrangement that nothing reads
            at.add(levels[node])
    return places


@dataclass
class Cut:
    """The levels of a circuit, and the streams that cross them."""

    distributed: Graph
    levels: Mapping[Node, int]
    places: Mapping[Node, set[int]]
    """By node the levels at which it is stepped."""
    readers: dict[Node, set[int]] = field(default_factory=dict)
    """By stream the later levels that read it in the same tick."""
    next_readers: dict[Node, set[int]] = field(default_factory=dict)
    """By stream the levels that read it in the next tick."""

    def __post_init__(self) -> None:
        for node in self.distributed.nodes:
            for level in self.places[node]:
                for stream in node.inputs:
                    self._read(stream.node, level, self.readers)
                for stream in node.strict:
                    held = _available(self.levels, stream.node) > level
                    self._read(stream.node, level, self.next_readers if held else self.readers)

    def _read(self, source: Node, level: int, readers: dict[Node, set[int]]) -> None:
        if isinstance(source.operator, MOVERS) or level not in self.places[source]:
            readers.setdefault(source, set()).add(level)

    def segment(self, level: int) -> Segment:
        """Return the segment of a level."""
        target = Graph(f"{self.distributed.name}, segment {level}")
        copy = GraphCopy(lambda node: node.graph is not self.distributed or self._kept(node, level))
        for node, at in self.readers.items():
            if level in at:
                copy.place(node, _received(target, node, _name(node)))
        for node, at in self.next_readers.items():
            if level in at:
                copy.place(node, _received(target, node, Crossing(_name(node), ()).held_name))
        for node in self.distributed.nodes:
            if level in self.places[node] and self._is_held(node, level):
                (value,) = node.strict
                copy.place(node, copy.image(value.node))
        copy.fill(self.distributed, target)
        sends = {}
        for node in self.distributed.nodes:
            if self._leaves(node, level):
                sender = copy.image(node)
                if not isinstance(node.operator, MOVERS):
                    sender = target.append(Carried(), (sender,), node.schema, node.source)
                now, later = self.readers.get(node, ()), self.next_readers.get(node, ())
                sends[numbered(sender.node)] = Crossing(_name(node), tuple(sorted(now)), tuple(sorted(later)))
        target.validate()
        return Segment(level, target, sends)

    def _kept(self, node: Node, level: int) -> bool:
        return level in self.places[node] and not self._is_held(node, level)

    def _is_held(self, node: Node, level: int) -> bool:
        """Return whether a node is a delay whose rows are held for the next tick."""
        return isinstance(node.operator, Delay) and any(
            level in self.next_readers.get(stream.node, ()) for stream in node.strict
        )

    def _leaves(self, node: Node, level: int) -> bool:
        """Return whether a node of a level sends rows to segments; an exchange always does."""
        if self.levels[node] != level:
            return False
        return isinstance(node.operator, MOVERS) or node in self.readers or node in self.next_readers


def _received(target: Graph, node: Node, name: str) -> Stream:
    """Append the stream of a node of another segment, as an input of this name."""
    operator = Received(name, node.schema, sets_only=node.is_set)
    stream = target.append(operator, (), node.schema, node.source)
    if isinstance(node.operator, Watermark):  # its readers expect a watermark: that of one row
        stream = target.append(Watermark(0, 0), (stream,), node.schema, node.source)
    return stream


def _name(node: Node) -> str:
    """Return the name of a stream between segments; no relation has such a name."""
    return f"#{node.id}"
