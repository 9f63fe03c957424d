"""The arguments of a query: whether they match `:in`, and the rows that a binding makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import product
from typing import Any

from dbsp.compiler.datomic.meaning.clause_variables import inner_clauses
from dbsp.compiler.datomic.text.query_report import QueryReport
from dbsp.compiler.datomic.tree.query_tree import (
    BindBlank,
    BindCollection,
    Binding,
    BindingInput,
    BindRelation,
    BindScalar,
    BindTuple,
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
from dbsp.errors import EvaluationError, counted, shorten


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
            span = given.span if given.span.file else query.find.span
            report.error(problem, span, code="query-arguments")
    report.raise_errors()


def input_text(given: Input) -> str:
    """Return an input as `:in` writes it."""
    match given:
        case SourceInput(name) | PatternInput(name):
            return name
        case RulesInput():
            return "%"
        case BindingInput(binding):
            return binding_text(binding)


def binding_text(binding: Binding) -> str:
    """Return a binding as EDN text."""
    match binding:
        case BindScalar(variable):
            return variable.name
        case BindBlank():
            return "_"
        case BindCollection(part):
            return f"[{binding_text(part)} ...]"
        case BindTuple(parts):
            return f"[{' '.join(map(binding_text, parts))}]"
        case BindRelation(parts):
            return f"[[{' '.join(map(binding_text, parts))}]]"


def binding_rows(binding: Binding, value: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the values of the binding's variables, in their order, for each way to match a value.

    A nil matches no variable. Raises EvaluationError if the value has another form.

    >>> from dbsp.compiler.datomic.text.query_parser import parse_query
    >>> binding = parse_query("[:find ?a :in [[?a [?b ...]]]]").inputs[0].binding
    >>> list(binding_rows(binding, [("x", [1, 2]), ("y", [3])]))
    [('x', 1), ('x', 2), ('y', 3)]
    """
    match binding:
        case BindBlank():
            yield ()
        case BindScalar():
            if value is not None:
                yield (value,)
        case BindCollection(part):
            for item in _items(binding, value):
                yield from binding_rows(part, item)
        case BindTuple(parts):
            yield from _tuple_rows(binding, parts, value)
        case BindRelation(parts):
            for item in _items(binding, value):
                yield from _tuple_rows(binding, parts, item)


def _tuple_rows(binding: Binding, parts: tuple[Binding, ...], value: Any) -> Iterator[tuple[Any, ...]]:
    if value is None:
        return
    if not isinstance(value, (list, tuple)):
        raise _mismatch(binding, f"a tuple of {len(parts)}", value)
    if len(value) < len(parts):
        raise _mismatch(binding, f"a tuple of at least {counted(len(parts), 'value')}", value)
    rows = (list(binding_rows(part, item)) for part, item in zip(parts, value, strict=False))
    for combined in product(*rows):
        yield tuple(found for row in combined for found in row)


def _items(binding: Binding, value: Any) -> Iterator[Any]:
    if value is None:
        return
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, (list, tuple, Set, range)):
        yield from value
    else:
        raise _mismatch(binding, "a collection", value)


def _mismatch(binding: Binding, expected: str, value: Any) -> EvaluationError:
    return EvaluationError(
        f"the binding {binding_text(binding)} expects {expected}, got {shorten(value)}",
        code="binding-mismatch",
    )


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
            try:
                for row in binding_rows(binding, argument):
                    for value in row:
                        if callable(value):
                            name = binding_text(binding)
                            return f"the query does not call {name}, which is the function {shorten(value)}"
            except EvaluationError as error:
                return error.message
            if isinstance(binding, BindScalar) and argument is None:
                return f"expected a value of {binding.variable.name}, got None, which nothing is equal to"
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
