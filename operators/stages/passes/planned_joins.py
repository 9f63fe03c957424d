"""Builds the plan of a conjunction as nodes of a circuit: binary joins and multi-way joins.

The columns of a stream inside a plan have the names of variables. A condition is tested by the
lowest part of the plan that binds its variables. But a multi-way join tests the conditions of its
atoms too if it can, so that all atoms over one stream read the same traces.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from dbsp.circuit.graph import Stream
from dbsp.circuit.rewriting import Rewriting
from dbsp.expressions import Column, Expression
from dbsp.expressions.substitution import substitute
from dbsp.operators.joins.join import Join
from dbsp.operators.joins.multiway_join import MultiwayJoin
from dbsp.operators.linear.filter import Filter, SameValue
from dbsp.operators.linear.project import Project, Rename
from dbsp.operators.planner.tree import BinaryNode, LeafNode, MultiwayNode, Tree, atoms_of, children
from dbsp.operators.stages.passes.written_joins import WrittenJoins


class Part(NamedTuple):
    """A stream, and the variable of each column; None for a column that no other part reads."""

    stream: Stream
    names: tuple[str | None, ...]


def planned_joins(rewriting: Rewriting, written: WrittenJoins, tree: Tree) -> Stream:
    """Add the joins of a plan; return the stream with the columns of the written root."""
    stream, names = _PlannedJoins(rewriting, written).part(tree)
    columns = tuple(names.index(name) for name in written.columns)
    if columns != tuple(range(len(names))):
        # A plan keeps only the variables of the root, so every column is picked.
        return rewriting.add(Project(columns, written.root.schema.names, injective=True), stream)
    if stream.schema.names != written.root.schema.names:
        return rewriting.add(Rename(written.root.schema.names), stream)
    return stream


class _PlannedJoins:
    def __init__(self, rewriting: Rewriting, written: WrittenJoins) -> None:
        self._rewriting = rewriting
        self._add = rewriting.add
        self._image = rewriting.image
        self._written = written
        self._conjunction = written.conjunction

    def part(self, tree: Tree) -> Part:
        match tree:
            case LeafNode():
                return self._leaf(tree, self._conditions(tree))
            case BinaryNode(left=left, right=right):
                return self._binary(tree, self.part(left), self.part(right))
            case MultiwayNode():
                return self._multiway(tree)

    def _leaf(self, tree: LeafNode, conditions: Sequence[Expression]) -> Part:
        atom = self._conjunction.atoms[tree.atom]
        stream = self._image(self._written.streams[tree.atom])
        for first, second in atom.equal:
            stream = self._add(SameValue(first, second), stream)
        columns = {
            name: Column(stream.schema.names[column])
            for column, name in enumerate(atom.variables)
            if name is not None
        }
        for condition in conditions:
            stream = self._add(Filter(substitute(condition, columns)), stream)
        kept = self._conjunction.kept((tree.atom,))
        return Part(stream, tuple(name if name in kept else None for name in atom.variables))

    def _binary(self, node: BinaryNode, left: Part, right: Part) -> Part:
        conditions = self._conditions(node)
        tested = (name for condition in conditions for name in condition.columns)
        names = tuple(dict.fromkeys((*node.keep, *tested)))
        columns = tuple(
            left.names.index(name) if name in left.names else -right.names.index(name) - 1 for name in names
        )
        left_key = tuple(left.names.index(name) for name in node.on)
        right_key = tuple(right.names.index(name) for name in node.on)
        stream = self._add(Join(left_key, right_key, columns, names), left.stream, right.stream)
        for condition in conditions:
            stream = self._add(Filter(condition), stream)
        if len(names) > len(node.keep):
            stream = self._add(Project(tuple(range(len(node.keep))), node.keep), stream)
        return Part(stream, node.keep)

    def _multiway(self, node: MultiwayNode) -> Part:
        conditions = self._conditions(node)
        parts = []
        for child in node.parts:
            if isinstance(child, LeafNode):
                kept = set(self._conjunction.kept((child.atom,)))
                own = self._conditions(child)
                conditions += (condition for condition in own if kept.issuperset(condition.columns))
                early = [condition for condition in own if not kept.issuperset(condition.columns)]
                parts.append(self._leaf(child, early))
            else:
                parts.append(self.part(child))
        atoms = tuple(part.names for part in parts)
        join = MultiwayJoin(atoms, node.keep, conditions=tuple(conditions), orders=node.orders)
        # Unread columns would be arranged; all conditions have values, so nothing else is expanded.
        return Part(join.narrowed(self._rewriting, [part.stream for part in parts]), node.keep)

    def _conditions(self, tree: Tree) -> list[Expression]:
        """Return the conditions whose variables this tree binds, and no tree below it."""
        bound = self._conjunction.bound(atoms_of(tree))
        below = [self._conjunction.bound(atoms_of(child)) for child in children(tree)]
        return [
            condition
            for condition, link in zip(self._written.conditions, self._conjunction.links, strict=True)
            if link <= bound and not _inside(link, below)
        ]


def _inside(link: frozenset[str], parts: Collection[frozenset[str]]) -> bool:
    return any(link <= part for part in parts)
