"""Multi-way joins whose atoms share no variable: the prefixes of their terms travel between shards.

Such a join has no key by which all its relations could be placed. Each arrangement of an atom is
placed by columns with which its rows are looked up, and the join exchanges the prefixes of its
delta terms (`dbsp.operators.joins.placed_multiway_join`). The term of an atom starts with an image
of its delta that is on the shards of another atom, if there is one.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.circuit.graph import Node, Stream
from dbsp.data.schema import Schema
from dbsp.errors import expect_type
from dbsp.operators.joins.delta_term import ExtendPrefix, TestCondition, TestLimit, UseAtom
from dbsp.operators.joins.multiway_join import DeltaMultiwayJoin
from dbsp.operators.joins.placed_multiway_join import PlacedMultiwayJoin
from dbsp.operators.shards.placements import EVERYWHERE, FIRST_SHARD, UNKNOWN, by
from dbsp.operators.stages.placing.placed_graph import PlacedGraph, arranged_node
from dbsp.operators.traces.arrange import Arrange, in_own_order


def exchanges_prefixes(placed: PlacedGraph, node: Node) -> bool:
    """Return whether a node is a join for which this form exists, with rows on several shards.

    Every atom must be read in one step, by bound columns, and its terms be different variables.
    """
    operator = node.operator
    if (
        not isinstance(operator, DeltaMultiwayJoin)
        or operator.join.extensions
        or node.graph.parent is not None
    ):
        return False
    if all(placed.placement(stream.node) == FIRST_SHARD for stream in node.inputs):
        return False
    for terms in operator.join.atoms:
        names = {term for term in terms if isinstance(term, str)}
        if len(names) < len(terms):
            return False
    for actions in operator.join.terms(_schemas(node, operator)):
        for action in actions:
            if isinstance(action, ExtendPrefix):
                if not all(_in_one_step(use) for use in action.uses):
                    return False
            elif not isinstance(action, TestCondition | TestLimit):
                return False
    return True


def _in_one_step(use: UseAtom) -> bool:
    return use.complete and bool(use.bound[0]) and sum(bool(columns) for columns in use.bound[1:]) <= 1


def _schemas(node: Node, operator: DeltaMultiwayJoin) -> list[Schema]:
    """Return the schemas of the streams of the atoms."""
    inputs = [row[atom] for atom, row in enumerate(operator.places)]
    return [in_own_order(node.inputs[at].schema, operator.arranged[at]) for at in inputs]


def place_prefix_terms(placed: PlacedGraph, node: Node) -> None:
    """Place a multi-way join, whose terms exchange their prefixes."""
    operator = expect_type(node.operator, DeltaMultiwayJoin, "a multi-way join")
    inputs = _PlacedInputs(placed, node, operator)
    terms = operator.join.terms(_schemas(node, operator))
    extensions = [[action for action in actions if isinstance(action, ExtendPrefix)] for actions in terms]
    for start, actions in enumerate(extensions):
        for action in actions:
            for use in action.uses:
                inputs.arrangement(start, use)
    for start, actions in enumerate(extensions):
        uses = actions[0].uses if actions else ()
        inputs.delta(start, [use for use in uses if any(use.bound[1:2]) or not any(use.bound[1:])])
    atoms = range(len(extensions))
    join = PlacedMultiwayJoin(
        operator.join,
        tuple(tuple(inputs.places[start, atom] for atom in atoms) for start in atoms),
        tuple(inputs.orders),
        tuple(tuple(inputs.columns[start, atom] for atom in atoms) for start in atoms),
    )
    placed.place(node, placed.add(node, join, *inputs.streams), UNKNOWN)


class _PlacedInputs:
    """Collects the inputs of a placed join: `streams`, and their column `orders`.

    `places` and `columns` have, by term and atom, the number of the input and the columns by which
    it is placed.
    """

    def __init__(self, placed: PlacedGraph, node: Node, operator: DeltaMultiwayJoin) -> None:
        self._placed = placed
        self._node = node
        self._operator = operator
        self.streams: list[Stream] = []
        self.orders: list[tuple[int, ...]] = []
        self.places: dict[tuple[int, int], int] = {}
        self.columns: dict[tuple[int, int], tuple[int, ...] | None] = {}
        self._columns: list[tuple[int, ...] | None] = []

    def arrangement(self, start: int, use: UseAtom) -> None:
        """Add the arrangement of an atom that the term of another atom reads."""
        source = self._input(start, use.atom)
        order = expect_type(source.operator, Arrange, "an arrangement of an atom").order
        bound = range(len(use.bound[0]))
        known = (
            columns for columns in self._placed.columns_of(source) if columns and set(columns) <= set(bound)
        )
        columns = next(known, tuple(bound))
        terms = self._operator.join.atoms
        names = ", ".join(str(terms[use.atom][order[column]]) for column in columns)
        read = ", ".join(map(str, terms[start]))
        why = f"({read}): prefixes meet the rows with equal ({names})"
        stream = self._placed.image(source, by(columns), self._node, why)
        self._add(start, use.atom, stream, order, columns)

    def delta(self, start: int, first: Sequence[UseAtom]) -> None:
        """Add the delta of an atom, on the shards of an atom of `first` if it has such an image.

        An atom that is read without the changes of this tick is preferred: in a first load it is
        empty. In rows that are sorted by the columns by which they are placed, equal keys are
        neighbours.
        """
        base = arranged_node(self._input(start, start))
        terms = self._operator.join.atoms
        names = [str(term) for term in terms[start]]
        wanted = {self._placed_by(start, use.atom): use.atom > start for use in first}
        identity = tuple(range(len(names)))
        found = [
            (image.stream, identity, image.placement.columns)
            for image in self._placed.images(base)
            if image.placement != EVERYWHERE
        ]
        found += [
            (stream, order, columns)
            for stream, order, columns in zip(self.streams, self.orders, self._columns, strict=True)
            if columns is not None and arranged_node(stream.node) in {one.node for one, _, _ in found}
        ]
        if not found:
            stream = self._placed.image(base, UNKNOWN, self._node, "one shard begins with each row")
            found = [(stream, identity, None)]

        def score(one: tuple[Stream, tuple[int, ...], tuple[int, ...] | None]) -> tuple[bool, bool, bool]:
            _, order, columns = one
            key = () if columns is None else tuple(names[order[column]] for column in columns)
            return wanted.get(key, False), key in wanted, columns == tuple(range(len(columns or ())))

        stream, order, columns = max(found, key=score)  # max keeps the first of equals
        self._add(start, start, stream, order, columns)

    def _placed_by(self, start: int, atom: int) -> tuple[str, ...]:
        """Return the variables by which the input is placed from which a term reads an atom."""
        order, columns = self.orders[self.places[start, atom]], self.columns[start, atom] or ()
        return tuple(str(self._operator.join.atoms[atom][order[column]]) for column in columns)

    def _add(
        self, start: int, atom: int, stream: Stream, order: tuple[int, ...], columns: tuple[int, ...] | None
    ) -> None:
        known = [number for number, one in enumerate(self.streams) if one.node is stream.node]
        if not known:
            self.streams.append(stream)
            self.orders.append(order)
            self._columns.append(columns)
        self.places[start, atom] = known[0] if known else len(self.streams) - 1
        self.columns[start, atom] = columns

    def _input(self, start: int, atom: int) -> Node:
        return self._node.inputs[self._operator.places[start][atom]].node
