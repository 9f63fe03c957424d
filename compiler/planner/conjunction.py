"""Conjunctive queries as the planner sees them: a hypergraph whose edges are the atoms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

Functions: TypeAlias = Sequence[tuple[str, frozenset[str]]]


@dataclass(frozen=True)
class Atom:
    """The rows of a relation that fit a pattern.

    Args:
        relation: its name; atoms of one relation share its rows.
        variables: per column the variable it binds, or None where the column is compared with a
            constant (`fixed`) or an earlier column (`equal`), or not looked at.
        fixed: columns with the constant (a value, not a code) that they must have.
        equal: pairs of columns that must have the same value.
    """

    relation: str
    variables: tuple[str | None, ...]
    fixed: tuple[tuple[int, Any], ...] = ()
    equal: tuple[tuple[int, int], ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The variables of the atom, each once, in the order of their columns."""
        return tuple(dict.fromkeys(name for name in self.variables if name is not None))


@dataclass(frozen=True)
class Conjunction:
    """Q(needed) :- atoms, links, functions.

    Args:
        atoms: what is joined. A conjunction may have any number of them.
        needed: the variables used outside: by the head of the rule, by negated atoms, aggregates,
            and by conditions that have to wait until all rows are joined.
        links: the variables of each condition that may be tested as soon as they are bound.
        functions: (z, {x, y}) for an equation z = f(x, y) that has a value for all x and y: it binds
            z where z is free and is a test where z is bound.

    Raises:
        ValueError: for a needed variable that nothing binds.
    """

    atoms: tuple[Atom, ...]
    needed: frozenset[str] = frozenset()
    links: tuple[frozenset[str], ...] = ()
    functions: tuple[tuple[str, frozenset[str]], ...] = ()

    def __post_init__(self) -> None:
        if unbound := self.needed - self.bound(range(len(self.atoms))):
            raise ValueError(f"no atom and no function binds {', '.join(sorted(unbound))}")

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """All variables of the atoms, in the order in which they are first written."""
        return tuple(dict.fromkeys(name for atom in self.atoms for name in atom.names))

    @cached_property
    def edges(self) -> tuple[frozenset[str], ...]:
        """Per atom its variables that anything else looks at: the hypergraph of the query."""
        used = set(self.needed).union(*self.links)
        used.update(name for result, arguments in self.functions for name in (result, *arguments))
        times = Counter(name for atom in self.atoms for name in atom.names)
        used.update(name for name, number in times.items() if number > 1)
        return tuple(frozenset(used.intersection(atom.names)) for atom in self.atoms)

    @cached_property
    def closed_edges(self) -> tuple[frozenset[str], ...]:
        """The edges with the variables that functions compute from each of them.

        As functional dependencies do, this can make a query acyclic: e(a, b), f(b, c), g(a, c) with
        c = a + b, say.
        """
        return tuple(self.determined(edge) for edge in self.edges)

    def determined(self, names: Iterable[str]) -> frozenset[str]:
        """The variables that are known once these are: the closure under the functions."""
        return determined(names, self.functions)

    def bound(self, atoms: Iterable[int]) -> frozenset[str]:
        """The variables that the join of some of the atoms binds, those computed from them included."""
        return self.determined(name for index in atoms for name in self.atoms[index].names)

    def kept(self, atoms: Collection[int]) -> tuple[str, ...]:
        """What goes on from the join of some of the atoms: the variables that are still used elsewhere.

        Elsewhere is: outside of the conjunction, in other atoms, in conditions and functions that do
        not have all of their variables yet. Everything else may be projected away, as in
        Yannakakis (VLDB 1981). In the order in which the variables are first written, computed ones last.
        """
        bound = self.bound(atoms)
        used = set(self.needed)
        for index, atom in enumerate(self.atoms):
            if index not in atoms:
                used.update(atom.names)
        for link in self.links:
            if not link <= bound:
                used |= link
        for result, arguments in self.functions:
            if not arguments <= bound:
                used |= {result, *arguments}
        computed = (result for result, _ in self.functions)
        return tuple(dict.fromkeys(name for name in (*self.variables, *computed) if name in bound & used))


def determined(names: Iterable[str], functions: Functions) -> frozenset[str]:
    """The closure of variables under functions (z, {x, y}): what is known once these are.

    >>> sorted(determined("x", [("z", frozenset("xy")), ("y", frozenset("x"))]))
    ['x', 'y', 'z']
    """
    known = set(names)
    before = -1
    while len(known) > before:
        before = len(known)
        known.update(result for result, arguments in functions if arguments <= known)
    return frozenset(known)


def connected(edges: Iterable[frozenset[str]]) -> bool:
    """Whether the edges hang together, so that no cross product is needed to join them.

    >>> connected([frozenset("ab"), frozenset("cd"), frozenset("bc")])
    True
    """
    left = list(edges)
    reached = set(left.pop()) if left else set()
    while found := [edge for edge in left if not reached.isdisjoint(edge)]:
        left = [edge for edge in left if reached.isdisjoint(edge)]
        reached.update(*found)
    return not left
