"""Explode: one row for each element of a list.

    explode(s)(x, e) = sum over the lists l of s(x, l) * (how often e occurs in l)

Linear: its own incremental form. Each row keeps the weight of its list, so an element that occurs
twice has twice the weight. An empty list and None give no row or, with `keep_empty`, one row with
None. The codes of the elements are copied, no value is decoded. Cost: the elements of the changed
rows, sorted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

import numpy as np

from dbsp.circuit.field_ranges import COLUMN, ONE_INPUT
from dbsp.circuit.operator import Operator
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.masks import any_true, rows_where
from dbsp.data.nested_values import list_elements
from dbsp.data.schema import Schema
from dbsp.data.types import INT
from dbsp.errors import SchemaError, ValueOutOfRangeError
from dbsp.kernels.limits import NULL
from dbsp.lazy_dataclass import dataclass
from dbsp.parallel.range_sort import consolidate


@dataclass(frozen=True)
class Explode(Operator):
    """The list column `column` becomes its element, named `into`; `position` names a new column."""

    input_counts = ONE_INPUT

    column: int = field(metadata=COLUMN)
    into: str
    position: str | None = None
    keep_empty: bool = False
    """Whether an empty list and None give a row, whose element and position are None."""

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
        names[self.column] = self.into
        types[self.column] = type_.element.optional() if self.keep_empty else type_.element
        if self.position is not None:
            names.append(self.position)
            types.append(INT.optional() if self.keep_empty else INT)
        return Schema(tuple(names), tuple(types))

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        type_ = inputs[0].types[self.column]
        nullable, keep_empty, positions = type_.nullable, self.keep_empty, self.position is not None
        # In a column that is not optional, the code of None is an ordinary int.
        widened = keep_empty and type_.element == INT

        def explode(batch: Batch) -> Batch:
            rows, weights = batch.rows, batch.weights
            without = batch.rows[:0]
            if nullable:
                present = rows[:, self.column] != NULL
                without, alone = rows_where(~present, rows, weights)
                rows, weights = rows_where(present, rows, weights)
            elements, counts = list_elements(rows[:, self.column], interner)
            if widened and any_true(elements == NULL):
                raise ValueOutOfRangeError("-2**63 represents None in an optional int column")
            out = np.empty((len(elements), rows.shape[1] + positions), np.int64)
            out[:, : rows.shape[1]] = np.repeat(rows, counts, axis=0)
            out[:, self.column] = elements
            if positions:
                ends = np.cumsum(counts)
                out[:, -1] = np.arange(len(elements)) - np.repeat(ends - counts, counts)
            found = np.repeat(weights, counts)
            if keep_empty:
                empty = counts == 0
                bare = rows.compress(empty, 0)
                kept = [bare, without] if len(without) else [bare]
                padded = np.full((sum(map(len, kept)), out.shape[1]), NULL, np.int64)
                padded[:, : rows.shape[1]] = np.concatenate(kept)
                padded[:, self.column] = NULL
                out = np.concatenate([out, padded])
                found = np.concatenate([found, weights[empty], *([alone] if len(without) else [])])
            return Batch(*consolidate(out, found))

        return explode
