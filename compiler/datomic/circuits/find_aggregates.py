"""The aggregates of `:find` as operators on the rows of a query.

The rows are a set over the variables of `:find` and `:with`; a group has the rows that agree in the
plain elements of `:find`. Without rows there are no groups, and the result is empty. Without
aggregates, the rows are a set over the variables of `:find` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dbsp.compiler.datalog.tree.kinds import AnyKind, Kind
from dbsp.compiler.datomic.circuits.mean_of_longs import mean_of_longs
from dbsp.compiler.datomic.meaning.checked_rules import storable
from dbsp.compiler.datomic.meaning.query_aggregates import AGGREGATES, user_aggregate
from dbsp.compiler.datomic.meaning.value_kinds import NUMERIC
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.diagnostics import ProgramSources, SourceSpan
from dbsp.errors import EvaluationError, UserFunctionError
from dbsp.expressions import Expression, col
from dbsp.operators.groups.order_statistics import call_user
from dbsp.operators.streams.aggregate_calls import count, fold
from dbsp.operators.streams.stream import Stream


def aggregated(
    rows: Stream,
    find: tree.Find,
    columns: Mapping[str, str],
    kinds: Mapping[str, AnyKind],
    functions: Mapping[str, Callable[..., Any]],
    arguments: Mapping[str, Any],
    sources: ProgramSources,
) -> Stream:
    """Return the stream with one column for each element of `:find`, named `f0`, `f1`, ...

    Args:
        rows: the rows of the query.
        find: the elements.
        columns: the column of each variable in `rows`.
        kinds: the kind of each variable.
        functions: the aggregates of the user, by name or by variable of `:in`.
        arguments: the values of variables of `:in` that are arguments of aggregates.
        sources: the texts of the query, for errors of aggregates.
    """
    names = [f"f{at}" for at in range(len(find.elements))]
    if not find.aggregates:
        plain = {
            name: col(columns[element.variable.name])
            for name, element in zip(names, find.elements, strict=True)
        }
        return rows.map(**plain)
    keys: dict[str, str] = {}
    calls: dict[str, Expression] = {}
    for name, element in zip(names, find.elements, strict=True):
        variable = element.variable.name
        if isinstance(element, tree.FindAggregate):
            calls[name] = _call(element, columns[variable], kinds[variable], functions, arguments, sources)
        else:
            keys[name] = columns[variable]
    # A variable that occurs twice among the plain elements is one column of the key.
    by = list(dict.fromkeys(keys.values()))
    groups = rows.group_by(*by).agg(**calls)
    return groups.map(**{name: col(keys.get(name, name)) for name in names})


def _call(
    element: tree.FindAggregate,
    column: str,
    kind: AnyKind,
    functions: Mapping[str, Callable[..., Any]],
    arguments: Mapping[str, Any],
    sources: ProgramSources,
) -> Expression:
    name = tree.called_name(element.function)
    user = functions.get(name)
    if user is None and not element.arguments:
        match name:
            case "count":
                return count()
            case "sum" if kind in NUMERIC:
                return col(column).sum()
            case "avg" if kind is Kind.NUMBER:
                return mean_of_longs(col(column))
            case "min" if kind in (*NUMERIC, Kind.SYMBOL):
                return col(column).min()
            case "max" if kind in (*NUMERIC, Kind.SYMBOL):
                return col(column).max()
    given = [
        arguments[argument.name] if isinstance(argument, tree.Variable) else argument.value
        for argument in element.arguments
    ]

    def of_pairs(pairs: list[tuple[Any, int]]) -> Any:
        values = [value for value, weight in pairs for _ in range(weight)]
        return aggregate_value(element, values, given, user, sources)

    of_pairs.__name__ = of_pairs.__qualname__ = name
    return fold(of_pairs, column, type=object)


def aggregate_value(
    element: tree.FindAggregate,
    values: list[Any],
    given: Sequence[Any],
    user: Callable[..., Any] | None,
    sources: ProgramSources,
) -> Any:
    """Return the value of an aggregate, which `user` computes if it is a function of the user.

    An error marks the aggregate in the query.
    """
    name = tree.called_name(element.function)
    try:
        if user is None:
            return storable(AGGREGATES[name].evaluate(values, *given))
        return storable(call_user(user_aggregate(name, user).evaluate, values, *given))
    except (EvaluationError, UserFunctionError) as error:
        error.locate(sources.diagnostic(error.message, element.span, error.code))
        raise


def place_of_sums(
    find: tree.Find, kinds: Mapping[str, AnyKind], functions: Mapping[str, Callable[..., Any]]
) -> SourceSpan | None:
    """Return the place of the only sum of longs in `:find`; None if there are none or several.

    The engine computes all sums of longs together, so its error does not say which one it is.
    """
    sums = [
        element.span
        for element in find.elements
        if isinstance(element, tree.FindAggregate)
        and tree.called_name(element.function) == "sum"
        and "sum" not in functions
        and kinds[element.variable.name] is Kind.NUMBER
    ]
    return sums[0] if len(sums) == 1 else None
