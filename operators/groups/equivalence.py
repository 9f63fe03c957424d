"""Classes: the least equivalence that contains given pairs, as the class of every value.

    classes(s) = { (x, m(x)) : x in a pair of s }      m(x) the least value connected with x in s

A pair counts if its weight is positive. The equivalence itself, on the values that occur in s, is
the join of the result with itself on m: n values have n rows here, and up to n^2 rows there.
"Least" refers to the codes of the values, which for strings is not the alphabetical order.

A change affects only the values connected with it by pairs of any time and sign. The operator looks
these up step by step from both ends and computes their classes before and after the change; if that
takes longer than computing all classes, it computes all. Cost: O(p log n) for p pairs connected
with the change, and never more than O(p log n) for all pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dbsp.circuit.field_ranges import TWO_INPUTS
from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.rewriting import Rewriting
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import Arranged, expect_arranged
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.distinct_codes import distinct_codes
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.errors import SchemaError
from dbsp.kernels import consolidate, gather, least_members
from dbsp.kernels.arrays import Codes
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.groups.group_step import GroupsStep, GroupwiseOperator, TimedGroupsStep, expect_rows
from dbsp.operators.traces.arrange import arranged, trace_of


@dataclass(frozen=True)
class EquivalenceClasses(GroupwiseOperator):
    """Each value of two columns of one type, with the least value of its class."""

    def schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        if schema.arity != 2 or schema.types[0] != schema.types[1]:
            raise SchemaError(
                f"equivalence classes need two columns of one type, got ({schema.describe()})",
                code="schema-mismatch",
            )
        return schema

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return True

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        return classes_of

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        (stream,) = inputs
        both = (arranged(rewriting, stream, (column,)) for column in (0, 1))
        return rewriting.add(ConnectedClasses(node.inputs[-1].schema), *both)


@dataclass(frozen=True)
class ConnectedClasses(Operator):
    """The incremental form, over arrangements of the pairs by each column."""

    input_counts = TWO_INPUTS

    over: Schema

    @property
    def name(self) -> str:
        return "Classes"

    def schema(self, *inputs: Schema) -> Schema:
        return EquivalenceClasses().checked_schema(self.over)

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        for column, stream in enumerate(inputs):
            expect_rows(stream, self.over, (column,))

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return True

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        first, second = expect_arranged(node, sources)
        kind = TimedClassesStep if scope.nested else ClassesStep
        return kind(first, second, scope)


def classes_of(batch: Batch) -> Batch:
    """The values of pairs of positive weight, with the least value of their class. O(n log n)."""
    pairs = batch.rows.compress(batch.weights > 0, 0)
    values, numbers = distinct_codes(pairs.reshape(-1))
    least = least_members(numbers.reshape(pairs.shape), len(values))
    rows = np.column_stack((values, values[least]))
    return Batch(*consolidate(np.ascontiguousarray(rows), np.ones(len(rows), np.int64)))


class _ByBothColumns:
    """Looks up pairs by either column; a group is a connected component of the values."""

    def __init__(self, first: Arranged, second: Arranged, timed: bool) -> None:
        self._first = first
        self._second = second
        self._timed = timed

    def history(self, values: Codes) -> tuple[Codes, Codes, int]:
        """The pairs of any time connected with these values, or all pairs if that is as fast."""
        stored = self._first.kept_rows
        # Pairs are found in rounds of two look-ups each; reading all pairs takes one round.
        most, rounds = 200 + stored // 8, 16 + stored // 512
        seen = np.empty(0, np.int64)
        past: list[tuple[Codes, Codes]] = []
        present: list[tuple[Codes, Codes]] = []
        while len(values):
            seen = np.union1d(seen, values)
            rows, weights, split = self._find(values, self._first)
            most -= len(rows)
            rounds -= 1
            if most < 0 or rounds < 0:
                return self._find(np.empty((1, 0), np.int64), self._first)
            past.append((rows[:split], weights[:split]))
            present.append((rows[split:], weights[split:]))
            others, _, _ = self._find(values, self._second)
            found = np.union1d(rows[:, 1], others[:, 1])
            values = np.setdiff1d(found, seen, assume_unique=True).reshape(-1, 1)
        pieces = [*past, *present]
        return (
            np.ascontiguousarray(np.concatenate([rows for rows, _ in pieces])),
            np.concatenate([weights for _, weights in pieces]),
            sum(len(weights) for _, weights in past),
        )

    def _find(self, keys: Codes, source: Arranged) -> tuple[Codes, Codes, int]:
        trace = trace_of(source)
        past = trace.past if self._timed else source.before
        return gather(keys, keys.shape[1], source.table, source.count, trace.width, past)


def _values(rows: Codes) -> Codes:
    return distinct_codes(rows.reshape(-1))[0].reshape(-1, 1)


class ClassesStep(GroupsStep):
    """Classes at the top level."""

    __slots__ = ("_pairs",)

    def __init__(self, first: Arranged, second: Arranged, scope: StepScope) -> None:
        super().__init__(first, 1, classes_of, scope)
        self._pairs = _ByBothColumns(first, second, timed=False)

    def keys(self, rows: Codes) -> Codes:
        return _values(rows)

    def history(self, keys: Codes) -> tuple[Codes, Codes, int]:
        return self._pairs.history(keys)


class TimedClassesStep(TimedGroupsStep):
    """Classes in nested scopes. The least value of a connected component waits for all of it."""

    __slots__ = ("_pairs",)

    def __init__(self, first: Arranged, second: Arranged, scope: StepScope) -> None:
        super().__init__(first, 1, classes_of, scope)
        self._pairs = _ByBothColumns(first, second, timed=True)

    def keys(self, rows: Codes) -> Codes:
        return _values(rows)

    def history(self, keys: Codes) -> tuple[Codes, Codes, int]:
        return self._pairs.history(keys)

    def groups_of(self, rows: Codes) -> Codes:
        classes = classes_of(Batch(rows, np.ones(len(rows), np.int64))).rows
        return classes[np.searchsorted(classes[:, 0], rows[:, 0]), 1:]
