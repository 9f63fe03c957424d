"""IncrementalForm: an operator of the incremental circuit that shows how another one answers a delta.

The rules of incrementalisation (`dbsp.operators.stages.passes.laws`) write the change of an operator that is
not linear with integrals and delays, so that it can be read, drawn and run. Such a node keeps the
operator that it is the form of, and the deltas of the operator's inputs. Lowering asks for no more:
the integrals and delays that the form reads are not lowered with it, because the operator puts
traces in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbsp.circuit.graph import Node, Stream
from dbsp.circuit.operator import Operator
from dbsp.circuit.rewriting import Rewriting


@dataclass(frozen=True)
class IncrementalForm(Operator):
    """The incremental form of `operator`, written out; the inputs are deltas unless `deltas` differs."""

    operator: Operator

    @property
    def label(self) -> str:
        return f"Change of {self.operator.label}"

    def deltas(self, node: Node) -> Sequence[Stream]:
        """The delta of each input of the operator."""
        return node.inputs

    def physical(self, rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        """The operator's own physical form over its deltas, which `inputs` are."""
        return self.operator.physical(rewriting, node, inputs)
