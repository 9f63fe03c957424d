"""Closing: emit each row once, when the watermark has passed its end.

    closed(s, w)(x) = s(x) if x.end <= w else 0

The state is bounded: a row is kept only while its end is beyond the watermark, so after every tick

    rows kept  <=  different rows with end > watermark,  plus rows that the trace has not merged yet

and emitted rows are dropped. The watermark promises that no older row changes any more. This is
checked: a row that arrives after its end raises InvariantError.

All rows of one end are emitted in the same tick. So a function of groups whose key includes the end
gets each group once with all of its rows, and needs no state: f is applied to each delta separately
(`PerTick`).

These are operators on streams of changes. Cost: O(|delta| log n) and the emitted rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np

from dbsp.circuit.field_ranges import COLUMN, TWO_INPUTS
from dbsp.circuit.function_step import FunctionStep
from dbsp.circuit.graph import Node
from dbsp.circuit.operator import Operator
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import RememberingStep, TracedStep
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.masks import any_true
from dbsp.data.schema import Schema
from dbsp.errors import violated
from dbsp.kernels import consolidate, gather_bands
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MIN
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.time.watermark import Mark, check_watermark
from dbsp.operators.traces.arrange import key_first
from dbsp.state.trace import Trace


@dataclass(frozen=True)
class Close(Operator):
    """The rows whose `end` the watermark has reached; the inputs are the rows and the watermark."""

    input_counts = TWO_INPUTS

    end: int = field(metadata=COLUMN)

    def schema(self, *inputs: Schema) -> Schema:
        rows, mark = inputs
        check_watermark(rows, self.end, mark)
        return rows

    @property
    def law(self) -> str:
        return "changes"

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        return CloseStep(node, self.end, sources[0], Mark(sources[1], scope), scope)


class CloseStep(RememberingStep, TracedStep):
    __slots__ = ("_end", "_mark", "_order", "_restore", "_scope", "_source", "_waiting")

    def __init__(self, node: Node, end: int, source: Step, mark: Mark, scope: StepScope) -> None:
        super().__init__()
        self._end = end
        self._source = source
        self._mark = mark
        self._scope = scope
        self._order = np.array(key_first((end,), node.schema.arity), np.int64)
        self._restore = np.argsort(self._order)
        types = [node.schema.types[column] for column in self._order.tolist()]
        self._waiting = scope.new_trace(node.schema.arity, types)

    @property
    def trace(self) -> Trace:
        return self._waiting

    def step(self) -> None:
        self.out = None
        before = self._mark.before
        now = self._mark.follow()
        batch, waiting = self._source.out, self._waiting
        if batch is not None:
            late = batch.rows[:, self._end] <= before
            if any_true(late):
                self._refuse(batch.rows[late])
            arrived = batch.rearranged(self._order)
            waiting.append(arrived.rows, arrived.weights)
        if now == before:
            return
        start, end = np.array([[INT64_MIN]]), np.array([[now]])
        rows, weights = gather_bands(start, end, waiting.table, waiting.count, len(self._order))
        rows, weights = consolidate(rows, weights)
        if len(weights):
            # Cancels the insertions, so that merging removes both.
            waiting.append(rows, -weights)
            self.out = Batch(rows, weights).rearranged(self._restore)

    def memory(self) -> int:
        return self._mark.before

    def recall(self, memory: int) -> None:
        self._mark.before = memory

    def _refuse(self, rows: Codes) -> None:
        schema = self.node.inputs[0].schema
        (row,) = schema.decode_rows(np.ascontiguousarray(rows[:1]), self._scope.interner)
        raise violated(
            f"the row {row} arrived after the watermark had closed its window; use the `on_time` rows of "
            "the same watermark, which exclude late rows; the tick was rolled back"
        )


@dataclass(frozen=True)
class PerTick(Operator):
    """A function of Z-sets applied to the change of each tick separately."""

    operator: Operator

    @property
    def name(self) -> str:
        return self.operator.name

    @property
    def label(self) -> str:
        return f"{self.operator.label}, tick by tick"

    def schema(self, *inputs: Schema) -> Schema:
        return self.operator.checked_schema(*inputs)

    @property
    def law(self) -> str:
        return "changes"

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        schemas = [stream.schema for stream in node.inputs]
        function = self.operator.zset_function(scope.interner, *schemas)
        return FunctionStep(function, sources, [schema.arity for schema in schemas])
