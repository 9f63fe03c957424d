"""share: rules that join the same atoms are written alike, so that the circuit joins these once.

    p(x, w) :- a(x, y), b(y, z), c(z, w).
    q(i, l) :- a(i, j), b(j, k), d(k, l).     is     q(x, l) :- a(x, y), b(y, z), d(z, l).
    r(i, l) :- c(k, l), b(j, k), a(i, j).     is     r(x, w) :- a(x, y), b(y, z), c(z, w).

A circuit makes one node of nodes that do the same to the same streams. What a join does is told by the names
of its columns too, which are the variables of the rule. So a rule takes over names from the earlier rule with
which it has most atoms in common, two at least that share a variable; if it has no others, also their order,
for among atoms of equal standing those written first are joined first. Neither changes what a rule means.
Rules that can fail keep their names, which their errors show, and rules with a `.plan` their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.rewrites.simple_terms import is_total
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import find, rename, variables, walk

MAX_ATOMS = 12
"""Rules with more are left alone: all pairs of their atoms would be compared."""


def share(program: checked.CheckedProgram, changes: list[str]) -> checked.CheckedProgram:
    """The program with rules written as earlier ones are. O(rules * atoms^3)."""
    rules: list[checked.Rule] = []
    first: dict[object, tuple[checked.Rule, syntax.Atom, syntax.Atom]] = {}
    for rule in program.rules:
        if _is_open(rule):
            match = max(_matches(rule, first), key=lambda candidate: len(candidate.atoms), default=None)
            if match is not None:
                alike = match.applied(rule)
                if alike != rule:
                    subject = f"rule {rule.number} at {rule.span} joins {len(match.atoms)} atoms as rule"
                    changes.append(f"{subject} {match.rule.number} does")
                    rule = alike
            for left, right in permutations(_positive(rule), 2):
                if not variables(left).isdisjoint(variables(right)):
                    first.setdefault(_shape((left, right)), (rule, left, right))
        rules.append(rule)
    return replace(program, rules=tuple(rules))


def _is_open(rule: checked.Rule) -> bool:
    """Whether names and order are the compiler's to choose."""
    return (
        rule.order is None
        and 2 <= len(_positive(rule)) <= MAX_ATOMS
        and all(map(is_total, (*rule.head.arguments, *rule.body)))
    )


def _positive(rule: checked.Rule) -> list[syntax.Atom]:
    return [literal for literal in rule.body if isinstance(literal, syntax.Atom)]


def _shape(atoms: Sequence[syntax.Atom]) -> object:
    """What two atoms have in common with all that differ from them by the names of variables only."""
    numbers: dict[str, int] = {}
    shape: list[object] = []
    for atom in atoms:
        shape.append(atom.relation)
        for part in walk(atom):
            if isinstance(part, syntax.Variable):
                shape.append(numbers.setdefault(part.name, len(numbers)))
            elif not isinstance(part, syntax.Atom):
                shape.append(part if isinstance(part, syntax.Constant) else type(part))
    return tuple(shape)


@dataclass(frozen=True, slots=True)
class _Match:
    """Atoms of a rule in the order of those of an earlier one, and the names that they have there."""

    rule: checked.Rule
    atoms: tuple[syntax.Atom, ...]
    names: Mapping[str, str]

    def applied(self, rule: checked.Rule) -> checked.Rule:
        """The rule under these names, others apart from them; in this order if no other atom is there."""
        rest = [literal for literal in rule.body if not any(literal is atom for atom in self.atoms)]
        if any(isinstance(literal, syntax.Atom) for literal in rest):
            # What is best to begin with, the rule itself says best.
            body = rule.body
        else:
            body = (*self.atoms, *rest)
        found = dict.fromkeys(variable.name for variable in find(rule, syntax.Variable))
        taken = {*self.names.values(), *found}
        names: dict[str, str] = {}
        for name in found:
            new = self.names.get(name, name)
            if name not in self.names and new in self.names.values():
                number = 1
                while f"{name}{number}" in taken:
                    number += 1
                new = f"{name}{number}"
                taken.add(new)
            names[name] = new
        return rename(replace(rule, body=body), names)


def _matches(
    rule: checked.Rule, first: Mapping[object, tuple[checked.Rule, syntax.Atom, syntax.Atom]]
) -> Iterator[_Match]:
    """What the rule has in common with earlier ones, grown from each pair of its atoms that one has."""
    atoms = _positive(rule)
    for pair in permutations(atoms, 2):
        found = first.get(_shape(pair)) if not variables(pair[0]).isdisjoint(variables(pair[1])) else None
        if found is None:
            continue
        earlier, left, right = found
        names: dict[str, str] = {}
        partners: dict[int, syntax.Atom] = {}
        for theirs in (left, right, *_positive(earlier)):
            if id(theirs) in partners:
                continue
            for own in pair if theirs in (left, right) else atoms:
                more = None if any(own is p for p in partners.values()) else _renaming(own, theirs, names)
                if more is not None:
                    names, partners[id(theirs)] = more, own
                    break
        ordered = tuple(partners[id(theirs)] for theirs in _positive(earlier) if id(theirs) in partners)
        if len(ordered) > 1:
            yield _Match(earlier, ordered, names)


def _renaming(own: syntax.Atom, theirs: syntax.Atom, names: Mapping[str, str]) -> dict[str, str] | None:
    """The names with those that make one atom the other; None if they differ in more."""
    if own.relation != theirs.relation:
        return None
    found = dict(names)
    for argument, their_argument in zip(own.arguments, theirs.arguments, strict=True):
        if isinstance(argument, syntax.Variable) and isinstance(their_argument, syntax.Variable):
            if found.setdefault(argument.name, their_argument.name) != their_argument.name:
                return None
        elif argument != their_argument or not isinstance(argument, syntax.Constant | syntax.Wildcard):
            return None
    return found if len(set(found.values())) == len(found) else None
