"""plan_joins: let the planner choose the joins that a circuit built by hand writes two at a time.

    e(a, b) ⋈ e(b, c) ⋈ e(a, c)    becomes    one multi-way join of the three atoms

Joins are bilinear and a multi-way join multiplies the same weights, so every plan of a tree of
joins has the same rows with the same weights. Without row counts, the shape of a tree decides: a
cyclic one gets multi-way joins of its cores, and an acyclic one keeps its joins as written. Joins
inside of scopes stay as written.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbsp.circuit.graph import Graph, Node, Stream
from dbsp.circuit.pass_manager import PassContext
from dbsp.circuit.rewriting import Rewriting, rewrite
from dbsp.operators.joins.join import Join
from dbsp.operators.planner.acyclic import reduce_ears
from dbsp.operators.planner.choose import ChosenPlan, choose
from dbsp.operators.planner.tree import BinaryNode, LeafNode, MultiwayNode, Tree, atoms_of, nodes
from dbsp.operators.stages.circuit_context import CircuitContext
from dbsp.operators.stages.join_strategy import JoinStrategy
from dbsp.operators.stages.passes.planned_joins import planned_joins
from dbsp.operators.stages.passes.written_joins import WrittenJoins, written_joins


def plan_joins(query: Graph, context: PassContext) -> Graph:
    """Replace the trees of joins for which the planner chooses another plan."""
    if not isinstance(context, CircuitContext) or context.strategy is JoinStrategy.AS_WRITTEN:
        return query
    if sum(isinstance(node.operator, Join) for node in query.nodes) < 2:
        return query
    plans = {}
    for written in reversed(written_joins(query)):
        plan = _choice(written, context.strategy)
        if plan is not None:
            plans[written.root] = written, plan.tree
            context.changes.append(_change(written, plan))
    if not plans:
        return query

    def form(rewriting: Rewriting, node: Node, inputs: Sequence[Stream]) -> Stream:
        if node not in plans:
            return node.operator.expand(rewriting, node, inputs)
        written, tree = plans[node]
        with rewriting.target.at(written.joins[-1].source):
            return planned_joins(rewriting, written, tree)

    return rewrite(query, form)


def _choice(written: WrittenJoins, strategy: JoinStrategy) -> ChosenPlan | None:
    """Return the plan of a tree, or None if its joins stay as written."""
    if strategy is JoinStrategy.AUTO and reduce_ears(written.conjunction.closed_edges).acyclic:
        return None
    plan = choose(written.conjunction, None, strategy.of_planner)
    found = list(nodes(plan.tree))
    parts = {atoms_of(node) for node in found if isinstance(node, BinaryNode)}
    same = not any(isinstance(node, MultiwayNode) for node in found) and parts == written.parts
    return None if same else plan


def _change(written: WrittenJoins, plan: ChosenPlan) -> str:
    joins = ", ".join(node.describe() for node in written.joins)
    return f"{joins}: replaced by {_shown(written, plan.tree)}; {'; '.join(plan.reasons)}"


def _shown(written: WrittenJoins, tree: Tree) -> str:
    match tree:
        case LeafNode(atom=at):
            atom = written.conjunction.atoms[at]
            return f"{atom.relation}({', '.join(name or '_' for name in atom.variables)})"
        case BinaryNode(left=left, right=right, on=on):
            key = f"on {', '.join(on)}" if on else "without a key"
            return f"join({_shown(written, left)}, {_shown(written, right)} {key})"
        case MultiwayNode(parts=parts):
            return f"multiway({', '.join(_shown(written, part) for part in parts)})"
