"""Classes: the least equivalence that has given pairs, as the class of every value.

    classes(s) = { (x, m(x)) : x in a pair of s }      m(x) the least value that s connects x with

A pair counts if its weight is positive. The equivalence itself, on the values that occur in s, is the join
of the result with itself on m: n values have n rows here, and up to n^2 rows there. "Least" is by the codes
of the values, which says nothing about the order of strings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dbsp.batch import Batch
from dbsp.errors import SchemaError
from dbsp.interner import Interner
from dbsp.kernels import consolidate, least_members
from dbsp.operators.groups import OfGroups
from dbsp.schema import Schema


@dataclass(frozen=True)
class Classes(OfGroups):
    """Each value of two columns of one type, with the least value of its class."""

    def schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        if schema.arity != 2 or schema.types[0] != schema.types[1]:
            raise SchemaError(f"an equivalence is made of pairs of values of one type, not of ({schema})")
        return schema

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return True

    def groups(self, schema: Schema) -> tuple[int, ...]:
        return ()

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        return classes_of


def classes_of(batch: Batch) -> Batch:
    """The values in pairs of positive weight with the least of their class. O(n log n)."""
    pairs = batch.rows[batch.weights > 0]
    values, numbers = np.unique(pairs, return_inverse=True)
    least = least_members(np.ascontiguousarray(numbers.reshape(pairs.shape)), len(values))
    rows = np.column_stack((values, values[least]))
    return Batch(*consolidate(np.ascontiguousarray(rows), np.ones(len(rows), np.int64)))
