"""Preceded: the pairs of rows whose second row comes before the first row.

    preceded(s)(a, b) = s(a, b) if b < a else 0

A pair is one row: its first half of columns is row a, its second half row b. Rows are compared
column by column from the left; strings and records by value, not by id. Linear.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dbsp.circuit.field_ranges import ONE_INPUT
from dbsp.circuit.operator import Operator
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.value_order import rank_codes
from dbsp.errors import SchemaError
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.linear.filter import filter_rows


@dataclass(frozen=True)
class Preceded(Operator):
    """The rows whose second half comes before the first."""

    input_counts = ONE_INPUT

    def schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        half = schema.arity // 2
        if schema.types[:half] != schema.types[half:]:
            raise SchemaError(
                "preceded expects the columns of two rows of the same types, one after the other; got "
                f"({schema.describe()})",
                code="schema-mismatch",
            )
        return schema

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        (schema,) = inputs
        half = schema.arity // 2

        def preceded(batch: Batch) -> Batch:
            size = len(batch)
            before, equal = np.zeros(size, np.bool_), np.ones(size, np.bool_)
            for column, type_ in enumerate(schema.types[:half]):
                both = np.concatenate((batch.rows[:, column], batch.rows[:, half + column]))
                ranks = rank_codes(type_, both, interner)
                first, second = ranks[:size], ranks[size:]
                before |= equal & (second < first)
                equal &= second == first
            return filter_rows(batch, before)

        return preceded
