"""Checks the arguments of a query: whether they are as many as `:in` lists, and of its forms."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from dbsp.compiler.datomic.meaning.binding_values import binding_rows, binding_text
from dbsp.compiler.datomic.meaning.clause_variables import binding_variables, inner_clauses
from dbsp.compiler.datomic.text.query_report import QueryReport
from dbsp.compiler.datomic.tree.query_tree import (
    BindingInput,
    BindScalar,
    FindAggregate,
    Function,
    Input,
    PatternInput,
    Predicate,
    Query,
    Rules,
    RulesInput,
    SourceInput,
    Variable,
)
from dbsp.diagnostics import SourceSpan
from dbsp.errors import DbspError, EvaluationError, counted, shorten


def check_arguments(query: Query, arguments: Sequence[Any]) -> None:
    """Check that the arguments of a query are as many as `:in` lists, and of the right forms.

    Raises CompileError at the input in question.

    >>> from dbsp.compiler.datomic.text.query_parser import parse_query
    >>> from dbsp.errors import CompileError
    >>> try:
    ...     check_arguments(parse_query("[:find ?x :in $ [?x ...]]"), ["a database"])
    ... except CompileError as error:
    ...     print(error.diagnostics[0].message)
    expected 2 arguments ($ [?x ...]), got 1
    """
    report = QueryReport(query.sources)
    inputs = query.inputs
    shown = " ".join(map(input_text, inputs)) or "none"
    if len(arguments) != len(inputs):
        missing = inputs[len(arguments) :]
        hint = (
            f"the argument for {input_text(missing[0])} is missing"
            if missing
            else f"remove {shorten(arguments[len(inputs)])}, or add an input to :in"
        )
        listed = missing[0].span if missing else None
        report.error(
            f"expected {counted(len(inputs), 'argument')} ({shown}), got {len(arguments)}",
            listed if listed is not None and listed.file else query.find.span,
            code="query-arguments",
            hint=hint,
        )
        report.raise_errors()
    functions = _function_names(query)
    for given, argument in zip(inputs, arguments, strict=True):
        problem = _problem(given, argument, functions)
        if problem is not None:
            report.error(problem, _span(query, given), code="query-arguments")
    report.raise_errors()


def at_input(query: Query, given: Input, error: DbspError) -> DbspError:
    """Return an error about the argument of an input, after pointing it at the input."""
    error.locate(query.sources.diagnostic(error.message, _span(query, given), error.code))
    return error


def _span(query: Query, given: Input) -> SourceSpan:
    """Return the place of an input; that of `:find` for the database of a query without `:in`."""
    return given.span if given.span.file else query.find.span


def input_text(given: Input) -> str:
    """Return an input as `:in` writes it."""
    match given:
        case SourceInput(name) | PatternInput(name):
            return name
        case RulesInput():
            return "%"
        case BindingInput(binding):
            return binding_text(binding)


def _problem(given: Input, argument: Any, functions: Set[str]) -> str | None:
    """Return what is wrong with the form of an argument, or None."""
    match given:
        case SourceInput(name):
            if argument is None or callable(argument) or isinstance(argument, str):
                return f"expected a database or a collection of tuples as {name}, got {shorten(argument)}"
        case RulesInput():
            if not isinstance(argument, (str, list, tuple, Rules)):
                return f"expected rules as %, got {shorten(argument)}"
        case PatternInput(name):
            if not isinstance(argument, (str, list, tuple)):
                return f"expected a pull pattern as {name}, got {shorten(argument)}"
        case BindingInput(BindScalar(variable)) if variable.name in functions:
            if not callable(argument):
                return f"expected a Python function as {variable.name}, got {shorten(argument)}"
        case BindingInput(binding):
            names = [variable.name for variable in binding_variables(binding)]
            try:
                for row in binding_rows(binding, argument, nil=True):
                    for name, value in zip(names, row, strict=True):
                        if value is None:
                            return f"expected a value of {name}, got None, which nothing is equal to"
                        if callable(value):
                            return f"the query does not call {name}, which is the function {shorten(value)}"
            except EvaluationError as error:
                return error.message
    return None


def _function_names(query: Query) -> set[str]:
    """The variables that the query calls as functions or aggregates."""
    found = {
        element.function.name
        for element in query.find.elements
        if isinstance(element, FindAggregate) and isinstance(element.function, Variable)
    }
    for clause in inner_clauses(query.where):
        if isinstance(clause, (Predicate, Function)) and isinstance(clause.function, Variable):
            found.add(clause.function.name)
    return found
