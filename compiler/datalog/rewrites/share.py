"""share: write rules that join the same atoms alike, so that the circuit joins the atoms once.

    p(x, w) :- a(x, y), b(y, z), c(z, w).
    q(i, l) :- a(i, j), b(j, k), d(k, l).     is     q(x, l) :- a(x, y), b(y, z), d(z, l).
    r(i, l) :- c(k, l), b(j, k), a(i, j).     is     r(x, w) :- a(x, y), b(y, z), c(z, w).

The circuit builder merges nodes with equal operators and inputs. The operator of a join includes
the names of its columns, which are the variables of the rule. So a rule takes the variable names of
the earlier rule with which it has the most atoms in common: at least two atoms that share a
variable. If the rule has no other atoms, it also takes their order, since the planner joins equally
good atoms in the order in which they are written. Neither changes the meaning of a rule. Rules that
can fail keep their names, which their errors show, and rules with a `.plan` keep their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.rewrites.simple_terms import is_total
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import find, rename, variables, walk
from dbsp.lazy_dataclass import dataclass

MAX_ATOMS = 12
"""Rules with more atoms stay unchanged: all pairs of their atoms would be compared."""


def share(program: checked.CheckedProgram, changes: list[str]) -> checked.CheckedProgram:
    """Write rules with the names and order of earlier rules. O(rules * atoms^3)."""
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
    """Whether the compiler may choose the names and the order of the atoms."""
    return (
        rule.order is None
        and 2 <= len(_positive(rule)) <= MAX_ATOMS
        and all(map(is_total, (*rule.head.arguments, *rule.body)))
    )


def _positive(rule: checked.Rule) -> list[syntax.Atom]:
    return [literal for literal in rule.body if isinstance(literal, syntax.Atom)]


def _shape(atoms: Sequence[syntax.Atom]) -> object:
    """Return a key that is equal for pairs of atoms that differ in the names of variables only."""
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
    """Atoms of a rule in the order of an earlier rule, and the variable names of that rule."""

    rule: checked.Rule
    atoms: tuple[syntax.Atom, ...]
    names: Mapping[str, str]

    def applied(self, rule: checked.Rule) -> checked.Rule:
        """Return the rule with these names, and in this order if it has no other atoms.

        Other variables get names that do not clash.
        """
        rest = [literal for literal in rule.body if not any(literal is atom for atom in self.atoms)]
        if any(isinstance(literal, syntax.Atom) for literal in rest):
            # The order of the rule itself is the best guess when there are other atoms.
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
    """Yield matches with earlier rules, each grown from a pair of atoms that both rules have."""
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
    """Extend the names so that both atoms are equal; None if they differ in more than names."""
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
