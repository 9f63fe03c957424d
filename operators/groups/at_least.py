"""AtLeast: the rows whose weight is n or more.

    at_least(s)(x) = 1 if s(x) >= n else 0

A projection to no columns has one row, whose weight is the number of rows: so `at_least` of it
tests whether a stream has n rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.groups.group_step import GroupwiseOperator


@dataclass(frozen=True)
class AtLeast(GroupwiseOperator):
    """The rows of weight `number` or more, each with weight 1."""

    number: int

    @property
    def label(self) -> str:
        return f"AtLeast {self.number}"

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return True

    def groups(self, schema: Schema) -> tuple[int, ...]:
        return tuple(range(schema.arity))

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        def enough(batch: Batch) -> Batch:
            rows = batch.rows.compress(batch.weights >= self.number, 0)
            return Batch(rows, np.ones(len(rows), np.int64))

        return enough
