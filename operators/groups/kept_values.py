"""Functions of the values of a group that add up: distinct counts, and variances from exact sums.

    result = f(sum over the values v of the group of g(v))       g(v) from the weight of v, if > 0

A large group has this sum in the state, and a tick adds the changes of the values. A small group
has none: it is read from the arrangement by (key, value), as often as it changes, so that many
small groups need no more state than their rows. A group is large if the sum of its weights is more
than SMALL. When a tick changes that, the group is read and its sum inserted or retracted.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from dbsp.circuit.step_roles import Arranged
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.key_order import key_order
from dbsp.data.masks import all_true, any_true, rows_where
from dbsp.data.schema import Schema
from dbsp.data.types import INT
from dbsp.kernels import (
    change_accumulators,
    change_digits,
    consolidate,
    count_present_values,
    gather,
    project,
)
from dbsp.kernels.arrays import Codes, Mask, Rows
from dbsp.kernels.jit import expect_calls
from dbsp.kernels.limits import NULL
from dbsp.operators.groups.aggregate_functions import group_numbers
from dbsp.operators.groups.exact_results import NO_RUNS
from dbsp.operators.groups.kept_state import GroupChanges, KeptResult
from dbsp.operators.groups.order_statistics import CountDistinct, Variance
from dbsp.operators.traces.arrange import trace_of
from dbsp.state.trace import Trace

SMALL = 32
"""The sum of the weights of a group up to which it has no state."""

_NO_COLUMNS = np.empty((0, 2), np.int64)


class KeptValues(KeptResult):
    """The state of a function that adds up the values of positive weight of a column."""

    __slots__ = ("_column", "_key", "_nullable", "_order")

    def __init__(self, column: int, order: Arranged, schema: Schema, key: int) -> None:
        self._column = column
        self._nullable = schema.types[column].nullable
        self._order = order
        self._key = key
        expect_calls(gather)

    @abstractmethod
    def terms(self, weights: Codes) -> Codes:
        """Return how often a value of each of these weights, which are 0 or more, counts."""

    @abstractmethod
    def add(self, keys: Rows, rows: Rows, weights: Codes) -> tuple[Codes, Codes]:
        """Add rows (key, value) to the state of groups; return their results before and after."""

    @abstractmethod
    def evaluate(self, keys: Rows, values: Batch) -> Codes:
        """Return the results of groups whose rows (key, value) have these positive weights."""

    def current(self, keys: Rows, accumulated: Rows) -> Codes:
        large = accumulated[:, 0] > SMALL
        result = np.full(len(keys), NULL, np.int64)
        if any_true(large):
            result[large], _ = self.add(keys[large], np.empty((0, self._key + 1), np.int64), NO_WEIGHTS)
        if not all_true(large):
            _, values = self._read(keys[~large], self._order.count)
            result[~large] = self.evaluate(keys[~large], values)
        return result

    def change(self, changes: GroupChanges) -> tuple[Codes, Codes]:
        keys = changes.keys
        was, is_large = changes.before[:, 0] > SMALL, changes.after[:, 0] > SMALL
        stored = was | is_large
        if not any_true(stored):  # most groups are small, and most ticks change few of them
            return self.small(keys)
        before, after = np.full((2, len(keys)), NULL, np.int64)
        parts = [self._changed(changes, was & is_large)] if any_true(was & is_large) else []
        if not all_true(was) or not all_true(is_large):
            read = ~(was & is_large)
            old, new = self._read(keys[read], self._order.before)
            if not all_true(was):
                before[~was] = self.evaluate(keys[~was], _of_groups(old, keys[read], ~was[read]))
            if not all_true(is_large):
                after[~is_large] = self.evaluate(
                    keys[~is_large], _of_groups(new, keys[read], ~is_large[read])
                )
            for values, part, sign in ((old, was & ~is_large, -1), (new, is_large & ~was, 1)):
                if any_true(part):
                    moved = _of_groups(values, keys[read], part[read])
                    parts.append((moved.rows, sign * self.terms(moved.weights)))
        rows, weights = parts[0] if len(parts) == 1 else _joined(parts)
        results = self.add(keys if all_true(stored) else keys[stored], rows, weights)
        before[was], after[is_large] = results[0][was[stored]], results[1][is_large[stored]]
        return before, after

    def small(self, keys: Rows) -> tuple[Codes, Codes]:
        """Return the results of groups without state before and after the tick."""
        old, new = self._read(keys, self._order.before)
        return self.evaluate(keys, old), self.evaluate(keys, new)

    def _changed(self, changes: GroupChanges, chosen: Mask) -> tuple[Rows, Codes]:
        """Return the changes of the terms of the values of some groups."""
        values = changes.values(self._column)
        change = self.terms(np.maximum(values.after, 0)) - self.terms(np.maximum(values.before, 0))
        if self._nullable:
            change[values.rows[:, -1] == NULL] = 0
        if all_true(chosen):
            return values.rows, change
        mask = chosen[group_numbers(values.rows, changes.keys, self._key)]
        return rows_where(mask, values.rows, change)

    def _read(self, keys: Rows, before: int) -> tuple[Batch, Batch]:
        """Return the rows (key, value) of positive weight, in the first runs and in all."""
        order = self._order
        width = trace_of(order).width
        rows, weights, split = gather(keys, self._key, order.table, order.count, width, before)
        return self._positive(rows[:split], weights[:split]), self._positive(rows, weights)

    def _positive(self, rows: Rows, weights: Codes) -> Batch:
        rows, weights = project(np.ascontiguousarray(rows), weights, np.arange(self._key + 1))
        keep = weights > 0
        if self._nullable:
            keep &= rows[:, -1] != NULL
        return Batch(rows, weights) if all_true(keep) else Batch(*rows_where(keep, rows, weights))


class KeptVariance(KeptValues):
    """The variance or standard deviation of a column."""

    __slots__ = ("_digits", "_function", "_is_float", "traces")

    def __init__(
        self, function: Variance, order: Arranged, schema: Schema, key: int, scope: StepScope
    ) -> None:
        super().__init__(function.column, order, schema, key)
        self._function = function
        self._is_float = schema.types[function.column].kind == "float"
        self._digits = new_digits(schema, key, scope)
        self.traces = (self._digits,)

    def terms(self, weights: Codes) -> Codes:
        return weights

    def add(self, keys: Rows, rows: Rows, weights: Codes) -> tuple[Codes, Codes]:
        digits = self._digits
        before, after = add_digits(
            digits, keys, Batch(rows, weights), self._key, self._is_float, self._nullable, True
        )
        return self._function.finish(before), self._function.finish(after)

    def evaluate(self, keys: Rows, values: Batch) -> Codes:
        _, results, _, _ = change_digits(
            keys, NO_RUNS, 0, values.rows, values.weights, self._key, self._is_float, False, True, True
        )
        return self._function.finish(results)


class KeptCount(KeptValues):
    """The number of different values of a column."""

    __slots__ = ("_counts", "traces")

    def __init__(
        self, function: CountDistinct, order: Arranged, schema: Schema, key: int, scope: StepScope
    ) -> None:
        super().__init__(function.column, order, schema, key)
        self._counts = scope.new_trace(key + 1, [*schema.types[:key], INT])
        self.traces = (self._counts,)
        expect_calls(change_accumulators, count_present_values)

    def terms(self, weights: Codes) -> Codes:
        return np.minimum(weights, 1)

    def add(self, keys: Rows, rows: Rows, weights: Codes) -> tuple[Codes, Codes]:
        # A row without weight for each group, since a group may have no change.
        markers = np.column_stack((keys, np.zeros(len(keys), np.int64)))
        rows, weights = (
            np.concatenate((markers, rows)),
            np.concatenate((np.zeros(len(keys), np.int64), weights)),
        )
        order = key_order(rows[:, : self._key].T) if self._key else slice(None)
        state = self._counts
        _, before, after, changed, signs = change_accumulators(
            rows[order], weights[order], self._key, _NO_COLUMNS, state.table, state.count
        )
        if len(signs):
            state.append(changed, signs)
        return before[:, 0], after[:, 0]

    def small(self, keys: Rows) -> tuple[Codes, Codes]:
        order = self._order
        width = trace_of(order).width
        before, after = count_present_values(
            keys, self._key, order.table, order.before, order.count, width, self._nullable
        )
        return before, after

    def evaluate(self, keys: Rows, values: Batch) -> Codes:
        counts = np.zeros(len(keys), np.int64)
        if len(values):
            counts += np.bincount(group_numbers(values.rows, keys, self._key), minlength=len(keys))
        return counts


def new_digits(schema: Schema, key: int, scope: StepScope) -> Trace:
    """Return a trace for the state of the kernel `change_digits`."""
    expect_calls(change_digits)
    return scope.new_trace(key + 2, [*schema.types[:key], INT, INT])


def add_digits(
    digits: Trace, keys: Rows, batch: Batch, column: int, is_float: bool, nullable: bool, squares: bool
) -> tuple[Rows, Rows]:
    """Change exact sums; return their results before and after."""
    before, after, rows, weights = change_digits(
        keys,
        digits.table,
        digits.count,
        batch.rows,
        batch.weights,
        column,
        is_float,
        nullable,
        squares,
        False,
    )
    if len(weights):
        digits.append(rows, weights)
    return before, after


NO_WEIGHTS = np.empty(0, np.int64)


def _of_groups(values: Batch, keys: Rows, chosen: Mask) -> Batch:
    """Return the rows of the chosen groups among those with these keys."""
    if all_true(chosen) or not len(values):
        return values
    mask = chosen[group_numbers(values.rows, keys, keys.shape[1])]
    return Batch(*rows_where(mask, values.rows, values.weights))


def _joined(parts: list[tuple[Rows, Codes]]) -> tuple[Rows, Codes]:
    """Return the rows of several parts in one order."""
    rows, weights = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return consolidate(rows, weights)
