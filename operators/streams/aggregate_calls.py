"""The functions that `agg` takes beside the aggregates of expressions, and their operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.data.schema import Schema
from dbsp.data.type_inference import as_type
from dbsp.data.types import Type
from dbsp.errors import SchemaError
from dbsp.expressions import AggregateCall, Expression, as_expression, bind, col, when
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.groups.aggregate_functions import AggregateFunction, GroupFunction
from dbsp.operators.groups.bit_bounds import BitBound
from dbsp.operators.groups.order_statistics import ArgExtreme, CountDistinct, Fold, Quantile, Variance

Argument = Expression | str
"""An expression, or the name of a column."""


@dataclass(frozen=True)
class LinearAggregateCall:
    """A function of several aggregates of the group."""

    function: Callable[..., Any]
    terms: tuple[AggregateCall, ...]
    type: Type

    _not_a_value = "use an aggregate in group_by(...).agg(...)"


@ends_at_caller
def count() -> AggregateCall:
    """Count the rows of the group: the sum of their weights.

    `col("x").count()` counts the values that are not None. O(|delta|) per tick.

    Returns:
        An aggregate for `Grouped.agg` and `rolling`.

    Examples:
        >>> circuit = Circuit("sales")
        >>> sale = circuit.input("sale", shop=str, item=str, euro=int)
        >>> circuit.output("result", sale.group_by("shop").agg(value=count()))
        >>> rows = [("a", "tea", 3), ("a", "tea", 5), ("a", "pen", 10)]
        >>> circuit.start().step({"sale": rows})["result"].rows()
        [('a', 3)]
    """
    return AggregateCall("count", ())


@ends_at_caller
def fold(function: Callable[[list[tuple[Any, int]]], Any], *arguments: Argument, type: Any) -> AggregateCall:
    """Define an aggregate by a Python function of the group's values and weights.

    The function takes the list of (value, weight) pairs in the order of the values; weights may be
    negative, and None is not a value. It must be deterministic, because a result is retracted by
    computing it again. A tick calls it for the groups with changes, before and after the change.

    Parameters:
        function: a function of the list of pairs.
        arguments: the expressions or column names; with several, a value is a tuple.
        type: the type of the result.

    Returns:
        An aggregate for `Grouped.agg` and `rolling`.

    Raises:
        SchemaError: there is no argument, or `type` is not a type.

    Examples:
        >>> circuit = Circuit("sales")
        >>> sale = circuit.input("sale", shop=str, item=str, euro=int)
        >>> squares = fold(lambda pairs: sum(v * v * w for v, w in pairs), "euro", type=int)
        >>> circuit.output("result", sale.group_by("shop").agg(value=squares))
        >>> rows = [("a", "tea", 3), ("a", "tea", 5), ("a", "pen", 10)]
        >>> circuit.start().step({"sale": rows})["result"].rows()
        [('a', 134)]
    """
    if not arguments:
        raise SchemaError(
            "fold needs at least one expression, such as fold(longest, 'name', type=str)",
            code="invalid-aggregate",
        )
    result = as_type(type)
    options = (("function", function), ("type", result))
    return AggregateCall("fold", tuple(map(_argument, arguments)), options=options)


@ends_at_caller
def linear(function: Callable[..., Any], *terms: Argument, type: Any) -> LinearAggregateCall:
    """Define an aggregate by a Python function of sums, which are kept in O(|delta|) per tick.

    The function is called for each group with changes. If a sum is None, so is the result.

    Parameters:
        function: a function with one parameter per term.
        terms: expressions or column names, which are summed, or aggregates such as `count()`.
        type: the type of the result.

    Returns:
        An aggregate for `Grouped.agg` and `rolling`.

    Raises:
        SchemaError: there is no term, or `type` is not a type.

    Examples:
        >>> circuit = Circuit("sales")
        >>> sale = circuit.input("sale", shop=str, item=str, euro=int)
        >>> ratio = linear(lambda total, n: total / n, "euro", count(), type=float)
        >>> circuit.output("result", sale.group_by("shop").agg(value=ratio))
        >>> rows = [("a", "tea", 3), ("a", "tea", 5), ("a", "pen", 10)]
        >>> circuit.start().step({"sale": rows})["result"].rows()
        [('a', 6.0)]
    """
    if not terms:
        raise SchemaError(
            "linear needs at least one term: an expression to sum, or an aggregate such as count()",
            code="invalid-aggregate",
        )
    calls = tuple(
        term if isinstance(term, AggregateCall) else AggregateCall("sum", (_argument(term),))
        for term in terms
    )
    return LinearAggregateCall(function, calls, as_type(type))


def _argument(value: Argument) -> Expression:
    return col(value) if isinstance(value, str) else as_expression(value)


def aggregated_values(call: AggregateCall, schema: Schema) -> tuple[Expression, ...]:
    """Return the expressions whose values an aggregate reads, over rows of `schema`."""
    if call.function == "count":  # of values: the sum of 1 for each of them
        return tuple(when(value.is_null()).then(0).otherwise(1) for value in call.arguments)
    if call.function in ("sum", "mean"):  # a boolean counts as 0 or 1, as in Python
        return tuple(
            value.cast(int) if bind(value, schema).type.kind == "bool" else value for value in call.arguments
        )
    return call.arguments


def group_function(call: AggregateCall, columns: Sequence[int]) -> GroupFunction:
    """Return the operator's function for an aggregate; `columns` hold its values."""
    return _FUNCTIONS[call.function](*columns, **dict(call.options))


_FUNCTIONS: dict[str, Callable[..., GroupFunction]] = {
    "count": lambda *column: AggregateFunction("sum" if column else "count", *column),
    "sum": lambda column: AggregateFunction("sum", column),
    "mean": lambda column: AggregateFunction("avg", column),
    "min": lambda column: AggregateFunction("min", column),
    "max": lambda column: AggregateFunction("max", column),
    "count_distinct": CountDistinct,
    "median": lambda column: Quantile(column, 0.5, between=True),
    "quantile": lambda column, q: Quantile(column, q),
    "var": lambda column, population: Variance(column, population),
    "std": lambda column, population: Variance(column, population, root=True),
    "first": lambda column, by: ArgExtreme(column, by, largest=False),
    "last": lambda column, by: ArgExtreme(column, by, largest=True),
    "bit_or": lambda column: BitBound("bit_or", column),
    "bit_and": lambda column: BitBound("bit_and", column),
    "fold": lambda *columns, function, type: Fold(function, columns, type),
}
