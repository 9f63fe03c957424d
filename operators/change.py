"""Change: how a function of a Z-set answers to a delta; the incremental form of what is not linear.

    change(old, delta) = f(old + delta) - f(old)         with old = z^-1(I(delta))

This is D . f . I by definition, written with the integral of the past. The explicit form evaluates f
twice on everything; the physical one looks at the touched groups only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dbsp.batch import Batch
from dbsp.graph import Node, Stream
from dbsp.interner import Interner
from dbsp.kernels import concatenate
from dbsp.operator import Operator
from dbsp.rewriting import Rewriting
from dbsp.schema import Schema


@dataclass(frozen=True)
class Change(Operator):
    """The change of a one-input operator: inputs are the old integral and the delta."""

    operator: Operator

    @property
    def label(self) -> str:
        return f"Change of {self.operator.label}"

    def schema(self, *inputs: Schema) -> Schema:
        return self.operator.schema(inputs[1])

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return self.operator.yields_set(inputs[1:])

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        f = self.operator.function(interner, inputs[1])

        def change(old: Batch, delta: Batch) -> Batch:
            new = Batch(*concatenate(old.rows, old.weights, delta.rows, delta.weights, 1))
            after, before = f(new), f(old)
            return Batch(*concatenate(after.rows, after.weights, before.rows, before.weights, -1))

        return change

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        return self.operator.physical(rewriting, node, inputs[1:])
