"""The keys that the readers of each stream want its rows to be placed by.

A reader with the key k is served by any part of k. Row by row operators pass the wishes of their
readers on, as far as they concern columns of their input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dbsp.circuit.graph import Graph, Node
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
FILTERS = (Close, DeltaRecent, Timely)
"""Operators that filter the rows of their first input by the watermark, which is the second."""


def wanted_columns(circuit: Graph, pivots: Mapping[Node, PivotedScope]) -> dict[Node, list[Key]]:
    """Return for each stream the keys of its readers, in the columns of the stream. O(edges).

    `pivots` has the scopes that are divided by pivots.
    """
    found: dict[Node, list[Key]] = {}
    # A delay passes the keys of its readers to its source, which comes later: so two rounds.
    delayed: list[tuple[Node, Key]] = []
    for _ in range(2):
        found = {}
        for node, key in delayed:
            found.setdefault(node, []).append(key)
        delayed = []
        for node in reversed(circuit.nodes):
            own = found.get(node, [])
            scope = pivots.get(node)
            if scope is not None:
                # The arrangements that enter come before, and pass the keys on to their streams.
                for outer, placement in scope.entering:
                    if placement.columns:
                        found.setdefault(outer, []).append(frozenset(placement.columns))
            for place, key in _of_inputs(node, own):
                if key:
                    found.setdefault(node.inputs[place].node, []).append(key)
            if isinstance(node.operator, Delay):
                delayed += [(stream.node, key) for stream in node.strict for key in own]
    return found


def _of_inputs(node: Node, wanted: Sequence[Key]) -> Iterator[tuple[int, Key]]:
    """Yield the numbers of the inputs of a node, and keys that it wants."""
    operator = node.operator
    if isinstance(operator, Arrange):
        yield from ((0, frozenset(operator.order[column] for column in key)) for key in wanted)
    elif isinstance(operator, FILTERS):
        yield from ((0, key) for key in wanted)
    elif isinstance(operator, Output):
        return
    else:
        columns = row_columns(node)
        if columns is not None:
            for key in wanted:
                kept = frozenset(c for c in (columns[column] for column in key) if c is not None)
                yield from ((place, kept) for place in range(len(node.inputs)))
            return
        reads = keyed_reads(node)
        if reads is not None:
            # An aggregate that can exchange partial sums counts half.
            times = 1 if has_partial_sums(operator) else 2
            for place, of_input in enumerate(reads.columns):
                yield from [(place, frozenset(of_input))] * times
                if not of_input and isinstance(operator, DeltaMultiwayJoin):
                    # Most look-ups of prefixes are by the first column.
                    yield place, frozenset(range(min(1, node.inputs[place].schema.arity)))
                for key in wanted:
                    yield place, frozenset(of_input[p] for p in reads.positions if reads.emitted(p) in key)


def preferred_columns(wanted: Sequence[Key], among: Sequence[int]) -> tuple[int, ...]:
    """Return the part of `among` that serves most readers; the largest of several, else `among`.

    >>> preferred_columns([frozenset({0, 1}), frozenset({0, 2})], range(3))
    (0,)
    >>> preferred_columns([frozenset({0, 1})], range(3))
    (0, 1)
    >>> preferred_columns([], range(3))
    (0, 1, 2)
    """
    keys = {key.intersection(among) for key in wanted}
    keys |= {one & other for one in keys for other in keys}
    keys.discard(frozenset())
    best = max(
        keys,
        key=lambda key: (sum(key <= other for other in wanted), len(key), [-c for c in sorted(key)]),
        default=frozenset(among),
    )
    return tuple(sorted(best))
