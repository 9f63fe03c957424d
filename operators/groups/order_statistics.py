"""Aggregates that need all values of a group: order statistics, distinct counts, user functions.

They ignore None and, except `Fold`, count a value as often as its weight: a value of weight w > 0
counts as w equal values, one of weight w <= 0 does not count. A group without values yields None.
These aggregates are not functions of sums, so a tick recomputes the groups with changes: O(n log n)
for their n values (see `dbsp.operators.groups.group_step`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from dbsp.circuit.field_ranges import COLUMN, COLUMN_PARTS, FRACTION, ONE_INPUT
from dbsp.circuit.operator import Operator
from dbsp.data.batch import Batch
from dbsp.data.columns import encode_column
from dbsp.data.interner import Interner
from dbsp.data.key_order import key_order
from dbsp.data.masks import any_true
from dbsp.data.schema import Schema
from dbsp.data.types import FLOAT, INT, Type
from dbsp.data.value_order import rank_codes
from dbsp.data.values import decode_value
from dbsp.errors import EvaluationError, SchemaError, UserFunctionError, cause_text, shorten
from dbsp.kernels import change_digits, divide_sorted, quantile_places, values_between
from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.float_results import FLOATS, HALF_EVEN, INTS
from dbsp.kernels.limits import NULL
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.groups.aggregate_functions import GroupFunction, grouped
from dbsp.operators.groups.exact_results import NO_RUNS, spread_codes
from dbsp.operators.linear.row_functions import function_name
from dbsp.parallel.range_sort import consolidate

_FORMS = {"int": INTS, "float": FLOATS}
"""How to find a value between two of a kind, for the kernel `values_between`."""


@dataclass(frozen=True)
class CountDistinct(GroupFunction):
    """The number of different values of positive weight."""

    column: int = field(metadata=COLUMN)

    def caption(self, columns: Sequence[str]) -> str:
        return f"count_distinct({columns[self.column]})"

    def result(self, schema: Schema) -> Type:
        return INT

    def evaluate(self, batch: Batch, keys: Codes, schema: Schema, interner: Interner) -> Codes:
        _, _, _, group = grouped(batch, keys, (self.column,), schema, positive=True)
        return np.bincount(group, minlength=len(keys)).astype(np.int64)


@dataclass(frozen=True)
class Quantile(GroupFunction):
    """The value at the fraction `q` of the sorted values v[1] <= ... <= v[n], each w times.

    It is v[ceil(q * n)], a value of the group (percentile_disc in SQL). With `between` it is the
    value q * (n - 1) steps after the first, a float interpolated between two neighbours
    (percentile_cont in SQL). The median of decimals or durations is one, rounded half to even.
    """

    column: int = field(metadata=COLUMN)
    q: float = field(metadata=FRACTION)
    between: bool = False

    def caption(self, columns: Sequence[str]) -> str:
        if self.q == 0.5 and self.between:
            return f"median({columns[self.column]})"
        return f"quantile({columns[self.column]}, {self.q:g})"

    def result(self, schema: Schema) -> Type:
        type_ = schema.types[self.column]
        if not self.between:
            return type_
        if type_.kind in ("decimal", "duration") and self.q == 0.5:
            return type_
        if type_.kind not in ("int", "float"):
            raise SchemaError(
                f"median '{schema.names[self.column]}' expects an int, a float, a decimal or a duration, "
                f"got {type_}; "
                f"use quantile({self.q}), which returns the middle value of any type",
                code="invalid-aggregate",
            )
        return FLOAT.optional() if type_.nullable else FLOAT

    def evaluate(self, batch: Batch, keys: Codes, schema: Schema, interner: Interner) -> Codes:
        type_ = schema.types[self.column]
        result = np.full(len(keys), NULL, np.int64)
        rows, weights, starts, group = grouped(batch, keys, (self.column,), schema, positive=True)
        if len(rows) == 0:
            return result
        codes = rows[:, -1]
        if not type_.ordered_codes:
            order = key_order([group, rank_codes(type_, codes, interner)])
            codes, weights = codes[order], weights[order]
        by_group = np.zeros(1, np.int64)
        totals = divide_sorted(group.reshape(-1, 1), weights, by_group, by_group)[1] + weights
        segment = np.cumsum(np.isin(np.arange(len(rows)), starts)) - 1
        size = totals[np.append(starts[1:], len(rows)) - 1]
        places = self.places(size)
        values = np.empty_like(places)
        for at, place in enumerate(places.T):
            here = place[segment]
            values[:, at] = codes[(totals > here) & (totals - weights <= here)]
        result[group[starts]] = self.results(type_, size, values)
        return result

    def places(self, size: Codes) -> Rows:
        """The positions from 0, in groups of these sizes, of the values that make the result."""
        return quantile_places(size, self.q, self.between)

    def results(self, type_: Type, size: Codes, values: Rows) -> Codes:
        """The results of groups of these sizes, from their values at the `places`."""
        if not self.between:
            return values[:, 0]
        return values_between(values, size, self.q, _FORMS.get(type_.kind, HALF_EVEN))


@dataclass(frozen=True)
class ArgExtreme(GroupFunction):
    """The value of `column` in the row with the least (or largest) value of `by`.

    Of several such rows, the least value of `column` counts. Rows where `by` is None are ignored.
    """

    column: int = field(metadata=COLUMN)
    by: int = field(metadata=COLUMN)
    largest: bool

    def caption(self, columns: Sequence[str]) -> str:
        return f"{'last' if self.largest else 'first'}({columns[self.column]}, by {columns[self.by]})"

    def result(self, schema: Schema) -> Type:
        type_ = schema.types[self.column]
        return type_.optional() if schema.types[self.by].nullable else type_

    def at_an_end(self, schema: Schema, key: int) -> int | None:
        by = schema.types[self.by]
        # Other columns would separate rows whose weights must be summed; None would come first.
        alone = {*range(key), self.by, self.column} == set(range(schema.arity))
        none_first = by.nullable and not self.largest
        return self.by if by.ordered_codes and alone and not none_first else None

    def evaluate(self, batch: Batch, keys: Codes, schema: Schema, interner: Interner) -> Codes:
        result = np.full(len(keys), NULL, np.int64)
        # None in the column is an ordinary value: only `by` decides which rows count.
        plain = Schema(
            schema.names, tuple(t.required() if c != self.by else t for c, t in enumerate(schema.types))
        )
        rows, _, starts, group = grouped(batch, keys, (self.by, self.column), plain, positive=True)
        if len(rows) == 0:
            return result
        by, values = rows[:, -2], rows[:, -1]
        first = rank_codes(schema.types[self.by], by, interner)
        ties = rank_codes(schema.types[self.column], values, interner)
        order = key_order([group, ~first if self.largest else first, ties])
        chosen = values[order[starts]]
        self._check(chosen, schema)
        result[group[starts]] = chosen
        return result

    def _check(self, chosen: Codes, schema: Schema) -> None:
        type_ = schema.types[self.column]
        if type_.kind == "int" and not type_.nullable and self.result(schema).nullable:
            refuse_null(chosen)


@dataclass(frozen=True)
class Variance(GroupFunction):
    """The mean square distance from the mean, divided by n - 1, or by n for a `population`.

    With `root` it is the square root: the standard deviation. It is computed from exact sums (see
    `dbsp.operators.groups.exact_results`), so it is a function of the group alone. A sample of one
    value yields None.
    """

    column: int = field(metadata=COLUMN)
    population: bool = False
    root: bool = False

    def caption(self, columns: Sequence[str]) -> str:
        name = "std" if self.root else "var"
        return f"{name}({columns[self.column]})"

    def result(self, schema: Schema) -> Type:
        type_ = schema.types[self.column]
        if type_.kind not in ("int", "float"):
            name = "std" if self.root else "var"
            hint = "; convert it with cast(float)" if type_.kind == "decimal" else ""
            raise SchemaError(
                f"{name} '{schema.names[self.column]}' expects an int or a float, got {type_}{hint}",
                code="invalid-aggregate",
            )
        return FLOAT if self.population and not type_.nullable else FLOAT.optional()

    def evaluate(self, batch: Batch, keys: Codes, schema: Schema, interner: Interner) -> Codes:
        rows, weights, _, _ = grouped(batch, keys, (self.column,), schema, positive=True)
        is_float = schema.types[self.column].kind == "float"
        key = keys.shape[1]
        _, results, _, _ = change_digits(keys, NO_RUNS, 0, rows, weights, key, is_float, False, True, True)
        return self.finish(results)

    def finish(self, results: Codes) -> Codes:
        """The results from those of the kernel `change_digits`."""
        return spread_codes(results, self.population, self.root)


@dataclass(frozen=True)
class Fold(GroupFunction):
    """A Python function of the list of a group's (value, weight) pairs, in the order of the values.

    With several columns a value is a tuple; a tuple with None in it is ignored. Weights are never 0
    and may be negative. The function must be deterministic; it is called for the groups with
    changes, before and after the change.
    """

    function: Callable[[list[tuple[Any, int]]], Any]
    columns: tuple[int, ...] = field(metadata=COLUMN)
    type: Type

    def caption(self, columns: Sequence[str]) -> str:
        read = ", ".join(columns[column] for column in self.columns)
        return f"{function_name(self.function)}({read})"

    def result(self, schema: Schema) -> Type:
        nullable = any(schema.types[column].nullable for column in self.columns)
        return self.type.optional() if nullable else self.type

    def evaluate(self, batch: Batch, keys: Codes, schema: Schema, interner: Interner) -> Codes:
        result = np.full(len(keys), NULL, np.int64)
        rows, weights, starts, group = grouped(batch, keys, self.columns, schema)
        if len(rows) == 0:
            return result
        values = np.ascontiguousarray(rows[:, keys.shape[1] :])
        of = schema.types
        ranks = [rank_codes(of[c], values[:, at], interner) for at, c in enumerate(self.columns)]
        order = key_order([group, *ranks])
        names = tuple(map(str, range(len(self.columns))))
        decoded = Schema(names, tuple(of[c] for c in self.columns)).decode_rows(values[order], interner)
        single = len(self.columns) == 1
        pairs = [
            (row[0] if single else row, weight)
            for row, weight in zip(decoded, weights[order].tolist(), strict=True)
        ]
        ends = [*starts[1:].tolist(), len(rows)]
        results = [
            call_user(self.function, pairs[start:end])
            for start, end in zip(starts.tolist(), ends, strict=True)
        ]
        result[group[starts]] = encode_column(
            self.result(schema), results, interner, function_name(self.function)
        )
        return result


@dataclass(frozen=True)
class FunctionOfSums:
    """A function of some columns of a row; None where one of them is None."""

    function: Callable[..., Any]
    columns: tuple[int, ...] = field(metadata=COLUMN)
    type: Type


@dataclass(frozen=True)
class FinishAggregates(Operator):
    """Linear user-defined aggregates: functions of a group's sums.

    Each output column is a column of the input, by index, or a function of several columns. The
    input has one row per group, so the functions are called only for the groups with changes:
    linear, O(|delta|) of the aggregate.
    """

    input_counts = ONE_INPUT

    columns: tuple[int | FunctionOfSums, ...] = field(metadata=COLUMN_PARTS)
    names: tuple[str, ...]

    @property
    def label(self) -> str:
        names = (function_name(c.function) for c in self.columns if isinstance(c, FunctionOfSums))
        return f"Finish {', '.join(names)}"

    def schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs

        def type_of(column: int | FunctionOfSums) -> Type:
            if isinstance(column, int):
                return schema.types[column]
            nullable = any(schema.types[c].nullable for c in column.columns)
            return column.type.optional() if nullable else column.type

        return Schema(self.names, tuple(map(type_of, self.columns)))

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]  # the grouping columns are kept, and they identify the rows

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        (schema,) = inputs
        types = self.schema(schema).types

        def finish(batch: Batch) -> Batch:
            rows = np.empty((len(batch), len(self.columns)), np.int64)
            for at, column in enumerate(self.columns):
                if isinstance(column, int):
                    rows[:, at] = batch.rows[:, column]
                    continue
                results = []
                for row in batch.rows.tolist():
                    values = [decode_value(schema.types[c], row[c], interner) for c in column.columns]
                    results.append(None if None in values else call_user(column.function, *values))
                rows[:, at] = encode_column(types[at], results, interner, self.names[at])
            return Batch(*consolidate(rows, batch.weights))

        return finish


def call_user(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return function(*arguments); its exception becomes the cause of a UserFunctionError.

    An EvaluationError or a UserFunctionError, which says itself what failed, is raised as it is.
    """
    try:
        return function(*arguments)
    except (EvaluationError, UserFunctionError):
        raise
    except Exception as error:
        raise UserFunctionError(
            f"function {function_name(function)} raised {cause_text(error)} for "
            f"{', '.join(map(shorten, arguments))}; the tick was rolled back"
        ) from error


def refuse_null(codes: Codes) -> None:
    """Refuse int codes that an optional column cannot hold: -2**63 would be None there."""
    if any_true(codes == NULL):
        raise OverflowError("value: -2**63 represents None in an optional int column")
