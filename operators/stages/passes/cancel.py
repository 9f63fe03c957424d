"""cancel: D and I are inverse to each other.

D(I(s)) = s,   I(D(s)) = s          (arXiv 2203.16684, theorem 2.20)
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.rewriting import Rewriting, rewrite
from dbsp.operators.time.differentiate import Differentiate
from dbsp.operators.time.integrate import Integrate


def cancel(query: Graph, changes: list[str]) -> Graph:
    """Drop differences of integrals and integrals of differences."""

    def form(rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        operator = node.operator
        if isinstance(operator, Differentiate | Integrate):
            below = inputs[0].node
            other = Integrate if isinstance(operator, Differentiate) else Differentiate
            if isinstance(below.operator, other):
                changes.append(f"{node.describe()} cancels {below.describe()}")
                return below.inputs[0]
        return operator.expand(rewriting, node, inputs)

    return rewrite(query, form)
