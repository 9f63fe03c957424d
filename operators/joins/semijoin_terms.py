"""SemijoinTerms: the change of a semijoin or antijoin as two terms.

    D(a semijoin b) = D(a) semijoin I(D(b)) + z^-1(I(D(a))) join D(keys)
    D(a antijoin b) = D(a) antijoin I(D(b)) - z^-1(I(D(a))) join D(keys)
    keys = distinct(project(b))

The first input of a `SemijoinTerms` node is the operator itself, over the delta of A and the new
integral of B. The second one is a join of the old integral of A with the keys of B that appear or
disappear. The physical form is one node that looks up the deltas in traces. Reference: Budiu et
al., arXiv 2203.16684, theorem 3.4 and proposition 4.7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dbsp.circuit.field_ranges import TWO_INPUTS
from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.rewriting import Rewriting
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.errors import CircuitError, InvariantError
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.groups.distinct import Distinct
from dbsp.operators.joins.join import Join
from dbsp.operators.joins.semijoin import Semijoin
from dbsp.operators.linear.union import Minus, Union, same_types
from dbsp.operators.time.change import Change
from dbsp.operators.time.integrate import Integrate, old_integral
from dbsp.operators.traces.incremental_form import IncrementalForm


@dataclass(frozen=True)
class SemijoinTerms(IncrementalForm):
    """The sum of the delta terms of a semijoin, or their difference for an antijoin."""

    input_counts = TWO_INPUTS

    @property
    def label(self) -> str:
        return f"Terms of {self.operator.label}"

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        return f"Sum of the terms of {self.operator.name}"

    def column_texts(self, columns: Sequence[Sequence[str]]) -> Sequence[str]:
        return columns[0]

    def schema(self, *inputs: Schema) -> Schema:
        return same_types(*inputs)

    def check_inputs(self, graph: Graph, inputs: Sequence[Stream]) -> None:
        restricted, joined = (stream.node for stream in inputs)
        if not (
            isinstance(self.operator, Semijoin)
            and restricted.operator == self.operator
            and isinstance(restricted.inputs[1].node.operator, Integrate)
            and isinstance(joined.operator, Join)
        ):
            raise CircuitError(
                f"expected the terms of {self.operator.name}, got {restricted.describe()} and "
                f"{joined.describe()}",
                code="invalid-circuit-file",
            )

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        total = Union() if self._semijoin.present else Minus()
        return total.function(interner, *inputs)

    def deltas(self, node: Node) -> Sequence[Stream]:
        a, b = node.inputs[0].node.inputs
        return [a, b.node.inputs[0]]

    def over(self, rewriting: Rewriting, a: Stream, b: Stream) -> Stream:
        """Add the terms over the deltas of both inputs, and their sum."""
        semijoin = self._semijoin
        restricted = rewriting.add(semijoin, a, rewriting.add(Integrate(), b))
        keys = semijoin.keys_of(b.schema)
        if keys.columns != tuple(range(b.schema.arity)):
            b = rewriting.add(keys, b)
        changed = rewriting.add(Change(Distinct()), old_integral(rewriting, b), b)
        joined = rewriting.add(semijoin.join_with(a.schema), old_integral(rewriting, a), changed)
        return rewriting.add(self, restricted, joined)

    @property
    def _semijoin(self) -> Semijoin:
        if not isinstance(self.operator, Semijoin):
            raise InvariantError(
                f"expected a semijoin or antijoin, got {self.operator.name}; this is a defect of dbsp"
            )
        return self.operator
