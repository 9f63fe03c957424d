"""Multi-way joins whose atoms share no variable: prefixes are exchanged before each extension.

Each delta term becomes a chain of operators (Ammar et al., Delta-BiGJoin, VLDB 2018). The term
starts with the delta of its atom. To bind a variable, the prefixes visit the shards of every atom
with this variable, which count their matches; the atom with the fewest extends the prefix, and the
others test the result. So a shard has its share of each column order of a relation and no more, and
the work of all shards is within that of the join in one process, times the number of atoms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_

from dbsp.circuit.graph import Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.data.schema import Schema
from dbsp.errors import expect_type
from dbsp.expressions import Expression, col
from dbsp.operators.joins.delta_term import ExtendPrefix, TestCondition, TestLimit, UseAtom
from dbsp.operators.joins.multiway_join import DeltaMultiwayJoin, MultiwayJoin
from dbsp.operators.joins.prefix_join import CountMatches, PrefixJoin
from dbsp.operators.linear.filter import Filter
from dbsp.operators.linear.project import Project
from dbsp.operators.linear.union import Union
from dbsp.operators.shards.exchange import Exchange
from dbsp.operators.shards.placements import FIRST_SHARD, UNKNOWN, by
from dbsp.operators.stages.placing.placed_graph import PlacedGraph, arranged_node
from dbsp.operators.traces.arrange import Arrange, in_own_order


def exchanges_prefixes(placed: PlacedGraph, node: Node) -> bool:
    """Return whether a node is a join for which this form exists, with rows on several shards.

    Every atom must be read in one step, by bound columns, and its terms must be variables.
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
        names = [term for term in terms if isinstance(term, str)]
        if any(isinstance(term, Expression) for term in terms) or len(set(names)) < len(names):
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
    """Place a multi-way join as the sum of its terms."""
    operator = expect_type(node.operator, DeltaMultiwayJoin, "a multi-way join")
    schemas = _schemas(node, operator)
    results = []
    for start, actions in enumerate(operator.join.terms(schemas)):
        term = _Term(placed, node, operator, start)
        prefixes = term.opening()
        for action in actions:
            if isinstance(action, ExtendPrefix):
                prefixes = term.extended(prefixes, action)
        results.append(term.result(prefixes))
    placed.place(node, placed.add(node, Union(), *results), UNKNOWN)


