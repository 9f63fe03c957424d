"""Sideways information passing: the arguments of an atom that earlier atoms of a body bind.

The atoms of a body are ordered greedily: the next atom is the one with the largest part of its
arguments bound. Only values that occur in a relation or in the program are passed, never computed
values. So the passed values are finitely many, also in a recursion that counts.

A negated atom follows all positive atoms. So does an aggregate: it is evaluated for each binding of
the rest, and its own atoms are then ordered in the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import children, variables
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PassedBindings:
    """An atom of a body, its bound columns, and the literals that bind them."""

    atom: syntax.Atom
    columns: frozenset[int]
    before: tuple[syntax.Literal, ...]


def passes(
    rule: checked.Rule, guard: syntax.Atom | None, wanted: Mapping[str, Collection[int]]
) -> Iterator[PassedBindings]:
    """Yield the atoms of the relations in `wanted`, each with its bound columns among the wanted.

    `guard` binds arguments of the head. O(atoms^2) for each rule.
    """
    before: list[syntax.Literal] = [] if guard is None else [_plainly(guard)]
    known = set() if guard is None else _plain(guard)
    yield from _passes(rule.body, rule.head.arguments, known, before, wanted)


def _passes(
    body: Sequence[syntax.Literal],
    values: Iterable[syntax.Node],
    known: set[str],
    before: list[syntax.Literal],
    wanted: Mapping[str, Collection[int]],
) -> Iterator[PassedBindings]:
    """Yield the atoms of a body, and of the aggregates in it and in `values`.

    `before` are literals that hold, and `known` the variables that they bind.
    """
    left = [literal for literal in body if isinstance(literal, syntax.Atom)]
    conditions = [literal for literal in body if isinstance(literal, syntax.Comparison)]

    def passed(atom: syntax.Atom) -> PassedBindings:
        columns = frozenset(c for c in wanted[atom.relation] if _is_bound(atom.arguments[c], known))
        checks = [
            condition
            for condition in conditions
            if _only_compares(condition) and variables(condition) <= known
        ]
        terms = set().union(*(variables(atom.arguments[column]) for column in columns))
        return PassedBindings(atom, columns, _connected(terms, (*before, *checks)))

    while left:
        atom = max(left, key=lambda candidate: _boundness(candidate, known, wanted))  # of equals the first
        left = [candidate for candidate in left if candidate is not atom]
        if atom.relation in wanted:
            yield passed(atom)
        before.append(_plainly(atom))
        known |= _plain(atom)
    for literal in body:
        if isinstance(literal, syntax.Negation) and literal.atom.relation in wanted:
            yield passed(literal.atom)
    for aggregate in (found for part in (*values, *body) for found in _aggregates(part)):
        inner = () if aggregate.value is None else (aggregate.value,)
        yield from _passes(aggregate.literals, inner, set(known), list(before), wanted)


def _aggregates(node: syntax.Node) -> Iterator[syntax.Aggregate]:
    """Yield the aggregates in a node that are not inside of another one."""
    if isinstance(node, syntax.Aggregate):
        yield node
        return
    for part in children(node):
        yield from _aggregates(part)


def _boundness(
    atom: syntax.Atom, known: Collection[str], wanted: Collection[str]
) -> tuple[bool, float, bool]:
    """Rank an atom: has a bound argument, how large a part is bound, is not wanted."""
    bound = sum(_is_bound(argument, known) for argument in atom.arguments)
    other = atom.relation not in wanted
    return (bound > 0 or other, bound / max(1, len(atom.arguments)), other)


def _is_bound(term: syntax.Term, known: Collection[str]) -> bool:
    return isinstance(term, syntax.Constant) or (isinstance(term, syntax.Variable) and term.name in known)


def _plain(atom: syntax.Atom) -> set[str]:
    return {argument.name for argument in atom.arguments if isinstance(argument, syntax.Variable)}


def _plainly(atom: syntax.Atom) -> syntax.Atom:
    """Return the atom with `_` for every computed argument, whose variables may be unbound."""
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
    """Return the literals connected to the variables; others would only add a cross product."""
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
