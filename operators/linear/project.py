"""Project: some columns of each row, in a chosen order; rename: the same columns by other names.

    project(s)(y) = sum of s(x) over the rows x with x[columns] = y

Linear: its own incremental form. Weights of rows that become equal add up (a bag projection; follow
it by distinct for sets). Cost: sorting the delta.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dbsp.circuit.graph import Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.rewriting import Rewriting
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.kernels import project
from dbsp.operators.groups.aggregate import AccumulatedAggregate, Aggregate
from dbsp.operators.groups.group_step import Recomputed
from dbsp.operators.joins.join import DeltaJoin


@dataclass(frozen=True)
class Project(Operator):
    """Columns by index, under the given names; a column may occur more than once."""

    columns: tuple[int, ...]
    names: tuple[str, ...]
    whole: bool = False
    """Whether different rows stay different, as when every column of the input is kept."""

    @property
    def monotone(self) -> bool:
        return True

    @property
    def label(self) -> str:
        return f"Project {', '.join(self.names)}"

    def schema(self, *inputs: Schema) -> Schema:
        return Schema(self.names, tuple(inputs[0].types[c] for c in self.columns))

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return self.whole and inputs[0]

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        (stream,) = inputs
        if self.columns == tuple(range(stream.schema.arity)):
            return stream
        below = stream.node.operator
        if isinstance(below, DeltaJoin | Project):
            # One operator picks the columns; the one below is dropped unless others read it.
            columns = tuple(below.columns[c] for c in self.columns)
            whole = below.whole and self.whole
            fused = replace(below, columns=columns, names=self.names, whole=whole)
            return rewriting.add(fused, *stream.node.inputs)
        if (groups := _groups_of(below)) is not None:
            # There is one row per group, so the key columns tell rows apart.
            return rewriting.add(replace(self, whole=set(range(groups.key)) <= set(self.columns)), stream)
        return rewriting.add(self, stream)

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        columns = np.array(self.columns, np.int64)
        return lambda a: Batch(*project(a.rows, a.weights, columns))


def _groups_of(operator: Operator) -> Aggregate | None:
    """The aggregate that a lowered operator computes, if it is one."""
    if isinstance(operator, AccumulatedAggregate):
        return operator.aggregate
    if isinstance(operator, Recomputed) and isinstance(operator.operator, Aggregate):
        return operator.operator
    return None


@dataclass(frozen=True)
class Rename(Operator):
    """The same rows under other column names."""

    names: tuple[str, ...]

    def schema(self, *inputs: Schema) -> Schema:
        return Schema(self.names, inputs[0].types)

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return inputs[0]

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        return lambda a: a

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        return inputs[0]  # names are gone in a lowered graph; whoever needs them keeps them
