"""Linear aggregates in two steps: sums of each delta on its shard, and sums of these sums.

Let a(x) be the accumulators of a row x, such as (1, x.amount) for a count and a sum. They add up:

    accumulators of a group = sum over its rows of w(x) a(x)
    PartialSums:              d -> { (k, sum over the rows x of group k in d of d(x) a(x)) }
    SummedAggregate:          adds up the partial sums of each group, and emits its results

So an exchange between the two has one row per shard and changed group, however large the delta is.
Retractions may be on another shard than their insertions: the partial sums cancel. Cost:
O(|delta|) for the partial sums, without state; the state of the aggregate is as of
`AccumulatedAggregate`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

import numpy as np

from dbsp.circuit.field_ranges import ONE_INPUT
from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.step import Step
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.types import INT, Type
from dbsp.errors import SchemaError
from dbsp.kernels import accumulate, replace_rows
from dbsp.kernels.arrays import Codes
from dbsp.kernels.group_values import COUNT_PRESENT, SUM, SUM_COUNTS
from dbsp.kernels.limits import NULL
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.groups.aggregate import AccumulatedAggregate, AccumulatedAggregateStep, Aggregate
from dbsp.operators.groups.aggregate_functions import accumulators
from dbsp.operators.groups.exact_results import NO_RUNS
from dbsp.parallel.range_sort import consolidate


@dataclass(frozen=True)
class PartialSums(Operator):
    """One row per group and delta, with the sums of its accumulators, of a linear aggregate."""

    input_counts = ONE_INPUT

    aggregate: Aggregate

    @property
    def label(self) -> str:
        return f"Partial sums of {self.aggregate.label}"

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        return f"Partial sums of {self.aggregate.caption(columns)}"

    def schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        self.aggregate.checked_schema(schema)
        key = self.aggregate.key
        if not all(function.linear(schema) for function in self.aggregate.functions):
            raise SchemaError("expected linear functions, such as count and sum", code="wrong-type")
        columns, _ = accumulators(self.aggregate.functions, schema)
        groups = schema.names[:key]
        sums = ["rows", *(f"sum {number}" for number in range(1, len(columns) + 1))]
        while not set(groups).isdisjoint(sums):
            sums = [f"#{name}" for name in sums]
        return Schema((*groups, *sums), (*schema.types[:key], *[INT] * len(sums)))

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        key = self.aggregate.key
        columns, _ = accumulators(self.aggregate.functions, inputs[0])

        def sums(batch: Batch) -> Batch:
            try:
                keys, _, totals = accumulate(batch.rows, batch.weights, key, columns, NO_RUNS, 0)
            except OverflowError:
                # The sum of the group may fit together with the sums of other shards.
                return _row_by_row(batch, key, columns)
            moving = totals.any(axis=1)
            rows = np.ascontiguousarray(np.column_stack((keys, totals))[moving])
            return Batch(rows, np.ones(len(rows), np.int64))

        return sums


def has_partial_sums(node: Node) -> bool:
    """Return whether partial sums are sufficient for an operator: all functions are linear."""
    operator = node.operator
    if type(operator) is not AccumulatedAggregate or operator.ends:
        return False
    schema = node.inputs[0].schema
    return all(function.linear(schema) for function in operator.aggregate.functions)


def _row_by_row(batch: Batch, key: int, columns: Codes) -> Batch:
    """Return the accumulators of each row, with the weight of the row."""
    parts = [batch.rows[:, :key], np.ones((len(batch), 1), np.int64)]
    for column, measure in columns.tolist():
        values = batch.rows[:, column : column + 1]
        present = values != NULL
        if measure == COUNT_PRESENT:
            values = present.astype(np.int64)
        parts.append(values if measure == SUM else np.where(present, values, 0))
    return Batch(*consolidate(np.ascontiguousarray(np.hstack(parts)), batch.weights))


@dataclass(frozen=True)
class SummedAggregate(AccumulatedAggregate):
    """The aggregate of a stream with the schema `over`, from its partial sums."""

    input_counts = ONE_INPUT

    over: Schema = field(kw_only=True)

    def schema(self, *inputs: Schema) -> Schema:
        return self.aggregate.checked_schema(self.over)

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        expected, (stream,) = PartialSums(self.aggregate).checked_schema(self.over), inputs
        if self.ends or stream.schema.types != expected.types:
            raise SchemaError(
                f"expected partial sums ({expected.describe()}), got ({stream.schema.describe()})",
                code="schema-mismatch",
            )

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        return SummedAggregateStep(self, sources, scope)


class SummedAggregateStep(AccumulatedAggregateStep):
    """Its state has rows (key, 0, accumulators); the kernel counts partial sums in place of 0."""

    __slots__ = ("_sums",)

    def __init__(self, spec: SummedAggregate, sources: Sequence[Step], scope: StepScope) -> None:
        super().__init__(spec, spec.over, sources, scope)
        # An overflow of a count is one of weights, as in one process.
        counts = [True, *(self._columns[:, 1] == COUNT_PRESENT)]
        measures = [SUM_COUNTS if is_count else SUM for is_count in counts]
        self._sums = np.array([(self._key + n, measure) for n, measure in enumerate(measures)], np.int64)

    def _state_types(self) -> list[Type]:
        return [*super()._state_types(), INT]

    def replay(self) -> None:
        kept = self._state.contents()
        keys = np.ascontiguousarray(kept.rows[:, : self._key])
        totals = np.ascontiguousarray(kept.rows[:, self._key + 1 :])
        self._emit(keys, np.zeros_like(totals), totals)

    def step(self) -> None:
        self.out = None
        batch = self._source.out
        if batch is None:
            return
        key, state = self._key, self._state
        keys, old, new = accumulate(batch.rows, batch.weights, key, self._sums, state.table, state.count)
        new[:, 0] = 0
        rows, weights = replace_rows(keys, old, new, (old != 0).any(axis=1), (new != 0).any(axis=1))
        if len(weights):
            state.append(rows, weights)
        self._emit(keys, np.ascontiguousarray(old[:, 1:]), np.ascontiguousarray(new[:, 1:]))

    def _emit(self, keys: Codes, old: Codes, new: Codes) -> None:
        """Set `out` to the results of the groups with the sums `new`, less those with `old`."""
        before, after = self._results(keys, old, new)
        rows, weights = replace_rows(keys, before, after, old[:, 0] > 0, new[:, 0] > 0)
        self.out = Batch(rows, weights) if len(weights) else None
