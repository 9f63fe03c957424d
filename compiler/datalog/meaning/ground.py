"""The variables that a body binds, and the errors for unbound variables.

A positive atom binds a variable that is one of its arguments, or is within a record or a branch
that is one. An equality binds a variable, or the variables in a record or a branch, if the
variables of the other side are bound. An aggregate is a term like any other here: it needs its
injected variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dbsp.compiler.datalog.meaning.flatten import FlatClause
from dbsp.compiler.datalog.meaning.show import source_name
from dbsp.compiler.datalog.text.other_languages import CONSTANTS
from dbsp.compiler.datalog.text.report import Report
from dbsp.compiler.datalog.tree import syntax
from dbsp.compiler.datalog.tree.traversal import (
    find,
    free_variables,
    has_wildcard,
    pattern_variables,
    terms_of,
    variables,
)
from dbsp.diagnostics import did_you_mean

Needs = Callable[[syntax.Term], Iterable[syntax.Variable]]


def bound_variables(
    body: Iterable[syntax.Literal],
    given: Iterable[str] = (),
    needs: Needs = free_variables,
) -> set[str]:
    """The variables bound by the body when those of `given` are already bound."""
    bound = set(given)
    equalities: list[tuple[set[str], set[str]]] = []
    for literal in body:
        if isinstance(literal, syntax.Atom):
            bound.update(variable.name for term in literal.arguments for variable in pattern_variables(term))
        elif isinstance(literal, syntax.Comparison) and literal.operator == "=":
            for pattern, term in ((literal.left, literal.right), (literal.right, literal.left)):
                if not has_wildcard(term):
                    names = {variable.name for variable in pattern_variables(pattern)}
                    equalities.append((names, {variable.name for variable in needs(term)}))
    changed = True
    while changed:
        changed = False
        for names, needed in equalities:
            if not names <= bound and needed <= bound:
                bound |= names
                changed = True
    return bound


def check_ground(clause: FlatClause, report: Report) -> bool:
    """Report every unbound variable of the clause; true when there is none."""
    errors = report.error_count
    checker = _GroundCheck(clause, report)
    bound = bound_variables(clause.body)
    for argument in clause.head.arguments:
        checker.term(argument, bound, "in the head")
    checker.body(clause.body, bound)
    return report.error_count == errors


class _GroundCheck:
    def __init__(self, clause: FlatClause, report: Report) -> None:
        self.report = report
        self.clause = clause
        self.reported: set[str] = set()

    def body(self, body: Iterable[syntax.Literal], bound: set[str]) -> None:
        for literal in body:
            match literal:
                case syntax.Atom(relation=name):
                    where = f"in an argument of '{name}'"
                case syntax.Negation(atom=atom):
                    where = f"in the negated atom '!{atom.relation}'"
                case _:
                    where = "in a condition"
            for term in terms_of(literal):
                self.term(term, bound, where)

    def term(self, term: syntax.Term, bound: set[str], where: str) -> None:
        for variable in free_variables(term):
            if variable.name not in bound and variable.name not in self.reported:
                self.reported.add(variable.name)
                self._report(variable, bound, where)
        for aggregate in find(term, syntax.Aggregate, into_aggregates=False):
            inner = bound_variables(aggregate.literals, aggregate.injected)
            if aggregate.value is not None:
                self.term(aggregate.value, inner, f"in the expression of '{aggregate.function}'")
            self.body(aggregate.literals, inner | bound)

    def _report(self, variable: syntax.Variable, bound: set[str], where: str) -> None:
        name = source_name(variable.name)
        if self.clause.is_fact:
            message = f"variable '{name}' in a fact"
            hint = f'write a text in quotes: "{name}"; the arguments of a fact are constants'
            self.report.error(variable.span, message, hint, code="invalid-fact")
        elif name == "_":
            message = "'_' in a comparison has no value"
            self.report.error(variable.span, message, code="unbound-variable")
        else:
            message = f"unbound variable '{name}' {where}: no positive atom or equation binds it"
            found = self._hint(variable.name, bound)
            self.report.error(variable.span, message, found, code="unbound-variable")

    def _hint(self, variable: str, bound: set[str]) -> str | None:
        name = source_name(variable)
        if name.lower() in CONSTANTS:
            return CONSTANTS[name.lower()]
        aggregates = (
            aggregate
            for literal in self.clause.body
            for aggregate in find(literal, syntax.Aggregate, into_aggregates=False)
        )
        for aggregate in aggregates:
            inside = variables(aggregate)
            if variable in aggregate.injected:
                return f"'{name}' depends on its own value through an aggregate"
            if any(other != variable and source_name(other) == name for other in inside):
                return f"'{name}' is bound only inside '{aggregate.function}', and has no value outside"
        return did_you_mean(name, [source_name(other) for other in bound])
