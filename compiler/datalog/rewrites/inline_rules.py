"""inline_once: replace a derived relation that is used once by the bodies of its rules.

    hop(x, y, z) :- edge(x, y), edge(y, z).     far(x, z) :- hop(x, _, z), start(x).
    is      far(x, z) :- edge(x, y), edge(y, z), start(x).        and `hop` disappears

The relation is then not stored, and one plan joins all atoms. A relation is inlined if one of these
holds:

- The relation has one rule, which projects no variable away, and the atoms of the new body form no
  cycle. Each row then has exactly one derivation. (With `hop(x, z) :- edge(x, y), edge(y, z)`, a
  row may have many, and the using rule would repeat its work for each of them. A cycle is joined
  all at once, and the few rows of the relation make that cheaper.)
- The using rule only selects rows of the relation and projects them.

A relation is not inlined into a recursion, which would repeat the join in every iteration; nor
under a negation, into an aggregate, or into a rule that numbers its rows. A rule that can fail is
not inlined either: it would no longer fail for rows that the rest of the body excludes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import uses
from dbsp.compiler.datalog.meaning.numbering import numbers_rows
from dbsp.compiler.datalog.rewrites.plain import by_iterations, derived_for_itself, recursive_groups
from dbsp.compiler.datalog.rewrites.simple_terms import is_total
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.dependency_graph import DependencyGraph
from dbsp.compiler.datalog.tree.traversal import free_variables, rename, substitute, variables
from dbsp.operators.planner.acyclic import reduce_ears

MAX_ATOMS = 8
"""The planner is slow for bodies of more atoms."""

MAX_LITERALS = 40
"""The maximum length of a body after inlining. It keeps chains of relations from quadratic cost."""


def inline_once(program: checked.CheckedProgram, changes: list[str]) -> checked.CheckedProgram:
    """Return the program without the relations that are cheaper to derive where they are used."""
    groups = recursive_groups(program)
    plain = derived_for_itself(program) - groups.keys()
    fixed = by_iterations(program)
    users: dict[str, list[int]] = {}
    for rule in program.rules:
        for atom in uses(rule):
            users.setdefault(atom.relation, []).append(rule.number)
    once = {name for name in plain if len(users.get(name, ())) == 1}
    if not once:
        return program
    rules = {rule.number: rule for rule in program.rules}
    rules_of: dict[str, list[int]] = {}
    for rule in program.rules:
        rules_of.setdefault(rule.head.relation, []).append(rule.number)
    last = max(rule.number for rule in program.clauses)
    for name in _used_first(program, once):
        (number,) = users[name]
        user = rules[number]
        own = [rules[rule_number] for rule_number in rules_of[name]]
        if user.head.relation in fixed or not _pays(name, own, user, groups):
            continue
        inlined = [_inlined(user, rule) for rule in own]
        numbers = [number, *range(last + 1, last + len(inlined))]
        last = max(last, *numbers)
        for rule_number in rules_of[name]:
            del rules[rule_number]
        rules.update((n, replace(rule, number=n)) for n, rule in zip(numbers, inlined, strict=True))
        rules_of[user.head.relation].extend(numbers[1:])
        changes.append(f"{name} is inlined into rule {number} at {user.span}, the only rule that uses it")
    return replace(program, rules=tuple(rules.values()))


def _used_first(program: checked.CheckedProgram, names: set[str]) -> Iterator[str]:
    """Yield the relations, each after the relations that its rules use."""
    graph = DependencyGraph(nodes=sorted(names))
    for rule in program.rules:
        if rule.head.relation in names:
            for atom in uses(rule):
                if atom.relation in names:
                    graph.add_edge(atom.relation, rule.head.relation)
    yield from graph.in_order(lambda name: name)


def _pays(name: str, own: Sequence[checked.Rule], user: checked.Rule, groups: dict[str, int]) -> bool:
    """Whether inlining the relation into the rule that uses it is allowed and pays."""
    place = next((atom for atom in _positive(user) if atom.relation == name), None)
    if place is None or user.order is not None or not is_total(place) or numbers_rows(user):
        return False
    if not all(is_total(part) for rule in own for part in (*rule.head.arguments, *rule.body)):
        return False
    if any(rule.order is not None for rule in own):
        return False
    others = [atom for atom in _positive(user) if atom is not place]
    if any(len(others) + len(_positive(rule)) > MAX_ATOMS for rule in own):
        return False
    if any(len(user.body) + len(rule.body) > MAX_LITERALS for rule in own):
        return False
    group = groups.get(user.head.relation)
    if group is not None and any(groups.get(atom.relation) == group for atom in uses(user)):
        return len(own) == 1 and len(own[0].body) == 1 and _keeps_all(own[0])
    if not others and all(is_total(literal) for literal in user.body):
        return True
    if len(own) > 1 or not _keeps_all(own[0]):
        return False
    edges = [frozenset(variables(atom)) for atom in _positive(_inlined(user, own[0]))]
    return len(_positive(own[0])) < 2 or reduce_ears(edges).acyclic


def _keeps_all(rule: checked.Rule) -> bool:
    """Whether every row of the head is derived from one binding of the body only."""
    positive = _positive(rule)
    if any(isinstance(argument, syntax.Wildcard) for atom in positive for argument in atom.arguments):
        return False
    known = {argument.name for argument in rule.head.arguments if isinstance(argument, syntax.Variable)}
    grown = True
    while grown:
        found = set(_determined(rule, known))
        grown = not found <= known
        known |= found
    return known >= variables(rule)


def _determined(rule: checked.Rule, known: set[str]) -> Iterator[str]:
    for literal in rule.body:
        if isinstance(literal, syntax.Comparison) and literal.operator == "=":
            for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
                if (
                    isinstance(side, syntax.Variable)
                    and {variable.name for variable in free_variables(other)} <= known
                ):
                    yield side.name


def _positive(rule: checked.Rule) -> list[syntax.Atom]:
    return [literal for literal in rule.body if isinstance(literal, syntax.Atom)]


def _inlined(user: checked.Rule, rule: checked.Rule) -> checked.Rule:
    """Return the using rule with the atom replaced by the body of the rule."""
    place, atom = next(
        (place, literal)
        for place, literal in enumerate(user.body)
        if isinstance(literal, syntax.Atom) and literal.relation == rule.head.relation
    )
    rule = _without_name_clashes(rule, {name.split("#")[0] for name in variables(user)})
    names: dict[str, syntax.Term] = {}
    equations: list[syntax.Comparison] = []
    for term, argument in zip(rule.head.arguments, atom.arguments, strict=True):
        if isinstance(argument, syntax.Wildcard):
            continue
        if (
            isinstance(term, syntax.Variable)
            and term.name not in names
            and isinstance(argument, syntax.Variable | syntax.Constant)
        ):
            names[term.name] = argument
        else:
            equations.append(syntax.Comparison("=", term, argument, atom.span))
    body = [substitute(literal, names) for literal in (*rule.body, *equations)]
    return replace(user, body=(*user.body[:place], *body, *user.body[place + 1 :]))


def _without_name_clashes(rule: checked.Rule, taken: set[str]) -> checked.Rule:
    """Rename the variables of the rule whose names are taken."""
    names: dict[str, str] = {}
    own = variables(rule)
    clashing, taken = taken, taken | own
    for name in sorted(own):
        if name.split("#")[0] not in clashing:
            continue
        number = 1
        while f"{name}{number}" in taken:
            number += 1
        taken.add(f"{name}{number}")
        names[name] = f"{name}{number}"
    return rename(rule, names)
