"""The three circuits of one query: as it is written, incremental, and as it is run.

1. the *query*: relational operators over whole Z-sets;
2. the *incremental* circuit, Q^D = D . Q . I rewritten by the rules
(`dbsp.operators.stages.passes.laws`), with
   integrals and delays as nodes of their own;
3. the *physical* circuit: the query optimised (see `dbsp.operators.stages.circuit_passes`), made
   incremental by the same rules, with integrals kept as shared traces, joins and aggregates fused with
   them, projections fused, work that does not depend on a scope moved out of it, dead nodes dropped.

All three run on the same scheduler and yield the same deltas. The query runs between an explicit I
at every input and D at every output: slow, and obviously right.
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
from dbsp.operators.stages.passes.expand_composites import expand
from dbsp.operators.stages.passes.incrementalise import incrementalise
from dbsp.operators.stages.passes.laws import LawApplication
from dbsp.operators.time.delay import Delay
from dbsp.operators.time.differentiate import Differentiate
from dbsp.operators.time.integrate import Integrate


def between_integrals(query: Graph) -> Graph:
    """D . Q . I with every operator as it is: recomputes everything in every tick."""
    lifted = pruned(rewrite(query, _lifted))
    lifted.named.clear()  # the streams are whole values here, and nothing keeps their integral
    return lifted


def incremental_circuit(query: Graph) -> tuple[Graph, list[LawApplication]]:
    """The incremental circuit of a query, and which rule was applied where."""
    firings: list[LawApplication] = []
    return pruned(incrementalise(expand(query, []), firings)), firings


def physical(query: Graph) -> Graph:
    """The circuit that is run for a query: optimised, made incremental, with traces for integrals."""
    circuit: Graph = CIRCUIT.run(query, PassContext())
    return circuit


def circuit(query: Graph, stage: Stage) -> Graph:
    """One of the three forms of a query."""
    if stage is Stage.QUERY:
        return query
    return incremental_circuit(query)[0] if stage is Stage.INCREMENTAL else physical(query)


def runnable(query: Graph, stage: Stage) -> Graph:
    """What a run of that stage steps: the query itself only runs between integrals."""
    return between_integrals(query) if stage is Stage.QUERY else circuit(query, stage)


def _lifted(rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
    """The node over whole values: I after what enters, D before what leaves."""
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
        # Inside, a value stands still over the iterations: I(delta_0(s)). The result is the last
        # value, which is the sum of its differences.
        return operator.rewritten(
            rewriting,
            node,
            inputs,
            lambda body, outer: rewriting.add(Integrate(), body.enter(outer)),
            lambda value: rewriting.add(Differentiate(), value),
        )
    if isinstance(operator, Delay) and node.graph.parent is not None:
        # z^-1(v) = I(z^-1(D(v))): so the scope can tell that the value stands still.
        delayed = rewriting.add(operator, graph=rewriting.graph_of(node.graph))
        (value,) = node.strict

        def close() -> None:
            change = rewriting.add(Differentiate(), rewriting.image(value))
            delayed.graph.connect(delayed, change)

        rewriting.at_cycles(close)
        return rewriting.add(Integrate(), delayed)
    return operator.copy(rewriting, node, inputs)
