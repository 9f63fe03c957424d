"""Interval join: all pairs of a point and an interval that contains it, with equal keys.

    (A join B)(x . y) = A(x) * B(y)   where key(x) = key(y)
                                      and y.first + low <= x.point <= y.last + high

The incremental form has the two terms of every join (see `dbsp.operators.joins.join`):

    out = dA join old(B) + new(A) join dB

The points are kept ordered by (key, point): the partners of an interval are one contiguous range.
The intervals are ordered by (key, first): the partners of a point are among those that begin before
it, and the last value of each of these is compared. So a load of points and intervals in one tick
costs O(rows * log rows) plus the matches, and a later point costs up to the number of intervals
that begin before it, without a row for those that end before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np

from dbsp.circuit.field_ranges import COLUMN, EITHER_COLUMN, SECOND_COLUMN, TWO_INPUTS, Between, within
from dbsp.circuit.graph import Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.rewriting import Rewriting
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import expect_arranged
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.masks import all_true, rows_where
from dbsp.data.schema import Schema
from dbsp.data.types import Type
from dbsp.errors import SchemaError, expect_present
from dbsp.kernels import (
    consolidate,
    join_intervals,
    project,
    register_run,
)
from dbsp.kernels.arrays import Codes, Mask
from dbsp.kernels.limits import INT64_MAX
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.joins.band import Band, distance
from dbsp.operators.joins.join import (
    DeltaJoin,
    check_key_types,
    in_orders,
    is_injective,
    joined_on,
    null_mismatch_columns,
    picked_columns,
    without_null,
)
from dbsp.operators.joins.range_join import ReachJoinStep
from dbsp.operators.traces.arrange import arranged, key_first, order_of

DISTANCE = within(Between(-INT64_MAX, INT64_MAX))
_KINDS = ("int", "date", "time", "timestamp", "timestamptz", "duration")


@dataclass(frozen=True)
class IntervalJoin(Operator):
    """Equi-join on `left_key` and `right_key`, where a point is between two columns of the right.

    `point` is a column of the left; `first` and `last` are columns of the right. `columns` chooses
    the output as in `Join`. A row with None in one of the three columns has no partner.
    """

    input_counts = TWO_INPUTS

    left_key: tuple[int, ...] = field(metadata=COLUMN)
    right_key: tuple[int, ...] = field(metadata=SECOND_COLUMN)
    point: int = field(metadata=COLUMN)
    first: int = field(metadata=SECOND_COLUMN)
    last: int = field(metadata=SECOND_COLUMN)
    low: int = field(metadata=DISTANCE)
    high: int = field(metadata=DISTANCE)
    columns: tuple[int, ...] = field(metadata=EITHER_COLUMN)
    names: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"IntervalJoin -> {', '.join(self.names)}"

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        left, right = columns
        pairs = zip(self.left_key, self.right_key, strict=True)
        within = f"{left[self.point]} between {right[self.first]} and {right[self.last]}"
        return f"{joined_on(self.name, ((left[a], right[b]) for a, b in pairs))} where {within}"

    @property
    def law(self) -> str:
        return "bilinear"

    def schema(self, *inputs: Schema) -> Schema:
        points, intervals = inputs
        left = (*self.left_key, self.point, self.point)
        check_key_types(left, (*self.right_key, self.first, self.last), points, intervals)
        _check_kind(points.types[self.point])
        return picked_columns(self.columns, self.names, points, intervals)

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        a_schema, b_schema = inputs
        pairs = list(zip(self.left_key, self.right_key, strict=True))
        by_left = np.array(key_first((*self.left_key, self.point), a_schema.arity), np.int64)
        by_right = np.array(key_first((*self.right_key, self.first), b_schema.arity), np.int64)
        in_right = np.argsort(by_right)
        columns = np.array(in_orders(self.columns, by_left, by_right), np.int64)
        reach = IntervalReach(
            len(pairs),
            int(in_right[self.last]),
            self.low,
            self.high,
            a_schema.select([int(c) for c in by_left]),
            b_schema.select([int(c) for c in by_right]),
            null_mismatch_columns(a_schema, b_schema, pairs),
        )

        def join(a: Batch, b: Batch) -> Batch:
            arguments = reach.of_points(a.projected(by_left))
            run = project(b.rows, b.weights, by_right)
            table = np.zeros((1, 3), np.int64)
            register_run(table, 0, *run)
            rows, weights, _ = join_intervals(*arguments, table, 1, b_schema.arity, columns)
            return Batch(*consolidate(rows, weights))

        return join

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        left, right = inputs
        pairs = sorted(zip(self.left_key, self.right_key, strict=True))
        a = arranged(rewriting, left, [*(p for p, _ in pairs), self.point])
        b = arranged(rewriting, right, [*(p for _, p in pairs), self.first])
        injective = is_injective(self.columns, left.schema, right.schema, self.right_key)
        in_b = np.argsort(order_of(b))
        columns = in_orders(self.columns, order_of(a), order_of(b))
        joined = DeltaIntervalJoin(
            len(pairs),
            columns,
            self.names,
            injective,
            null_mismatch_columns(left.schema, right.schema, pairs),
            last=int(in_b[self.last]),
            low=self.low,
            high=self.high,
        )
        return rewriting.add(joined, a, b)


@dataclass(frozen=True)
class DeltaIntervalJoin(DeltaJoin):
    """The incremental form: the arrangements start with the key, and the point or first column."""

    last: int = field(kw_only=True, metadata=SECOND_COLUMN)
    low: int = field(kw_only=True, metadata=DISTANCE)
    high: int = field(kw_only=True, metadata=DISTANCE)

    @property
    def name(self) -> str:
        return "IntervalJoin"

    def schema(self, *inputs: Schema) -> Schema:
        points, intervals = inputs
        if self.key >= min(points.arity, intervals.arity):
            raise SchemaError(
                f"expected a key of fewer than {min(points.arity, intervals.arity)} columns, got {self.key}",
                code="wrong-arity",
            )
        left = (*range(self.key), self.key, self.key)
        check_key_types(left, (*range(self.key), self.key, self.last), points, intervals)
        _check_kind(points.types[self.key])
        return super().schema(*inputs)

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        left, right = expect_arranged(node, sources)
        points, intervals = (stream.schema for stream in node.inputs)
        reach = IntervalReach(self.key, self.last, self.low, self.high, points, intervals, self.null_mismatch)
        of_left, of_right = reach.of_points, reach.of_intervals
        return IntervalJoinStep(left, right, self.key, self.columns, scope, of_left, of_right)


def interval_offset(type_: Type, offset: Any, which: str) -> int:
    """Return an offset of `first` or `last` in the unit of the codes of the type.

    0 is an offset for every type. Raises SchemaError if it does not fit the type.
    """
    _check_kind(type_)
    return 0 if offset == 0 else int(expect_present(distance(type_, offset, which), which))


def _check_kind(type_: Type) -> None:
    if type_.kind not in _KINDS:
        raise SchemaError(
            f"expected an int, date, time, timestamp or duration column, got {type_}: an interval join "
            "compares codes",
            code="wrong-type",
        )


IntervalArguments: TypeAlias = tuple[Codes, Codes, Codes, Codes, Codes, int]
"""The rows that can have partners, their weights, first and last prefixes of partners, least values
of a column, and this column."""


class IntervalReach:
    """Finds the partners of points and of intervals, each with their arrangement's columns."""

    def __init__(
        self,
        key: int,
        last: int,
        low: int,
        high: int,
        points: Schema,
        intervals: Schema,
        null_mismatch: Sequence[int],
    ) -> None:
        self._key = key
        self._last = last
        self._point = points.types[key]
        self._first, self._until = intervals.types[key], intervals.types[last]
        self._before = Band(False, None, -low)
        self._after = Band(False, -high, None)
        self._null_mismatch = tuple(null_mismatch)

    def of_points(self, batch: Batch) -> IntervalArguments:
        """Return the leading arguments of the kernels for points.

        The partners have first + low <= x; of these the kernel keeps those with last + high >= x.
        """
        rows, weights = self._with_key(batch)
        values = rows[:, self._key]
        start, end, valid = self._before.around(values, self._point, self._first)
        floor, _, reached = self._after.around(values, self._point, self._until)
        return self._arguments(rows, weights, start, end, valid & reached, floor, self._last)

    def of_intervals(self, batch: Batch) -> IntervalArguments:
        """Return the leading arguments of the kernels for intervals.

        The partners are the points from first + low to last + high.
        """
        rows, weights = self._with_key(batch)
        start, _, valid = self._before.turned().around(rows[:, self._key], self._first, self._point)
        _, end, reached = self._after.turned().around(rows[:, self._last], self._until, self._point)
        valid &= reached & (start <= end)
        return self._arguments(rows, weights, start, end, valid, start, -1)

    def _with_key(self, batch: Batch) -> tuple[Codes, Codes]:
        if self._null_mismatch:
            return without_null(batch.rows, batch.weights, self._null_mismatch)
        return batch.rows, batch.weights

    def _arguments(
        self, rows: Codes, weights: Codes, start: Codes, end: Codes, valid: Mask, floor: Codes, column: int
    ) -> IntervalArguments:
        if not all_true(valid):
            rows, weights = rows_where(valid, rows, weights)
            start, end, floor = start[valid], end[valid], floor[valid]
        key = rows[:, : self._key]
        starts, ends = np.column_stack((key, start)), np.column_stack((key, end))
        return rows, weights, starts, ends, np.ascontiguousarray(floor), column


class IntervalJoinStep(ReachJoinStep):
    __slots__ = ()

    kernel = "join_intervals"
    timed_kernel = "join_timed_intervals"
