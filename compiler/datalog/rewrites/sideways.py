"""Sideways information passing: which arguments of an atom are bound when others of its body are asked first.

The atoms of a body are taken one after the other, each time the one of which the largest part is bound by
those before it. Only values that stand in a relation or in the program are passed on, never computed ones: so
what is passed can only be finitely much, however a recursion counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import variables


@dataclass(frozen=True, slots=True)
class PassedBindings:
    """An atom of a body, its columns that are bound, and the literals that bind them."""

    atom: syntax.Atom
    columns: frozenset[int]
    before: tuple[syntax.Literal, ...]


def passes(
    rule: checked.Rule, guard: syntax.Atom | None, wanted: Mapping[str, Collection[int]]
) -> Iterator[PassedBindings]:
    """The atoms of the relations in `wanted`, with those of the wanted columns that are bound.

    `guard` binds arguments of the head. O(atoms^2) for each rule.
    """
    known = set() if guard is None else _plain(guard)
    before: list[syntax.Literal] = [] if guard is None else [_plainly(guard)]
    left = [literal for literal in rule.body if isinstance(literal, syntax.Atom)]
    conditions = [literal for literal in rule.body if isinstance(literal, syntax.Comparison)]
    while left:
        atom = max(left, key=lambda candidate: _boundness(candidate, known, wanted))  # of equals the first
        left = [candidate for candidate in left if candidate is not atom]
        if atom.relation in wanted:
            columns = frozenset(c for c in wanted[atom.relation] if _is_bound(atom.arguments[c], known))
            checks = [
                condition
                for condition in conditions
                if _only_compares(condition) and variables(condition) <= known
            ]
            terms = set().union(*(variables(atom.arguments[column]) for column in columns))
            yield PassedBindings(atom, columns, _connected(terms, (*before, *checks)))
        before.append(_plainly(atom))
        known |= _plain(atom)


def _boundness(
    atom: syntax.Atom, known: Collection[str], wanted: Collection[str]
) -> tuple[bool, float, bool]:
    """A bound argument is better than none, more are better, and relations that are not wanted come first."""
    bound = sum(_is_bound(argument, known) for argument in atom.arguments)
    other = atom.relation not in wanted
    return (bound > 0 or other, bound / max(1, len(atom.arguments)), other)


def _is_bound(term: syntax.Term, known: Collection[str]) -> bool:
    return isinstance(term, syntax.Constant) or (isinstance(term, syntax.Variable) and term.name in known)


def _plain(atom: syntax.Atom) -> set[str]:
    return {argument.name for argument in atom.arguments if isinstance(argument, syntax.Variable)}


def _plainly(atom: syntax.Atom) -> syntax.Atom:
    """The atom with `_` for every argument that is to be computed, perhaps of what is not bound yet."""
    arguments = tuple(
        term
        if isinstance(term, syntax.Variable | syntax.Constant | syntax.Wildcard)
        else syntax.Wildcard(term.span, term.kind)
        for term in atom.arguments
    )
    return replace(atom, arguments=arguments)


def _only_compares(comparison: syntax.Comparison) -> bool:
    return all(
        isinstance(side, syntax.Variable | syntax.Constant) for side in (comparison.left, comparison.right)
    )


def _connected(names: set[str], literals: Sequence[syntax.Literal]) -> tuple[syntax.Literal, ...]:
    """The literals that hang together with the variables: others would only be a cross product."""
    reached = set(names)
    found: set[int] = set()
    grown = True
    while grown:
        near = {
            place
            for place, literal in enumerate(literals)
            if place not in found and not reached.isdisjoint(variables(literal))
        }
        found |= near
        reached.update(*(variables(literals[place]) for place in near))
        grown = bool(near)
    return tuple(literal for place, literal in enumerate(literals) if place in found)
