"""Terms: the change of a multilinear operator as a sum, one term per input.

    D(a1 x ... x an) = sum over i of
        new(a1) x ... x new(a(i-1)) x d(ai) x old(a(i+1)) x ... x old(an)
    new(a) = I(d(a)),   old(a) = z^-1(I(d(a)))

For a join of two this is  d(a) x old(b) + new(a) x d(b). The i-th input of a `Terms` node is the
i-th term: a node of the operator itself that reads integrals, one delta, and delayed integrals. The
physical form is one node that looks up the deltas in traces.
Reference: Budiu et al., arXiv 2203.16684, theorem 3.4; Ammar et al., VLDB 2018, section 3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dbsp.circuit.field_ranges import SOME_INPUTS
from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.rewriting import Rewriting
from dbsp.data.batch import Batch
from dbsp.data.interner import Interner
from dbsp.data.schema import Schema
from dbsp.errors import CircuitError, counted
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.linear.union import Union, same_types
from dbsp.operators.time.integrate import Integrate, old_integral
from dbsp.operators.traces.incremental_form import IncrementalForm


@dataclass(frozen=True)
class Terms(IncrementalForm):
    """The sum of the delta terms of a multilinear operator; the inputs are the terms, in order."""

    input_counts = SOME_INPUTS

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
        for term in inputs:
            if term.node.operator != self.operator or len(term.node.inputs) != len(inputs):
                raise CircuitError(
                    f"expected terms of {self.operator.name} over {counted(len(inputs), 'stream')}, "
                    f"got {term.node.describe()}",
                    code="invalid-circuit-file",
                )

    def function(self, interner: Interner, *inputs: Schema) -> Callable[..., Batch]:
        return Union().function(interner, *inputs)

    def deltas(self, node: Node) -> Sequence[Stream]:
        return [term.node.inputs[i] for i, term in enumerate(node.inputs)]

    def over(self, rewriting: Rewriting, deltas: Sequence[Stream]) -> Stream:
        """Add the terms over the deltas of the operator's inputs, and their sum."""
        terms = []
        for i, delta in enumerate(deltas):
            new = [rewriting.add(Integrate(), before) for before in deltas[:i]]
            old = [old_integral(rewriting, after) for after in deltas[i + 1 :]]
            terms.append(rewriting.add(self.operator, *new, delta, *old))
        return rewriting.add(self, *terms)
