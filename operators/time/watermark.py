"""Watermark: the progress of event time; and rows divided into on-time rows and late rows.

    watermark[t] = max of x.time over the rows inserted in ticks 0..t, - lateness
    on_time(s)[t](x) = s[t](x)  if x.time >= watermark[t - 1], else 0
    late(s) = s - on_time(s)

The watermark never decreases. Rows older than the watermark are expected not to change any more:
`on_time` never has a change of such a row, neither insertion nor retraction, and `late` has all of
them. So operators can drop the state that waits only for older rows (see
`dbsp.operators.time.closing`).

These are operators on streams of changes and not on Z-sets: they depend on the tick in which a row
arrives. Cost: O(|delta|). State: one time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np

from dbsp.circuit.field_ranges import COLUMN, NATURAL, ONE_INPUT, TWO_INPUTS
from dbsp.circuit.graph import Node
from dbsp.circuit.operator import Operator
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import RememberingStep
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.schema import Schema
from dbsp.errors import SchemaError
from dbsp.kernels.arrays import Mask
from dbsp.kernels.limits import INT64_MIN
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.linear.filter import filter_rows
from dbsp.operators.time.window import check_time, extent


@dataclass(frozen=True)
class Watermark(Operator):
    """A relation of one row, the watermark; empty until the first row arrives."""

    input_counts = ONE_INPUT

    column: int = field(metadata=COLUMN)
    lateness: int = field(metadata=NATURAL)

    def schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        check_time(schema, self.column)
        if schema.types[self.column].nullable:
            raise SchemaError(
                f"the event time '{schema.names[self.column]}: {schema.types[self.column]}' may be None; "
                "filter these rows out and give the column a type without None",
                code="invalid-event-time",
            )
        return Schema(("watermark",), (schema.types[self.column],))

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return True

    @property
    def law(self) -> str:
        return "changes"

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        first, _ = extent(node.schema.types[0])
        return WatermarkStep(sources[0], self.column, self.lateness, first, scope)


class WatermarkStep(RememberingStep):
    __slots__ = ("_column", "_first", "_lateness", "_mark", "_next", "_scope", "_source")

    def __init__(self, source: Step, column: int, lateness: int, first: int, scope: StepScope) -> None:
        super().__init__()
        self._source = source
        self._column = column
        self._lateness = lateness
        self._first = first
        self._scope = scope
        self._mark: int | None = None
        self._next: int | None = None

    def step(self) -> None:
        self.out = None
        batch = self._source.out
        if batch is None:
            return
        times = batch.rows[batch.weights > 0, self._column]
        if len(times) == 0:
            return
        mark = max(int(times.max()) - self._lateness, self._first)
        if self._mark is None:
            self.out = Batch(np.array([[mark]]), np.array([1]))
        elif mark > self._mark:
            self.out = Batch(np.array([[self._mark], [mark]]), np.array([-1, 1]))
        else:
            return
        self._next = mark
        self._scope.journal.append(self)

    @property
    def mark(self) -> int | None:
        """The watermark after the latest committed tick."""
        return self._mark

    def memory(self) -> int | None:
        return self._mark

    def recall(self, memory: int | None) -> None:
        self._mark = memory

    def commit(self) -> None:
        self._mark = self._next

    def rollback(self) -> None:
        """Do nothing: the watermark has not been changed yet."""


@dataclass(frozen=True)
class Timely(Operator):
    """The rows not older than the watermark of the previous tick, or with `late` the others.

    The inputs are the rows and the watermark.
    """

    input_counts = TWO_INPUTS

    column: int = field(metadata=COLUMN)
    late: bool

    @property
    def name(self) -> str:
        return "Late" if self.late else "OnTime"

    def schema(self, *inputs: Schema) -> Schema:
        rows, mark = inputs
        check_watermark(rows, self.column, mark)
        return rows

    @property
    def law(self) -> str:
        return "changes"

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        return TimelyStep(self, sources[0], Mark(sources[1], scope))


class TimelyStep(RememberingStep):
    __slots__ = ("_mark", "_operator", "_source")

    def __init__(self, operator: Timely, source: Step, mark: Mark) -> None:
        super().__init__()
        self._operator = operator
        self._source = source
        self._mark = mark

    def step(self) -> None:
        self.out = None
        batch = self._source.out
        if batch is not None:
            late: Mask = batch.rows[:, self._operator.column] < self._mark.before
            kept = filter_rows(batch, late if self._operator.late else ~late)
            self.out = kept if len(kept) else None
        self._mark.follow()

    def memory(self) -> int:
        return self._mark.before

    def recall(self, memory: int) -> None:
        self._mark.before = memory


def check_watermark(
    rows: Schema, column: int, mark: Schema, role: str = "the column that closes a group"
) -> None:
    """Raise SchemaError unless the stream `mark` is a watermark of the type of the column."""
    if mark.types != (rows.types[column],):
        raise SchemaError(
            f"{role}, '{rows.names[column]}: {rows.types[column]}', needs a "
            f"watermark of the same type, got ({mark.describe()})",
            code="invalid-event-time",
        )


class Mark:
    """The watermark for a reader of its stream: before this tick, and in this tick."""

    __slots__ = ("_next", "_scope", "_source", "before")

    def __init__(self, source: Step, scope: StepScope) -> None:
        self._source = source
        self._scope = scope
        self.before = INT64_MIN
        self._next = INT64_MIN

    def follow(self) -> int:
        """Read the watermark of this tick."""
        batch = self._source.out
        if batch is None:
            return self.before
        self._next = max(self.before, int(batch.rows[-1, 0]))
        self._scope.journal.append(self)
        return self._next

    def commit(self) -> None:
        self.before = self._next

    def rollback(self) -> None:
        """Do nothing: the watermark before the tick is still stored."""
