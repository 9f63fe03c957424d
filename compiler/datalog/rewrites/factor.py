"""factor: evaluate a negation behind a disjunction once, and not once for each alternative.

    r(x) :- (b(x); c(x)), !d(x).     is      r#either1(x) :- b(x).     r#either1(x) :- c(x).
                                             r(x) :- r#either1(x), !d(x).

The pass `flatten` has made a rule of each alternative, so every literal outside of the disjunction
is evaluated with each of them. Here the alternatives become a relation, and the rest of the rule is
written once. This is done if

- the alternatives bind no variables but those of the negation, so that they only restrict it; or
- the literals outside do not bind the variables of the negation. If the alternatives need these
  literals (`x = y + 1; x = y`), the relation contains them, and only the negation is left outside.

Otherwise the rules begin with the same joins and the same negation, and the circuit shares them.

Recursive rules do not change: a relation between them would need another iteration for each of
theirs. The same holds for rules that number their rows or can fail, and for rules with a `.plan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.dependencies import uses
from dbsp.compiler.datalog.meaning.ground import bound_variables
from dbsp.compiler.datalog.meaning.numbering import numbers_rows
from dbsp.compiler.datalog.meaning.show import show_literal
from dbsp.compiler.datalog.rewrites.plain import recursive_groups
from dbsp.compiler.datalog.rewrites.simple_terms import is_total
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import find, variables

Body = tuple[syntax.Literal, ...]


def factor(program: checked.CheckedProgram, changes: list[str]) -> checked.CheckedProgram:
    """Return the program with a relation for each disjunction before a negation."""
    groups = recursive_groups(program)
    clauses: dict[object, list[checked.Rule]] = {}
    for rule in program.rules:
        clauses.setdefault((rule.span, rule.head), []).append(rule)
    relations = dict(program.relations)
    rules: list[checked.Rule] = []
    last = max((rule.number for rule in program.clauses), default=0)
    number = 0
    for alternatives in clauses.values():
        rule = alternatives[0]
        found = _factored(alternatives) if _may_change(alternatives, groups) else None
        if found is None:
            rules += alternatives
            continue
        number += 1
        name = f"{rule.head.relation}#either{number}"
        interface, bodies, rest = found
        relations[name] = checked.Relation(name, tuple(map(_attribute, interface)), rule.span)
        atom = syntax.Atom(name, interface, rule.span, rule.span)
        rules.append(replace(rule, body=(atom, *rest)))
        rules += [checked.Rule(last + at, atom, body, rule.span) for at, body in enumerate(bodies, 1)]
        last += len(bodies)
        once = ", ".join(show_literal(literal) for literal in rest if isinstance(literal, syntax.Negation))
        numbers = ", ".join(str(alternative.number) for alternative in alternatives)
        changes.append(f"rules {numbers} at {rule.span} evaluate {once} once")
    if not number:
        return program
    return replace(program, rules=tuple(sorted(rules, key=lambda rule: rule.number)), relations=relations)


def _attribute(variable: syntax.Variable) -> checked.Attribute:
    return checked.Attribute(variable.name, variable.kind.value, variable.kind)


def _may_change(alternatives: Sequence[checked.Rule], groups: dict[str, int]) -> bool:
    if len(alternatives) < 2:
        return False
    group = groups.get(alternatives[0].head.relation)
    return not any(
        rule.order is not None
        or numbers_rows(rule)
        or not all(map(is_total, (*rule.head.arguments, *rule.body)))
        or (group is not None and any(groups.get(atom.relation) == group for atom in uses(rule)))
        for rule in alternatives
    )


def _factored(
    rules: Sequence[checked.Rule],
) -> tuple[tuple[syntax.Variable, ...], list[Body], Body] | None:
    """Return the variables and the bodies of the alternatives, and the rest of the rule.

    None if no negation depends on the alternatives, or if they are not safe.
    """
    common = tuple(literal for literal in rules[0].body if all(literal in rule.body for rule in rules))
    negations = [literal for literal in common if isinstance(literal, syntax.Negation)]
    own = [tuple(literal for literal in rule.body if literal not in common) for rule in rules]
    if not negations or not all(own):
        return None
    negated = frozenset().union(*map(variables, negations))
    behind = not negated <= bound_variables(common)
    interface = _interface(rules[0].head, own, common)
    if interface is not None and (behind or negated.issuperset(variable.name for variable in interface)):
        return interface, own, common
    inside = tuple(literal for literal in common if not isinstance(literal, syntax.Negation))
    bodies = [(*inside, *body) for body in own]
    interface = _interface(rules[0].head, bodies, tuple(negations)) if behind else None
    return None if interface is None else (interface, bodies, tuple(negations))


def _interface(head: syntax.Atom, bodies: Sequence[Body], rest: Body) -> tuple[syntax.Variable, ...] | None:
    """Return the variables that the alternatives pass on, None if a body or the rest is unsafe."""
    used = {
        variable.name: variable for literal in (head, *rest) for variable in find(literal, syntax.Variable)
    }
    passed: list[frozenset[str]] = []
    for body in bodies:
        bound = bound_variables(body)
        if not all(variables(literal) <= bound for literal in body):
            return None
        passed.append(frozenset(used) & frozenset().union(*map(variables, body)))
    if len(set(passed)) > 1 or not used.keys() <= bound_variables(rest, passed[0]):
        return None
    return tuple(variable for name, variable in used.items() if name in passed[0])
