"""Range join: all pairs of rows with equal keys and close values in an ordered column.

    (A join B)(x . y) = A(x) * B(y)   where key(x) = key(y) and low <= y.right - x.left <= high

Bilinear like every join, so its incremental form has the same two terms (see
`dbsp.operators.joins.join`):

    out = dA join old(B) + new(A) join dB

Both sides are kept ordered by (key, ordered column), where the partners of a row are one contiguous
range. Cost: O(delta * log state) plus the matches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from dbsp.circuit.field_ranges import COLUMN, EITHER_COLUMN, SECOND_COLUMN, TWO_INPUTS, InputColumns
from dbsp.circuit.graph import Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.rewriting import Rewriting
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import Arranged, expect_arranged
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.masks import all_true, rows_where
from dbsp.data.schema import Schema
from dbsp.data.types import Type
from dbsp.errors import SchemaError
from dbsp.kernels import consolidate, join_bands, project, register_run
from dbsp.kernels.arrays import Codes
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.joins.band import Band
from dbsp.operators.joins.join import (
    DeltaJoin,
    JoinStep,
    check_key_types,
    in_orders,
    is_injective,
    joined_on,
    null_mismatch_columns,
    picked_columns,
    without_null,
)
from dbsp.operators.traces.arrange import arranged, key_first, order_of


@dataclass(frozen=True)
class RangeJoin(Operator):
    """Equi-join on `left_key` and `right_key`, where `left` and `right` are within `band`.

    `columns` chooses the output as in `Join`.
    """

    input_counts = TWO_INPUTS

    left_key: tuple[int, ...] = field(metadata=COLUMN)
    right_key: tuple[int, ...] = field(metadata=SECOND_COLUMN)
    left: int = field(metadata=COLUMN)
    right: int = field(metadata=SECOND_COLUMN)
    band: Band
    columns: tuple[int, ...] = field(metadata=EITHER_COLUMN)
    names: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"RangeJoin -> {', '.join(self.names)}"

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        left, right = columns
        pairs = zip(self.left_key, self.right_key, strict=True)
        near = f"{left[self.left]} near {right[self.right]}"
        return f"{joined_on(self.name, ((left[a], right[b]) for a, b in pairs))} where {near}"

    @property
    def law(self) -> str:
        return "bilinear"

    def schema(self, *inputs: Schema) -> Schema:
        a, b = inputs
        check_key_types(self.left_key, self.right_key, a, b)
        x, y = a.types[self.left], b.types[self.right]
        if x.coding != y.coding:
            raise SchemaError(
                f"expected columns of the same type, got '{a.names[self.left]}: {x}' and "
                f"'{b.names[self.right]}: {y}'",
                code="invalid-join-key",
            )
        self.band.check(x)
        return picked_columns(self.columns, self.names, a, b)

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        a_schema, b_schema = inputs
        pairs = list(zip(self.left_key, self.right_key, strict=True))
        by_left = np.array(key_first((*self.left_key, self.left), a_schema.arity), np.int64)
        by_right = np.array(key_first((*self.right_key, self.right), b_schema.arity), np.int64)
        columns = np.array(in_orders(self.columns, by_left, by_right), np.int64)
        x, y = a_schema.types[self.left], b_schema.types[self.right]
        reach = BandReach(len(pairs), self.band, x, y, null_mismatch_columns(a_schema, b_schema, pairs))
        width = b_schema.arity

        def join(a: Batch, b: Batch) -> Batch:
            rows, weights, starts, ends = reach.of(a.projected(by_left))
            run = project(b.rows, b.weights, by_right)
            table = np.zeros((1, 3), np.int64)
            register_run(table, 0, *run)
            joined, products, _ = join_bands(rows, weights, starts, ends, table, 1, width, columns)
            return Batch(*consolidate(joined, products))

        return join

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        left, right = inputs
        pairs = sorted(zip(self.left_key, self.right_key, strict=True))
        a = arranged(rewriting, left, [*(p for p, _ in pairs), self.left])
        b = arranged(rewriting, right, [*(p for _, p in pairs), self.right])
        injective = is_injective(self.columns, left.schema, right.schema, self.right_key)
        columns = in_orders(self.columns, order_of(a), order_of(b))
        null_mismatch = null_mismatch_columns(left.schema, right.schema, pairs)
        joined = DeltaRangeJoin(len(pairs), columns, self.names, injective, null_mismatch, band=self.band)
        return rewriting.add(joined, a, b)


@dataclass(frozen=True)
class DeltaRangeJoin(DeltaJoin):
    """The incremental form: both arrangements start with the key and the ordered column."""

    band: Band = field(kw_only=True)

    @property
    def name(self) -> str:
        return "RangeJoin"

    def schema(self, *inputs: Schema) -> Schema:
        left, right = inputs
        ordered = (*range(self.key), self.key)
        InputColumns(0, 1).check((self.key, -self.key - 1), inputs)
        check_key_types(ordered, ordered, left, right)
        self.band.check(left.types[self.key])
        return super().schema(*inputs)

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        left, right = expect_arranged(node, sources)
        x, y = (stream.schema.types[self.key] for stream in node.inputs)
        forward = BandReach(self.key, self.band, x, y, self.null_mismatch)
        backward = BandReach(self.key, self.band.turned(), y, x, self.null_mismatch)
        return RangeJoinStep(left, right, self.key, self.columns, scope, forward.of, backward.of)


class BandReach:
    """Finds the partners of a row in an arrangement by (`key` columns, ordered column)."""

    def __init__(self, key: int, band: Band, own: Type, other: Type, null_mismatch: Sequence[int]) -> None:
        self._key = key
        self._band = band
        self._own = own
        self._other = other
        self._null_mismatch = tuple(null_mismatch)

    def of(self, batch: Batch) -> tuple[Codes, Codes, Codes, Codes]:
        """Return the rows that can have partners, their weights, and first and last partner
        prefixes."""
        rows, weights, m = batch.rows, batch.weights, self._key
        if self._null_mismatch:
            rows, weights = without_null(rows, weights, self._null_mismatch)
        start, end, valid = self._band.around(rows[:, m], self._own, self._other)
        if not all_true(valid):
            rows, weights = rows_where(valid, rows, weights)
            start, end = start[valid], end[valid]
        starts = np.column_stack((rows[:, :m], start))
        ends = np.column_stack((rows[:, :m], end))
        return rows, weights, starts, ends


class ReachJoinStep(JoinStep):
    """A join in which the partners of a row are ranges of an arrangement.

    `of_left` and `of_right` return the leading arguments of the kernels for a delta of their side.
    """

    __slots__ = ("_of_left", "_of_right")

    adds_pairs = False

    def __init__(
        self,
        left: Arranged,
        right: Arranged,
        key: int,
        columns: Sequence[int],
        scope: StepScope,
        of_left: Callable[[Batch], tuple[Any, ...]],
        of_right: Callable[[Batch], tuple[Any, ...]],
    ) -> None:
        from_left, from_right = np.array(columns, np.int64), np.array([-v - 1 for v in columns], np.int64)
        super().__init__(left, right, key, from_left, from_right, scope)
        self._of_left = of_left
        self._of_right = of_right

    def _probe_arguments(self, delta: Batch, from_left: bool) -> tuple[Any, ...]:
        return (self._of_left if from_left else self._of_right)(delta)


class RangeJoinStep(ReachJoinStep):
    __slots__ = ()

    kernel = "join_bands"
    timed_kernel = "join_timed_bands"
