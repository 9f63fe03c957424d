"""Pad: some columns of each row, and None in the other columns.

    pad(s)(y) = sum of s(x) over the rows x with y[c] = x[columns[c]],
                or y[c] = None where columns[c] is None

Linear: its own incremental form. Outer joins use it for rows without a partner. Cost: sorting the
delta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

import numpy as np

from dbsp.circuit.field_ranges import COLUMN, ONE_INPUT
from dbsp.circuit.operator import Operator
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.types import Type
from dbsp.errors import SchemaError
from dbsp.kernels.limits import NULL
from dbsp.lazy_dataclass import dataclass
from dbsp.parallel.range_sort import consolidate


@dataclass(frozen=True)
class Pad(Operator):
    """Output column c is column `columns[c]` of the input, or None of type `types[c]`."""

    input_counts = ONE_INPUT

    columns: tuple[int | None, ...] = field(metadata=COLUMN)
    types: tuple[Type, ...]
    names: tuple[str, ...]

    @property
    def label(self) -> str:
        none = (name for name, column in zip(self.names, self.columns, strict=True) if column is None)
        return f"Pad {', '.join(none)} with None"

    def schema(self, *inputs: Schema) -> Schema:
        own = inputs[0].types
        if not len(self.columns) == len(self.types) == len(self.names):
            raise SchemaError(
                f"expected a column or None, a type and a name for each output column, got "
                f"{len(self.columns)}, {len(self.types)} and {len(self.names)}",
                code="wrong-arity",
            )
        types = zip(self.columns, self.types, strict=True)
        return Schema(self.names, tuple(t.optional() if c is None else own[c] for c, t in types))

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        taken = [at for at, column in enumerate(self.columns) if column is not None]
        sources = [column for column in self.columns if column is not None]

        def pad(batch: Batch) -> Batch:
            rows = np.full((len(batch), len(self.columns)), NULL, np.int64)
            rows[:, taken] = batch.rows[:, sources]
            return Batch(*consolidate(rows, batch.weights))

        return pad
