"""Semijoin and antijoin: the rows of A that have, or do not have, a partner in B.

    (A semijoin B)(x) = A(x) * distinct(project(B))(key(x))
    (A antijoin B)    = A - (A semijoin B)

B counts as a set; the weights of A are kept. Both are compositions of linear operators, one join
and one distinct, so their incremental form follows by the chain rule, also inside nested scopes.
The antijoin is negation: `!b(x)` in a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from dbsp.circuit.field_ranges import COLUMN, SECOND_COLUMN, TWO_INPUTS
from dbsp.circuit.graph import Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.rewriting import Rewriting
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.kernels import project
from dbsp.operators.groups.distinct import Distinct
from dbsp.operators.groups.distinct_steps import positive
from dbsp.operators.joins.join import Join, joined_on
from dbsp.operators.linear.project import Project
from dbsp.operators.linear.union import Minus


@dataclass(frozen=True)
class Semijoin(Operator):
    """The rows of the left input whose key occurs in the right one."""

    input_counts = TWO_INPUTS

    left_key: tuple[int, ...] = field(metadata=COLUMN)
    right_key: tuple[int, ...] = field(metadata=SECOND_COLUMN)

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        left, right = columns
        pairs = zip(self.left_key, self.right_key, strict=True)
        return joined_on(self.name, ((left[a], right[b]) for a, b in pairs))

    def column_texts(self, columns: Sequence[Sequence[str]]) -> Sequence[str]:
        return columns[0]

    def schema(self, *inputs: Schema) -> Schema:
        left, _ = inputs
        self._join(left).checked_schema(*inputs)  # check that the types of the key columns agree
        return left

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    def _join(self, left: Schema) -> Join:
        return Join(self.left_key, self.right_key, tuple(range(left.arity)), left.names)

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        left, right = inputs
        key = np.array(self.right_key, np.int64)
        keys = Schema(_numbered(self.right_key), tuple(right.types[c] for c in self.right_key))
        join = Join(self.left_key, tuple(range(keys.arity)), tuple(range(left.arity)), left.names)
        partnered = join.function(interner, left, keys)
        return lambda a, b: partnered(a, positive(Batch(*project(b.rows, b.weights, key))))

    def expand(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        left, right = inputs
        keys = right
        if self.right_key != tuple(range(right.schema.arity)):
            keys = rewriting.add(Project(self.right_key, _numbered(self.right_key)), right)
        keys = rewriting.add(Distinct(), keys)
        key = tuple(range(len(self.right_key)))
        columns = tuple(range(left.schema.arity))
        return rewriting.add(Join(self.left_key, key, columns, left.schema.names), left, keys)


@dataclass(frozen=True)
class Antijoin(Semijoin):
    """The rows of the left input whose key does not occur in the right one."""

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        partnered = super().function(interner, *inputs)
        minus = Minus().function(interner, inputs[0], inputs[0])
        return lambda a, b: minus(a, partnered(a, b))

    def expand(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        partnered = super().expand(rewriting, node, inputs)
        return rewriting.add(Minus(contained=True), inputs[0], partnered)


def _numbered(key: Sequence[int]) -> tuple[str, ...]:
    """Return distinct names for key columns; a column may occur several times."""
    return tuple(f"k{i}" for i in range(len(key)))
