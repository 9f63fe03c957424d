"""The aggregate functions, defined on the groups of one whole Z-set.

A group is the Z-set of the values under one key. With w the weights of a group,

    count = sum of w(v)      sum = sum of w(v) * v      avg = sum / count
    min, max = the least, the largest v with w(v) > 0

None is not a value: sum, avg, min and max ignore it and are None in a group without values; count
counts rows. A group is present while the sum of its weights is positive, so a group whose weights
cancel disappears.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from decimal import Decimal

import numpy as np

from dbsp.circuit.field_ranges import InputColumns, one_of
from dbsp.data.batch import Batch
from dbsp.data.columns import Floats, float_codes
from dbsp.data.interner import Interner
from dbsp.data.masks import all_true, any_true, rows_where
from dbsp.data.schema import Schema
from dbsp.data.types import FLOAT, INT, Type
from dbsp.data.value_order import rank_codes
from dbsp.errors import SchemaError, ValueOutOfRangeError
from dbsp.expressions.coded import limits
from dbsp.kernels import accumulate, change_digits, means, project
from dbsp.kernels.arrays import Codes
from dbsp.kernels.group_values import COUNT_PRESENT, SUM, SUM_PRESENT
from dbsp.kernels.limits import NULL
from dbsp.kernels.timed_bounds import GREATEST, LEAST
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.groups.exact_results import NO_RUNS, float_sums
from dbsp.parallel.range_sort import consolidate

SUMMED = ("int", "float", "decimal", "duration")
"""The kinds of values that have sums."""
LINEAR = ("int", "decimal", "duration")
"""The kinds whose sums are exact sums of codes."""


@dataclass(frozen=True)
class GroupFunction:
    """An aggregate: a function of the values of one group, by columns of the aggregate's input.

    `evaluate` defines it for all groups of a batch at once.
    """

    def caption(self, columns: Sequence[str]) -> str:
        """The function with the names of its columns, for pictures: `sum(n)`."""
        raise AssertionError(f"{type(self).__name__} does not define its caption")

    def result(self, schema: Schema) -> Type:
        """The type of the result; raises SchemaError if the types of the columns do not fit."""
        raise AssertionError(f"{type(self).__name__} does not define its result type")

    def linear(self, schema: Schema) -> bool:
        """Whether the result is a function of exact sums of weight * value."""
        return False

    def at_an_end(self, schema: Schema, key: int) -> int | None:
        """The column that sorts a group so that the result is at one end; None if there is none.

        `key` is the number of grouping columns.
        """
        return None

    def bound(self, schema: Schema) -> int | None:
        """The bound of `dbsp.kernels.timed_bounds` that is the result; None if there is none."""
        return None

    def evaluate(self, batch: Batch, keys: Codes, schema: Schema, interner: Interner) -> Codes:
        """The results, int64[groups], for a batch whose distinct keys are `keys`."""
        raise AssertionError(f"{type(self).__name__} does not define its evaluation")


@dataclass(frozen=True)
class AggregateFunction(GroupFunction):
    """count, sum, avg, min or max, as `kind`, of the input column `column`."""

    kind: str = field(metadata=one_of("count", "sum", "avg", "min", "max"))
    column: int = -1

    @property
    def title(self) -> str:
        """The name of the function, as the method of expressions has it."""
        return "mean" if self.kind == "avg" else self.kind

    def caption(self, columns: Sequence[str]) -> str:
        return f"{self.title}({columns[self.column] if self.column >= 0 else '*'})"

    def result(self, schema: Schema) -> Type:
        if self.kind == "count":
            return INT
        InputColumns().check(self.column, [schema])
        type_ = schema.types[self.column]
        if self.kind in ("min", "max"):
            return type_
        if type_.kind not in SUMMED:
            raise SchemaError(
                f"{self.title} '{schema.names[self.column]}' expects an int, a float, a decimal or a "
                f"duration, got {type_}",
                code="invalid-aggregate",
            )
        result = FLOAT if self.kind == "avg" and type_.kind == "int" else type_.required()
        return result.optional() if type_.nullable else result

    def linear(self, schema: Schema) -> bool:
        if self.kind == "count":
            return True
        return self.kind in ("sum", "avg") and schema.types[self.column].kind in LINEAR

    def at_an_end(self, schema: Schema, key: int) -> int | None:
        sorted_by_code = self.kind in ("min", "max") and schema.types[self.column].ordered_codes
        return self.column if sorted_by_code else None

    def bound(self, schema: Schema) -> int | None:
        if self.at_an_end(schema, 0) is None or schema.types[self.column].nullable:
            return None
        return LEAST if self.kind == "min" else GREATEST

    def evaluate(self, batch: Batch, keys: Codes, schema: Schema, interner: Interner) -> Codes:
        if self.kind in ("min", "max"):
            return _ends(self, batch, keys, schema, interner)
        raise AssertionError(f"{self.kind} is computed from its accumulators")


def accumulators(functions: Sequence[GroupFunction], schema: Schema) -> tuple[Codes, list[tuple[int, int]]]:
    """The accumulators that the functions need, for the kernel `accumulate`.

    Returns the `columns` argument of the kernel and, per function, the accumulators of its sum and
    of its number of values. Accumulator 0 is the sum of the weights.
    """
    needed: list[tuple[int, int]] = []

    def place(column: int, what: int) -> int:
        if (column, what) not in needed:
            needed.append((column, what))
        return needed.index((column, what)) + 1

    places = []
    for function in functions:
        total = count = 0
        if isinstance(function, AggregateFunction) and function.kind in ("sum", "avg"):
            nullable = schema.types[function.column].nullable
            if function.linear(schema):
                total = place(function.column, SUM_PRESENT if nullable else SUM)
            if nullable:
                count = place(function.column, COUNT_PRESENT)
        places.append((total, count))
    return np.array(needed, np.int64).reshape(len(needed), 2), places


def plain_results(
    functions: Sequence[GroupFunction], places: Sequence[tuple[int, int]], schema: Schema
) -> Codes | None:
    """For each function the accumulator whose value is its result; None unless all have one.

    These are counts, and sums of ints that are not optional.
    """
    found = []
    for function, (total, _) in zip(functions, places, strict=True):
        if not isinstance(function, AggregateFunction) or function.kind not in ("count", "sum"):
            return None
        if function.kind == "sum" and schema.types[function.column] != INT:
            return None
        found.append(total)
    return np.array(found, np.int64)


def linear_column(
    function: AggregateFunction, place: tuple[int, int], accumulated: Codes, schema: Schema
) -> Codes:
    """The results of a linear function, int64[groups], from the groups' accumulators.

    Raises ValueOutOfRangeError if the sum of an optional column is the code of None, or if a sum
    or a mean of decimals or durations is out of range.
    """
    total, count = accumulated[:, place[0]], accumulated[:, place[1]]
    type_ = INT if function.kind == "count" else schema.types[function.column]
    if type_.kind != "int":
        return _coded_result(function.kind, type_, place, accumulated)
    if function.kind == "avg":
        return means(total.copy(), count.copy(), False)
    if not place[1]:
        return total
    if any_true((total == NULL) & (count != 0)):
        raise ValueOutOfRangeError("the sum -2**63 represents None in an optional int column")
    return np.where(count == 0, NULL, total)


def _coded_result(kind: str, type_: Type, place: tuple[int, int], accumulated: Codes) -> Codes:
    """The sums or the means of decimals or durations; means are rounded half to even."""
    total, count = accumulated[:, place[0]], accumulated[:, place[1]]
    if kind == "avg":
        divisor = np.where(count == 0, 1, np.abs(count))
        quotient, rest = np.divmod(np.where(count < 0, -total, total), divisor)
        # `rest` is compared with the other part of the divisor, since twice of it could overflow.
        other = divisor - rest
        total = quotient + ((rest > other) | ((rest == other) & (quotient % 2 == 1)))
    low, high = limits(type_)
    # With negative weights, a mean can be outside of the range of the values, too.
    wrong = (accumulated[:, 0] > 0) & (count != 0) & ((total < low) | (total > high))
    if any_true(wrong):
        found: int | Decimal = int(total[np.argmax(wrong)])
        if type_.kind == "decimal":
            found = Decimal(found).scaleb(-type_.scale)
        title = "mean" if kind == "avg" else kind
        raise ValueOutOfRangeError(f"the {title} {found} does not fit in {type_}")
    return np.where(count == 0, NULL, total) if place[1] else total


def float_column(kind: str, place: tuple[int, int], total: Floats, accumulated: Codes) -> Codes:
    """The results of sum or avg of a float column, int64[groups], from the sums of the groups."""
    count = accumulated[:, place[1]]
    if kind == "avg":
        return means(total.view(np.int64), count.copy(), True)
    return np.where(count == 0, NULL, float_codes(total)) if place[1] else float_codes(total)


def reducer(
    key: int, functions: Sequence[GroupFunction], schema: Schema, interner: Interner
) -> Callable[[Batch], Batch]:
    """The aggregates of a batch whose first `key` columns are the group's key.

    The result has one row (key, results) of weight 1 for each group present. O(n log n).
    """
    columns, places = accumulators(functions, schema)

    def column(
        function: GroupFunction, place: tuple[int, int], batch: Batch, keys: Codes, sums: Codes
    ) -> Codes:
        if not isinstance(function, AggregateFunction) or function.kind in ("min", "max"):
            return function.evaluate(batch, keys, schema, interner)
        if function.linear(schema):
            return linear_column(function, place, sums, schema)
        nullable = schema.types[function.column].nullable
        _, results, _, _ = change_digits(
            keys, NO_RUNS, 0, batch.rows, batch.weights, function.column, True, nullable, False, True
        )
        return float_column(function.kind, place, float_sums(results), sums)

    def reduce(batch: Batch) -> Batch:
        keys, _, sums = accumulate(batch.rows, batch.weights, key, columns, NO_RUNS, 0)
        present = sums[:, 0] > 0
        if not all_true(present):
            # A function may be undefined for a group that is not present.
            mask = present[_numbers(batch.rows[:, :key])]
            batch = Batch(*rows_where(mask, batch.rows, batch.weights))
            keys, sums = keys.compress(present, 0), sums.compress(present, 0)
        out = np.empty((len(keys), key + len(functions)), np.int64)
        out[:, :key] = keys
        for at, (function, place) in enumerate(zip(functions, places, strict=True)):
            out[:, key + at] = column(function, place, batch, keys, sums)
        return Batch(*consolidate(out, np.ones(len(out), np.int64)))

    return reduce


def _ends(
    function: AggregateFunction, batch: Batch, keys: Codes, schema: Schema, interner: Interner
) -> Codes:
    """The least or largest value of positive weight of each group, int64[groups]."""
    type_ = schema.types[function.column]
    result = np.full(len(keys), NULL, np.int64)
    rows, _, starts, group = grouped(batch, keys, (function.column,), schema, positive=True)
    if len(rows) == 0:
        return result
    values = np.ascontiguousarray(rows[:, -1])
    ranks = rank_codes(type_, values, interner)
    ends = np.append(starts[1:], len(values))
    choose = np.minimum if function.kind == "min" else np.maximum
    best = choose.reduceat(ranks, starts)
    result[group[starts]] = values[np.flatnonzero(ranks == np.repeat(best, ends - starts))]
    return result


def grouped(
    batch: Batch, keys: Codes, columns: Sequence[int], schema: Schema, *, positive: bool = False
) -> tuple[Codes, Codes, Codes, Codes]:
    """The rows (key, values of `columns`) without None, in sorted order, for a function of groups.

    Returns the rows, their summed weights, the indices where groups start, and the group of each
    row, an index into `keys`. With `positive`, only rows of positive weight.
    """
    key = keys.shape[1]
    rows, weights = project(batch.rows, batch.weights, np.array([*range(key), *columns], np.int64))
    keep = np.ones(len(rows), np.bool_)
    for at, column in enumerate(columns, key):
        if schema.types[column].nullable:
            keep &= rows[:, at] != NULL
    if positive:
        keep &= weights > 0
    rows, weights = rows_where(keep, rows, weights)
    if len(rows) == 0:
        empty = np.empty(0, np.int64)
        return rows, weights, empty, empty
    group = group_numbers(rows, keys, key)
    return rows, weights, np.flatnonzero(np.r_[True, group[1:] != group[:-1]]), group


def _numbers(rows: Codes) -> Codes:
    """For each of the sorted rows, the number of different rows before it."""
    new = np.zeros(len(rows), np.int64)
    new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return np.cumsum(new)


def group_numbers(rows: Codes, keys: Codes, key: int) -> Codes:
    """For each row, the index of its key among the sorted distinct `keys`; both are sorted."""
    ordinal = _numbers(rows[:, :key])
    if int(ordinal[-1]) + 1 == len(keys):
        return ordinal
    # Some groups have no value: look up the keys of the others.
    known = {tuple(k): i for i, k in enumerate(keys.tolist())}
    firsts = rows[np.flatnonzero(np.r_[True, ordinal[1:] != ordinal[:-1]])][:, :key].tolist()
    places: Codes = np.array([known[tuple(k)] for k in firsts], np.int64)
    return np.take(places, ordinal)
