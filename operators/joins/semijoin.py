"""Semijoin and antijoin: the rows of A that have, or do not have, a partner in B.

    (A semijoin B)(x) = A(x) * distinct(project(B))(key(x))
    (A antijoin B)    = A - (A semijoin B)

B counts as a set; the weights of A are kept. The antijoin is negation: `!b(x)` in a rule. Outside
of nested scopes each of them is one node (see `dbsp.operators.joins.delta_semijoin`). Inside a
scope the physical form is the composition above, of a projection, a distinct, a join and a minus:
these have incremental forms for every iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import ClassVar

import numpy as np

from dbsp.circuit.field_ranges import COLUMN, SECOND_COLUMN, TWO_INPUTS
from dbsp.circuit.graph import Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.rewriting import Rewriting
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.groups.distinct import Distinct
from dbsp.operators.groups.distinct_steps import positive
from dbsp.operators.joins.delta_semijoin import DeltaSemijoin
from dbsp.operators.joins.join import Join, joined_on, null_mismatch_columns, shared_key_orders
from dbsp.operators.linear.project import Project
from dbsp.operators.linear.union import Minus
from dbsp.operators.traces.arrange import arranged, order_of


@dataclass(frozen=True)
class Semijoin(Operator):
    """The rows of the left input whose key occurs in the right one."""

    input_counts = TWO_INPUTS

    present: ClassVar[bool] = True
    """Whether the result has the rows with a partner, and not those without one."""

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
        columns = tuple(range(left.arity))
        # Check that the types of the key columns agree.
        Join(self.left_key, self.right_key, columns, left.names).checked_schema(*inputs)
        return left

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    @property
    def law(self) -> str:
        return "semijoin"

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        left, right = inputs
        keys = self.keys_of(right)
        key = np.array(keys.columns, np.int64)
        partnered = self.join_with(left).function(interner, left, keys.checked_schema(right))
        return lambda a, b: partnered(a, positive(b.projected(key)))

    def keys_of(self, right: Schema) -> Project:
        """Return the projection of the right input to its key.

        The columns keep their order: a key of all columns is the input itself.
        """
        columns = tuple(sorted(self.right_key))
        names = tuple(right.names[column] for column in columns)
        if len(set(columns)) < len(columns):  # a column may occur several times
            names = tuple(f"k{i}" for i in range(len(columns)))
        return Project(columns, names)

    def join_with(self, left: Schema) -> Join:
        """Return the join of the left input with the keys that keeps the columns of `left`."""
        pairs = sorted(zip(self.right_key, self.left_key, strict=True))
        key = tuple(column for _, column in pairs)
        return Join(key, tuple(range(len(key))), tuple(range(left.arity)), left.names)

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        left, right = inputs
        keys = self.keys_of(right.schema).physical(rewriting, node, [right])
        if left.graph.parent is not None or keys.graph.parent is not None:
            return self._composed(rewriting, node, left, keys)
        join = self.join_with(left.schema)
        pairs = sorted(zip(join.left_key, join.right_key, strict=True))
        null_mismatch = null_mismatch_columns(left.schema, keys.schema, pairs)
        by_left, by_keys, realign = shared_key_orders(rewriting, left, keys, pairs, null_mismatch)
        a = arranged(rewriting, left, by_left)
        b = arranged(rewriting, keys, by_keys)
        columns = tuple(int(column) for column in np.argsort(order_of(a)))
        operator = DeltaSemijoin(
            self.present, len(pairs), columns, left.schema.names, True, null_mismatch, realign
        )
        return rewriting.add(operator, a, b)

    def _composed(self, rewriting: Rewriting, node: Node, left: Stream, keys: Stream) -> Stream:
        """Return the rows with a partner, of physical operators of any scope."""
        distinct = Distinct().physical(rewriting, node, [keys])
        return self.join_with(left.schema).physical(rewriting, node, [left, distinct])


@dataclass(frozen=True)
class Antijoin(Semijoin):
    """The rows of the left input whose key does not occur in the right one."""

    present = False

    @property
    def law(self) -> str:
        return "antijoin"

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        partnered = super().function(interner, *inputs)
        minus = Minus().function(interner, inputs[0], inputs[0])
        return lambda a, b: minus(a, partnered(a, b))

    def _composed(self, rewriting: Rewriting, node: Node, left: Stream, keys: Stream) -> Stream:
        partnered = super()._composed(rewriting, node, left, keys)
        return rewriting.add(Minus(contained=True), left, partnered)
