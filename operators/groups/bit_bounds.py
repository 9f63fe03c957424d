"""bit_or and bit_and: the bitwise bounds of the ints of a group.

    bit_or(s)  = OR of all v with w(v) > 0        the union of sets of bits
    bit_and(s) = AND of all v with w(v) > 0       their intersection

A retraction cannot be undone by another bit operation, so a tick reads the groups with changes:
O(their rows). In a nested scope they are read in one pass (see
`dbsp.operators.groups.timed_bounds_step`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np

from dbsp.circuit.field_ranges import InputColumns, one_of
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.masks import any_true
from dbsp.data.schema import Schema
from dbsp.data.types import Type
from dbsp.errors import SchemaError, ValueOutOfRangeError
from dbsp.kernels.arrays import Codes
from dbsp.kernels.limits import NULL
from dbsp.kernels.timed_bounds import BIT_AND, BIT_OR
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.groups.aggregate_functions import GroupFunction, grouped


@dataclass(frozen=True)
class BitBound(GroupFunction):
    """The OR or the AND of the values of the int column `column`; None is not a value."""

    kind: str = field(metadata=one_of("bit_or", "bit_and"))
    column: int

    def caption(self, columns: Sequence[str]) -> str:
        return f"{self.kind}({columns[self.column]})"

    def result(self, schema: Schema) -> Type:
        InputColumns().check(self.column, [schema])
        type_ = schema.types[self.column]
        if type_.kind != "int":
            raise SchemaError(
                f"{self.kind} '{schema.names[self.column]}' expects an int, got {type_}",
                code="invalid-aggregate",
            )
        return type_

    def bound(self, schema: Schema) -> int | None:
        if schema.types[self.column].nullable:
            return None
        return BIT_OR if self.kind == "bit_or" else BIT_AND

    def evaluate(self, batch: Batch, keys: Codes, schema: Schema, interner: Interner) -> Codes:
        result = np.full(len(keys), NULL, np.int64)
        rows, _, starts, group = grouped(batch, keys, (self.column,), schema, positive=True)
        if len(rows):
            combine = np.bitwise_or if self.kind == "bit_or" else np.bitwise_and
            bounds = combine.reduceat(rows[:, -1], starts)
            if schema.types[self.column].nullable and any_true(bounds == NULL):
                raise ValueOutOfRangeError(
                    f"the {self.kind} -2**63 represents None in an optional int column"
                )
            result[group[starts]] = bounds
        return result
