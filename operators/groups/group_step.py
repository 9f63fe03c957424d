"""Recomputing the groups with changes: the incremental form of any function of groups.

With f a function of whole Z-sets that treats each group (the rows that share a key) separately, and
O, N the integral before and after the tick,

    out = f(N) - f(O)                      computed for the groups with changes only.

In nested scopes the output is defined at every time t, a vector with one iteration per scope. With
N<=t the sum of all rows of times up to t in every coordinate,

    out(t) = sum over s in {0,1}^depth of (-1)^|s| (f(N<=t-s) - f(O<=t-s)),

which for one scope is (f(N<=i) - f(N<=i-1)) - (f(O<=i) - f(O<=i-1)). The output may change again at
the least upper bound of t and any other time in the group's history: there the group is visited
again. (Differential dataflow, CIDR 2013, section 3; DBSP paper, arXiv 2203.16684, section 5.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import TypeAlias

import numpy as np

from dbsp.circuit.field_ranges import ONE_INPUT
from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.rewriting import Rewriting
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import Arranged, expect_arranged
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.schema import Schema
from dbsp.errors import SchemaError
from dbsp.expressions.readable_text import plain_name
from dbsp.kernels import gather, project
from dbsp.kernels.arrays import Codes, Mask
from dbsp.kernels.jit import expect_calls
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.linear.project import Project, Projectable
from dbsp.operators.traces.agenda import Agenda, AgendaStep
from dbsp.operators.traces.arrange import Arrange, arranged, expect_order, in_own_order, order_of, trace_of
from dbsp.parallel.range_sort import consolidate
from dbsp.state.trace import Trace

Reduce: TypeAlias = Callable[[Batch], Batch]


@dataclass(frozen=True)
class GroupwiseOperator(Operator):
    """An operator with one input that computes its result group by group.

    A group is the set of rows that agree in the columns `groups`. Subclasses define `groups`,
    `schema` and `function`; this class makes them incremental, at the top level and in scopes.
    """

    input_counts = ONE_INPUT

    def groups(self, schema: Schema) -> tuple[int, ...]:
        """The columns of the input that identify a group."""
        raise AssertionError(f"{self.name} does not define the columns of its groups")

    @property
    def result_key(self) -> int | None:
        """The number of leading columns that identify a row of the result; None if unknown."""
        return None

    def top_level_step(
        self,
        source: Arranged,
        key: int,
        over: Schema,
        order: Sequence[int],
        reduce: Reduce,
        scope: StepScope,
    ) -> Step:
        """Return the incremental step outside of nested scopes.

        The source arranges an input of the schema `over` by the columns `order`, of which the first
        `key` are those of the groups.
        """
        return GroupsStep(source, key, reduce, scope)

    def bound(self, schema: Schema) -> int | None:
        """The bound of `dbsp.kernels.timed_bounds` of the last column that is the result; or None.

        The groups are then those of all other columns.
        """
        return None

    @property
    def law(self) -> str:
        return "aggregate"

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        source = arranged(rewriting, inputs[0], self.groups(inputs[0].schema))
        return rewriting.add(RecomputeGroups(self, node.inputs[-1].schema), source)


@dataclass(frozen=True)
class RecomputeGroups(Projectable):
    """The incremental form of a function of groups, over an arrangement by the grouping columns."""

    input_counts = ONE_INPUT

    operator: GroupwiseOperator
    over: Schema
    """The schema of the operator's input, with column names."""

    @property
    def name(self) -> str:
        return self.operator.name

    @property
    def label(self) -> str:
        return self.operator.label

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        return self.operator.caption([[plain_name(name) for name in self.over.names]])

    def column_texts(self, columns: Sequence[Sequence[str]]) -> Sequence[str] | None:
        return self.operator.column_texts([[plain_name(name) for name in self.over.names]])

    def schema(self, *inputs: Schema) -> Schema:
        return self.operator.checked_schema(self.over)

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        (stream,) = inputs
        expect_rows(stream, self.over, self.operator.groups(self.over))

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return self.operator.yields_set(inputs)

    def projected(self, rewriting: Rewriting, stream: Stream, project: Project) -> Stream:
        key = self.operator.result_key
        return rewriting.add(project if key is None else project.of_keyed(key), stream)

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        (source,) = expect_arranged(node, sources)
        order = order_of(node.inputs[0])
        reduce = restore_column_order(self.operator.function(scope.interner, self.over), order)
        key = len(self.operator.groups(self.over))
        if scope.nested:
            return TimedGroupsStep(source, key, reduce, scope)
        return self.operator.top_level_step(source, key, self.over, order, reduce, scope)


