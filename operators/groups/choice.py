"""Choice: a subset of the rows in which no two rows agree in all columns of one domain.

The rows of positive weight are visited in the order of their values: column by column, strings
alphabetically, None first. A row is kept unless it agrees in a domain with a row kept before. So
the result is a function of the input alone, independent of the order of arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

import numpy as np

from dbsp.circuit.field_ranges import COLUMN
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.value_order import value_order
from dbsp.errors import SchemaError
from dbsp.kernels import first_of_each, intern_rows
from dbsp.kernels.arrays import Codes
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.groups.group_step import GroupwiseOperator


@dataclass(frozen=True)
class ChoiceDomain(GroupwiseOperator):
    """At most one row for each value of every domain; `domains` has the columns of each.

    A tick recomputes the rows that agree with a changed row in the columns common to all domains;
    if the domains have no column in common, it recomputes all rows.
    """

    domains: tuple[tuple[int, ...], ...] = field(metadata=COLUMN)

    def schema(self, *inputs: Schema) -> Schema:
        if not self.domains:
            raise SchemaError("expected one domain or more, got none", code="wrong-arity")
        return inputs[0]

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return True

    def groups(self, schema: Schema) -> tuple[int, ...]:
        return tuple(sorted(set.intersection(*map(set, self.domains))))

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        (schema,) = inputs

        def choose(batch: Batch) -> Batch:
            rows = batch.rows.compress(batch.weights > 0, 0)
            numbers = np.empty((len(rows), len(self.domains)), np.int64)
            for at, domain in enumerate(self.domains):
                numbers[:, at] = _numbered(rows[:, list(domain)])
            order = value_order(schema, rows, interner)
            if order is None:
                kept = first_of_each(numbers)
            else:
                kept = np.zeros(len(rows), np.bool_)
                kept[order] = first_of_each(numbers.take(order, 0))
            rows = rows.compress(kept, 0)
            return Batch(rows, np.ones(len(rows), np.int64))

        return choose


def _numbered(rows: Codes) -> Codes:
    """Return the number of each row among the different rows, by first occurrence. O(n)"""
    numbers = np.empty(len(rows), np.int64)
    rows = np.ascontiguousarray(rows)
    slots = np.zeros(2 << len(rows).bit_length(), np.int64)
    intern_rows(rows, np.empty_like(rows), 0, slots, numbers)
    return numbers
