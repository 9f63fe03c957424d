"""Generate series: each row with every number of a series that it spans.

    generate(s)(x, n) = s(x)  for every n in series(start(x), end(x), step(x)),  else 0

Linear: its own incremental form. The ends are expressions over the columns of the row;
`dbsp.expressions.series` defines the numbers of a series. Every number gets the weight of the row.
Cost: generating the numbers and sorting them. A series of more than `MOST_VALUES` numbers raises
EvaluationError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.types import Type
from dbsp.errors import SchemaError
from dbsp.expressions import Expression, bind
from dbsp.expressions.series import coded_series
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.linear.row_functions import RowOperator
from dbsp.parallel.range_sort import consolidate


@dataclass(frozen=True)
class GenerateSeries(RowOperator):
    """Rows with a column of numbers, by expressions for its start, end and step."""

    ends: tuple[Expression, ...] = field(compare=False)
    column: str
    identity: tuple[Any, ...] = field(init=False, repr=False)
    """The fields that equality compares: `==` on expressions builds another expression."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "identity", tuple(e.key for e in self.ends))

    @property
    def label(self) -> str:
        return f"GenerateSeries {self.column} = {', '.join(map(repr, self.ends))}"

    def schema(self, *inputs: Schema) -> Schema:
        over = self.over or inputs[0]
        types: set[Type] = {bind(end, over).type for end in self.ends}
        if len(self.ends) not in (2, 3) or len(types) != 1 or str(next(iter(types))) not in ("int", "float"):
            listed = ", ".join(sorted(map(str, types)))
            raise SchemaError(
                f"start, end and step of a series must be all int or all float, got {listed}",
                code="invalid-expression",
            )
        return Schema((*over.names, self.column), (*over.types, *types))

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        bound = [bind(end, self.over or inputs[0]) for end in self.ends]
        kind = bound[0].type.kind

        def apply(batch: Batch) -> Batch:
            codes = [end.evaluate(batch.rows, interner) for end in bound]
            values, counts = coded_series(kind, codes)
            rows = np.empty((len(values), batch.rows.shape[1] + 1), np.int64)
            rows[:, :-1] = np.repeat(batch.rows, counts, axis=0)
            rows[:, -1] = values
            return Batch(*consolidate(rows, np.repeat(batch.weights, counts)))

        return apply
