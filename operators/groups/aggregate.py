"""Aggregate: one row per group, with aggregates of the group's values.

    aggregate(s) = { (k, f(s_k)) : groups k present in s }      s_k the Z-set of values under k

A change of a group retracts its old row and inserts its new row. The incremental form depends on
the functions (see `dbsp.operators.groups.aggregate_functions`):

- count, sum and avg of ints are linear: accumulators per group, O(|delta|);
- min and max read one end of the group's range in an arrangement by (key, value),
  O(|delta| * log n), and so do argmin and argmax if the stream has no other columns;
- sums of floats, variance, count_distinct and quantiles keep state or read positions,
  O(|delta| * log n) (see `dbsp.operators.groups.kept_results`);
- all others (`fold`, quantiles of strings, other argmin and argmax, every function inside a nested
  scope) recompute the groups with changes, O(their rows).

(DBSP paper, arXiv 2203.16684, section 7.2.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

import numpy as np

from dbsp.circuit.field_ranges import DISTINCT_COLUMNS, NATURAL, ONE_INPUT, PARTS, SOME_INPUTS
from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.rewriting import Rewriting
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import Arranged, RememberingStep, ReplayingStep, TracedStep
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.masks import rows_where
from dbsp.data.schema import Schema
from dbsp.data.types import INT, Type
from dbsp.errors import CircuitError, SchemaError, expect_present, expect_type
from dbsp.expressions.readable_text import plain_name
from dbsp.kernels import change_accumulators, change_extremes, change_groups, leading, means, replace_rows
from dbsp.kernels.arrays import Codes
from dbsp.kernels.jit import expect_calls
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.groups.aggregate_functions import (
    AggregateFunction,
    GroupFunction,
    accumulators,
    linear_column,
    plain_results,
    reducer,
)
from dbsp.operators.groups.group_step import GroupwiseOperator
from dbsp.operators.groups.kept_results import is_kept, kept_result, value_column
from dbsp.operators.groups.kept_state import GroupChanges, KeptResult
from dbsp.operators.groups.order_statistics import ArgExtreme
from dbsp.operators.groups.timed_bounds_step import BoundedGroups
from dbsp.operators.linear.project import Project, Projectable
from dbsp.operators.time.forgetting import ForgettingOperator, ForgettingStep
from dbsp.operators.traces.arrange import arranged, expect_arrangement_of, expect_order, key_first
from dbsp.parallel.range_sort import consolidate
from dbsp.state.trace import Trace


@dataclass(frozen=True)
class Aggregate(GroupwiseOperator):
    """Groups by the first `key` columns; the result has these and one column per function."""

    input_counts = ONE_INPUT

    key: int = field(metadata=NATURAL)
    functions: tuple[GroupFunction, ...] = field(metadata=PARTS)
    names: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"Aggregate {', '.join(self.names[self.key :])}"

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        (names,) = columns
        results = zip(map(plain_name, self.names[self.key :]), self.functions, strict=True)
        shown = [(name, function.caption(names)) for name, function in results]
        texts = [text if name[:1] == "#" else f"{name} = {text}" for name, text in shown]
        by = f" by {', '.join(names[: self.key])}" if self.key else ""
        return f"Aggregate {', '.join(texts)}{by}"

    def column_texts(self, columns: Sequence[Sequence[str]]) -> Sequence[str]:
        (names,) = columns
        return [*names[: self.key], *(function.caption(names) for function in self.functions)]

    @property
    def first_argument(self) -> int:
        return self.key

    def schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        if self.key > schema.arity:
            raise SchemaError(
                f"expected a key of at most {schema.arity} columns, got {self.key}", code="wrong-arity"
            )
        results = tuple(function.result(schema) for function in self.functions)
        return Schema(self.names, (*schema.types[: self.key], *results))

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return True

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        return reducer(self.key, self.functions, inputs[0], interner)

    def groups(self, schema: Schema) -> tuple[int, ...]:
        return tuple(range(self.key))

    @property
    def result_key(self) -> int:
        return self.key

    def bound(self, schema: Schema) -> int | None:
        if len(self.functions) != 1 or schema.arity != self.key + 1:
            return None
        return self.functions[0].bound(schema)

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        (stream,) = inputs
        schema = stream.schema
        if stream.graph.parent is None and self.incremental(schema):
            ends = self.arranged_columns(schema)
            orders = [arranged(rewriting, stream, (*range(self.key), column)) for column in ends]
            return rewriting.add(AccumulatedAggregate(self, ends), stream, *orders)
        if stream.graph.depth == 1 and self.bound(schema) is not None:
            source = arranged(rewriting, stream, self.groups(schema))
            return rewriting.add(BoundedGroups(self, schema), source)
        return super().physical(rewriting, node, inputs)

    def incremental(self, schema: Schema) -> bool:
        """Whether no function has to recompute a group, outside of nested scopes."""
        return all(
            function.linear(schema)
            or function.at_an_end(schema, self.key) is not None
            or is_kept(function, schema, self.key)
            for function in self.functions
        )

    def arranged_columns(self, schema: Schema) -> tuple[int, ...]:
        """The columns by which an incremental aggregate reads arrangements of the groups."""
        columns = {
            value_column(f) if is_kept(f, schema, self.key) else f.at_an_end(schema, self.key)
            for f in self.functions
            if not f.linear(schema)
        }
        return tuple(sorted(column for column in columns if column is not None))


@dataclass(frozen=True)
class AccumulatedAggregate(Projectable):
    """Functions from accumulators, other state, and arrangements of the stream by their columns."""

    input_counts = SOME_INPUTS

    aggregate: Aggregate
    ends: tuple[int, ...] = field(metadata=DISTINCT_COLUMNS)

    @property
    def name(self) -> str:
        return "Aggregate"

    @property
    def label(self) -> str:
        return self.aggregate.label

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        return self.aggregate.caption(columns[:1])

    def column_texts(self, columns: Sequence[Sequence[str]]) -> Sequence[str]:
        return self.aggregate.column_texts(columns[:1])

    @property
    def first_argument(self) -> int:
        return self.aggregate.key

    def schema(self, *inputs: Schema) -> Schema:
        return self.aggregate.checked_schema(inputs[0])

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        stream, *orders = inputs
        key, schema = self.aggregate.key, stream.schema
        incremental = graph.parent is None and self.aggregate.incremental(schema)
        if (
            not incremental
            or not set(self.aggregate.arranged_columns(schema)) <= set(self.ends)
            or len(orders) != len(self.ends)
        ):
            raise CircuitError(
                f"expected functions with state, and arrangements by the columns {self.ends} of the values",
                code="invalid-circuit-file",
            )
        for end, order in zip(self.ends, orders, strict=True):
            expect_arrangement_of(order, stream.node)
            expect_order(order, key_first((*range(key), end), schema.arity)[: key + 1])

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return True

    def projected(self, rewriting: Rewriting, stream: Stream, project: Project) -> Stream:
        return rewriting.add(project.of_keyed(self.aggregate.result_key), stream)

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        return AccumulatedAggregateStep(self, node.inputs[0].schema, sources, scope)


@dataclass(frozen=True)
class ForgettingAggregate(ForgettingOperator, AccumulatedAggregate):
    """Accumulators that forget groups, by a column of the key."""

    @property
    def whole(self) -> Operator:
        return AccumulatedAggregate(self.aggregate, self.ends)

    @property
    def label(self) -> str:
        return f"{super().label}, forgets by {self.aggregate.names[self.column]}"

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        return f"{super().caption(columns)}, forgets by {self.aggregate.names[self.column]}"

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        self.check_connected(node)
        return ForgettingAggregateStep(self, node.inputs[0].schema, sources, scope)


class AccumulatedAggregateStep(RememberingStep, ReplayingStep, TracedStep):
    __slots__ = (
        "_columns",
        "_ends",
        "_functions",
        "_interner",
        "_kept",
        "_key",
        "_linear",
        "_orders",
        "_places",
        "_plain",
        "_result",
        "_schema",
        "_source",
        "_state",
    )

    quiet = True

    def __init__(
        self, spec: AccumulatedAggregate, schema: Schema, sources: Sequence[Step], scope: StepScope
    ) -> None:
        super().__init__()
        self._source = sources[0]
        self._orders: dict[int, Arranged] = {}
        for column, source in zip(spec.ends, sources[1:], strict=True):
            what = "an arrangement by the column of a function"
            self._orders[column] = expect_type(source, Arranged, what)  # type: ignore[type-abstract]
        self._schema = schema
        self._interner = scope.interner
        self._key = spec.aggregate.key
        self._functions = spec.aggregate.functions
        self._columns, self._places = accumulators(self._functions, schema)
        self._plain = plain_results(self._functions, self._places, schema)
        self._result: Codes | None = None
        """The columns of the state that are the result, unless it has all of them in order."""
        if self._plain is not None and list(self._plain) != list(range(1 + len(self._columns))):
            self._result = np.concatenate((np.arange(self._key), self._key + self._plain))
        types = self._state_types()
        self._state = scope.new_trace(len(types), types)
        self._kept: dict[int, KeptResult] = {}
        """The state of functions by their number, besides the accumulators."""
        self._linear: list[tuple[int, AggregateFunction, tuple[int, int]]] = []
        """Functions of accumulators: the number of each, and the places of its accumulators."""
        self._ends: list[tuple[int, AggregateFunction | ArgExtreme, int]] = []
        """Extremes that are read from sorted rows: the number of each, and its column."""
        for at, (function, place) in enumerate(zip(self._functions, self._places, strict=True)):
            kept = kept_result(function, place, self._orders, schema, self._key, scope)
            if kept is not None:
                self._kept[at] = kept
            elif isinstance(function, AggregateFunction) and function.linear(schema):
                self._linear.append((at, function, place))
            else:
                column = expect_present(function.at_an_end(schema, self._key), "the column of an extreme")
                if not isinstance(function, ArgExtreme):
                    function = expect_type(
                        function, AggregateFunction, "a function with a kernel for extremes"
                    )
                self._ends.append((at, function, column))
        if self._kept or self._ends:
            expect_calls(change_accumulators, replace_rows)
        else:
            expect_calls(change_groups)
        for _, extreme, _ in self._ends:
            expect_calls(leading if isinstance(extreme, ArgExtreme) else change_extremes)
        if any(function.kind == "avg" for _, function, _ in self._linear):
            expect_calls(means)

    def _state_types(self) -> list[Type]:
        """The types of the columns of the state: the key, the sum of weights, and the sums."""
        return [*self._schema.types[: self._key], INT, *[INT] * len(self._columns)]

    @property
    def trace(self) -> Trace:
        return self._state

    def memory(self) -> None:
        """Return None: everything is in traces, apart from caches."""

    def recall(self, memory: None) -> None:
        for state in self._kept.values():
            state.forget_cache()

    def replay(self) -> None:
        kept = self._state.contents()
        keys = np.ascontiguousarray(kept.rows[:, : self._key])
        accumulated = np.ascontiguousarray(kept.rows[:, self._key :])
        (results,) = self._results(keys, accumulated)
        for at, state in self._kept.items():
            results[:, at] = state.current(keys, accumulated)
        present = accumulated[:, 0] > 0
        rows, weights = replace_rows(keys, results, results, np.zeros_like(present), present)
        self.out = Batch(rows, weights) if len(weights) else None

    def step(self) -> None:
        self.out = None
        batch = self._source.out
        if batch is None:
            return
        key, state = self._key, self._state
        if not self._kept and not self._ends:  # one kernel, since this is once per tick
            rows, weights, positive = change_groups(
                batch.rows, batch.weights, key, self._columns, state.table, state.count
            )
            if len(weights):
                state.append(rows, weights)
                self.out = self._result_change(rows, weights, positive)
            return
        keys, old, new, rows, weights = change_accumulators(
            batch.rows, batch.weights, key, self._columns, state.table, state.count
        )
        if len(weights):
            state.append(rows, weights)
        before, after = self._results(keys, old, new)
        if self._kept:
            changes = GroupChanges(keys, batch, old, new, self._orders)
            for at, kept_state in self._kept.items():
                before[:, at], after[:, at] = kept_state.change(changes)
        rows, weights = replace_rows(keys, before, after, old[:, 0] > 0, new[:, 0] > 0)
        if len(weights):
            self.out = Batch(rows, weights)

    def _result_change(self, rows: Codes, weights: Codes, positive: bool) -> Batch | None:
        """Return the change of a result of accumulators by a change of the state.

        A group is in the result if its sum of weights is positive, as `positive` says of all rows.
        """
        if not positive:
            present = rows[:, self._key] > 0
            rows, weights = rows_where(present, rows, weights)
        change = Batch(rows, weights)
        if self._plain is None:
            key = self._key
            results = np.empty((len(rows), key + len(self._functions)), np.int64)
            results[:, :key] = rows[:, :key]
            self._write_linear(results[:, key:], rows[:, key:])
            change = Batch(*consolidate(results, weights))
        elif self._result is not None:
            change = change.projected(self._result)
        return change if len(change.weights) else None

    def _results(self, keys: Codes, *accumulated: Codes) -> list[Codes]:
        """The result columns of the groups by their accumulators, without those of kept results.

        The last accumulators are those after the delta, others before them those before the delta.
        """
        size = len(keys)
        results = np.empty((len(accumulated) * size, len(self._functions)), np.int64)
        if self._linear:  # before and after at once: NumPy takes longer for a call than for a group
            self._write_linear(results, np.concatenate(accumulated))
        for at, extreme, column in self._ends:
            results[:, at] = self._extremes(keys, extreme, self._orders[column], column, len(accumulated))
        return [results[size * part : size * (part + 1)] for part in range(len(accumulated))]

    def _write_linear(self, results: Codes, accumulated: Codes) -> None:
        """Write the results of the functions of accumulators into their columns."""
        for at, function, place in self._linear:
            results[:, at] = linear_column(function, place, accumulated, self._schema)

    def _extremes(
        self,
        keys: Codes,
        function: AggregateFunction | ArgExtreme,
        order: Arranged,
        column: int,
        versions: int,
    ) -> Codes:
        """The results of an extreme from an arrangement by its column.

        Two versions are those before the delta and after it, one is that after it.
        """
        before = order.before if versions == 2 else 0
        if isinstance(function, ArgExtreme):
            parts = []
            for count in (before, order.count)[-versions:]:
                head = self._head(keys, order, count, column, function.largest)
                parts.append(function.evaluate(head, keys, self._schema, self._interner))
            return np.concatenate(parts)
        return change_extremes(
            keys,
            self._key,
            order.table,
            before,
            order.count,
            self._schema.arity,
            function.kind == "max",
            self._schema.types[column].nullable,
        )[-versions:].reshape(-1)

    def _head(self, keys: Codes, order: Arranged, runs: int, column: int, largest: bool) -> Batch:
        """The rows of each group that have the least (or largest) value in a column."""
        arity = self._schema.arity
        rows, weights = leading(keys, self._key, 1, order.table, runs, arity, 1, largest)
        columns = [*range(self._key), column]
        columns += [c for c in range(arity) if c not in columns]
        return Batch(*consolidate(np.ascontiguousarray(rows[:, np.argsort(columns)]), weights))


class ForgettingAggregateStep(ForgettingStep, AccumulatedAggregateStep):
    """Its traces all begin with the key, so the same limit holds for each of them."""

    __slots__ = ("_scope",)

    @property
    def limited(self) -> Sequence[Trace]:
        return [self._state, *(trace for state in self._kept.values() for trace in state.traces)]

    def __init__(
        self, spec: AccumulatedAggregate, schema: Schema, sources: Sequence[Step], scope: StepScope
    ) -> None:
        super().__init__(spec, schema, sources, scope)
        self._scope = scope
