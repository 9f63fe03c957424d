"""The inputs of the incremental multi-way join: the distinct arrangements and deltas of its
terms."""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.circuit.graph import Node, Stream
from dbsp.circuit.rewriting import Rewriting
from dbsp.operators.traces.arrange import arranged, order_of
from dbsp.operators.traces.column_orders import Lowering, refined


class TermArrangements:
    """Collects the inputs of one join: `streams` and their column `orders`. Methods return
    positions."""

    def __init__(self, rewriting: Rewriting) -> None:
        self._rewriting = rewriting
        self._sources: list[Node] = []
        self.streams: list[Stream] = []
        self.orders: list[tuple[int, ...]] = []

    def arrangement_for(self, stream: Stream, sets: Sequence[frozenset[int]]) -> int:
        """Return an arrangement of `stream` whose prefixes include each of the column sets."""
        rewriting = self._rewriting
        leading = refined(sets)
        if isinstance(rewriting, Lowering):
            leading = rewriting.orders.through(stream, sets)
        found = arranged(rewriting, stream, leading)
        return self._number(stream, found, order_of(found))

    def delta_input(self, stream: Stream, first: frozenset[int]) -> int:
        """Return an input with the deltas of `stream`, sorted by a column of `first` if
        possible."""
        numbers = [n for n, source in enumerate(self._sources) if source is stream.node]
        if not numbers:
            return self._number(stream, stream, tuple(range(stream.schema.arity)))
        return next((n for n in numbers if self.orders[n][:1] and self.orders[n][0] in first), numbers[0])

    def _number(self, source: Stream, stream: Stream, order: tuple[int, ...]) -> int:
        for number, known in enumerate(self.streams):
            if known.node is stream.node:
                return number
        self._sources.append(source.node)
        self.streams.append(stream)
        self.orders.append(order)
        return len(self.streams) - 1
