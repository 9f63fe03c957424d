"""Prefix joins: one extension of a delta term of a multi-way join, as an operator.

    PrefixJoin:    out(p . v) = d(p) * R(key(p) . v)       d the delta of the prefixes
    CountMatches:  out(p . n) = d(p)                       n the number of rows of R with key(p)

with R an arrangement, of the integral with this tick if `new`, else without it. Only the delta of
the prefixes is joined: the changes of R have a term of their own. So a multi-way join on several
shards is a sum of chains of these operators, with an exchange of the prefixes before each
(Delta-BiGJoin, VLDB 2018). No state. Cost: O(|d| log n) and the matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dbsp.circuit.field_ranges import COLUMN, EITHER_COLUMN, TWO_INPUTS
from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import Arranged, expect_arranged
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch, combine
from dbsp.data.schema import Schema
from dbsp.data.types import INT
from dbsp.errors import CircuitError, SchemaError
from dbsp.kernels import arrange, consolidate, count_matches, join_runs
from dbsp.kernels.arrays import Codes
from dbsp.operators.joins.join import check_key_types, null_mismatch_columns, picked_columns, without_null
from dbsp.operators.traces.arrange import expect_order, key_first


@dataclass(frozen=True)
class PrefixOperator(Operator):
    """Looks up the columns `key` of prefixes in an arrangement that begins with their values."""

    input_counts = TWO_INPUTS

    key: tuple[int, ...] = field(metadata=COLUMN)
    new: bool

    def schema(self, *inputs: Schema) -> Schema:
        prefixes, rows = inputs
        if len(self.key) > rows.arity:
            raise SchemaError(
                f"expected a key of at most {rows.arity} columns, got {self.key}", code="wrong-arity"
            )
        check_key_types(self.key, range(len(self.key)), prefixes, rows)
        return prefixes

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        expect_order(inputs[1], ())
        if graph.parent is not None:
            raise CircuitError(
                f"expected the circuit for {self.name}, got the scope '{graph.name}'", code="scope-misuse"
            )


@dataclass(frozen=True)
class CountMatches(PrefixOperator):
    """Adds the column `column`: how many rows of the arrangement have the key of a prefix."""

    column: str

    def schema(self, *inputs: Schema) -> Schema:
        prefixes = super().schema(*inputs)
        return Schema((*prefixes.names, self.column), (*prefixes.types, INT))

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        return CountMatchesStep(node, sources, self)


@dataclass(frozen=True)
class PrefixJoin(PrefixOperator):
    """Extends prefixes; `columns` chooses the output as in `Join`, the right side is arranged."""

    columns: tuple[int, ...] = field(metadata=EITHER_COLUMN)
    names: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"PrefixJoin -> {', '.join(self.names)}"

    def schema(self, *inputs: Schema) -> Schema:
        prefixes, rows = super().schema(*inputs), inputs[1]
        return picked_columns(self.columns, self.names, prefixes, rows)

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        return PrefixJoinStep(node, sources, self)


class PrefixStep(Step):
    """A step that looks up the keys of prefixes."""

    __slots__ = ("_key", "_new", "_order", "_prefixes", "_side", "_width")

    quiet = True

    def __init__(self, node: Node, sources: Sequence[Step], operator: PrefixOperator) -> None:
        super().__init__()
        self._prefixes = sources[0]
        (self._side,) = expect_arranged(node, sources[1:])
        prefixes, rows = (stream.schema for stream in node.inputs)
        self._key = len(operator.key)
        self._new = operator.new
        self._order = np.array(key_first(operator.key, prefixes.arity), np.int64)
        self._width = rows.arity

    def _sorted(self, batch: Batch) -> tuple[Codes, Codes]:
        """Return the prefixes sorted by their keys, with the columns of the key first."""
        return arrange(batch.rows, batch.weights, self._order)

    @property
    def _runs(self) -> int:
        side: Arranged = self._side
        return side.count if self._new else side.before


class CountMatchesStep(PrefixStep):
    __slots__ = ("_restore",)

    def __init__(self, node: Node, sources: Sequence[Step], operator: CountMatches) -> None:
        super().__init__(node, sources, operator)
        self._restore = np.argsort(self._order)

    def step(self) -> None:
        self.out = None
        batch = self._prefixes.out
        if batch is None:
            return
        rows, weights = self._sorted(batch)
        counts = count_matches(rows, self._key, self._side.table, self._runs, self._width)
        rows = np.ascontiguousarray(np.column_stack((rows[:, self._restore], counts)))
        self.out = Batch(*consolidate(rows, weights))


class PrefixJoinStep(PrefixStep):
    __slots__ = ("_columns", "_null_mismatch")

    def __init__(self, node: Node, sources: Sequence[Step], operator: PrefixJoin) -> None:
        super().__init__(node, sources, operator)
        place = np.argsort(self._order)
        columns = [int(place[column]) if column >= 0 else column for column in operator.columns]
        self._columns = np.array(columns, np.int64)
        pairs = [(column, number) for number, column in enumerate(operator.key)]
        self._null_mismatch = null_mismatch_columns(node.inputs[0].schema, node.inputs[1].schema, pairs)

    def step(self) -> None:
        self.out = None
        batch, runs = self._prefixes.out, self._runs
        if batch is None or not runs:
            return
        rows, weights = self._sorted(batch)
        if self._null_mismatch:
            rows, weights = without_null(rows, weights, self._null_mismatch)
        found = join_runs(rows, weights, self._key, self._side.table, runs, self._width, self._columns)
        self.out = combine([found])
