"""The aggregate functions that `agg` takes, over expressions of the columns of a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dbsp.caller_tracebacks import ends_at_caller
from dbsp.data.type_inference import as_type
from dbsp.data.types import Type
from dbsp.errors import SchemaError, shorten
from dbsp.expressions import Expression, as_expression, col
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.groups.aggregate_functions import AggregateFunction, GroupFunction
from dbsp.operators.groups.order_statistics import ArgExtreme, CountDistinct, Fold, Quantile, Variance

Argument = Expression | str
"""An expression, or the name of a column."""


@dataclass(frozen=True, repr=False)
class AggregateCall:
    """An aggregate function of expressions; `make` builds it for the columns of their values."""

    make: Callable[..., GroupFunction]
    arguments: tuple[Expression, ...] = ()

    _not_a_value = "use an aggregate in group_by(...).agg(...)"

    def __repr__(self) -> str:
        columns = range(len(self.arguments))
        kind = getattr(self.make(*columns), "kind", type(self.make(*columns)).__name__)
        return f"{kind}({', '.join(map(repr, self.arguments))})"


@dataclass(frozen=True)
class LinearAggregateCall:
    """A function of several aggregates of the group."""

    function: Callable[..., Any]
    terms: tuple[AggregateCall, ...]
    type: Type


@ends_at_caller
def count() -> AggregateCall:
    """Count the rows of the group: the sum of their weights.

    O(|delta|) per tick.

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
    return AggregateCall(lambda: AggregateFunction("count"))


@ends_at_caller
def sum_(argument: Argument) -> AggregateCall:
    """Sum an expression over the rows of the group, each as often as its weight.

    None is not a value; a group without values yields None. Sums are exact; a sum of floats is
    rounded once, as `math.fsum` does. O(|delta| log n) per tick.

    Parameters:
        argument: an expression or a column name.

    Returns:
        An aggregate for `Grouped.agg` and `rolling`.

    Raises:
        SchemaError: in `agg`, if the expression is not a number.

    Examples:
        >>> circuit = Circuit("sales")
        >>> sale = circuit.input("sale", shop=str, item=str, euro=int)
        >>> circuit.output("result", sale.group_by("shop").agg(value=sum_("euro")))
        >>> rows = [("a", "tea", 3), ("a", "tea", 5), ("a", "pen", 10)]
        >>> circuit.start().step({"sale": rows})["result"].rows()
        [('a', 18)]
    """
    return _call(lambda column: AggregateFunction("sum", column), argument)


@ends_at_caller
def avg(argument: Argument) -> AggregateCall:
    """Average an expression over the rows of the group, each as often as its weight.

    None is not a value; a group without values yields None. The result is a float; for decimals
    and durations it is of their type, rounded half to even. O(|delta| log n) per tick.

    Parameters:
        argument: an expression or a column name.

    Returns:
        An aggregate for `Grouped.agg` and `rolling`.

    Raises:
        SchemaError: in `agg`, if the expression is not a number.

    Examples:
        >>> circuit = Circuit("sales")
        >>> sale = circuit.input("sale", shop=str, item=str, euro=int)
        >>> circuit.output("result", sale.group_by("shop").agg(value=avg("euro")))
        >>> rows = [("a", "tea", 3), ("a", "tea", 5), ("a", "pen", 10)]
        >>> circuit.start().step({"sale": rows})["result"].rows()
        [('a', 6.0)]
    """
    return _call(lambda column: AggregateFunction("avg", column), argument)


@ends_at_caller
def min_(argument: Argument) -> AggregateCall:
    """Return the least value of an expression; strings compare alphabetically.

    None is not a value; a group without values yields None. O(|delta| log n) per tick. For strings,
    the first retraction of the extreme of a group reads the group; for types such as lists and
    records, each tick reads the groups with changes.

    Parameters:
        argument: an expression or a column name.

    Returns:
        An aggregate for `Grouped.agg` and `rolling`.

    Examples:
        >>> circuit = Circuit("sales")
        >>> sale = circuit.input("sale", shop=str, item=str, euro=int)
        >>> circuit.output("result", sale.group_by("shop").agg(value=min_("euro")))
        >>> rows = [("a", "tea", 3), ("a", "tea", 5), ("a", "pen", 10)]
        >>> circuit.start().step({"sale": rows})["result"].rows()
        [('a', 3)]
    """
    return _call(lambda column: AggregateFunction("min", column), argument)


@ends_at_caller
def max_(argument: Argument) -> AggregateCall:
    """Return the largest value of an expression; strings compare alphabetically.

    None is not a value; a group without values yields None. O(|delta| log n) per tick. For strings,
    the first retraction of the extreme of a group reads the group; for types such as lists and
    records, each tick reads the groups with changes.

    Parameters:
        argument: an expression or a column name.

    Returns:
        An aggregate for `Grouped.agg` and `rolling`.

    Examples:
        >>> circuit = Circuit("sales")
        >>> sale = circuit.input("sale", shop=str, item=str, euro=int)
        >>> circuit.output("result", sale.group_by("shop").agg(value=max_("item")))
        >>> rows = [("a", "tea", 3), ("a", "tea", 5), ("a", "pen", 10)]
        >>> circuit.start().step({"sale": rows})["result"].rows()
        [('a', 'tea')]
    """
    return _call(lambda column: AggregateFunction("max", column), argument)


