"""Outer joins: a join that keeps rows without a partner, with None for the missing side.

    A left join B   =  (A join B)  +  pad(A antijoin B)
    A right join B  =  (A join B)  +  pad(B antijoin A)
    A full join B   =  (A join B)  +  pad(A antijoin B)  +  pad(B antijoin A)

With a condition on pairs, as in ON of SQL, A join B are the pairs for which it is true, and A
antijoin B are the rows of A whose pairs have no positive sum of weights.

A composition of linear operators, joins and antijoins, so its incremental form follows by the chain
rule, also inside nested scopes. When a row gets its first partner, its padded row is retracted in
the same tick. As in an antijoin, a key is present while the sum of the weights of its rows is
positive. Cost: that of a join and an antijoin, O(delta * log state) plus the matches. When a key
gets its first partner or loses its last one, all rows of that key on the other side are visited,
too. A condition adds a trace of the rows that are in a pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from dbsp.circuit.composite import Add, Composite, T
from dbsp.circuit.field_ranges import COLUMN, EITHER_COLUMN, SECOND_COLUMN, TWO_INPUTS
from dbsp.data.schema import Schema
from dbsp.data.types import Type
from dbsp.expressions import Expression
from dbsp.expressions.readable_text import readable
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.joins.join import Join, joined_on
from dbsp.operators.joins.join_columns import JoinColumns
from dbsp.operators.joins.semijoin import Antijoin
from dbsp.operators.linear.filter import Filter
from dbsp.operators.linear.pad import Pad
from dbsp.operators.linear.project import Project
from dbsp.operators.linear.union import Union, Widen


@dataclass(frozen=True)
class OuterJoin(Composite):
    """A join on `left_key` and `right_key`; `columns` as in `Join`.

    `left` and `right` say on which side rows without a partner are kept. A key column of the left
    side holds the value of the key even if the left row is missing.
    """

    input_counts = TWO_INPUTS

    left_key: tuple[int, ...] = field(metadata=COLUMN)
    right_key: tuple[int, ...] = field(metadata=SECOND_COLUMN)
    columns: tuple[int, ...] = field(metadata=EITHER_COLUMN)
    names: tuple[str, ...]
    left: bool
    right: bool
    where: Expression | None = field(default=None, compare=False)
    """A condition on pairs, over the names of `JoinColumns`; a row has no other partners."""
    identity: tuple[Any, ...] = field(init=False, repr=False)
    """The condition as equality compares it: `==` on expressions builds another expression."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "identity", () if self.where is None else self.where.key)

    @property
    def name(self) -> str:
        return {(True, False): "LeftJoin", (False, True): "RightJoin"}.get(
            (self.left, self.right), "FullJoin"
        )

    @property
    def label(self) -> str:
        return f"{self.name} -> {', '.join(self.names)}"

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        left, right = columns
        pairs = zip(self.left_key, self.right_key, strict=True)
        text = joined_on(self.name, ((left[a], right[b]) for a, b in pairs))
        return text if self.where is None else f"{text}, where {readable(self.where)}"

    def compose(self, add: Add[T], *inputs: T) -> T:
        a, b = inputs
        types = self._types(a.schema, b.schema)
        if self.where is None:
            parts = [add(Join(self.left_key, self.right_key, self.columns, self.names), a, b)]
            without_left = add(Antijoin(self.left_key, self.right_key), a, b) if self.left else None
            without_right = add(Antijoin(self.right_key, self.left_key), b, a) if self.right else None
        else:
            offered = JoinColumns.of(a.schema, b.schema, self.right_key)
            names, width = tuple(offered.places), a.schema.arity
            joined = add(Join(self.left_key, self.right_key, offered.columns(names), names), a, b)
            pairs = add(Filter(self.where), joined)
            parts = [
                add(Project(tuple(v if v >= 0 else width - v - 1 for v in self.columns), self.names), pairs)
            ]
            without_left = _unpaired(add, a, pairs, 0) if self.left else None
            without_right = _unpaired(add, b, pairs, width) if self.right else None
        if without_left is not None:
            columns = tuple(v if v >= 0 else None for v in self.columns)
            parts.append(add(Pad(columns, types, self.names), without_left))
        if without_right is not None:
            partner = dict(zip(self.left_key, self.right_key, strict=True))
            columns = tuple(partner.get(v) if v >= 0 else -v - 1 for v in self.columns)
            parts.append(add(Pad(columns, types, self.names), without_right))
        return add(Union(), *(p if p.schema.types == types else add(Widen(types), p) for p in parts))

    def _types(self, left: Schema, right: Schema) -> tuple[Type, ...]:
        """Return the types of the result: optional for a side that may be missing."""
        partner = dict(zip(self.left_key, self.right_key, strict=True))

        def of(v: int) -> Type:
            if v < 0:
                type_ = right.types[-v - 1]
                return type_.optional() if self.left else type_
            type_ = left.types[v]
            may_lack = self.right and (v not in partner or right.types[partner[v]].nullable)
            return type_.optional() if may_lack else type_

        return tuple(map(of, self.columns))


def _unpaired(add: Add[T], side: T, pairs: T, start: int) -> T:
    """Return the rows of a side that are in no pair; its columns in `pairs` begin at `start`."""
    rows = tuple(range(side.schema.arity))
    paired = add(Project(tuple(start + column for column in rows), side.schema.names), pairs)
    return add(Antijoin(rows, rows), side, paired)
