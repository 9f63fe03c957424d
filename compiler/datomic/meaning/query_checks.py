"""Checks a query and its rules before they are evaluated, and reports every error with its place.

>>> from dbsp.compiler.datomic.text.query_parser import parse_query
>>> check_query(parse_query("[:find ?n :where [?e :person/name ?m]]"))
Traceback (most recent call last):
dbsp.errors.CompileError: query:1:8: error: ?n is not bound in :where or :in [unbound-variable]
    [:find ?n :where [?e :person/name ?m]]
           ^^
    hint: the variables are: ?e, ?m
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dbsp.compiler.datomic.meaning.clause_checks import ClauseChecks
from dbsp.compiler.datomic.meaning.clause_variables import (
    ClauseNeeds,
    binding_variables,
    definitions_of,
    inner_clauses,
)
from dbsp.compiler.datomic.meaning.query_aggregates import AGGREGATES, known_aggregates
from dbsp.compiler.datomic.meaning.rule_checks import check_rules
from dbsp.compiler.datomic.text.query_report import QueryReport
from dbsp.compiler.datomic.tree.query_tree import (
    BindingInput,
    BindScalar,
    Constant,
    FindAggregate,
    FindPull,
    PatternInput,
    Query,
    RuleCall,
    Rules,
    RulesInput,
    SourceInput,
    Variable,
)
from dbsp.diagnostics import ProgramSources, did_you_mean
from dbsp.errors import counted

Functions = Mapping[str, Callable[..., Any]]


def check_query(query: Query, rules: Rules | None = None, *, functions: Functions | None = None) -> None:
    """Check a query with the rules that it gets as `%`.

    Parameters:
        query: the tree of the query.
        rules: the rules, if `:in` has `%`; those of the query itself if None.
        functions: Python functions and aggregates by the names that the query calls them.

    Raises:
        CompileError: the query or a rule has errors; the error shows all of them.
    """
    known = functions or {}
    rules = rules or query.rules
    texts = {**(rules.sources.texts if rules is not None else {}), **query.sources.texts}
    report = QueryReport(ProgramSources(texts))
    definitions = definitions_of(rules.definitions if rules is not None else ())
    sources = {given.name for given in query.inputs if isinstance(given, SourceInput)}
    has_rules = query.rules is not None or any(isinstance(given, RulesInput) for given in query.inputs)
    needs = ClauseNeeds(definitions)
    checks = ClauseChecks(report, definitions, needs, sources, known, has_rules)
    bound = _check_inputs(query, report, checks)
    if rules is not None:
        check_rules(rules, checks)
        if not has_rules:
            report.error(
                f"the query gets {counted(len(rules.definitions), 'rule')}, but :in has no %",
                query.find.span,
                code="unknown-rule",
                hint="write :in $ %",
            )
    after = checks.conjunction(query.where, bound)
    _check_find(query, after, report, checks)
    report.raise_errors()


def calls_rules(query: Query) -> bool:
    """Whether a query calls a rule."""
    return any(isinstance(clause, RuleCall) for clause in inner_clauses(query.where))


def input_variables(query: Query) -> tuple[Variable, ...]:
    """Return the variables of `:in`, in their order."""
    return tuple(
        variable
        for given in query.inputs
        if isinstance(given, BindingInput)
        for variable in binding_variables(given.binding)
    )


def _check_inputs(query: Query, report: QueryReport, checks: ClauseChecks) -> set[str]:
    """Check that names of `:in` differ. Return the names of its variables."""
    seen: set[str] = set()
    for given in query.inputs:
        match given:
            case SourceInput(name) | PatternInput(name):
                names = [(name, given.span)]
            case RulesInput():
                names = [("%", given.span)]
            case BindingInput(binding):
                names = [(variable.name, variable.span) for variable in binding_variables(binding)]
                if isinstance(binding, BindScalar):
                    checks.inputs = {*checks.inputs, binding.variable.name}
        for name, span in names:
            if name in seen:
                report.error(f":in has {name} twice", span, code="duplicate-variable")
            seen.add(name)
    return {variable.name for variable in input_variables(query)}


def _check_find(query: Query, bound: set[str], report: QueryReport, checks: ClauseChecks) -> None:
    for element in query.find.elements:
        variable = element.variable
        if variable.name not in bound:
            report.error(
                f"{variable.name} is not bound in :where or :in",
                variable.span,
                code="unbound-variable",
                hint=did_you_mean(variable.name, bound) or _bound_hint(bound),
            )
        if isinstance(element, FindAggregate):
            _check_aggregate(element, query, report, checks)
        elif isinstance(element, FindPull):
            _check_pull(element, query, report, checks)
    _check_with(query, bound, report)
    _check_labels(query, report)


def _bound_hint(bound: set[str]) -> str:
    return f"the variables are: {', '.join(sorted(bound))}" if bound else "the query binds no variable"


def _check_with(query: Query, bound: set[str], report: QueryReport) -> None:
    found = {element.variable.name for element in query.find.elements}
    seen: set[str] = set()
    for variable in query.with_:
        if variable.name in found:
            report.error(
                f"{variable.name} is in :find and in :with",
                variable.span,
                code="duplicate-variable",
                hint=":with lists further variables, by which the rows before aggregation differ",
            )
        elif variable.name in seen:
            report.error(f":with has {variable.name} twice", variable.span, code="duplicate-variable")
        elif variable.name not in bound:
            report.error(
                f"{variable.name} is not bound in :where or :in",
                variable.span,
                code="unbound-variable",
                hint=did_you_mean(variable.name, bound) or _bound_hint(bound),
            )
        seen.add(variable.name)


def _check_labels(query: Query, report: QueryReport) -> None:
    labels = query.labels
    if labels is None:
        return
    count = len(query.find.elements)
    if query.find.kind not in ("relation", "tuple"):
        report.error(
            f":{labels.kind} names the parts of rows, but :find returns a {query.find.kind}",
            labels.span,
            code="invalid-find",
        )
    elif len(labels.names) != count:
        report.error(
            f"expected {counted(count, 'name')} after :{labels.kind}, one per element of :find, "
            f"got {len(labels.names)}",
            labels.span,
            code="invalid-find",
        )
    elif len(set(labels.names)) != count:
        twice = next(name for name in labels.names if labels.names.count(name) > 1)
        report.error(f":{labels.kind} has {twice} twice", labels.span, code="invalid-find")


def _check_aggregate(element: FindAggregate, query: Query, report: QueryReport, checks: ClauseChecks) -> None:
    for argument in element.arguments:
        if isinstance(argument, Variable) and argument.name not in checks.inputs:
            report.error(
                f"expected a constant or a variable of :in before the variable of an aggregate, "
                f"got {argument.name}",
                argument.span,
                code="invalid-find",
            )
    name = element.function
    if isinstance(name, Variable):
        if name.name not in checks.inputs:
            report.error(
                f"the aggregate {name.name} is not an input",
                name.span,
                code="unknown-aggregate",
                hint=f"add {name.name} to :in, and pass a Python function of a list",
            )
        return
    if name in checks.functions:
        return
    aggregate = AGGREGATES.get(name)
    if aggregate is None:
        near = did_you_mean(name, known_aggregates(checks.functions))
        report.error(
            f"unknown aggregate '{name}'",
            element.span,
            code="unknown-aggregate",
            hint=near or f"the aggregates are: {', '.join(known_aggregates(checks.functions))}",
        )
        return
    if len(element.arguments) not in aggregate.counts:
        report.error(
            f"expected {aggregate.form}, got {counted(len(element.arguments) + 1, 'argument')}",
            element.span,
            code="wrong-arity",
        )
    for argument in element.arguments:
        if isinstance(argument, Constant) and (type(argument.value) is not int or argument.value < 0):
            report.error(
                f"expected a number of values, 0 or more, as first argument of '{name}'",
                argument.span,
                code="invalid-find",
            )


def _check_pull(element: FindPull, query: Query, report: QueryReport, checks: ClauseChecks) -> None:
    if element.source not in checks.sources:
        report.error(
            f"unknown source {element.source}: :in has no {element.source}",
            element.span,
            code="unknown-source",
            hint=f"the sources are: {', '.join(sorted(checks.sources)) or 'none'}",
        )
    pattern = element.pattern
    if isinstance(pattern, Variable):
        names = {given.name for given in query.inputs if isinstance(given, PatternInput)}
        if pattern.name not in names | checks.inputs:
            report.error(
                f"the pull pattern {pattern.name} is not an input",
                pattern.span,
                code="invalid-find",
                hint=did_you_mean(pattern.name, names) or f"add {pattern.name} to :in",
            )
