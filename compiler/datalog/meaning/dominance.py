"""The column, and the direction, by which the rows of a relation dominate others."""

from __future__ import annotations

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.tree import syntax
from dbsp.errors import expect_present


def by_extreme(stratum: checked.Stratum, name: str) -> tuple[int, bool] | None:
    """The column and direction of `extreme`, if that is the only subsumption of a relation."""
    rules = [rule for rule in stratum.subsumptions if rule.head.relation == name]
    return extreme(rules[0]) if len(rules) == 1 else None


def extreme(rule: checked.Rule) -> tuple[int, bool] | None:
    """The column whose least or (True) greatest value a subsumption keeps.

    There is one if the dominated and the dominating row agree in all other columns and the body
    compares only these two values, as in `r(x, a) <= r(x, b) :- b <= a.`
    """
    place = decided_by(rule)
    if place is None or len(rule.body) != 3:
        return None
    pairs = _pairs(rule)
    terms = [*rule.head.arguments, pairs[place[0]][1]]
    if len(set(terms)) < len(terms) or not all(isinstance(term, syntax.Variable) for term in terms):
        return None
    same = all(a == b for column, (a, b) in enumerate(pairs) if column != place[0])
    return place if same else None


def decided_by(rule: checked.Rule) -> tuple[int, bool] | None:
    """The column in which every removed row differs from the dominating row, in one direction.

    With it: whether the dominating row has the greater value. None if there may be no such column.
    """
    pairs = _pairs(rule)
    differing = [column for column, (a, b) in enumerate(pairs) if a != b]
    for literal in rule.body[2:]:
        if not isinstance(literal, syntax.Comparison) or literal.operator not in _GREATER:
            continue
        greater, strict = _GREATER[literal.operator]
        for column in differing:
            if not strict and differing != [column]:
                continue
            if pairs[column] == (literal.left, literal.right):
                return column, greater
            if pairs[column] == (literal.right, literal.left):
                return column, not greater
    return None


def _pairs(rule: checked.Rule) -> list[tuple[syntax.Term, syntax.Term]]:
    """The terms of the dominated and of the dominating row, by column."""
    dominating = expect_present(rule.dominating, "the dominating atom of a subsumption")
    return list(zip(rule.head.arguments, dominating.arguments, strict=True))


_GREATER = {"<": (True, True), "<=": (True, False), ">": (False, True), ">=": (False, False)}
"""By operator: whether the right side is the greater one, and whether the two must differ."""
