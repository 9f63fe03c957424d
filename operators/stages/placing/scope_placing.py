"""The placements inside a recursive scope without an exchange, from given placements of variables.

The inference is driven by demand. A reader wants a stream in a placement, and the demand continues
with the inputs of its node:

    a stream that enters        any placement: an exchange outside of the scope provides it
    a variable                  the placement of the variable, its *pivot*
    row by row                  the inputs by the same columns, if they pass unchanged
    with a key                  all inputs by the same part of the key
    a join                      also: one side as wanted, and the other side on every shard
    a multi-way join            the inputs with the wanted variables by them, the others everywhere
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.joins.multiway_join import DeltaMultiwayJoin
from dbsp.operators.recursion.delta0 import Delta0
from dbsp.operators.recursion.fixpoint import Leave, fixpoint_of
from dbsp.operators.shards.placements import EVERYWHERE, FIRST_SHARD, UNKNOWN, Placement, by
from dbsp.operators.stages.placing.divided_joins import divided_columns, free_variables
from dbsp.operators.stages.placing.keyed_reads import KeyedReads, keyed_reads
from dbsp.operators.stages.placing.row_columns import is_partial, row_columns, targets
from dbsp.operators.time.delay import Delay
from dbsp.operators.traces.arrange import Arrange, is_external

Demand = tuple[Node, Placement]
"""A stream of a scope, and the placement in which a reader wants it."""


@dataclass(frozen=True)
class PlacedNode:
    """How a node of a scope is placed: what it wants of its sources, and where its rows are."""

    sources: tuple[Demand, ...]
    placement: Placement


class ScopePlacing:
    """The placements of the nodes of a body and the scopes within it.

    `pivots` has the possible placements of each variable.
    """

    def __init__(self, body: Graph, pivots: Mapping[Node, Collection[Placement]]) -> None:
        self._body = body
        self._pivots = pivots
        self._found: dict[Demand, PlacedNode | None] = {}
        self._searched: list[Demand] = []
        """The demands whose ways are being searched, the innermost last."""
        self._impossible: dict[Demand, Demand] = {}
        """By demand, the demand of an input that cannot be met."""

    def find(self, node: Node, wanted: Placement) -> PlacedNode | None:
        """Return how the rows of a node are placed as wanted, or None if they cannot be.

        UNKNOWN stands for any placement in which each row is on one shard only.
        """
        demand = node, wanted
        if demand not in self._found:
            self._searched.append(demand)
            self._found[demand] = next(self._ways(node, wanted), None)
            self._searched.pop()
        return self._found[demand]

    def breaking(self, node: Node, wanted: Placement) -> Node:
        """Return the operator that does not keep a placement which `find` has not found."""
        while True:
            demand = self._impossible.get((node, wanted))
            joins = len(node.inputs) > 1 and row_columns(node) is None
            if demand is None or joins or isinstance(demand[0].operator, Delay | Delta0):
                return node
            node, wanted = demand

    def _ways(self, node: Node, wanted: Placement) -> Iterator[PlacedNode]:
        operator = node.operator
        if isinstance(operator, Delta0):
            yield from self._entering(node, wanted)
        elif isinstance(operator, Delay):
            pivots = self._pivots[node]
            if wanted in pivots:
                yield PlacedNode((), wanted)
            elif wanted == UNKNOWN:
                yield PlacedNode((), next(iter(pivots)) if len(pivots) == 1 else UNKNOWN)
        elif isinstance(operator, Leave):
            yield from self._all([fixpoint_of(node.inputs[0]).body.exports[operator.index]], [wanted])
        elif isinstance(operator, Arrange):
            for inner in self._all(node.inputs, [wanted.moved(operator.order)]):
                order = [operator.order.index(column) for column in range(len(operator.order))]
                yield PlacedNode(inner.sources, inner.placement.moved(order))
        elif not node.inputs:
            yield PlacedNode((), FIRST_SHARD if wanted == UNKNOWN else wanted)
        elif wanted == EVERYWHERE:
            yield from self._all(node.inputs, [EVERYWHERE] * len(node.inputs))
        elif (columns := row_columns(node)) is not None:
            yield from self._row_by_row(node, wanted, columns)
        elif isinstance(operator, DeltaMultiwayJoin):
            yield from self._multiway(node, wanted, operator)
        elif (reads := keyed_reads(node)) is not None:
            yield from self._keyed(node, wanted, reads)

    def _all(self, streams: Sequence[Stream], wanted: Sequence[Placement]) -> Iterator[PlacedNode]:
        """Yield the sources if each can be placed as wanted, with the placement of the first."""
        found = [self.find(stream.node, each) for stream, each in zip(streams, wanted, strict=True)]
        if found and found[0] is not None and None not in found:
            demands = [(stream.node, each) for stream, each in zip(streams, wanted, strict=True)]
            yield PlacedNode(tuple(demands), found[0].placement)
        elif None in found:
            place = found.index(None)
            self._impossible.setdefault(self._searched[-1], (streams[place].node, wanted[place]))

    def _entering(self, node: Node, wanted: Placement) -> Iterator[PlacedNode]:
        outer = node.graph.outer_of(Stream(node))
        if node.graph is not self._body:  # it enters a nested scope
            yield from self._all([outer], [wanted])
        elif not is_external(outer) or wanted in (FIRST_SHARD, UNKNOWN):
            yield PlacedNode((), wanted)

    def _row_by_row(
        self, node: Node, wanted: Placement, columns: Sequence[int | None]
    ) -> Iterator[PlacedNode]:
        count, arity = len(node.inputs), node.inputs[0].schema.arity
        if wanted.columns is not None:
            taken = [columns[column] for column in wanted.columns]
            kept = [column for column in taken if column is not None]
            ways = [by(kept)] if len(kept) == len(taken) else []
        elif is_partial(node):
            # Equal rows must meet before the node, so that it raises only for rows that remain.
            ways = [by((column,)) for column in range(arity)]
        else:
            ways = [UNKNOWN]
        for way in ways:
            for found in self._all(node.inputs, [way] * count):
                placement = found.placement.moved(targets(columns, arity)) if count == 1 else UNKNOWN
                yield PlacedNode(found.sources, wanted if wanted.keyed else placement)

    def _keyed(self, node: Node, wanted: Placement, reads: KeyedReads) -> Iterator[PlacedNode]:
        if wanted.columns is None:
            parts = [(position,) for position in reads.positions] + [tuple(reads.positions)]
        else:
            at = [_position(reads, column) for column in wanted.columns]
            part = tuple(position for position in at if position is not None)
            parts = [part] if len(part) == len(at) else []
        for part in parts:
            columns = [tuple(key[position] for position in part) for key in reads.columns]
            for found in self._all(node.inputs, [by(key) for key in columns]):
                emitted = [reads.emitted(position) for position in part]
                kept = [column for column in emitted if column is not None]
                yield PlacedNode(found.sources, by(kept) if len(kept) == len(emitted) else UNKNOWN)
        for place in range(len(node.inputs)):
            others = {*range(len(node.inputs))} - {place}
            if not others or not others <= {*reads.copies}:
                continue
            own: Placement | None = UNKNOWN
            if wanted.columns is not None:
                taken = [_source_column(reads, place, column) for column in wanted.columns]
                kept = [column for column in taken if column is not None]
                own = by(kept) if len(kept) == len(taken) else None
            if own is not None:
                each = [own if other == place else EVERYWHERE for other in range(len(node.inputs))]
                for found in self._all(node.inputs, each):
                    yield PlacedNode(found.sources, wanted)

    def _multiway(self, node: Node, wanted: Placement, operator: DeltaMultiwayJoin) -> Iterator[PlacedNode]:
        """Divide a multi-way join by the wanted variables, or by any one."""
        join = operator.join
        choices: list[tuple[str, ...]]
        if wanted.columns is None:
            choices = [(name,) for name in free_variables(join)]
        else:
            choices = [tuple(join.columns[column] for column in wanted.columns)]
        ways = [(names, divided_columns(operator, names)) for names in choices]
        divided = [(names, columns) for names, columns in ways if columns is not None]
        # Try those with the fewest inputs on every shard first.
        for names, columns in sorted(divided, key=lambda way: way[1].count(None)):
            for found in self._all(node.inputs, [EVERYWHERE if key is None else by(key) for key in columns]):
                kept = [join.columns.index(name) for name in names if name in join.columns]
                yield PlacedNode(found.sources, by(kept) if len(kept) == len(names) else UNKNOWN)


def _position(reads: KeyedReads, column: int) -> int | None:
    """Return the position of the key whose value an output column has."""
    for position in reads.positions:
        for key, carried in zip(reads.columns, reads.carried, strict=True):
            if carried[key[position]] == column:
                return position
    return None


def _source_column(reads: KeyedReads, place: int, column: int) -> int | None:
    """Return the column of an input whose value an output column has."""
    if column in reads.carried[place]:
        return reads.carried[place].index(column)
    position = _position(reads, column)
    return None if position is None else reads.columns[place][position]
