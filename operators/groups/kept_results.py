"""Results of groups that follow the changes of a tick, without reading a whole group.

    sum, avg of floats     exact sums per group, as digits (`dbsp.kernels.exact_sums`)
    variance, stddev       the same for the values and their squares, of large groups
    count_distinct         the number of values of each large group
    median, quantile       positions in an arrangement by (key, value); no state of its own, except
                           for values with a negative weight
    min, max of strings    see `dbsp.operators.groups.kept_extremes`

All but the first read an arrangement of the stream by (key, value), which has the weight of a
value before and after the tick. Cost per changed row: O(log n) for n rows of state, times the
number of sorted runs. All state is in traces.
"""

from __future__ import annotations

from dbsp.circuit.step_roles import Arranged
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.masks import any_true
from dbsp.data.schema import Schema
from dbsp.errors import expect_type
from dbsp.kernels import count_values, quantile_places, values_at, values_between
from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.jit import expect_calls
from dbsp.operators.groups.aggregate_functions import AggregateFunction, GroupFunction, float_column
from dbsp.operators.groups.exact_results import float_sums
from dbsp.operators.groups.kept_extremes import KeptExtreme
from dbsp.operators.groups.kept_state import GroupChanges, KeptResult, MissingWeights
from dbsp.operators.groups.kept_values import KeptCount, KeptVariance, add_digits, new_digits
from dbsp.operators.groups.order_statistics import CountDistinct, Quantile, Variance
from dbsp.operators.traces.arrange import trace_of
from dbsp.state.counted_tables import counted_table


class KeptSum(KeptResult):
    """The sum or the mean of a float column."""

    __slots__ = ("_digits", "_function", "_nullable", "_place", "traces")

    def __init__(
        self, function: AggregateFunction, place: tuple[int, int], schema: Schema, key: int, scope: StepScope
    ) -> None:
        self._function = function
        self._place = place
        self._nullable = schema.types[function.column].nullable
        self._digits = new_digits(schema, key, scope)
        self.traces = (self._digits,)

    def change(self, changes: GroupChanges) -> tuple[Codes, Codes]:
        before, after = self._results(changes.keys, changes.batch)
        return self._finish(before, changes.before), self._finish(after, changes.after)

    def current(self, keys: Rows, accumulated: Rows) -> Codes:
        _, after = self._results(keys, Batch.empty(keys.shape[1] + 1))
        return self._finish(after, accumulated)

    def _results(self, keys: Rows, batch: Batch) -> tuple[Rows, Rows]:
        column = self._function.column
        return add_digits(self._digits, keys, batch, column, True, self._nullable, False)

    def _finish(self, results: Rows, accumulated: Rows) -> Codes:
        return float_column(self._function.kind, self._place, float_sums(results), accumulated)


class KeptQuantile(KeptResult):
    """A quantile of a column of ordered codes.

    A value of negative weight counts as absent. The state has the missing weight of such values, so
    that the arrangement and the state together have no negative weight.
    """

    __slots__ = ("_function", "_missing", "_order", "_type", "traces")

    def __init__(
        self, function: Quantile, order: Arranged, schema: Schema, key: int, scope: StepScope
    ) -> None:
        self._function = function
        self._order = order
        self._type = schema.types[function.column]
        self._missing = MissingWeights([*schema.types[:key], self._type], scope)
        self.traces = (self._missing.trace,)
        expect_calls(count_values, quantile_places, values_at)
        if function.between:
            expect_calls(values_between)

    def change(self, changes: GroupChanges) -> tuple[Codes, Codes]:
        table = self._table()
        new = self._order.count - self._order.before
        before = self._results(changes.keys, table, len(table) - new)
        if self._missing.trace.count or any_true(changes.batch.weights < 0):
            self._missing.follow(changes.values(self._function.column))
            table = self._table()
        return before, self._results(changes.keys, table, len(table))

    def current(self, keys: Rows, accumulated: Rows) -> Codes:
        table = self._table()
        return self._results(keys, table, len(table))

    def _table(self) -> Rows:
        """Return the counted table of all runs; those of the tick are the last ones."""
        missing = self._missing.trace
        return counted_table((missing, missing.count), (trace_of(self._order), self._order.count))

    def _results(self, keys: Rows, table: Rows, runs: int) -> Codes:
        nullable = self._type.nullable
        size = count_values(keys, table, runs, nullable)
        values = values_at(keys, self._function.places(size), table, runs, nullable)
        return self._function.results(self._type, size, values)


def kept_result(
    function: GroupFunction,
    place: tuple[int, int],
    orders: dict[int, Arranged],
    schema: Schema,
    key: int,
    scope: StepScope,
) -> KeptResult | None:
    """Return the new state of a function; None if it keeps none. It must be one of `is_kept`."""
    if not is_kept(function, schema, key):
        return None
    if isinstance(function, AggregateFunction):
        if function.kind in ("min", "max"):
            return KeptExtreme(function, orders[function.column], schema, key, scope)
        return KeptSum(function, place, schema, key, scope)
    if isinstance(function, CountDistinct):
        return KeptCount(function, orders[function.column], schema, key, scope)
    if isinstance(function, Variance):
        return KeptVariance(function, orders[function.column], schema, key, scope)
    quantile = expect_type(function, Quantile, "a function with kept results")
    return KeptQuantile(quantile, orders[quantile.column], schema, key, scope)


def is_kept(function: GroupFunction, schema: Schema, key: int) -> bool:
    """Return whether the results of a function follow the changes by the state of this module."""
    if isinstance(function, AggregateFunction) and function.kind in ("min", "max"):
        return schema.types[function.column].kind in ("str", "bytes") and function.column >= key
    if isinstance(function, AggregateFunction):
        return function.kind in ("sum", "avg") and schema.types[function.column].kind == "float"
    if isinstance(function, CountDistinct | Variance):
        return function.column >= key
    return (
        isinstance(function, Quantile)
        and function.column >= key
        and schema.types[function.column].ordered_codes
    )


def value_column(function: GroupFunction) -> int | None:
    """Return the column by which a kept function reads the arrangement of a group, or None."""
    if isinstance(function, AggregateFunction):
        return function.column if function.kind in ("min", "max") else None
    return function.column if isinstance(function, CountDistinct | Variance | Quantile) else None
