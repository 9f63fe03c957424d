"""expand: replace composite operators by the operators that define them.

    A semijoin B = project(A join distinct(project(B)))      and so on, see each operator's `expand`

Equal nodes over equal inputs become one node, as in every rewriting.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.rewriting import Rewriting, rewrite


def expand(query: Graph, changes: list[str]) -> Graph:
    """Return the query with every operator in terms of core operators."""

    def form(rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        image = node.operator.expand(rewriting, node, inputs)
        if image.node.operator.name != node.operator.name:
            changes.append(f"{node.describe()} becomes {image.node.operator.name}")
        return image

    return rewrite(query, form)