@ends_at_caller
def count_distinct(argument: Argument) -> AggregateCall:
    """Count the different values of an expression that have a positive weight.

    None is not a value. O(|delta| log n) per tick.

    Parameters:
        argument: an expression or a column name.

    Returns:
        An aggregate for `Grouped.agg` and `rolling`.

    Examples:
        >>> circuit = Circuit("sales")
        >>> sale = circuit.input("sale", shop=str, item=str, euro=int)
        >>> circuit.output("result", sale.group_by("shop").agg(value=count_distinct("item")))
        >>> rows = [("a", "tea", 3), ("a", "tea", 5), ("a", "pen", 10)]
        >>> circuit.start().step({"sale": rows})["result"].rows()
        [('a', 2)]
    """
    return _call(CountDistinct, argument)


@ends_at_caller
def median(argument: Argument) -> AggregateCall:
    """Return the median: the middle value, or the mean of the two middle values.

    A float for ints and floats; a decimal or a duration, rounded half to even, for those.

    None is not a value; a group without values yields None. O(|delta| log^2 n) per tick.

    Parameters:
        argument: an expression or a column name.

    Returns:
        An aggregate for `Grouped.agg` and `rolling`.

    Raises:
        SchemaError: in `agg`, if the expression is not a number.

    Examples:
        >>> circuit = Circuit("sales")
        >>> sale = circuit.input("sale", shop=str, item=str, euro=int)
        >>> circuit.output("result", sale.group_by("shop").agg(value=median("euro")))
        >>> rows = [("a", "tea", 3), ("a", "tea", 5), ("a", "pen", 10)]
        >>> circuit.start().step({"sale": rows})["result"].rows()
        [('a', 5.0)]
    """
    return _call(lambda column: Quantile(column, 0.5, between=True), argument)


@ends_at_caller
def quantile(argument: Argument, q: float) -> AggregateCall:
    """Return the value at the fraction `q` of the sorted values; for values of any type.

    It is v[ceil(q * n)] of the values v[1] <= ... <= v[n], as `percentile_disc` in SQL.
    None is not a value; a group without values yields None. O(|delta| log^2 n) per tick; for
    strings a tick reads the groups with changes.

    Parameters:
        argument: an expression or a column name.
        q: the fraction, from 0 (the least value) to 1 (the largest).

    Returns:
        An aggregate for `Grouped.agg` and `rolling`.

    Raises:
        SchemaError: `q` is not between 0 and 1.

    Examples:
        >>> circuit = Circuit("sales")
        >>> sale = circuit.input("sale", shop=str, item=str, euro=int)
        >>> circuit.output("result", sale.group_by("shop").agg(value=quantile("euro", 0.5)))
        >>> rows = [("a", "tea", 3), ("a", "tea", 5), ("a", "pen", 10)]
        >>> circuit.start().step({"sale": rows})["result"].rows()
        [('a', 5)]
    """
    if isinstance(q, bool) or not isinstance(q, int | float) or not 0 <= q <= 1:
        raise SchemaError(f"quantile expects q between 0 and 1, got {shorten(q)}", code="invalid-aggregate")
    return _call(lambda column: Quantile(column, float(q)), argument)


@ends_at_caller
def arg_min(argument: Argument, by: Argument) -> AggregateCall:
    """Return the value of an expression in the row where `by` is least.

    Of several such rows it is the one with the least value of `argument`. Rows where `by` is None
    do not count. O(|delta| log n) per tick if the arguments are the only columns of the aggregate
    and `by` is of an ordered type; else a tick reads the groups with changes.

    Parameters:
        argument: an expression or a column name.
        by: the expression or column name that orders the rows.

    Returns:
        An aggregate for `Grouped.agg` and `rolling`.

    Examples:
        >>> circuit = Circuit("sales")
        >>> sale = circuit.input("sale", shop=str, item=str, euro=int)
        >>> circuit.output("result", sale.group_by("shop").agg(value=arg_min("item", by="euro")))
        >>> rows = [("a", "tea", 3), ("a", "tea", 5), ("a", "pen", 10)]
        >>> circuit.start().step({"sale": rows})["result"].rows()
        [('a', 'tea')]
    """
    return _call(lambda column, by: ArgExtreme(column, by, largest=False), argument, by)


