"""Checks of rules: their heads, their bodies, and recursion through a `not`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from dbsp.compiler.datalog.tree.dependency_graph import DependencyGraph
from dbsp.compiler.datomic.meaning.clause_checks import ClauseChecks
from dbsp.compiler.datomic.meaning.query_functions import SOURCE_FUNCTIONS
from dbsp.compiler.datomic.text.query_report import QueryReport
from dbsp.compiler.datomic.tree.query_tree import Clause, Not, Or, RuleCall, RuleDefinition, Rules
from dbsp.errors import counted


def check_rules(rules: Rules, checks: ClauseChecks) -> None:
    """Report the errors of all rules."""
    for definitions in checks.definitions.values():
        first = definitions[0]
        for definition in definitions:
            _check_arity(definition, first, checks.report)
            _check_definition(definition, checks)
    _check_recursion(rules, checks.report)


def _check_arity(definition: RuleDefinition, first: RuleDefinition, report: QueryReport) -> None:
    if len(definition.head) != len(first.head):
        report.error(
            f"expected {counted(len(first.head), 'variable')} in the head of '{definition.name}', as in "
            f"its first definition, got {len(definition.head)}",
            definition.span,
            code="wrong-arity",
        )
    elif len(definition.required) != len(first.required):
        report.error(
            f"expected {len(first.required)} required in the head of '{definition.name}', as in its "
            f"first definition, got {len(definition.required)}",
            definition.span,
            code="wrong-arity",
            hint="required variables are in a vector of their own: (rule [?a] ?b)",
        )


def _check_definition(definition: RuleDefinition, checks: ClauseChecks) -> None:
    seen: set[str] = set()
    for variable in definition.head:
        if variable.name in seen:
            checks.report.error(
                f"the head of '{definition.name}' has {variable.name} twice",
                variable.span,
                code="duplicate-variable",
                hint="use two variables, and add the clause [(= ?a ?b)]",
            )
        seen.add(variable.name)
    if definition.name in SOURCE_FUNCTIONS:
        checks.report.error(
            f"the name of a rule cannot be '{definition.name}', which is a function",
            definition.span,
            code="invalid-rule",
        )
    # In a rule, $ is the source of the call.
    sources = {*checks.sources, "$"}
    inside = replace(checks, sources=sources, has_rules=True, inputs=set(), rule=definition)
    required = checks.needs.required(definition.name)
    given = {variable.name for at, variable in enumerate(definition.head) if at in required}
    bound = inside.conjunction(definition.clauses, given)
    for variable in definition.parameters:
        if variable.name not in bound:
            checks.report.error(
                f"{variable.name} of the head of '{definition.name}' is not in its body",
                variable.span,
                code="unbound-variable",
                hint=_requiring_hint(definition, variable.name),
            )


def _requiring_hint(definition: RuleDefinition, name: str) -> str:
    """Return the head in which a variable is required, for a hint."""
    required = [variable.name for variable in definition.required]
    others = [variable.name for variable in definition.parameters if variable.name != name]
    head = " ".join([definition.name, f"[{' '.join([*required, name])}]", *others])
    return f"if every call binds it, require it: ({head})"


def _check_recursion(rules: Rules, report: QueryReport) -> None:
    """Report one cycle of calls with a `not` for each set of rules that call each other."""
    calls = [
        (definition.name, call, negated)
        for definition in rules.definitions
        for call, negated in _calls(definition.clauses, False)
    ]
    graph = DependencyGraph((caller, call.name) for caller, call, _ in calls)
    component_of = {name: number for number, component in enumerate(graph.components()) for name in component}
    negative = {(caller, call.name) for caller, call, negated in calls if negated}
    reported: set[int] = set()
    for caller, call, negated in calls:
        component = component_of[call.name]
        if not negated or component_of[caller] != component or component in reported:
            continue
        reported.add(component)
        steps = [(caller, call.name), *pairwise(graph.path(call.name, caller))]
        cycle = ", ".join(
            f"'{user}' {'negates' if (user, used) in negative else 'calls'} '{used}'" for user, used in steps
        )
        depends = "itself" if call.name == caller else f"'{call.name}', which depends on '{caller}'"
        report.error(
            f"the rules cannot be stratified: '{caller}' negates {depends}",
            call.span,
            code="not-stratifiable",
            hint=f"the cycle is: {cycle}",
        )


def _calls(clauses: Sequence[Clause], negated: bool) -> Iterator[tuple[RuleCall, bool]]:
    """Yield the calls of rules in clauses, and whether each is inside of a `not`."""
    for clause in clauses:
        match clause:
            case RuleCall():
                yield clause, negated
            case Not(clauses=inner):
                yield from _calls(inner, True)
            case Or(branches=branches):
                for branch in branches:
                    yield from _calls(branch, negated)
