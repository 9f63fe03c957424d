"""incrementalise: every operator becomes the operators that compute the delta of its output.

Q^D = D . Q . I          by the rules of `operators.stages.passes.laws`
"""

from __future__ import annotations

from dbsp.circuit.graph import Graph
from dbsp.circuit.rewriting import rewrite
from dbsp.operators.stages.passes.laws import LawApplication, incremental_form


def incrementalise(query: Graph, firings: list[LawApplication]) -> Graph:
    """The incremental circuit of a query of core operators; `firings` get the rule applied to each node."""
    return rewrite(query, incremental_form(firings))
