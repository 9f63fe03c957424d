"""Conjunctive queries as the planner sees them: a hypergraph whose edges are the atoms."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
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

    @property
    def names(self) -> tuple[str, ...]:
        """The variables of the atom, each once, in the order of their columns."""
        return tuple(dict.fromkeys(name for name in self.variables if name is not None))


@dataclass(frozen=True, slots=True)
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

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables of the atoms, in the order in which they are first written."""
        return tuple(dict.fromkeys(name for atom in self.atoms for name in atom.names))

    def determined(self, names: Iterable[str]) -> frozenset[str]:
        """The variables that are known once these are: the closure under the functions."""
        known = set(names)
        before = -1
        while len(known) > before:
            before = len(known)
            known.update(result for result, arguments in self.functions if arguments <= known)
        return frozenset(known)

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