@ends_at_caller
def arg_max(argument: Argument, by: Argument) -> AggregateCall:
    """Return the value of an expression in the row where `by` is largest.

    Of several such rows it is the one with the least value of `argument`. Rows where `by` is None
    do not count. O(|delta| log n) per tick if the arguments are the only columns of the aggregate
    and `by` is of an ordered type; else a tick reads the groups with changes.

    Parameters:
        argument: an expression or a column name.
        by: the expression or column name that orders the rows.

    Returns:
        An aggregate for `Grouped.agg` and `rolling`.

    Examples:
        >>> circuit = Circuit("sales")
        >>> sale = circuit.input("sale", shop=str, item=str, euro=int)
        >>> circuit.output("result", sale.group_by("shop").agg(value=arg_max("item", by="euro")))
        >>> rows = [("a", "tea", 3), ("a", "tea", 5), ("a", "pen", 10)]
        >>> circuit.start().step({"sale": rows})["result"].rows()
        [('a', 'pen')]
    """
    return _call(lambda column, by: ArgExtreme(column, by, largest=True), argument, by)


@ends_at_caller
def first(argument: Argument, by: Argument) -> AggregateCall:
    """Return the value of an expression in the first row in the order of `by`.

    The same as `arg_min`.

    Parameters:
        argument: an expression or a column name.
        by: the expression or column name that orders the rows.

    Returns:
        An aggregate for `Grouped.agg` and `rolling`.

    Examples:
        >>> circuit = Circuit("sales")
        >>> sale = circuit.input("sale", shop=str, item=str, euro=int)
        >>> circuit.output("result", sale.group_by("shop").agg(value=first("item", by="euro")))
        >>> rows = [("a", "tea", 3), ("a", "tea", 5), ("a", "pen", 10)]
        >>> circuit.start().step({"sale": rows})["result"].rows()
        [('a', 'tea')]
    """
    return arg_min(argument, by)


@ends_at_caller
def last(argument: Argument, by: Argument) -> AggregateCall:
    """Return the value of an expression in the last row in the order of `by`.

    The same as `arg_max`.

    Parameters:
        argument: an expression or a column name.
        by: the expression or column name that orders the rows.

    Returns:
        An aggregate for `Grouped.agg` and `rolling`.

    Examples:
        >>> circuit = Circuit("sales")
        >>> sale = circuit.input("sale", shop=str, item=str, euro=int)
        >>> circuit.output("result", sale.group_by("shop").agg(value=last("item", by="euro")))
        >>> rows = [("a", "tea", 3), ("a", "tea", 5), ("a", "pen", 10)]
        >>> circuit.start().step({"sale": rows})["result"].rows()
        [('a', 'pen')]
    """
    return arg_max(argument, by)


@ends_at_caller
def variance(argument: Argument, *, population: bool = False) -> AggregateCall:
    """Return the variance of a number: the mean square distance from the mean.

    The variance of a sample of one value is None. None is not a value. It is computed from
    exact sums, O(|delta| log n) per tick.

    Parameters:
        argument: an expression or a column name.
        population: True to divide by n; by default the sample variance divides by n - 1.

    Returns:
        An aggregate for `Grouped.agg` and `rolling`.

    Raises:
        SchemaError: in `agg`, if the expression is not a number.

    Examples:
        >>> circuit = Circuit("sales")
        >>> sale = circuit.input("sale", shop=str, item=str, euro=int)
        >>> circuit.output("result", sale.group_by("shop").agg(value=variance("euro")))
        >>> rows = [("a", "tea", 3), ("a", "tea", 5), ("a", "pen", 10)]
        >>> circuit.start().step({"sale": rows})["result"].rows()
        [('a', 13.0)]
    """
    return _call(lambda column: Variance(column, population), argument)


@ends_at_caller
def stddev(argument: Argument, *, population: bool = False) -> AggregateCall:
    """Return the standard deviation of a number: the square root of `variance`.

    The deviation of a sample of one value is None. None is not a value. A tick reads the groups
    with changes, O(n log n) for their n values.

    Parameters:
        argument: an expression or a column name.
        population: True to divide by n; by default the sample variance divides by n - 1.

    Returns:
        An aggregate for `Grouped.agg` and `rolling`.

    Raises:
        SchemaError: in `agg`, if the expression is not a number.

    Examples:
        >>> circuit = Circuit("sales")
        >>> sale = circuit.input("sale", shop=str, item=str, euro=int)
        >>> circuit.output("result", sale.group_by("shop").agg(value=stddev("euro", population=True)))
        >>> rows = [("a", "tea", 3), ("a", "tea", 5), ("a", "pen", 10)]
        >>> circuit.start().step({"sale": rows})["result"].rows()
        [('a', 2.943920288775949)]
    """
    return _call(lambda column: Variance(column, population, root=True), argument)


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
    return _call(lambda *columns: Fold(function, columns, result), *arguments)


@ends_at_caller
def linear(function: Callable[..., Any], *terms: Argument | AggregateCall, type: Any) -> LinearAggregateCall:
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
    calls = tuple(term if isinstance(term, AggregateCall) else sum_(term) for term in terms)
    return LinearAggregateCall(function, calls, as_type(type))


def _call(make: Callable[..., GroupFunction], *arguments: Argument) -> AggregateCall:
    return AggregateCall(make, tuple(col(a) if isinstance(a, str) else as_expression(a) for a in arguments))
