"""Finds the joins that a query writes as trees of binary joins, as conjunctions for the planner.

    Q(a, b, c) :- e(a, b), e(b, c), e(a, c)    from    e.join(e, on=...).join(e, on=...)

A tree has inner equi-joins, and between them projections, renamed columns and conditions that
cannot fail. Only one node of the tree reads each of its other nodes. Columns that a join or a
condition makes equal are one variable. All other streams that the tree reads are its atoms.

A tree excludes two kinds of joins: with a key column that is optional on one side only, because the
result of a multi-way join has another type then, and with an input that an index outside of the
circuit stores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.expressions import Column, Expression
from dbsp.expressions.substitution import is_total, substitute
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.joins.join import Join
from dbsp.operators.linear.filter import Filter, SameValue
from dbsp.operators.linear.map import Map
from dbsp.operators.linear.project import Project, Rename
from dbsp.operators.planner.conjunction import Atom, Conjunction
from dbsp.operators.ports.input import Input
from dbsp.operators.stages.passes.readers import count_readers
from dbsp.operators.traces.arrange import is_external

MOST_ATOMS = 40
"""A tree with more atoms keeps its joins: finding a plan takes too long."""


@dataclass(frozen=True, eq=False)
class WrittenJoins:
    """A maximal tree of joins.

    Args:
        root: the node whose rows the tree computes.
        streams: the stream of each atom.
        conjunction: the atoms over variables.
        conditions: the conditions over variables, in the order of the links of the conjunction.
        columns: the variable of each column of the root.
        joins: the joins, inputs first.
        parts: the atoms below each join.
    """

    root: Node
    streams: tuple[Stream, ...]
    conjunction: Conjunction
    conditions: tuple[Expression, ...]
    columns: tuple[str, ...]
    joins: tuple[Node, ...]
    parts: frozenset[frozenset[int]]


def written_joins(query: Graph) -> list[WrittenJoins]:
    """Return the maximal trees of three to MOST_ATOMS atoms outside of scopes, last ones first."""
    readers = count_readers(query)
    named = {stream.node for stream in query.named.values()}
    atoms = _atom_counts(query)
    inner = {node for node in atoms if readers[node] == 1 and node not in named}
    seen: set[Node] = set()
    found = []
    for root in reversed(query.nodes):
        if root in seen or atoms.get(root, 1) == 1:
            continue
        members = [root]
        for node in members:  # grows: the members below a member follow it
            members += [stream.node for stream in node.inputs if stream.node in inner]
        seen.update(members)
        tree = _Tree(sorted(members, key=lambda node: node.id))
        if 2 < len(tree.streams) <= MOST_ATOMS:
            found.append(tree.written(root))
    return found


def _atom_counts(query: Graph) -> dict[Node, int]:
    """Return the nodes that a tree may contain, with the number of atoms if all below are in it.

    A condition over a single atom is a part of the atom.
    """
    counts: dict[Node, int] = {}
    for node in query.nodes:
        below = [counts.get(stream.node, 1) for stream in node.inputs]
        if isinstance(node.operator, Join):
            if _plain(node, node.operator):
                counts[node] = sum(below)
        elif _picked(node) is not None or (_tests(node) and below[0] > 1):
            counts[node] = below[0]
    return counts


def _plain(node: Node, join: Join) -> bool:
    left, right = node.inputs
    pairs = zip(join.left_key, join.right_key, strict=True)
    same_types = all(left.schema.types[a] == right.schema.types[b] for a, b in pairs)
    return same_types and not any(map(is_external, node.inputs))


def _picked(node: Node) -> Sequence[int] | None:
    """Return the input column of each column, if the node only picks and renames columns."""
    operator = node.operator
    if isinstance(operator, Project):
        return operator.columns
    if isinstance(operator, Rename):
        return range(len(operator.names))
    if isinstance(operator, Map):
        columns = [e for e in operator.expressions if isinstance(e, Column)]
        if len(columns) == len(operator.expressions):
            return [node.inputs[0].schema.index(column.name) for column in columns]
    return None


def _tests(node: Node) -> bool:
    """Whether the node tests a condition that has a value for every row."""
    operator = node.operator
    if isinstance(operator, SameValue):
        types = node.schema.types
        return types[operator.first] == types[operator.second]
    return isinstance(operator, Filter) and bool(operator.predicate.columns) and is_total(operator.predicate)


class _Tree:
    """The columns of the members of a tree as numbers; equal columns get the same variable."""

    def __init__(self, members: Sequence[Node]) -> None:
        self.streams: list[Stream] = []
        self._joins: list[Node] = []
        self._parts: list[frozenset[int]] = []
        self._atoms: list[tuple[int, ...]] = []
        self._tests: list[tuple[Expression, dict[str, int]]] = []
        self._same: list[int] = []  # by column the column that it is equal to, or itself
        self._columns: dict[Node, tuple[int, ...]] = {}
        self._below: dict[Node, frozenset[int]] = {}
        for node in members:
            self._add(node)

    def _add(self, node: Node) -> None:
        operator = node.operator
        inputs = [self._input(stream) for stream in node.inputs]
        columns, below = inputs[0]
        if isinstance(operator, Join):
            right, more = inputs[1]
            for a, b in zip(operator.left_key, operator.right_key, strict=True):
                self._equate(columns[a], right[b])
            below |= more
            self._joins.append(node)
            self._parts.append(below)
            columns = tuple(columns[v] if v >= 0 else right[-v - 1] for v in operator.columns)
        elif isinstance(operator, SameValue):
            self._equate(columns[operator.first], columns[operator.second])
        elif isinstance(operator, Filter):
            names = node.schema
            used = {name: columns[names.index(name)] for name in operator.predicate.columns}
            self._tests.append((operator.predicate, used))
        else:
            columns = tuple(columns[c] for c in _picked(node) or ())
        self._columns[node], self._below[node] = columns, below

    def _input(self, stream: Stream) -> tuple[tuple[int, ...], frozenset[int]]:
        """Return the columns of an input and the atoms below it; another stream is a new atom."""
        node = stream.node
        if node in self._columns:
            return self._columns[node], self._below[node]
        while stream.node.operator.keeps_rows:  # other names: the same rows, in the same trace
            (stream,) = stream.node.inputs
        columns = tuple(range(len(self._same), len(self._same) + stream.schema.arity))
        self._same += columns
        self.streams.append(stream)
        self._atoms.append(columns)
        return columns, frozenset({len(self.streams) - 1})

    def _equate(self, one: int, other: int) -> None:
        self._same[self._class(one)] = self._class(other)

    def _class(self, column: int) -> int:
        while self._same[column] != column:
            column = self._same[column]
        return column

    def written(self, root: Node) -> WrittenJoins:
        """Return the tree; the variables have the names of the columns of the root if possible."""
        names: dict[int, str] = {}
        wanted = [*zip(self._columns[root], root.schema.names, strict=True)]
        for stream, columns in zip(self.streams, self._atoms, strict=True):
            wanted += zip(columns, stream.schema.names, strict=True)
        taken: Counter[str] = Counter()
        for column, name in wanted:
            if self._class(column) not in names:
                names[self._class(column)] = _fresh(name, taken)
        named = [[names[self._class(column)] for column in columns] for columns in self._atoms]
        tests = [
            {name: names[self._class(column)] for name, column in used.items()} for _, used in self._tests
        ]
        outside = tuple(names[self._class(column)] for column in self._columns[root])
        conjunction = Conjunction(
            tuple(map(_atom, self.streams, named)),
            frozenset(outside),
            tuple(frozenset(used.values()) for used in tests),
        )
        conditions = (
            substitute(predicate, {name: Column(variable) for name, variable in used.items()})
            for (predicate, _), used in zip(self._tests, tests, strict=True)
        )
        return WrittenJoins(
            root,
            tuple(self.streams),
            conjunction,
            tuple(conditions),
            outside,
            tuple(self._joins),
            frozenset(self._parts),
        )


def _fresh(name: str, taken: Counter[str]) -> str:
    """Return the name, with a number if it is taken."""
    fresh = name
    while taken[fresh]:
        taken[name] += 1
        fresh = f"{name}{taken[name]}"
    taken[fresh] += 1
    return fresh


def _atom(stream: Stream, variables: Sequence[str]) -> Atom:
    """Return the atom of a stream; of equal columns, the first one has the variable."""
    first: dict[str, int] = {}
    for column, name in enumerate(variables):
        first.setdefault(name, column)
    equal = ((first[name], column) for column, name in enumerate(variables) if first[name] != column)
    bound = (name if first[name] == column else None for column, name in enumerate(variables))
    return Atom(relation_name(stream), tuple(bound), (), tuple(equal))


def relation_name(stream: Stream) -> str:
    """Return the name of an input, or the operator and the number of the node."""
    operator = stream.node.operator
    return operator.relation if isinstance(operator, Input) else f"{operator.name} #{stream.node.id}"
