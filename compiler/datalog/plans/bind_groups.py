"""Let an aggregate bind its outer variables, if its groups are the values that the rule needs.

    total(k, n) :- sale(k, _), n = count : { sale(k, _) }.

Every `k` of the first atom has a group, so there is no group with the count 0. And every group has
the atom, so the rule needs the groups only: it neither joins them with the atom nor counts the
derivations of a row. An atom also follows from the rules of a relation that the aggregate reads:

    sale(o, r) :- order(o, c), customer(c, r).
    total(r, n) :- customer(_, r), n = count : { sale(_, r) }, n > 0.

The rules of recursive strata, with a `.plan`, a counter or a subsumption keep their atoms.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypeAlias

from dbsp.compiler.datalog.meaning import checked
from dbsp.compiler.datalog.plans.literals import binds, excludes_zero, has_partial, uses
from dbsp.compiler.datalog.plans.merge_aggregates import has_aggregates
from dbsp.compiler.datalog.plans.normalise import (
    AggregateLiteral,
    NormalLiteral,
    NormalRule,
    Numbered,
    Scan,
)
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import variables

Column: TypeAlias = "str | tuple[type, object] | None"
"""The value of a column: a variable, a constant by type and value, or any value."""

DEPTH = 3
"""So many rules after each other are followed from a row to the rows that it is derived from."""


class GroupBinding:
    """The rewriting of the rules of one program; `normal` returns the normal form of a rule."""

    def __init__(self, program: checked.CheckedProgram, normal: Callable[[checked.Rule], NormalRule]) -> None:
        self._program = program
        self._normal = normal

    def rewritten(self, rule: NormalRule) -> NormalRule:
        """Return the rule with aggregates that bind their outer variables where they can."""
        source = rule.rule
        if rule.body is None or source.order is not None or source.dominating is not None:
            return rule
        if not has_aggregates(rule.body):
            return rule
        if rule.relation in self._recursive or any(isinstance(literal, Numbered) for literal in rule.body):
            return rule
        body = list(rule.body)
        for place, literal in enumerate(body):
            if isinstance(literal, AggregateLiteral):
                scans = [other for other in body if isinstance(other, Scan)]
                if self._never_empty(literal, scans) or _needs_a_row(literal, body):
                    body[place] = replace(literal, grouped=True)
        for literal in [literal for literal in body if isinstance(literal, AggregateLiteral)]:
            if literal.grouped and set(literal.injected) <= binds(literal.body) and not has_partial(literal):
                body = self._without_implied(rule, body, literal)
        return replace(rule, body=tuple(body))

    def _never_empty(self, literal: AggregateLiteral, outer: Sequence[Scan]) -> bool:
        """Whether the scans outside imply a row of the aggregate's body."""
        if len(literal.body) != 1 or not isinstance(literal.body[0], Scan) or literal.body[0].equal:
            return False
        return self._implies(outer, literal.body[0].relation, _goal(literal.body[0], literal.injected), DEPTH)

    def _without_implied(
        self, rule: NormalRule, body: list[NormalLiteral], literal: AggregateLiteral
    ) -> list[NormalLiteral]:
        """Drop the scans of the body that every group of the aggregate implies."""
        inner = [scan for scan in literal.body if isinstance(scan, Scan)]
        for scan in [scan for scan in body if isinstance(scan, Scan)]:
            rest = [other for other in body if other is not scan]
            used = {name for other in rest for name in uses(other)}.union(*map(variables, rule.head))
            # Variables inside have other names than those outside, unless they are injected.
            if not scan.equal and self._implies(inner, scan.relation, _goal(scan, used), DEPTH):
                body = rest
        return body

    def _implies(self, scans: Iterable[Scan], relation: str, goal: Sequence[Column], depth: int) -> bool:
        """Whether the rows of the scans imply a row of the relation with the values of `goal`."""
        return any(
            (scan.relation == relation and _fits(_columns(scan), goal))
            or (depth > 0 and self._derived_from(scan, relation, goal, depth - 1))
            for scan in scans
        )

    def _derived_from(self, scan: Scan, relation: str, goal: Sequence[Column], depth: int) -> bool:
        """Whether every rule for the relation of a scan implies the row of `goal`."""
        rules = self._rules.get(scan.relation)
        if rules is None:
            return False
        columns = _columns(scan)
        for rule in map(self._normal, rules):
            # Columns with one variable have equal values, so any of their terms has its value.
            terms = {column: _column(term) for column, term in zip(columns, rule.head, strict=True)}
            wanted = [terms.get(column) if isinstance(column, str) else column for column in goal]
            if any(term is None and column is not None for term, column in zip(wanted, goal, strict=True)):
                return False
            body = [literal for literal in rule.body or () if isinstance(literal, Scan)]
            if not self._implies(body, relation, wanted, depth):
                return False
        return True

    @cached_property
    def _recursive(self) -> frozenset[str]:
        strata = self._program.strata
        return frozenset(name for stratum in strata if stratum.recursive for name in stratum.relations)

    @cached_property
    def _rules(self) -> Mapping[str, Sequence[checked.Rule]]:
        """The rules of the relations whose rows are exactly those that their rules derive now."""
        found: dict[str, list[checked.Rule]] = {}
        for rule in self._program.rules:
            found.setdefault(rule.head.relation, []).append(rule)
        relations = self._program.relations
        outside = self._recursive.union(self._program.inputs)
        return {
            name: rules for name, rules in found.items() if relations[name].is_plain and name not in outside
        }


def _needs_a_row(literal: AggregateLiteral, body: Iterable[NormalLiteral]) -> bool:
    """Whether the rule derives nothing for an empty group."""
    if any(result.function not in ("count", "sum") for result in literal.results):
        return True
    literals = list(body)
    return any(excludes_zero(name, literals) for name in literal.variables)


def _columns(scan: Scan) -> list[Column]:
    """Return the values of the columns of a scan."""
    columns: list[Column] = list(scan.variables)
    for position, value in scan.constants:
        columns[position] = _column(value)
    for first, second in scan.equal:
        columns[second] = columns[first]
    return columns


def _goal(scan: Scan, shared: Collection[str]) -> list[Column]:
    """Return the columns of a scan; variables that are not `shared` may have any value."""
    return [None if isinstance(column, str) and column not in shared else column for column in _columns(scan)]


def _column(term: syntax.Term) -> Column:
    match term:
        case syntax.Variable(name=name):
            return name
        case syntax.Constant(value=value):
            return type(value), value
        case _:
            return None


def _fits(columns: Sequence[Column], goal: Sequence[Column]) -> bool:
    return all(wanted is None or column == wanted for column, wanted in zip(columns, goal, strict=True))
