"""propagate_constants: replace variables by the constants and variables that they equal.

    r(x, y), x = 5         is   r(5, y)             x = y, r(x, z), s(y)   is   r(x, z), s(x)
    p(x + 2) :- x = 3.     is   p(5).               x = 5, x > 7, ...      never holds

A constant in an atom is a condition on the rows of the relation, which the circuit checks before
it joins them; it would check an equation after the join, or need another join for it. Functions of
constants are computed, unless they have no value: `1 / 0` stays, and is an error of the ticks that
evaluate it. Equations in an aggregate are simplified but stay, since the aggregate counts the
bindings that it ranges over.
"""

from __future__ import annotations

from dataclasses import replace

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.meaning.show import show_literal
from dbsp.compiler.datalog.rewrites.fold import fold, holds
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import map_children, substitute


def propagate_constants(program: checked.CheckedProgram, changes: list[str]) -> checked.CheckedProgram:
    """Simplify the rules, and remove rules whose constants show that they never hold."""
    rules = []
    for rule in program.rules:
        known: list[str] = []
        simple = simplified(rule, known)
        if simple is None:
            changes.append(f"rule {rule.number} at {rule.span} never holds: {', '.join(known)}")
            continue
        if simple is not rule:
            what = ", ".join(known) or "functions of constants are computed"
            changes.append(f"rule {rule.number} at {rule.span}: {what}")
        rules.append(simple)
    return replace(program, rules=tuple(rules))


def simplified(rule: checked.Rule, known: list[str]) -> checked.Rule | None:
    """Substitute the equations of a rule and append them to `known`; None if it never holds."""
    rule = _folded(rule)
    place = 0
    while place < len(rule.body):
        literal = rule.body[place]
        outcome = _consequence(literal)
        if outcome is None:
            place += 1
            continue
        rest = (*rule.body[:place], *rule.body[place + 1 :])
        if isinstance(outcome, bool):
            if not outcome:
                known.append(show_literal(literal))
                return None
            rule = replace(rule, body=rest)
            continue
        (name, term) = outcome
        known.append(show_literal(literal))
        rule = _folded(substitute(replace(rule, body=rest), {name: term}))
        place = 0
    return rule


def _folded(rule: checked.Rule) -> checked.Rule:
    return map_children(rule, lambda part: map_children(part, fold))


def _consequence(literal: syntax.Literal) -> bool | tuple[str, syntax.Term] | None:
    """Return whether a literal always or never holds, or the variable and term that it equates."""
    match literal:
        case syntax.Truth(value=value):
            return value
        case syntax.Comparison(operator="=", left=syntax.Variable() as var, right=other) if var == other:
            return True
        case syntax.Comparison(operator="=", left=syntax.Variable() as var, right=syntax.Constant() as c):
            return var.name, c
        case syntax.Comparison(operator="=", left=syntax.Constant() as c, right=syntax.Variable() as var):
            return var.name, c
        case syntax.Comparison(operator="=", left=syntax.Variable() as var, right=syntax.Variable() as other):
            # Keep a name of the source rather than one made by the compiler.
            return (var.name, other) if "#" in var.name else (other.name, var)
        case syntax.Comparison():
            return holds(literal)
        case _:
            return None