@dataclass(frozen=True)
class Prefixes:
    """A stream of prefixes: the variables of its columns, and those by which it is placed."""

    stream: Stream
    names: tuple[str, ...]
    placed: tuple[str, ...] | None
    source: Node | None = None
    """The node whose delta these prefixes are, unchanged."""

    def places(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return the columns of variables."""
        return tuple(map(self.names.index, names))


class _Term:
    """Builds the chain of one delta term."""

    def __init__(self, placed: PlacedGraph, node: Node, operator: DeltaMultiwayJoin, start: int) -> None:
        self._placed = placed
        self._node = node
        self._operator = operator
        self._join: MultiwayJoin = operator.join
        self._start = start

    def opening(self) -> Prefixes:
        """Return the delta of the atom of the term, without the columns that it does not read."""
        source = arranged_node(self._node.inputs[self._operator.places[self._start][self._start]].node)
        terms = self._join.atoms[self._start]
        read = [column for column, term in enumerate(terms) if isinstance(term, str)]
        names = tuple(str(terms[column]) for column in read)
        stream = self._placed.own_image(source)
        columns = self._placed.placement(source).columns
        placed = None
        if columns is not None and set(columns) <= set(read):
            placed = tuple(str(terms[column]) for column in columns)
        if len(read) < len(terms):
            return Prefixes(self._add(Project(tuple(read), names), stream), names, placed)
        return Prefixes(stream, names, placed, source)

    def extended(self, prefixes: Prefixes, action: ExtendPrefix) -> Prefixes:
        """Return the prefixes with the variables of an action bound."""
        for use in action.uses:
            if not any(use.bound[1:]):
                prefixes = self._joined(prefixes, use, None)
        for level, variable in enumerate(action.levels, 1):
            uses = [use for use in action.uses if use.bound[level]]
            if len(uses) == 1:
                prefixes = self._joined(prefixes, uses[0], variable)
                continue
            counted = prefixes
            for number, use in enumerate(uses):
                counted = self._counted(counted, use, f"matches {number}")
            branches = [self._branch(counted, uses, number, variable) for number in range(len(uses))]
            union = self._add(Union(), *(branch.stream for branch in branches))
            prefixes = Prefixes(union, branches[0].names, None)
        return prefixes

    def result(self, prefixes: Prefixes) -> Stream:
        """Return the rows of the join, from prefixes with all variables."""
        stream = prefixes.stream
        schema = Schema(prefixes.names, stream.schema.types)
        for condition in self._join.conditions:
            stream = self._add(Filter(condition, over=schema), stream)
        columns = self._join.columns
        return self._add(Project(prefixes.places(columns), columns), stream)

    def _branch(self, counted: Prefixes, uses: Sequence[UseAtom], number: int, variable: str) -> Prefixes:
        """Return the prefixes that the use `number` extends, since it has the fewest matches."""
        own, counts = col(f"matches {number}"), [col(f"matches {other}") for other in range(len(uses))]
        fewer = [own < count for count in counts[:number]] + [own <= count for count in counts[number + 1 :]]
        fewest = reduce(and_, fewer)
        schema = Schema(counted.names, counted.stream.schema.types)
        chosen = replace(counted, stream=self._add(Filter(fewest, over=schema), counted.stream))
        prefixes = self._joined(chosen, uses[number], variable)
        for other, use in enumerate(uses):
            if other != number:
                prefixes = self._joined(prefixes, use, None)
        return prefixes

    def _counted(self, prefixes: Prefixes, use: UseAtom, column: str) -> Prefixes:
        key = self._key(use)[: len(use.bound[0])]
        prefixes, rows = self._met(prefixes, use)
        count = CountMatches(prefixes.places(key), use.atom < self._start, column)
        stream = self._add(count, prefixes.stream, rows)
        return Prefixes(stream, (*prefixes.names, column), prefixes.placed)

    def _joined(self, prefixes: Prefixes, use: UseAtom, variable: str | None) -> Prefixes:
        """Return the prefixes with matches in an atom, which binds the variable if there is one."""
        prefixes, rows = self._met(prefixes, use)
        key = self._key(use)
        kept = tuple(name for name in prefixes.names if not name.startswith("matches "))
        columns = prefixes.places(kept)
        if variable is not None:
            at = key.index(variable)
            key, columns = key[:at], (*columns, -at - 1)
            kept = (*kept, variable)
        join = PrefixJoin(prefixes.places(key), use.atom < self._start, columns, kept)
        return Prefixes(self._add(join, prefixes.stream, rows), kept, prefixes.placed)

    def _key(self, use: UseAtom) -> tuple[str, ...]:
        """Return the variables of an atom in the order of its arrangement."""
        order = self._operator.arranged[self._operator.places[self._start][use.atom]]
        terms = [self._join.atoms[use.atom][column] for column in order]
        return tuple(term for term in terms if isinstance(term, str))

    def _met(self, prefixes: Prefixes, use: UseAtom) -> tuple[Prefixes, Stream]:
        """Return the prefixes on the shards of the arrangement of an atom, and the arrangement."""
        source = self._node.inputs[self._operator.places[self._start][use.atom]].node
        expect_type(source.operator, Arrange, "an arrangement of an atom")
        bound, key = range(len(use.bound[0])), self._key(use)
        known = (
            columns for columns in self._placed.columns_of(source) if columns and set(columns) <= set(bound)
        )
        columns = next(known, tuple(bound))
        names = tuple(key[column] for column in columns)
        why = f"prefixes meet the rows with equal ({', '.join(names)})"
        rows = self._placed.image(source, by(columns), self._node, why)
        if prefixes.placed != names:
            places = prefixes.places(names)
            if prefixes.source is not None:
                moved = self._placed.image(prefixes.source, by(places), self._node, why)
            else:
                moved = self._add(Exchange(places), prefixes.stream)
                read = ", ".join(prefixes.names)
                self._placed.changed(Exchange(places), self._node, self._node, f"({read}): {why}")
            prefixes = Prefixes(moved, prefixes.names, names)
        self._placed.check(self._node, prefixes.stream, by(prefixes.places(names)))
        return prefixes, rows

    def _add(self, operator: Operator, *inputs: Stream) -> Stream:
        schema = operator.checked_schema(*(stream.schema for stream in inputs))
        return self._placed.target.append(operator, inputs, schema, self._node.source)
