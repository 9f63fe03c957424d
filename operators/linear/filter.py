"""Filter: the rows for which a predicate is true.

    filter(s)(x) = s(x) if p(x) else 0

Linear: its own incremental form. The predicate is an expression over columns, evaluated for all
rows of a delta at once, or a Python function of a named tuple, called row by row. None counts as
false. Cost: O(|delta|) per tick, no state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from dbsp.circuit.field_ranges import COLUMN, ONE_INPUT
from dbsp.circuit.operator import Operator
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.masks import all_true, rows_where
from dbsp.data.schema import Schema
from dbsp.errors import SchemaError
from dbsp.expressions import Expression, bind
from dbsp.expressions.readable_text import readable
from dbsp.kernels.limits import NULL
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.linear.row_functions import RowOperator, call_per_row, function_name


@dataclass(frozen=True)
class Filter(RowOperator):
    """Rows for which the boolean expression is true."""

    predicate: Expression = field(compare=False)
    identity: tuple[Any, ...] = field(init=False, repr=False)
    """The fields that equality compares: `==` on expressions builds another expression."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "identity", self.predicate.key)

    @property
    def label(self) -> str:
        return f"Filter {self.predicate!r}"

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        return f"Filter {readable(self.predicate)}"

    def column_texts(self, columns: Sequence[Sequence[str]]) -> Sequence[str]:
        return columns[0]

    def schema(self, *inputs: Schema) -> Schema:
        type_ = bind(self.predicate, self.over or inputs[0]).type
        if type_.kind != "bool":
            raise SchemaError(
                f"filter expects a boolean expression, but {self.predicate!r} has type {type_}",
                code="invalid-expression",
            )
        return inputs[0]

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        bound = bind(self.predicate, self.over or inputs[0])

        def keep(batch: Batch) -> Batch:
            # The code of true is 1; false and None have other codes.
            return filter_rows(batch, bound.evaluate(batch.rows, interner) == 1)

        return keep


@dataclass(frozen=True)
class FilterFunction(RowOperator):
    """Rows for which a Python function returns a true value."""

    predicate: Callable[[Any], Any]

    @property
    def name(self) -> str:
        return "Filter"

    @property
    def label(self) -> str:
        return f"Filter {function_name(self.predicate)}"

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        schema = self.over or inputs[0]

        def keep(batch: Batch) -> Batch:
            verdicts = call_per_row(self.predicate, batch, schema, interner, finish=bool)
            return filter_rows(batch, np.array(verdicts, np.bool_))

        return keep


@dataclass(frozen=True)
class SameValue(Operator):
    """Rows with equal values in two columns; None equals None."""

    input_counts = ONE_INPUT

    first: int = field(metadata=COLUMN)
    second: int = field(metadata=COLUMN)

    @property
    def monotone(self) -> bool:
        return True

    @property
    def name(self) -> str:
        return "Filter"

    @property
    def label(self) -> str:
        return f"Filter column {self.first} = column {self.second}"

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        return f"Filter {columns[0][self.first]} = {columns[0][self.second]}"

    def column_texts(self, columns: Sequence[Sequence[str]]) -> Sequence[str]:
        return columns[0]

    def schema(self, *inputs: Schema) -> Schema:
        a, b = self.first, self.second
        (schema,) = inputs
        if schema.types[a].coding != schema.types[b].coding:
            raise SchemaError(
                f"cannot compare '{schema.names[a]}: {schema.types[a]}' with "
                f"'{schema.names[b]}: {schema.types[b]}': the types differ",
                code="invalid-join-key",
            )
        return schema

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        first, second = self.first, self.second
        types = inputs[0].types
        # In a column that is not optional, the code of None is an ordinary int.
        mixed = types[first].nullable != types[second].nullable

        def keep(batch: Batch) -> Batch:
            mask = batch.rows[:, first] == batch.rows[:, second]
            if mixed:
                mask &= batch.rows[:, first] != NULL
            return filter_rows(batch, mask)

        return keep


def filter_rows(batch: Batch, mask: Any) -> Batch:
    """Keep the rows where the mask is true, in their order, so the result stays canonical."""
    if all_true(mask):
        return batch
    return Batch(*rows_where(mask, batch.rows, batch.weights))
