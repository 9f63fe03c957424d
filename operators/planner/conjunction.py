"""Conjunctive queries for the planner: a hypergraph whose edges are the atoms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from dbsp.lazy_dataclass import dataclass

Functions: TypeAlias = Sequence[tuple[str, frozenset[str]]]


@dataclass(frozen=True)
class Atom:
    """The rows of a relation that match a pattern.

    Args:
        relation: the name; atoms over the same relation share its rows.
        variables: per column the variable it binds, or None if the column is compared with a
            constant (`fixed`) or an earlier column (`equal`), or is not read.
        fixed: columns with their required constant (a value, not a code).
        equal: pairs of columns that must have the same value.
    """

    relation: str
    variables: tuple[str | None, ...]
    fixed: tuple[tuple[int, Any], ...] = ()
    equal: tuple[tuple[int, int], ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The variables of the atom, each once, in column order."""
        return tuple(dict.fromkeys(name for name in self.variables if name is not None))


@dataclass(frozen=True)
class Conjunction:
    """Q(needed) :- atoms, links, functions.

    Args:
        atoms: the joined atoms, any number of them.
        needed: the variables used outside: by the head of the rule, by negated atoms, aggregates,
            and by conditions that are tested after all joins.
        links: the variables of each condition that may be tested as soon as they are bound.
        functions: (z, {x, y}) for an equation z = f(x, y) that has a value for all x and y: it
        binds
            z if z is free, and is a test if z is bound.

    Raises:
        ValueError: no atom and no function binds a needed variable.
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
        """All variables of the atoms, in the order of their first occurrence."""
        return tuple(dict.fromkeys(name for atom in self.atoms for name in atom.names))

    @cached_property
    def edges(self) -> tuple[frozenset[str], ...]:
        """Per atom its variables that are used elsewhere: the hypergraph of the query."""
        used = set(self.needed).union(*self.links)
        used.update(name for result, arguments in self.functions for name in (result, *arguments))
        times = Counter(name for atom in self.atoms for name in atom.names)
        used.update(name for name, number in times.items() if number > 1)
        return tuple(frozenset(used.intersection(atom.names)) for atom in self.atoms)

    @cached_property
    def closed_edges(self) -> tuple[frozenset[str], ...]:
        """The edges with the variables that functions compute from each of them.

        Like functional dependencies, this can make a query acyclic, for example
        e(a, b), f(b, c), g(a, c) with c = a + b.
        """
        return tuple(self.determined(edge) for edge in self.edges)

    def determined(self, names: Iterable[str]) -> frozenset[str]:
        """Return the closure of variables under the functions: all variables they determine."""
        return determined(names, self.functions)

    def bound(self, atoms: Iterable[int]) -> frozenset[str]:
        """Return the variables that the join of some atoms binds, including computed ones."""
        return self.determined(name for index in atoms for name in self.atoms[index].names)

    def kept(self, atoms: Collection[int]) -> tuple[str, ...]:
        """Return the variables of the join of some atoms that are used elsewhere.

        Elsewhere means: outside of the conjunction, in other atoms, and in conditions and functions
        with variables that are not bound yet. All other variables may be projected away, as in
        Yannakakis (VLDB 1981). The order is that of the first occurrence; computed variables are
        last.
        """
        chosen = frozenset(atoms)
        if chosen not in self._kept:
            self._kept[chosen] = self._kept_by(chosen)
        return self._kept[chosen]

    @cached_property
    def _kept(self) -> dict[frozenset[int], tuple[str, ...]]:
        """The results of `kept` so far: a search needs those of the same atoms many times."""
        return {}

    def _kept_by(self, atoms: frozenset[int]) -> tuple[str, ...]:
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
    """Return the closure of variables under functions (z, {x, y}).

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
    """Whether the edges are connected, so that no cross product is needed to join them.

    >>> connected([frozenset("ab"), frozenset("cd"), frozenset("bc")])
    True
    """
    components: list[frozenset[str]] = []
    for edge in edges:
        near = [component for component in components if not component.isdisjoint(edge)]
        components = [component for component in components if component.isdisjoint(edge)]
        components.append(edge.union(*near))
    return len(components) <= 1
