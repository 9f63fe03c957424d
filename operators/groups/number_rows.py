"""Number rows: each row of a set with a unique number, which it keeps while it is in the set.

    number(D(s)) = [+(x, n)] for every x inserted, n its number;  [-(x, n)] for every x retracted

The numbers are first, first + step, first + 2 step, ... in the order of insertion; rows inserted in
one tick are numbered in the order of their values. A number is never used again: a row that is
retracted and inserted in a later tick gets a new number. So the result depends on the ticks so far
and not only on the set: this is an operator on streams of changes. The numbers of two nodes never
coincide if the nodes have the same step and different values of `first` below it.

The state is a trace of the result. A tick costs O(|delta| log n).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np

from dbsp.circuit.field_ranges import DISTINCT_COLUMNS, INT64, ONE_INPUT
from dbsp.circuit.graph import Node
from dbsp.circuit.operator import Operator
from dbsp.circuit.step import Step
from dbsp.circuit.step_roles import KeepingStep, RememberingStep, TracedStep
from dbsp.circuit.step_scope import StepScope
from dbsp.data.batch import Batch
from dbsp.data.key_order import key_order
from dbsp.data.masks import rows_where
from dbsp.data.schema import Schema
from dbsp.data.types import INT
from dbsp.data.value_order import value_order
from dbsp.errors import CircuitError, InvariantError, SchemaError, ValueOutOfRangeError
from dbsp.kernels import gather
from dbsp.kernels.arrays import Codes
from dbsp.kernels.jit import expect_calls
from dbsp.kernels.limits import INT64_MAX
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.linear.project import Project
from dbsp.parallel.range_sort import consolidate
from dbsp.state.trace import Trace


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

    @property
    def keeps_integral(self) -> bool:
        return True

    def start(self, node: Node, sources: Sequence[Step], scope: StepScope) -> Step:
        if scope.depth:
            raise CircuitError(
                "rows cannot be numbered inside a fixpoint, which derives them again in every iteration; "
                "call number_rows() on a stream outside the fixpoint",
                where=node.describe(),
                code="scope-misuse",
            )
        return NumberRowsStep(self, node, sources[0], scope)


class NumberRowsStep(KeepingStep, RememberingStep, TracedStep):
    """Keeps the numbered rows in a trace, where a row that leaves finds its number."""

    __slots__ = (
        "_columns",
        "_next",
        "_numbered",
        "_operator",
        "_ordered",
        "_scope",
        "_sorted",
        "_source",
        "_used",
    )

    def __init__(self, operator: NumberRows, node: Node, source: Step, scope: StepScope) -> None:
        super().__init__()
        self._operator = operator
        self._source = source
        self._scope = scope
        schema = node.inputs[0].schema
        others = [column for column in range(schema.arity) if column not in operator.order]
        columns = (*operator.order, *others)
        self._columns = np.array(columns, np.int64)
        self._sorted = columns == tuple(range(schema.arity))
        self._ordered = Project(columns, tuple(schema.names[c] for c in columns)).schema(schema)
        self._numbered = scope.new_trace(node.schema.arity, node.schema.types)
        self._used = self._next = 0  # how many numbers ticks have used, before and after this one
        expect_calls(gather)

    @property
    def trace(self) -> Trace:
        return self._numbered

    def integral(self) -> Batch:
        return self._numbered.contents()

    @property
    def kept_rows(self) -> int:
        return self._numbered.rows

    def step(self) -> None:
        self.out = None
        batch = self._source.out
        if batch is None:
            return
        gone = batch.weights < 0
        if gone.any():
            out = self._left(*rows_where(gone, batch.rows, batch.weights))
            if not gone.all():
                out = out.plus(self._entered(*rows_where(~gone, batch.rows, batch.weights)))
        else:
            out = self._entered(batch.rows, batch.weights)
        self._numbered.append(out.rows, out.weights)
        self.out = out

    def _left(self, rows: Codes, weights: Codes) -> Batch:
        """The rows that leave, with their numbers."""
        trace = self._numbered
        found, kept, _ = gather(rows, trace.width - 1, trace.table, trace.count, trace.width, 0)
        # Runs that are not merged yet have earlier numbers of a row, which have cancelled.
        found, kept = consolidate(found, kept)
        if len(found) != len(rows):
            raise InvariantError(
                f"{len(rows):,} rows leave number_rows, and {len(found):,} of them have a number; this is "
                "a defect of dbsp"
            )
        return Batch(found, -kept)

    def _entered(self, rows: Codes, weights: Codes) -> Batch:
        """The rows that enter, with new numbers."""
        operator, count = self._operator, len(rows)
        last = operator.first + (self._used + count - 1) * operator.step
        if last > INT64_MAX:
            raise ValueOutOfRangeError(f"number_rows: the number {last:,} of a row does not fit in 64 bits")
        numbered = np.empty((count, rows.shape[1] + 1), np.int64)
        numbered[:, :-1] = rows
        first = operator.first + self._used * operator.step
        numbered[self._arrival(rows), -1] = np.arange(count) * operator.step + first
        self._next = self._used + count
        self._scope.journal.append(self)
        return Batch(numbered, weights)

    def _arrival(self, rows: Codes) -> Codes:
        """The order in which new rows are numbered."""
        arranged = rows.take(self._columns, 1)
        by_value = value_order(self._ordered, arranged, self._scope.interner)
        if by_value is not None:
            return by_value
        return np.arange(len(rows)) if self._sorted else key_order(arranged.T)

    def commit(self) -> None:
        self._used = self._next

    def rollback(self) -> None:
        """Do nothing: the count before the tick is still stored."""

    def memory(self) -> int:
        return self._used

    def recall(self, memory: int) -> None:
        self._used = memory
