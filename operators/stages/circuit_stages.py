"""The stages of one query: as written, incremental, physical, and distributed.

1. the *query*: relational operators over complete Z-sets;
2. the *incremental* circuit: Q^D = D . Q . I, rewritten by the laws in
   `dbsp.operators.stages.passes.laws`, with integrals and delays as separate nodes;
3. the *physical* circuit: the optimised query (see `dbsp.operators.stages.circuit_passes`), made
   incremental by the same laws. Integrals are shared traces, fused with joins and aggregates;
   projections are fused; work that does not depend on a scope is outside of it; dead nodes are
   removed;
4. the *distributed* circuit: the physical one with exchanges between its nodes, for several shards
   (see `dbsp.operators.stages.passes.distribute`).

All of them run on the same scheduler and yield the same deltas. The query runs between an explicit
I at every input and D at every output, which is slow and obviously correct.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.pass_manager import PassContext
from dbsp.circuit.rewriting import Rewriting, rewrite
from dbsp.circuit.stage import Stage
from dbsp.operators.ports.constant import Constant
from dbsp.operators.ports.input import Input
from dbsp.operators.ports.inspect import Inspect
from dbsp.operators.ports.output import Output
from dbsp.operators.recursion.fixpoint import Fixpoint
from dbsp.operators.stages.circuit_passes import CIRCUIT, pruned
from dbsp.operators.stages.passes.distribute import distribute
from dbsp.operators.stages.passes.expand_composites import expand
from dbsp.operators.stages.passes.incrementalise import incrementalise
from dbsp.operators.stages.passes.laws import LawApplication
from dbsp.operators.time.delay import Delay
from dbsp.operators.time.differentiate import Differentiate
from dbsp.operators.time.integrate import Integrate


def between_integrals(query: Graph) -> Graph:
    """Return D . Q . I with unchanged operators, which recomputes everything in every tick."""
    lifted = pruned(rewrite(query, _lifted))
    lifted.origins.clear()
    lifted.named.clear()  # the streams are complete values here, and no node keeps their integral
    return lifted


def incremental_circuit(query: Graph) -> tuple[Graph, list[LawApplication]]:
    """Return the incremental circuit of a query, and the applications of laws."""
    applications: list[LawApplication] = []
    return pruned(incrementalise(expand(query, []), applications)), applications


def physical(query: Graph, context: PassContext | None = None) -> Graph:
    """Return the physical circuit of a query: optimised, incremental, with traces for integrals.

    Only with a `CircuitContext` may the joins change.
    """
    circuit: Graph = CIRCUIT.run(query, PassContext() if context is None else context)
    return circuit


def circuit(query: Graph, stage: Stage, context: PassContext | None = None) -> Graph:
    """Return one of the forms of a query; the context is that of `physical`."""
    if stage is Stage.QUERY:
        return query
    if stage is Stage.INCREMENTAL:
        return incremental_circuit(query)[0]
    lowered = physical(query, context)
    return lowered if stage is Stage.PHYSICAL else distribute(lowered)


def runnable(query: Graph, stage: Stage, context: PassContext | None = None) -> Graph:
    """Return the circuit that a run of this stage steps: a query runs between integrals."""
    return between_integrals(query) if stage is Stage.QUERY else circuit(query, stage, context)


def _lifted(rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
    """Return the node over complete values: I after inputs, D before outputs."""
    operator = node.operator
    if isinstance(operator, Input | Constant):
        return rewriting.add(Integrate(), operator.copy(rewriting, node, inputs))
    if isinstance(operator, Output):
        return operator.copy(rewriting, node, [rewriting.add(Differentiate(), inputs[0])])
    if operator.law == "changes":
        changes = [rewriting.add(Differentiate(), stream) for stream in inputs]
        return rewriting.add(Integrate(), operator.copy(rewriting, node, changes))
    if isinstance(operator, Inspect):
        return operator.lifted(rewriting, node, inputs)
    if isinstance(operator, Fixpoint):
        # Inside, an entering value is constant over the iterations: I(delta_0(s)). The result is
        # the last value, which is the sum of its differences.
        return operator.rewritten(
            rewriting,
            node,
            inputs,
            lambda body, outer: rewriting.add(Integrate(), body.enter(outer)),
            lambda value: rewriting.add(Differentiate(), value),
        )
    if isinstance(operator, Delay) and node.graph.parent is not None:
        # z^-1(v) = I(z^-1(D(v))): so the scope can detect that the value does not change.
        delayed = rewriting.add(operator, graph=rewriting.graph_of(node.graph))
        (value,) = node.strict

        def close() -> None:
            change = rewriting.add(Differentiate(), rewriting.image(value))
            delayed.graph.connect(delayed, change)

        rewriting.at_cycles(close)
        return rewriting.add(Integrate(), delayed)
    return operator.copy(rewriting, node, inputs)
