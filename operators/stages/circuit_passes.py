"""The passes from a query circuit to the physical circuit, in order.

    query -> core query -> incremental circuit -> lowered circuit -> physical circuit

The optional passes rewrite the query, before the laws of incrementalisation apply. There a join is
one node and not two terms, and the laws yield correct deltas for every equal query. A pass counts
the readers of a node, so each pass removes the nodes that it leaves without a reader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from dbsp.circuit.graph import Graph
from dbsp.circuit.listing import to_text
from dbsp.circuit.operator import Operator
from dbsp.circuit.pass_manager import AppliedPass, Pass, PassContext, PassManager, Representation
from dbsp.circuit.prune import prune
from dbsp.operators.joins.join import Join
from dbsp.operators.linear.filter import Filter
from dbsp.operators.linear.map import Map
from dbsp.operators.linear.project import Project
from dbsp.operators.stages.passes.cancel import cancel
from dbsp.operators.stages.passes.expand_composites import expand
from dbsp.operators.stages.passes.forget_rows import forget_rows
from dbsp.operators.stages.passes.fuse import fuse
from dbsp.operators.stages.passes.incrementalise import incrementalise
from dbsp.operators.stages.passes.laws import LawApplication
from dbsp.operators.stages.passes.plan_joins import plan_joins
from dbsp.operators.stages.passes.push_filters import push_filters
from dbsp.operators.stages.passes.push_projections import push_projections
from dbsp.operators.time.differentiate import Differentiate
from dbsp.operators.time.integrate import Integrate
from dbsp.operators.traces.column_orders import lower_circuit

CircuitPass: TypeAlias = Pass[Graph, Graph, Any]


def _circuit(name: str) -> Representation[Graph]:
    return Representation(name, Graph, to_text, lambda graph: sum(1 for _ in graph.walk()))


QUERY = _circuit("query circuit")
CORE = _circuit("query circuit of core operators")
INCREMENTAL = _circuit("incremental circuit")
LOWERED = _circuit("lowered circuit")
PHYSICAL = _circuit("physical circuit")


def pruned(graph: Graph) -> Graph:
    """Return the circuit without the nodes that no input or output depends on."""
    return prune(graph, [node for node in graph.nodes if node.operator.is_port])


Rewrites: TypeAlias = Callable[[Graph, list[str]], Graph]


def _expanded(query: Graph, context: PassContext) -> Graph:
    return pruned(expand(query, context.changes))


def _changing(function: Rewrites, *changed: type[Operator]) -> Callable[[Graph, PassContext], Graph]:
    """Return a pass that changes only nodes of some operators, and reports every change."""

    def apply(query: Graph, context: PassContext) -> Graph:
        if not any(isinstance(node.operator, changed) for node in query.walk()):
            return query
        before = len(context.changes)
        rewritten = function(query, context.changes)
        return rewritten if len(context.changes) == before else pruned(rewritten)

    return apply


def _planned(query: Graph, context: PassContext) -> Graph:
    planned = plan_joins(query, context)
    return planned if planned is query else pruned(planned)


def _incremental(query: Graph, context: PassContext) -> Graph:
    applications: list[LawApplication] = []
    incremental = pruned(incrementalise(query, applications))
    context.changes += map(str, applications)
    return incremental


# fmt: off
CIRCUIT_PASSES: tuple[CircuitPass, ...] = (
    Pass("expand", QUERY, CORE, "replace operators that are defined by other operators", _expanded),
    Pass("cancel", CORE, CORE, "drop differences of integrals and integrals of differences",
         _changing(cancel, Differentiate, Integrate), optional=True),
    Pass("push_filters", CORE, CORE, "move conditions towards the inputs",
         _changing(push_filters, Filter), optional=True),
    Pass("plan_joins", CORE, CORE, "let the planner choose the joins of a circuit that is built by hand",
         _planned, optional=True),
    Pass("push_projections", CORE, CORE, "drop unread columns before rows are stored",
         _changing(push_projections, Join, Project), optional=True),
    Pass("fuse", CORE, CORE, "merge chains of filters and chains of maps into one operator",
         _changing(fuse, Filter, Map), optional=True),
    Pass("incrementalise", CORE, INCREMENTAL, "apply the laws that turn an operator on Z-sets into one on "
         "their deltas", _incremental),
    Pass("lower", INCREMENTAL, LOWERED, "choose physical operators, and store integrals as shared traces",
         lambda circuit, _: lower_circuit(circuit)),
    Pass("prune", LOWERED, PHYSICAL, "drop the nodes that no input or output depends on",
         lambda circuit, _: pruned(circuit)),
    Pass("forget_rows", PHYSICAL, PHYSICAL, "drop the rows of traces that a watermark has passed and that no "
         "node reads", lambda circuit, context: forget_rows(circuit, context.changes), optional=True),
)
# fmt: on

CIRCUIT: PassManager[PassContext] = PassManager(CIRCUIT_PASSES)


def optimise(query: Graph, context: PassContext | None = None) -> tuple[Graph, list[AppliedPass]]:
    """Return the query after the passes before `incrementalise`, and the changes of each pass.

    Only with a `CircuitContext` may the joins change.
    """
    context = PassContext() if context is None else context
    last = [circuit_pass.name for circuit_pass in CIRCUIT_PASSES if circuit_pass.gives is CORE][-1]
    optimised: Graph = CIRCUIT.run(query, context, until=last)
    return optimised, list(context.applied.values())
