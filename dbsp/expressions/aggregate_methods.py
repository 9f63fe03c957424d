"""Methods of expressions that are aggregates: functions of all rows of a group."""

from __future__ import annotations

from typing import Any, Self

from dbsp.caller_tracebacks import methods_end_at_caller
from dbsp.errors import SchemaError, shorten


@methods_end_at_caller
class AggregateMethods:
    """The aggregates of `Expression`, for `group_by(...).agg(...)` and `rolling`.

    An expression over aggregates, such as `col("x").sum() / count()`, is a value of the group. None
    is not a value: an aggregate ignores it, and returns None for a group without another value,
    except for the counts, which return 0.
    """

    def _aggregate(self, function: str, *by: Any, **options: Any) -> Self:
        raise TypeError(f"{type(self).__name__} is not a form of expression")

    def sum(self) -> Self:
        """Sum the values of the group, each as often as the weight of its row.

        True counts as 1 and False as 0, so `(col("x") > 1).sum()` counts the rows where it is true.
        Sums are exact; a sum of floats is rounded once, as `math.fsum` does. O(|delta| log n) per
        tick.

        Raises:
            SchemaError: in `agg`, if the expression is not a number or a boolean.

        Examples:
            >>> circuit = Circuit("sales")
            >>> sale = circuit.input("sale", shop=str, pieces=int, euro=int)
            >>> total = (col("pieces") * col("euro")).sum()
            >>> circuit.output("result", sale.group_by("shop").agg(total=total))
            >>> circuit.start().step({"sale": [("a", 2, 3), ("a", 1, 10)]})["result"].rows()
            [('a', 16)]
        """
        return self._aggregate("sum")

    def mean(self) -> Self:
        """Average the values of the group, each as often as the weight of its row.

        True counts as 1 and False as 0. The result is a float; for ints it is the exact mean,
        rounded once. For decimals and durations it is of their type, rounded half to even.
        O(|delta| log n) per tick.

        Raises:
            SchemaError: in `agg`, if the expression is not a number.
            ValueOutOfRangeError: in a tick, if the sum of ints has more than 64 bits.

        Examples:
            >>> circuit = Circuit("sales")
            >>> sale = circuit.input("sale", shop=str, euro=int)
            >>> circuit.output("result", sale.group_by("shop").agg(value=col("euro").mean()))
            >>> circuit.start().step({"sale": [("a", 3), ("a", 5), ("a", 10)]})["result"].rows()
            [('a', 6.0)]
        """
        return self._aggregate("mean")

    def min(self) -> Self:
        """Return the least value of the group; strings compare alphabetically.

        O(|delta| log n) per tick. For strings, the first retraction of the extreme of a group reads
        the group; for types such as lists and records, each tick reads the groups with changes.

        Examples:
            >>> circuit = Circuit("sales")
            >>> sale = circuit.input("sale", shop=str, euro=int)
            >>> circuit.output("result", sale.group_by("shop").agg(value=col("euro").min()))
            >>> circuit.start().step({"sale": [("a", 3), ("a", 5), ("a", 10)]})["result"].rows()
            [('a', 3)]
        """
        return self._aggregate("min")

    def max(self) -> Self:
        """Return the largest value of the group; strings compare alphabetically.

        The cost is that of `min`.

        Examples:
            >>> circuit = Circuit("sales")
            >>> sale = circuit.input("sale", shop=str, item=str)
            >>> circuit.output("result", sale.group_by("shop").agg(value=col("item").max()))
            >>> circuit.start().step({"sale": [("a", "tea"), ("a", "pen")]})["result"].rows()
            [('a', 'tea')]
        """
        return self._aggregate("max")

    def count(self) -> Self:
        """Count the values of the group that are not None, each as often as the weight of its row.

        The function `count()` counts the rows. O(|delta| log n) per tick.

        Examples:
            >>> circuit = Circuit("sales")
            >>> sale = circuit.input("sale", shop=str, euro=int | None)
            >>> groups = sale.group_by("shop")
            >>> circuit.output("result", groups.agg(values=col("euro").count(), rows=count()))
            >>> circuit.start().step({"sale": [("a", 3), ("a", None)]})["result"].rows()
            [('a', 1, 2)]
        """
        return self._aggregate("count")

    def count_distinct(self) -> Self:
        """Count the different values of the group that have a positive weight.

        O(|delta| log n) per tick.

        Examples:
            >>> circuit = Circuit("sales")
            >>> sale = circuit.input("sale", shop=str, item=str, euro=int)
            >>> circuit.output("result", sale.group_by("shop").agg(items=col("item").count_distinct()))
            >>> rows = [("a", "tea", 3), ("a", "tea", 5), ("a", "pen", 10)]
            >>> circuit.start().step({"sale": rows})["result"].rows()
            [('a', 2)]
        """
        return self._aggregate("count_distinct")

    def median(self) -> Self:
        """Return the median: the middle value, or the mean of the two middle values.

        A float for ints and floats; a decimal or a duration, rounded half to even, for those.
        O(|delta| log^2 n) per tick.

        Raises:
            SchemaError: in `agg`, if the expression is not a number.

        Examples:
            >>> circuit = Circuit("sales")
            >>> sale = circuit.input("sale", shop=str, euro=int)
            >>> circuit.output("result", sale.group_by("shop").agg(value=col("euro").median()))
            >>> circuit.start().step({"sale": [("a", 3), ("a", 5), ("a", 10)]})["result"].rows()
            [('a', 5.0)]
        """
        return self._aggregate("median")

    def quantile(self, q: float) -> Self:
        """Return the value at the fraction `q` of the sorted values; for values of any type.

        It is v[ceil(q * n)] of the values v[1] <= ... <= v[n], as `percentile_disc` in SQL.
        O(|delta| log^2 n) per tick; for strings a tick reads the groups with changes.

        Parameters:
            q: the fraction, from 0 (the least value) to 1 (the largest).

        Raises:
            SchemaError: `q` is not between 0 and 1.

        Examples:
            >>> circuit = Circuit("sales")
            >>> sale = circuit.input("sale", shop=str, euro=int)
            >>> circuit.output("result", sale.group_by("shop").agg(value=col("euro").quantile(0.5)))
            >>> circuit.start().step({"sale": [("a", 3), ("a", 5), ("a", 10)]})["result"].rows()
            [('a', 5)]
        """
        if isinstance(q, bool) or not isinstance(q, int | float) or not 0 <= q <= 1:
            raise SchemaError(
                f"quantile expects q between 0 and 1, got {shorten(q)}", code="invalid-aggregate"
            )
        return self._aggregate("quantile", q=float(q))

    def var(self, *, population: bool = False) -> Self:
        """Return the variance of the values: the mean square distance from the mean.

        The variance of a sample of one value is None. It is computed from exact sums,
        O(|delta| log n) per tick.

        Parameters:
            population: True to divide by n; by default the sample variance divides by n - 1.

        Raises:
            SchemaError: in `agg`, if the expression is not a number.

        Examples:
            >>> circuit = Circuit("sales")
            >>> sale = circuit.input("sale", shop=str, euro=int)
            >>> circuit.output("result", sale.group_by("shop").agg(value=col("euro").var()))
            >>> circuit.start().step({"sale": [("a", 3), ("a", 5), ("a", 10)]})["result"].rows()
            [('a', 13.0)]
        """
        return self._aggregate("var", population=population)

    def std(self, *, population: bool = False) -> Self:
        """Return the standard deviation of the values: the square root of `var`.

        The cost is that of `var`.

        Parameters:
            population: as for `var`.

        Raises:
            SchemaError: in `agg`, if the expression is not a number.

        Examples:
            >>> circuit = Circuit("sales")
            >>> sale = circuit.input("sale", shop=str, euro=int)
            >>> circuit.output("result", sale.group_by("shop").agg(value=col("euro").std(population=True)))
            >>> circuit.start().step({"sale": [("a", 3), ("a", 5), ("a", 10)]})["result"].rows()
            [('a', 2.943920288775949)]
        """
        return self._aggregate("std", population=population)

    def first(self, by: Any) -> Self:
        """Return the value in the first row in the order of `by`, where `by` is least.

        Of several such rows it is the one with the least value. Rows where `by` is None do not
        count. O(|delta| log n) per tick if the value and `by` are the only columns of the
        aggregates and `by` is of an ordered type; else a tick reads the groups with changes.

        Parameters:
            by: the expression or column name that orders the rows.

        Examples:
            >>> circuit = Circuit("sales")
            >>> sale = circuit.input("sale", shop=str, item=str, euro=int)
            >>> circuit.output("result", sale.group_by("shop").agg(item=col("item").first(by="euro")))
            >>> rows = [("a", "tea", 3), ("a", "tea", 5), ("a", "pen", 10)]
            >>> circuit.start().step({"sale": rows})["result"].rows()
            [('a', 'tea')]
        """
        return self._aggregate("first", by)

    def last(self, by: Any) -> Self:
        """Return the value in the last row in the order of `by`, where `by` is largest.

        Of several such rows it is the one with the least value. Otherwise as `first`.

        Parameters:
            by: the expression or column name that orders the rows.

        Examples:
            >>> circuit = Circuit("sales")
            >>> sale = circuit.input("sale", shop=str, item=str, euro=int)
            >>> circuit.output("result", sale.group_by("shop").agg(item=col("item").last(by="euro")))
            >>> rows = [("a", "tea", 3), ("a", "tea", 5), ("a", "pen", 10)]
            >>> circuit.start().step({"sale": rows})["result"].rows()
            [('a', 'pen')]
        """
        return self._aggregate("last", by)

    def bit_or(self) -> Self:
        """Return the bitwise OR of the ints of the group: the union of sets of bits.

        Values of positive weight count. A tick reads the groups with changes.

        Raises:
            SchemaError: in `agg`, if the expression is not an int.

        Examples:
            >>> circuit = Circuit("rights")
            >>> grant = circuit.input("grant", user=str, rights=int)
            >>> circuit.output("result", grant.group_by("user").agg(rights=col("rights").bit_or()))
            >>> circuit.start().step({"grant": [("ann", 4), ("ann", 1)]})["result"].rows()
            [('ann', 5)]
        """
        return self._aggregate("bit_or")

    def bit_and(self) -> Self:
        """Return the bitwise AND of the ints of the group: the bits that all values have.

        Values of positive weight count. A tick reads the groups with changes.

        Raises:
            SchemaError: in `agg`, if the expression is not an int.

        Examples:
            >>> circuit = Circuit("rights")
            >>> grant = circuit.input("grant", user=str, rights=int)
            >>> circuit.output("result", grant.group_by("user").agg(rights=col("rights").bit_and()))
            >>> circuit.start().step({"grant": [("ann", 7), ("ann", 5)]})["result"].rows()
            [('ann', 5)]
        """
        return self._aggregate("bit_and")
