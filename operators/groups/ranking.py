"""Top-k, rank and shift: functions of a partition in an order.

The rows of a partition, which agree on the columns `partition`, are sorted by some columns, each
ascending or descending; rows that tie are sorted by the whole row, ascending. None comes before
every other value, strings are sorted alphabetically. So the order is total and every result is
deterministic. A row of weight w > 0 counts as w equal rows, a row of weight w <= 0 does not count.

    top_k       the first k rows; the last of them may keep only a part of its weight
    rank        each row with 1 + the number of rows before those that tie with it
    dense_rank  each row with 1 + the number of different order values before its own
    row_number  each row with its number 1, 2, ...; w equal rows have w numbers
    shift       each row with a column of the row n places before or after it, None beyond the ends

All are functions of groups (`dbsp.operators.groups.group_step`): a tick recomputes the partitions
with changes. At the top level shift recomputes the neighbours of the changed rows only
(`dbsp.operators.groups.neighbours_step`), the ranks recompute the rows from the first change on
(`dbsp.operators.groups.rank_step`), and top_k reads only the first rows of a partition from
an arrangement by (partition, order): O(k + log n) rows for each partition with changes, plus the
rows that tie with the k-th.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import NamedTuple

import numpy as np

from dbsp.circuit.field_ranges import COLUMN, DISTINCT_COLUMNS, ONE_INPUT, POSITIVE, Between, one_of, within
from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.rewriting import Rewriting
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import Arranged, expect_arranged
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.key_order import key_order
from dbsp.data.masks import all_true, rows_where
from dbsp.data.schema import Schema
from dbsp.data.types import INT
from dbsp.data.value_order import rank_codes
from dbsp.errors import CircuitError, SchemaError, counted
from dbsp.kernels import divide_sorted, leading_versions, project, shifted
from dbsp.kernels.arrays import Codes, Mask
from dbsp.kernels.jit import expect_calls
from dbsp.kernels.limits import NULL
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.groups.group_step import (
    GroupsStep,
    GroupwiseOperator,
    RecomputeGroups,
    Reduce,
    expect_rows,
    restore_column_order,
)
from dbsp.operators.groups.neighbours_step import NeighboursStep
from dbsp.operators.groups.order_statistics import refuse_null
from dbsp.operators.groups.rank_step import DenseRankStep, RankStep
from dbsp.operators.groups.version_column import VersionColumn
from dbsp.operators.traces.arrange import arranged, order_of
from dbsp.parallel.range_sort import consolidate

MOST_COPIES = 1_000_000
"""The greatest weight of a row that row_number accepts."""


PLACES = within(Between(1 - 2**31, 2**31 - 1))


class Sorted(NamedTuple):
    """The rows of positive weight, sorted by partition and, within it, by their order."""

    rows: Codes
    weights: Codes
    starts: Codes
    """Where the partitions begin."""
    before: Codes
    """The number of rows of the partition before each row, counted by weight."""
    fresh: Mask
    """Whether a row is the first of those that tie."""


@dataclass(frozen=True)
class Ordered(GroupwiseOperator):
    """The base of the ordered operators; `order` has pairs (column, whether descending)."""

    partition: tuple[int, ...] = field(metadata=DISTINCT_COLUMNS)
    order: tuple[tuple[int, bool], ...] = field(metadata=COLUMN)

    def groups(self, schema: Schema) -> tuple[int, ...]:
        return self.partition

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        (stream,) = inputs
        if stream.graph.parent is not None:
            return super().physical(rewriting, node, inputs)
        source = arranged(rewriting, stream, (*self.partition, *self.leading(stream.schema)))
        return rewriting.add(RecomputeGroups(self, node.inputs[-1].schema), source)

    def ordering(self, columns: Sequence[str]) -> str:
        """The order and the partition with the names of the columns, for pictures."""
        order = [f"{columns[c]}{' descending' if down else ''}" for c, down in self.order]
        per = f" per {', '.join(columns[c] for c in self.partition)}" if self.partition else ""
        return f"by {', '.join(order)}{per}"

    def leading(self, schema: Schema) -> list[int]:
        """The longest prefix of the order in which sorted codes can be read from one end."""
        columns: list[int] = []
        for column, descending in self.order:
            if not schema.types[column].ordered_codes or descending != self.order[0][1]:
                break
            if column not in columns and column not in self.partition:
                columns.append(column)
        return columns

    def of_versions(self, over: Schema, order: Sequence[int], interner: Interner) -> Reduce:
        """Return the function for arranged rows that have a version in a last column.

        The rows of each version of a partition are a partition.
        """
        last = over.arity
        both = Schema(tuple(map(str, range(last + 1))), (*over.types, INT))
        operator = replace(self, partition=(*self.partition, last))
        return restore_column_order(operator.function(interner, both), [*order, last])

    def sorter(self, schema: Schema, interner: Interner) -> Callable[[Batch], Sorted]:
        """Return the function that sorts the rows of a batch. O(n log n)."""
        expect_calls(divide_sorted)
        partition = np.array(self.partition, np.int64)
        order = np.array([column for column, _ in self.order], np.int64)
        others = [c for c in range(schema.arity) if c not in (*partition, *order)]

        def sort(batch: Batch) -> Sorted:
            rows, weights = batch.rows, batch.weights
            mask = weights > 0
            if not all_true(mask):
                rows, weights = rows_where(mask, rows, weights)
            ranks = [rank_codes(type_, rows[:, c], interner) for c, type_ in enumerate(schema.types)]
            keys = [rows[:, c] for c in self.partition]
            keys += [~ranks[c] if descending else ranks[c] for c, descending in self.order]
            keys += [ranks[c] for c in others]
            if len(rows):
                turn = key_order(keys)
                rows, weights = rows.take(turn, 0), weights.take(turn)
            return Sorted(rows, weights, *divide_sorted(rows, weights, partition, order))

        return sort


@dataclass(frozen=True)
class TopK(Ordered):
    """The first `k` rows of each partition."""

    k: int = field(metadata=POSITIVE)

    @property
    def label(self) -> str:
        return f"TopK {self.k}"

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        return f"TopK {self.k} {self.ordering(columns[0])}"

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        (schema,) = inputs
        sort = self.sorter(schema, interner)

        def top(batch: Batch) -> Batch:
            s = sort(batch)
            kept = np.minimum(np.maximum(self.k - s.before, 0), s.weights)
            return Batch(*consolidate(*rows_where(kept > 0, s.rows, kept)))

        return top

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        (stream,) = inputs
        leading = self.leading(stream.schema)
        if stream.graph.parent is not None or not leading:
            return super().physical(rewriting, node, inputs)
        source = arranged(rewriting, stream, (*self.partition, *leading))
        return rewriting.add(LeadingTopK(self, len(leading), node.inputs[-1].schema), source)


@dataclass(frozen=True)
class LeadingTopK(Operator):
    """The incremental form of top_k, over an arrangement by the partition and `leading` columns."""

    input_counts = ONE_INPUT

    top: TopK
    leading: int = field(metadata=POSITIVE)
    over: Schema

    @property
    def name(self) -> str:
        return self.top.name

    @property
    def label(self) -> str:
        return self.top.label

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        return self.top.caption([self.over.names])

    def schema(self, *inputs: Schema) -> Schema:
        return self.top.checked_schema(self.over)

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        (stream,) = inputs
        leading = self.top.leading(self.over)[: self.leading]
        if graph.parent is not None or len(leading) < self.leading:
            raise CircuitError(
                f"expected an order that begins with {counted(self.leading, 'column')} of sorted codes",
                code="invalid-circuit-file",
            )
        expect_rows(stream, self.over, (*self.top.partition, *leading))

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        (source,) = expect_arranged(node, sources)
        versions = self.top.of_versions(self.over, order_of(node.inputs[0]), scope.interner)
        return TopKStep(self, source, versions)


class TopKStep(Step):
    __slots__ = ("_columns", "_source", "_spec", "_version", "_versions")

    def __init__(self, spec: LeadingTopK, source: Arranged, versions: Reduce) -> None:
        super().__init__()
        self._spec = spec
        self._source = source
        self._versions = versions
        self._version = VersionColumn(spec.over.arity, spec.over.arity + 1)
        self._columns = np.arange(len(spec.top.partition))
        expect_calls(leading_versions, project)

    def step(self) -> None:
        self.out = None
        batch = self._source.out
        if batch is None:
            return
        top, source = self._spec.top, self._source
        keys, _ = project(batch.rows, np.ones(len(batch), np.int64), self._columns)
        heads = leading_versions(
            keys,
            len(top.partition),
            self._spec.leading,
            source.table,
            source.before,
            source.count,
            self._spec.over.arity,
            top.k,
            top.order[0][1],
        )
        self.out = self._version.difference(self._versions(Batch(*heads)))


@dataclass(frozen=True)
class Rank(Ordered):
    """Each row with its rank; `kind` is rank, dense_rank or row_number."""

    kind: str = field(metadata=one_of("rank", "dense_rank", "row_number"))
    names: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"Rank {self.kind}"

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        return f"{self.label} {self.ordering(columns[0])}"

    def top_level_step(
        self,
        source: Arranged,
        key: int,
        over: Schema,
        order: Sequence[int],
        reduce: Reduce,
        scope: StepScope,
    ) -> Step:
        leading = common_prefix(order[key:], self.leading(over))
        ordering = {column for column, _ in self.order}.difference(self.partition)
        dense = self.kind == "dense_rank"
        if not leading or (dense and leading < len(ordering)):
            return GroupsStep(source, key, reduce, scope)
        types = [over.types[column] for column in order]
        step = DenseRankStep if dense else RankStep
        versions = self.of_versions(over, order, scope.interner)
        return step(source, order[:key], leading, self.order[0][1], types, reduce, versions, scope)

    def schema(self, *inputs: Schema) -> Schema:
        return Schema(self.names, (*inputs[0].types, INT))

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0] or self.kind == "row_number"

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        (schema,) = inputs
        sort = self.sorter(schema, interner)

        def rank(batch: Batch) -> Batch:
            s = sort(batch)
            rows, weights = s.rows, s.weights
            if self.kind == "row_number":
                if len(weights) and weights.max() > MOST_COPIES:
                    raise OverflowError(
                        f"value: row_number numbers at most {MOST_COPIES:,} copies of a row, got "
                        f"{weights.max():,}; use distinct() first, or rank()"
                    )
                numbers = np.repeat(s.before - (np.cumsum(weights) - weights), weights) + np.arange(
                    weights.sum()
                )
                rows, weights = np.repeat(rows, weights, axis=0), np.ones(len(numbers), np.int64)
            elif self.kind == "rank":
                numbers = s.before[np.maximum.accumulate(np.where(s.fresh, np.arange(len(rows)), 0))]
            else:
                ties = np.cumsum(s.fresh)
                sizes = np.diff(np.append(s.starts, len(rows)))
                numbers = ties - np.repeat(ties[s.starts], sizes)
            return Batch(*consolidate(np.column_stack((rows, numbers + 1)), weights))

        return rank


@dataclass(frozen=True)
class Shift(Ordered):
    """Each row with the value of `column` `offset` rows before it, or after it if negative."""

    column: int = field(metadata=COLUMN)
    offset: int = field(metadata=PLACES)
    names: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"{'Lag' if self.offset >= 0 else 'Lead'} {self.names[self.column]} by {abs(self.offset)}"

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        return f"{self.label} {self.ordering(columns[0])}"

    def top_level_step(
        self,
        source: Arranged,
        key: int,
        over: Schema,
        order: Sequence[int],
        reduce: Reduce,
        scope: StepScope,
    ) -> Step:
        leading = common_prefix(order[key:], self.leading(over))
        if not leading:
            return GroupsStep(source, key, reduce, scope)
        versions = self.of_versions(over, order, scope.interner)
        return NeighboursStep(source, key, leading, abs(self.offset), reduce, versions, scope)

    def schema(self, *inputs: Schema) -> Schema:
        types = inputs[0].types
        return Schema(self.names, (*types, types[self.column].optional()))

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        (schema,) = inputs
        type_ = schema.types[self.column]
        strict = type_.kind == "int" and not type_.nullable
        sort = self.sorter(schema, interner)
        expect_calls(shifted)

        def shift(batch: Batch) -> Batch:
            s = sort(batch)
            row, other, copies = shifted(s.before, s.weights, s.starts, self.offset)
            values = s.rows[other, self.column]
            if strict:
                refuse_null(values[other >= 0])
            values[other < 0] = NULL
            return Batch(*consolidate(np.column_stack((s.rows.take(row, 0), values)), copies))

        return shift


def ordered_by(
    schema: Schema, by: str | Sequence[str], descending: bool | Sequence[bool]
) -> tuple[tuple[int, bool], ...]:
    """The columns of an order and their directions, from the arguments of a method.

    Raises SchemaError if a column does not exist or the arguments differ in length.
    """
    names = [by] if isinstance(by, str) else list(by)
    directions = [descending] * len(names) if not isinstance(descending, Sequence) else list(descending)
    if not names:
        raise SchemaError("by= needs at least one column to order by", code="invalid-argument")
    if len(directions) != len(names) or not all(isinstance(each, bool) for each in directions):
        raise SchemaError(
            f"descending= expects True, False, or one of them for each of the {len(names)} columns of by=; "
            f"got {descending!r}",
            code="invalid-argument",
        )
    return tuple(zip(schema.indices(names), directions, strict=True))


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """The number of equal elements at the start of both sequences."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
