"""Number rows: each row of a set with a unique number, which it keeps while it is in the set.

    number(D(s)) = [+(x, n)] for every x inserted, n its number;  [-(x, n)] for every x retracted

The numbers are first, first + step, first + 2 step, ... in the order of insertion; rows inserted in
one tick are numbered in the order of their values. A number is never used again: a row that is
retracted and inserted in a later tick gets a new number. So the result depends on the ticks so far
and not only on the set: this is an operator on streams of changes. The numbers of two nodes never
coincide if the nodes have the same step and different values of `first` below it.

Cost: O(|delta| log |delta|) per tick, and a dictionary entry for every row of the set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np

from dbsp.circuit.field_ranges import DISTINCT_COLUMNS, INT64, ONE_INPUT
from dbsp.circuit.graph import Node
from dbsp.circuit.operator import Operator
from dbsp.circuit.step import Step
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.key_order import key_order
from dbsp.data.schema import Schema
from dbsp.data.types import INT
from dbsp.data.value_order import value_order
from dbsp.errors import CircuitError, SchemaError, ValueOutOfRangeError
from dbsp.kernels import consolidate
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import INT64_MAX
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.linear.project import Project


@dataclass(frozen=True)
class NumberRows(Operator):
    """The rows of a set with a number; the columns `order` order the rows of one tick."""

    input_counts = ONE_INPUT

    order: tuple[int, ...] = field(metadata=DISTINCT_COLUMNS)
    column: str
    first: int = field(default=0, metadata=INT64)
    step: int = field(default=1, metadata=INT64)

    @property
    def label(self) -> str:
        return f"NumberRows {self.column} = {self.first} + {self.step} n"

    def schema(self, *inputs: Schema) -> Schema:
        if self.step < 1 or self.first < 0:
            raise SchemaError(
                f"number_rows expects first= of 0 or more and step= of 1 or more, got first={self.first} "
                f"and step={self.step}",
                code="invalid-argument",
            )
        column = self.column
        while column in inputs[0].names:  # a physical circuit has no renamings
            column = f"#{column}"
        return Schema((*inputs[0].names, column), (*inputs[0].types, INT))

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    @property
    def law(self) -> str:
        return "changes"

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        if scope.depth:
            raise CircuitError(
                "rows cannot be numbered inside a fixpoint, which derives them again in every iteration; "
                "call number_rows() on a stream outside the fixpoint",
                where=node.describe(),
                code="scope-misuse",
            )
        return NumberRowsStep(self, node, sources[0], scope)


class NumberRowsStep(Step):
    __slots__ = ("_columns", "_interner", "_numbers", "_operator", "_ordered", "_source", "_used")

    def __init__(self, operator: NumberRows, node: Node, source: Step, scope: StepScope) -> None:
        super().__init__()
        self._operator = operator
        self._source = source
        self._interner = scope.interner
        schema = node.inputs[0].schema
        others = [column for column in range(schema.arity) if column not in operator.order]
        columns = (*operator.order, *others)
        self._columns = np.array(columns, np.int64)
        self._ordered = Project(columns, tuple(schema.names[c] for c in columns)).schema(schema)
        self._numbers = scope.new_table()
        self._used = scope.new_table()  # under the key None: how many numbers have been used

    def step(self) -> None:
        self.out = None
        batch = self._source.out
        if batch is None:
            return
        rows = np.empty((len(batch), batch.rows.shape[1] + 1), np.int64)
        rows[:, :-1] = batch.rows
        retracted = np.flatnonzero(batch.weights < 0)
        for place, row in zip(retracted.tolist(), map(tuple, batch.rows[retracted].tolist()), strict=True):
            rows[place, -1] = self._numbers.pop(row)
        inserted = np.flatnonzero(batch.weights > 0)
        inserted = inserted[self._arrival(batch.rows[inserted])]
        used = self._used.get(None, 0)
        last = self._operator.first + (used + len(inserted) - 1) * self._operator.step
        if last > INT64_MAX:
            raise ValueOutOfRangeError(f"number_rows: the number {last:,} of a row does not fit in 64 bits")
        for count, (place, row) in enumerate(
            zip(inserted.tolist(), map(tuple, batch.rows[inserted].tolist()), strict=True), used
        ):
            rows[place, -1] = self._numbers[row] = self._operator.first + count * self._operator.step
        if len(inserted):
            self._used[None] = used + len(inserted)
        self.out = Batch(*consolidate(rows, batch.weights))

    def _arrival(self, rows: Codes) -> Codes:
        """The order in which new rows are numbered."""
        arranged = rows[:, self._columns]
        by_value = value_order(self._ordered, arranged, self._interner)
        if by_value is not None:
            return by_value
        return key_order(arranged.T) if len(self._columns) else np.arange(len(rows))
