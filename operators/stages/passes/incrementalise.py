"""incrementalise: replace every operator by operators that compute the delta of its output.

Q^D = D . Q . I          by the laws of `operators.stages.passes.laws`
"""

from __future__ import annotations

from dbsp.circuit.graph import Graph
from dbsp.circuit.rewriting import rewrite
from dbsp.operators.stages.passes.laws import LawApplication, incremental_form


def incrementalise(query: Graph, applications: list[LawApplication]) -> Graph:
    """Return the incremental circuit of a query of core operators.

    Appends the law applied to each node to `applications`.
    """
    return rewrite(query, incremental_form(applications))
