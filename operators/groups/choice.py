"""Choice: rows of which no two agree in all columns of one domain.

The rows of positive weight are taken in their order (column by column, values as they compare:
strings as strings, None first), each one that agrees in no domain with a row taken before. So the
result is a function of the input alone, whatever the order in which rows came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.data.value_order import value_order
from dbsp.kernels import first_of_each
from dbsp.operators.groups.group_step import GroupwiseOperator


@dataclass(frozen=True)
class ChoiceDomain(GroupwiseOperator):
    """`domains` has the columns of each; rows that share no domain's values do not exclude each
    other.

    A change recomputes, of its rows, all that agree with them in the columns common to all domains;
    with none in common that is everything.
    """

    domains: tuple[tuple[int, ...], ...]

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return True

    def groups(self, schema: Schema) -> tuple[int, ...]:
        return tuple(sorted(set.intersection(*map(set, self.domains))))

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        (schema,) = inputs

        def choose(batch: Batch) -> Batch:
            rows = batch.rows[batch.weights > 0]
            numbers = np.empty((len(rows), len(self.domains)), np.int64)
            for at, domain in enumerate(self.domains):
                _, inverse = np.unique(rows[:, list(domain)], axis=0, return_inverse=True)
                numbers[:, at] = inverse.reshape(-1)
            order = value_order(schema, rows, interner)
            if order is None:
                kept = first_of_each(numbers)
            else:
                kept = np.zeros(len(rows), np.bool_)
                kept[order] = first_of_each(np.ascontiguousarray(numbers[order]))
            rows = np.ascontiguousarray(rows[kept])
            return Batch(rows, np.ones(len(rows), np.int64))

        return choose
