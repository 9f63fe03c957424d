"""AssertNonnegative: a check that no row of a stream has a negative weight.

    out = s,  provided that  I(s)(x) >= 0  for every row x

The rows that break it are a query, distinct(-s), whose result must stay empty. So the incremental
form follows by the chain rule and visits only the rows of the delta, O(|delta| log n). Inside a
nested scope the check applies to every iteration. A tick that breaks it is rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from dbsp.circuit.field_ranges import NAMED_COLUMNS, ONE_INPUT
from dbsp.circuit.graph import Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.rewriting import Rewriting
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.masks import any_true
from dbsp.data.schema import Schema
from dbsp.errors import violated
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.groups.distinct import Distinct
from dbsp.operators.linear.union import Negate


@dataclass(frozen=True)
class AssertNonnegative(Operator):
    """The stream itself; `promise` is the name of the check in errors."""

    input_counts = ONE_INPUT

    promise: str

    @property
    def label(self) -> str:
        return f"AssertNonnegative {self.promise}"

    @property
    def is_port(self) -> bool:
        return True  # the check takes place even if nothing reads the stream

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        refuse = RefuseRows(self.promise, inputs[0]).function(interner, inputs[0])

        def check(batch: Batch) -> Batch:
            negative = batch.weights < 0
            if any_true(negative):
                refuse(Batch(batch.rows.compress(negative, 0), -batch.weights[negative]))
            return batch

        return check

    def expand(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        (stream,) = inputs
        if not stream.node.is_set:
            broken = rewriting.add(Distinct(), rewriting.add(Negate(), stream))
            rewriting.add(RefuseRows(self.promise, node.schema), broken)
        return stream


@dataclass(frozen=True)
class RefuseRows(Operator):
    """Raises InvariantError for the first row of its input."""

    input_counts = ONE_INPUT

    promise: str
    columns: Schema = field(metadata=NAMED_COLUMNS)

    @property
    def name(self) -> str:
        return "AssertNonnegative"

    @property
    def label(self) -> str:
        return f"Refuse rows that break {self.promise}"

    @property
    def is_port(self) -> bool:
        return True

    def schema(self, *inputs: Schema) -> Schema:
        return self.columns

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        def refuse(broken: Batch) -> Batch:
            # Refused rows are never committed, so no delta retracts one.
            ((*row,),) = self.columns.decode_rows(broken.rows[:1], interner)
            raise violated(
                f"{self.promise!r} is broken: the row {tuple(row)} would have a negative weight; "
                "the tick was rolled back"
            )

        return refuse
