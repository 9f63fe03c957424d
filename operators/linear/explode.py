"""Explode: one row for each element of a list.

    explode(s)(x, e) = sum over the lists l of s(x, l) * (how often e occurs in l)

Linear: its own incremental form. Each row keeps the weight of its list, so an element that occurs
twice has twice the weight. An empty list and None give no row. The codes of the elements are
copied, no value is decoded. Cost: the elements of the changed rows, sorted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

import numpy as np

from dbsp.circuit.field_ranges import COLUMN, ONE_INPUT
from dbsp.circuit.operator import Operator
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.nested_values import list_elements
from dbsp.data.schema import Schema
from dbsp.data.types import INT
from dbsp.errors import SchemaError
from dbsp.kernels import consolidate
from dbsp.kernels.limits import NULL
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Explode(Operator):
    """The list column `column` becomes its element, named `into`; `position` names a new column."""

    input_counts = ONE_INPUT

    column: int = field(metadata=COLUMN)
    into: str
    position: str | None = None

    @property
    def monotone(self) -> bool:
        return True

    @property
    def label(self) -> str:
        return f"Explode into {self.into}{f', {self.position}' if self.position else ''}"

    def schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        type_ = schema.types[self.column]
        if type_.kind != "list":
            raise SchemaError(
                f"explode expects a list, got '{schema.names[self.column]}: {type_}'; declare the column as "
                "list[int], for example",
                code="wrong-type",
            )
        names, types = list(schema.names), list(schema.types)
        names[self.column], types[self.column] = self.into, type_.element
        if self.position is not None:
            names.append(self.position)
            types.append(INT)
        return Schema(tuple(names), tuple(types))

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        nullable = inputs[0].types[self.column].nullable
        positions = self.position is not None

        def explode(batch: Batch) -> Batch:
            rows, weights = batch.rows, batch.weights
            if nullable:
                present = rows[:, self.column] != NULL
                rows, weights = rows[present], weights[present]
            elements, counts = list_elements(rows[:, self.column], interner)
            out = np.empty((len(elements), rows.shape[1] + positions), np.int64)
            out[:, : rows.shape[1]] = np.repeat(rows, counts, axis=0)
            out[:, self.column] = elements
            if positions:
                ends = np.cumsum(counts)
                out[:, -1] = np.arange(len(elements)) - np.repeat(ends - counts, counts)
            return Batch(*consolidate(out, np.repeat(weights, counts)))

        return explode
