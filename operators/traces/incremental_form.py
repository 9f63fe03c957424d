"""IncrementalForm: an operator that shows how another operator responds to a delta.

The rules of incrementalisation (`dbsp.operators.stages.passes.laws`) express the change of an
operator that is not linear with integrals and delays, so that it can be read, drawn and run. Such a
node stores the original operator and finds the deltas of its inputs. Lowering needs only these: the
integrals and delays that the form reads are not lowered, because the operator uses traces instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.circuit.graph import Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.rewriting import Rewriting
from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True)
class IncrementalForm(Operator):
    """The explicit incremental form of `operator`; by default its inputs are deltas."""

    operator: Operator

    @property
    def label(self) -> str:
        return f"Change of {self.operator.label}"

    def caption(self, columns: Sequence[Sequence[str]]) -> str:
        return f"Change of {self.operator.caption(self.delta_columns(columns))}"

    def delta_columns(self, columns: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
        """Of the columns of each input of the form, those of each input of the operator."""
        return columns

    def column_texts(self, columns: Sequence[Sequence[str]]) -> Sequence[str] | None:
        return self.operator.column_texts(self.delta_columns(columns))

    @property
    def first_argument(self) -> int | None:
        return self.operator.first_argument

    def deltas(self, node: Node) -> Sequence[Stream]:
        """The delta of each input of the operator."""
        return node.inputs

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        """Lower the operator over its deltas, `inputs`."""
        return self.operator.physical(rewriting, node, inputs)
