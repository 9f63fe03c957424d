"""Change: how a function of a Z-set responds to a delta; the form of operators that are not linear.

    change(old, delta) = f(old + delta) - f(old)         with old = z^-1(I(delta))

This is D . f . I by definition, written with the integral before the tick. The explicit form
evaluates f twice on all rows; the physical form visits only the groups with changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dbsp.circuit.graph import Node, Stream
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.errors import SchemaError
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.traces.incremental_form import IncrementalForm


@dataclass(frozen=True)
class Change(IncrementalForm):
    """The change of an operator; its inputs are the old integrals, then the deltas."""

    def schema(self, *inputs: Schema) -> Schema:
        old, deltas = inputs[: len(inputs) // 2], inputs[len(inputs) // 2 :]
        if [schema.types for schema in old] != [schema.types for schema in deltas]:
            raise SchemaError(
                "expected the old integrals and then the deltas, of the same types; got "
                f"({', '.join(f'({schema.describe()})' for schema in inputs)})",
                code="schema-mismatch",
            )
        return self.operator.checked_schema(*deltas)

    def yields_set(self, inputs: Sequence[bool]) -> bool:
        return self.operator.yields_set(inputs[len(inputs) // 2 :])

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        n = len(inputs) // 2
        f = self.operator.zset_function(interner, *inputs[n:])

        def change(*batches: Batch) -> Batch:
            old = batches[:n]
            new = [a.plus(delta) for a, delta in zip(old, batches[n:], strict=True)]
            after, before = f(*new), f(*old)
            return after.plus(before, -1)

        return change

    def delta_columns(self, columns: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
        return columns[len(columns) // 2 :]

    def deltas(self, node: Node) -> Sequence[Stream]:
        return node.inputs[len(node.inputs) // 2 :]
