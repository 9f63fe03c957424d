"""Recent: the rows that the watermark has not passed; it retracts a row when it passes it.

    recent(s, w)(x) = s(x) if x.column > w else 0          s the integral, w the watermark

All rows are recent before the first watermark. The value depends on the integral and the watermark
only, not on the ticks in which rows arrived: a row that arrives behind the watermark never appears,
and a change of a row that was retracted has no effect. With `Close`, which emits the other rows,

    recent(s, w) + close(s, w) = s          if no change is late

The incremental form stores the recent rows, ordered by the column, and is their keeper for views:
insertions and retractions cancel when the trace merges. The explicit form filters the whole
integral. Cost: O(|delta| log n) and the rows that the watermark passes, n the recent rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

import numpy as np

from dbsp.circuit.field_ranges import COLUMN, TWO_INPUTS
from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.rewriting import Rewriting
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import KeepingStep, RememberingStep, ReplayingStep, TracedStep
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.errors import SchemaError
from dbsp.kernels import consolidate, gather_bands
from dbsp.kernels.limits import INT64_MIN
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.linear.filter import filter_rows
from dbsp.operators.time.watermark import Mark, Watermark, check_watermark
from dbsp.operators.traces.arrange import key_first
from dbsp.state.trace import Trace

ROLE = "the column that makes a row recent"


@dataclass(frozen=True)
class Recent(Operator):
    """The rows whose `column` is beyond the watermark; the inputs are rows and watermark."""

    input_counts = TWO_INPUTS

    column: int = field(metadata=COLUMN)

    def schema(self, *inputs: Schema) -> Schema:
        rows, mark = inputs
        check_watermark(rows, self.column, mark, ROLE)
        return rows

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        def recent(batch: Batch, marks: Batch) -> Batch:
            reached = marks.rows[marks.weights > 0, 0]
            if len(reached) == 0:
                return batch
            return filter_rows(batch, batch.rows[:, self.column] > reached.max())

        return recent

    @property
    def law(self) -> str:
        return "aggregate"

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        return rewriting.add(DeltaRecent(self.column), *inputs)


@dataclass(frozen=True)
class DeltaRecent(Operator):
    """The incremental form of `Recent`."""

    input_counts = TWO_INPUTS

    column: int = field(metadata=COLUMN)

    @property
    def name(self) -> str:
        return "Recent"

    def schema(self, *inputs: Schema) -> Schema:
        rows, mark = inputs
        check_watermark(rows, self.column, mark, ROLE)
        return rows

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        expect_watermark(inputs[1])

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    @property
    def law(self) -> str:
        # The rows that it has passed are not stored, so the state cannot be computed again.
        return "changes"

    @property
    def keeps_integral(self) -> bool:
        return True

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        return RecentStep(node.schema, self.column, sources[0], Mark(sources[1], scope), scope)


def expect_watermark(stream: Stream) -> None:
    """Raise SchemaError unless the stream is the watermark of another one."""
    if not isinstance(stream.node.operator, Watermark):
        raise SchemaError(
            f"expected the watermark of a stream, got the output of {stream.node.describe()}; pass "
            "stream.watermark(...).watermark",
            code="invalid-event-time",
        )


class RecentStep(KeepingStep, RememberingStep, ReplayingStep, TracedStep):
    __slots__ = ("_column", "_mark", "_order", "_recent", "_restore", "_source")

    def __init__(self, schema: Schema, column: int, source: Step, mark: Mark, scope: StepScope) -> None:
        super().__init__()
        self._column = column
        self._source = source
        self._mark = mark
        self._order = np.array(key_first((column,), schema.arity), np.int64)
        self._restore = np.argsort(self._order)
        types = [schema.types[place] for place in self._order.tolist()]
        self._recent = scope.new_trace(len(types), types)

    @property
    def trace(self) -> Trace:
        return self._recent

    def integral(self) -> Batch:
        total = self._recent.contents()
        return total.rearranged(self._restore)

    @property
    def kept_rows(self) -> int:
        return self._recent.rows

    def replay(self) -> None:
        self.out = self.integral() or None

    def step(self) -> None:
        before = self._mark.before
        now = self._mark.follow()
        batch, recent = self._source.out, self._recent
        change = Batch.empty(len(self._order))
        if now > before:
            # Older rows have cancelled.
            band = np.array([[before]]), np.array([[now]])
            rows, weights = gather_bands(*band, recent.table, recent.count, len(self._order))
            rows, weights = consolidate(rows, weights)
            change = Batch(rows, -weights)
        if batch is not None:
            started = now > INT64_MIN  # else there is no watermark yet
            arrived = filter_rows(batch, batch.rows[:, self._column] > now) if started else batch
            change = change.plus(arrived.rearranged(self._order))
        self.out = None
        if change:
            recent.append(change.rows, change.weights)
            self.out = change.rearranged(self._restore)

    def memory(self) -> int:
        return self._mark.before

    def recall(self, memory: int) -> None:
        self._mark.before = memory
