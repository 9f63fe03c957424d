"""The aggregate functions as they are written in `agg`, by expressions over the columns of a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dbsp.data.type_inference import as_type
from dbsp.data.types import Type
from dbsp.errors import SchemaError
from dbsp.expressions import Expression, col
from dbsp.operators.groups.aggregate_functions import AggregateFunction, GroupFunction
from dbsp.operators.groups.order_statistics import ArgExtreme, CountDistinct, Fold, Quantile, Variance

Argument = Expression | str
"""An expression, or the name of a column."""


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate function applied to expressions; `make` gives it for the columns that hold them."""

    make: Callable[..., GroupFunction]
    arguments: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class LinearAggregateCall:
    """A function of several aggregates of the group."""

    function: Callable[..., Any]
    terms: tuple[AggregateCall, ...]
    type: Type


def count() -> AggregateCall:
    """The number of rows of the group: the sum of their weights."""
    return AggregateCall(lambda: AggregateFunction("count"))


def sum_(argument: Argument) -> AggregateCall:
    """The weighted sum of an expression; exact for ints, compensated for floats."""
    return _call(lambda column: AggregateFunction("sum", column), argument)


def avg(argument: Argument) -> AggregateCall:
    """The weighted mean of an expression, a float."""
    return _call(lambda column: AggregateFunction("avg", column), argument)


def min_(argument: Argument) -> AggregateCall:
    """The least value of an expression; strings compare as strings."""
    return _call(lambda column: AggregateFunction("min", column), argument)


def max_(argument: Argument) -> AggregateCall:
    """The largest value of an expression; strings compare as strings."""
    return _call(lambda column: AggregateFunction("max", column), argument)


def count_distinct(argument: Argument) -> AggregateCall:
    """How many different values of an expression are present."""
    return _call(CountDistinct, argument)


def median(argument: Argument) -> AggregateCall:
    """The middle value of a number, a float: the mean of the two middle ones if there are two."""
    return _call(lambda column: Quantile(column, 0.5, between=True), argument)


def quantile(argument: Argument, q: float) -> AggregateCall:
    """The least value that is not below a fraction `q` (0 to 1) of all values; of any type."""
    if not 0 <= q <= 1:
        raise SchemaError(f"a quantile is asked for at a fraction between 0 and 1, not at {q!r}")
    return _call(lambda column: Quantile(column, float(q)), argument)


def arg_min(argument: Argument, by: Argument) -> AggregateCall:
    """The expression's value where `by` is least; of several the least value."""
    return _call(lambda column, by: ArgExtreme(column, by, largest=False), argument, by)


def arg_max(argument: Argument, by: Argument) -> AggregateCall:
    """The expression's value where `by` is largest; of several the least value."""
    return _call(lambda column, by: ArgExtreme(column, by, largest=True), argument, by)


def first(argument: Argument, by: Argument) -> AggregateCall:
    """The expression's value in the first row in the order of `by`: the same as `arg_min`."""
    return arg_min(argument, by)


def last(argument: Argument, by: Argument) -> AggregateCall:
    """The expression's value in the last row in the order of `by`: the same as `arg_max`."""
    return arg_max(argument, by)


def variance(argument: Argument, *, population: bool = False) -> AggregateCall:
    """The variance of a sample (None for one value), or of a whole population."""
    return _call(lambda column: Variance(column, population), argument)


def stddev(argument: Argument, *, population: bool = False) -> AggregateCall:
    """The standard deviation: the square root of `variance`."""
    return _call(lambda column: Variance(column, population, root=True), argument)


def fold(function: Callable[[list[tuple[Any, int]]], Any], *arguments: Argument, type: Any) -> AggregateCall:
    """A user-defined aggregate: `function` of the list of the group's (value, weight) pairs.

    The pairs come in the order of the values; with several arguments a value is a tuple. The result
    is of `type`. The function must be deterministic: results are retracted by computing them again.
    """
    if not arguments:
        raise SchemaError("fold needs the expression whose values it is a function of")
    result = as_type(type)
    return _call(lambda *columns: Fold(function, columns, result), *arguments)


def linear(function: Callable[..., Any], *terms: Argument | AggregateCall, type: Any) -> LinearAggregateCall:
    """A user-defined linear aggregate: `function` of weighted sums, kept up to date in O(delta).

    A term is an expression, which is summed, or another aggregate, such as `count()`. The elements
    of a group under addition are thus vectors of sums; `function` turns one into the result, of `type`.

        ratio = linear(lambda won, n: won / n, col("won").to_int(), count(), type=float)
    """
    if not terms:
        raise SchemaError("linear needs at least one expression to sum, or count()")
    calls = tuple(term if isinstance(term, AggregateCall) else sum_(term) for term in terms)
    return LinearAggregateCall(function, calls, as_type(type))


def _call(make: Callable[..., GroupFunction], *arguments: Argument) -> AggregateCall:
    return AggregateCall(make, tuple(col(a) if isinstance(a, str) else a for a in arguments))