def expect_rows(stream: Stream, over: Schema, leading: Sequence[int]) -> None:
    """Raise unless the stream is an arrangement, of its own scope, of rows of the schema `over`.

    It begins with the columns `leading`. Raises CircuitError or SchemaError.
    """
    order = expect_order(stream, leading)
    if in_own_order(stream.schema, order).types != over.types or not isinstance(
        stream.node.operator, Arrange
    ):
        raise SchemaError(
            f"expected an arrangement of ({over.describe()}), got {order} of ({stream.schema.describe()})",
            code="schema-mismatch",
        )


def restore_column_order(function: Reduce, order: Sequence[int]) -> Reduce:
    """The function for batches whose columns are permuted by `order`."""
    if list(order) == list(range(len(order))):
        return function
    back = np.argsort(np.array(order, np.int64))
    return lambda batch: function(batch.projected(back))


class GroupsStep(Step):
    """Recomputes groups at the top level; the source is arranged by the `key` columns first."""

    __slots__ = ("_columns", "_key", "_reduce", "_scope", "_source")

    def __init__(self, source: Arranged, key: int, reduce: Reduce, scope: StepScope) -> None:
        super().__init__()
        self._source = source
        self._key = key
        self._columns = np.arange(key)
        self._reduce = reduce
        self._scope = scope
        expect_calls(gather)

    @property
    def _trace(self) -> Trace:
        """The trace of the source; the owner of an index outside of the circuit may replace it."""
        return trace_of(self._source)

    def step(self) -> None:
        self.out = None
        batch = self._source.out
        if batch is None:
            return
        rows, weights, split = self.history(self.keys(batch.rows))
        before = self._reduce(Batch(*consolidate(rows[:split], weights[:split])))
        after = self._reduce(Batch(*consolidate(rows, weights)))
        change = after.plus(before, -1)
        if len(change):
            self.out = change

    def keys(self, rows: Codes) -> Codes:
        """The keys of the groups of these rows of the source, each once."""
        keys, _ = project(rows, np.ones(len(rows), np.int64), self._columns)
        return keys

    def history(self, keys: Codes) -> tuple[Codes, Codes, int]:
        """The rows of groups with times, their weights, and how many of the first are past rows."""
        source = self._source
        return gather(keys, self._key, source.table, source.count, self._trace.width, source.before)


class TimedGroupsStep(GroupsStep, AgendaStep):
    """Recomputes groups in nested scopes of any depth."""

    __slots__ = ("_agenda",)

    def __init__(self, source: Arranged, key: int, reduce: Reduce, scope: StepScope) -> None:
        super().__init__(source, key, reduce, scope)
        self._agenda = Agenda(scope)

    def step(self) -> None:
        self.out = None
        batch = self._source.out
        touched = [rows for rows, _ in self._agenda.take()]
        if batch is not None:
            touched.append(self.keys(batch.rows))
        if not touched:
            return
        visited = np.concatenate(touched)
        keys, _ = consolidate(visited, np.ones(len(visited), np.int64))
        rows, weights, split = self.history(keys)
        now = self._scope.now
        depth = len(now)
        times = rows[:, -depth:]
        values = np.ascontiguousarray(rows[:, :-depth])
        past = np.arange(len(rows)) < split

        def reduced(mask: Mask) -> Batch:
            return self._reduce(Batch(*consolidate(values[mask], weights[mask])))

        change = Batch.empty(self.node.schema.arity)
        for back in product((0, 1), repeat=depth):
            until: Mask = np.all(times <= now - np.array(back, np.int64), axis=1)
            part = reduced(until).plus(reduced(until & past), -1)
            change = change.plus(part, -1 if sum(back) % 2 else 1)
        if len(change):
            self.out = change
        later = (times > now).any(axis=1)
        if later.any():
            self._wait(self.groups_of(values)[later], np.maximum(times[later], now))

    def history(self, keys: Codes) -> tuple[Codes, Codes, int]:
        trace = self._trace
        return gather(keys, self._key, trace.table, trace.count, trace.width, trace.past)

    def groups_of(self, rows: Codes) -> Codes:
        """The group key of each visited row."""
        return rows[:, : self._key]

    def _wait(self, keys: Codes, times: Codes) -> None:
        """Put each group on the agenda of the later times in its history."""
        unit_weights = np.ones(len(times), np.int64)
        timed, _ = consolidate(np.column_stack((keys, times)), unit_weights)
        if times.shape[1] == 1:
            # One scope: at the next time the group will wait for the time after it.
            first = np.ones(len(timed), np.bool_)
            first[1:] = (timed[1:, :-1] != timed[:-1, :-1]).any(axis=1)
            timed = timed[first]
        later = np.ascontiguousarray(timed[:, self._key :])
        self._agenda.put(np.ascontiguousarray(timed[:, : self._key]), unit_weights[: len(timed)], later)
