"""The keys that the readers of each stream want its rows to be placed by.

A reader with the key k is served by any part of k. Row by row operators pass the wishes of their
readers on, as far as they concern columns of their input. Wishes have weights:

| reader                                   | weight                                              |
|------------------------------------------|-----------------------------------------------------|
| an operator with a key                   | 1                                                   |
| ... of other rows, made row by row       | 3/4: their traces are not those of the stream       |
| an aggregate that adds up partial sums   | 1/100: an exchange of the sums moves few rows       |
| a later operator                         | 1/5 of its wish: to choose between parts of a key   |
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from dbsp.circuit.graph import Graph, Node
from dbsp.data.schema import Schema
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.groups.partial_sums import has_partial_sums
from dbsp.operators.joins.multiway_join import DeltaMultiwayJoin
from dbsp.operators.ports.output import Output
from dbsp.operators.stages.placing.keyed_reads import keyed_reads
from dbsp.operators.stages.placing.pivots import PivotedScope
from dbsp.operators.stages.placing.row_columns import row_columns
from dbsp.operators.time.closing import Close
from dbsp.operators.time.delay import Delay
from dbsp.operators.time.recent import DeltaRecent
from dbsp.operators.time.watermark import Timely
from dbsp.operators.traces.arrange import Arrange

Key = frozenset[int]


@dataclass(frozen=True)
class Wish:
    """A reader of a stream, the columns of its key, and how much it matters."""

    reader: Node
    key: Key
    weight: float = 1.0

    def text(self, schema: Schema) -> str:
        """Return in words why the rows are not placed by this key."""
        names = ", ".join(schema.names[column] for column in sorted(self.key))
        reader = f"{self.reader.label} ({self.reader.source})" if self.reader.source else self.reader.label
        if self.weight <= PARTIAL_SUMS:
            why = "whose partial sums move instead"
        elif self.weight == PREFIXES:
            why = "which gets these rows by an exchange"
        elif self.weight < 1:
            why = "which reads rows made from these"
        else:
            why = "since fewer readers want that"
        return f"not by ({names}) for {reader}, {why}"


FILTERS = (Close, DeltaRecent, Timely)
"""Operators that filter the rows of their first input by the watermark, which is the second."""


PARTIAL_SUMS = 0.01
PREFIXES = 0.5
ROW_BY_ROW = 0.75
LATER = 0.2
LEAST = 0.001
"""Wishes of a lower weight are dropped."""
SPREAD = 0.1
"""The weight of a key against a part of it, which may divide the rows less evenly."""


def wanted_columns(circuit: Graph, pivots: Mapping[Node, PivotedScope]) -> dict[Node, list[Wish]]:
    """Return for each stream the wishes of its readers, in the columns of the stream.

    `pivots` has the scopes that are divided by pivots. Cost: O(edges) times the number of wishes of
    a stream.
    """
    found: dict[Node, dict[tuple[Node, Key], float]] = {}

    def add(node: Node, wish: Wish) -> None:
        if wish.key and wish.weight >= LEAST:
            of_node = found.setdefault(node, {})
            of_node[wish.reader, wish.key] = max(wish.weight, of_node.get((wish.reader, wish.key), 0.0))

    # A delay passes the wishes of its readers to its source, which comes later: so two rounds.
    delayed: list[tuple[Node, Wish]] = []
    for _ in range(2):
        found.clear()
        for node, wish in delayed:
            add(node, wish)
        delayed = []
        for node in reversed(circuit.nodes):
            own = [Wish(reader, key, weight) for (reader, key), weight in found.get(node, {}).items()]
            scope = pivots.get(node)
            if scope is not None:
                # The arrangements that enter come before, and pass the keys on to their streams.
                for outer, placement in scope.entering:
                    add(outer, Wish(node, frozenset(placement.columns or ())))
            for place, wish in _of_inputs(node, own):
                add(node.inputs[place].node, wish)
            if isinstance(node.operator, Delay):
                delayed += [(stream.node, wish) for stream in node.strict for wish in own]
    return {
        node: [Wish(reader, key, weight) for (reader, key), weight in wishes.items()]
        for node, wishes in found.items()
    }


def _of_inputs(node: Node, wishes: Sequence[Wish]) -> Iterator[tuple[int, Wish]]:
    """Yield the numbers of the inputs of a node, and wishes for them."""
    operator = node.operator
    if isinstance(operator, Arrange):
        for wish in wishes:
            yield 0, replace(wish, key=frozenset(operator.order[column] for column in wish.key))
    elif isinstance(operator, FILTERS):
        yield from ((0, wish) for wish in wishes)
    elif isinstance(operator, Output):
        return
    elif (columns := row_columns(node)) is not None:
        for wish in wishes:
            kept = frozenset(c for c in (columns[column] for column in wish.key) if c is not None)
            for place in range(len(node.inputs)):
                yield place, Wish(wish.reader, kept, wish.weight * ROW_BY_ROW)
    elif (reads := keyed_reads(node)) is not None:
        weight = PARTIAL_SUMS if has_partial_sums(node) else 1.0
        for place, of_input in enumerate(reads.columns):
            yield place, Wish(node, frozenset(of_input), weight)
            if not of_input and isinstance(operator, DeltaMultiwayJoin):
                # Most look-ups of prefixes are by the first column.
                first = frozenset(range(min(1, node.inputs[place].schema.arity)))
                yield place, Wish(node, first, PREFIXES)
            for wish in wishes:
                part = frozenset(of_input[p] for p in reads.positions if reads.emitted(p) in wish.key)
                yield place, Wish(wish.reader, part, wish.weight * weight * LATER)


def served(columns: Collection[int], wishes: Sequence[Wish]) -> float:
    """Return the weight of the wishes that rows placed by these columns serve."""
    return sum(wish.weight for wish in wishes if wish.key.issuperset(columns))


def rejected_key(wishes: Sequence[Wish], columns: Sequence[int]) -> Wish | None:
    """Return the wish of the greatest weight that rows placed by these columns do not serve."""
    others = [wish for wish in wishes if not wish.key.issuperset(columns)]
    return max(others, key=lambda wish: wish.weight, default=None)


def preferred_columns(wishes: Sequence[Wish], among: Sequence[int]) -> tuple[int, ...]:
    """Return the part of `among` that serves most wishes; the largest of several, else `among`.

    >>> def wishes(*keys: set[int]) -> list[Wish]:
    ...     return [Wish(None, frozenset(key)) for key in keys]
    >>> preferred_columns(wishes({0, 1}, {0, 2}), range(3))
    (0,)
    >>> preferred_columns(wishes({0, 1}), range(3))
    (0, 1)
    >>> preferred_columns([], range(3))
    (0, 1, 2)
    """
    keys = {wish.key.intersection(among) for wish in wishes}
    keys |= {one & other for one in keys for other in keys}
    keys.discard(frozenset())
    best = max(
        keys,
        key=lambda key: (served(key, wishes), len(key), [-c for c in sorted(key)]),
        default=frozenset(among),
    )
    return tuple(sorted(best))
