"""The choice of a plan for a conjunction: two-way joins, a multi-way join, or both.

With counted relations the cheapest plan that the search finds (`search`); without, by the shape of the
query (`shape`): acyclic queries are joined two at a time, since a good tree never makes much more than
the result (Yannakakis, VLDB 1981), cyclic cores at once, since every tree may make more than the largest
possible result (Ngo, Re and Rudra, SIGMOD Record 2013).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dbsp.compiler.planner.acyclic import Reduction, reduce_ears
from dbsp.compiler.planner.bounds import agm_bound, decompose, fractional_cover
from dbsp.compiler.planner.combine import Combiner, CostedPlan, NodeEstimate
from dbsp.compiler.planner.conjunction import Conjunction
from dbsp.compiler.planner.costs import Cost
from dbsp.compiler.planner.estimate import Estimator
from dbsp.compiler.planner.search import Search
from dbsp.compiler.planner.shape import by_shape, greedy_order, left_deep, multiway
from dbsp.compiler.planner.statistics import Statistics
from dbsp.compiler.planner.strategy import Strategy
from dbsp.compiler.planner.tree import BinaryNode, LeafNode, MultiwayNode, Tree, nodes


@dataclass(frozen=True, slots=True)
class ChosenPlan:
    """A plan, and everything there is to say about it.

    Args:
        conjunction: what is joined.
        tree: the plan.
        strategy: the strategy asked for.
        reduction: Graham's reduction, its ears being the join tree.
        sizes: per atom the different rows of the variables that are used; None if they are not counted.
        estimates: per node of the tree, each after those below it; empty if not counted.
        costs: of the plan that was taken and of those it was compared with, by name.
        reasons: short sentences, for `explain`.
    """

    conjunction: Conjunction
    tree: Tree
    strategy: Strategy
    reduction: Reduction
    sizes: tuple[float, ...] | None
    estimates: tuple[NodeEstimate, ...]
    costs: tuple[tuple[str, Cost], ...]
    reasons: tuple[str, ...]

    @property
    def acyclic(self) -> bool:
        return self.reduction.acyclic

    @property
    def join_tree(self) -> tuple[tuple[int, int | None], ...]:
        """(atom, parent) for every atom of an acyclic query; of a cyclic one, what hangs on its core."""
        return self.reduction.ears

    @property
    def cover(self) -> tuple[float, ...]:
        """Per atom its weight in the cheapest fractional edge cover, for its size if that is known."""
        edges = self.conjunction.closed_edges
        logs = None if self.sizes is None else [math.log(max(1.0, size)) for size in self.sizes]
        return fractional_cover(edges, logs).weights

    @property
    def exponent(self) -> float:
        """Relations of n rows each join to n^exponent rows at most."""
        return fractional_cover(self.conjunction.closed_edges).cost

    @property
    def agm_bound(self) -> float | None:
        """At most so many rows the join has; None if the relations are not counted."""
        return None if self.sizes is None else agm_bound(self.conjunction.closed_edges, self.sizes)

    @property
    def width(self) -> float:
        """The fractional hypertree width, 1 for an acyclic query."""
        return 1.0 if self.acyclic else decompose(self.conjunction.closed_edges).width

    @property
    def kind(self) -> str:
        return kind(self.tree)


def kind(tree: Tree) -> str:
    """One of "scan", "binary", "multiway" or "hybrid", by the nodes of a tree."""
    found = {type(node) for node in nodes(tree)}
    if MultiwayNode not in found:
        return "binary" if BinaryNode in found else "scan"
    pure = isinstance(tree, MultiwayNode) and all(isinstance(part, LeafNode) for part in tree.parts)
    return "multiway" if pure else "hybrid"


def choose(
    conjunction: Conjunction,
    statistics: Statistics | None = None,
    strategy: Strategy = Strategy.AUTO,
    order: Sequence[int] | None = None,
) -> ChosenPlan:
    """The plan for a conjunction of one or more atoms.

    Args:
        conjunction: what is joined.
        statistics: counts of the loaded rows. They are used if all relations are known.
        strategy: which nodes may be taken.
        order: all atoms in the order of a left-deep tree of two-way joins; overrides everything.

    Raises:
        ValueError: for a conjunction without atoms, an order that is not one of all atoms, or an order
            together with Strategy.WCOJ.
    """
    atoms = conjunction.atoms
    if not atoms:
        raise ValueError("there is nothing to join in a conjunction without atoms")
    if order is not None:
        if sorted(order) != list(range(len(atoms))):
            raise ValueError(f"{list(order)} is not an order of the atoms 0 to {len(atoms) - 1}")
        if strategy is Strategy.WCOJ:
            raise ValueError(
                "a multi-way join has no order of atoms; give the order or the strategy, not both"
            )
    unknown = [atom.relation for atom in atoms if statistics is None or not statistics.knows(atom.relation)]
    estimator = None if unknown or statistics is None else Estimator(conjunction, statistics)
    taken: CostedPlan | None = None
    costs: tuple[tuple[str, Cost], ...] = ()
    reduction = reduce_ears(conjunction.closed_edges)
    reasons = [_shape(reduction)]
    if estimator is None:
        tree, why = _uncounted(conjunction, reduction, strategy, order)
        if unknown and len(atoms) > 1:
            why += f"; the rows of {', '.join(dict.fromkeys(unknown))} are not counted"
    else:
        taken, costs, why = _counted(Combiner(estimator), strategy, order)
        tree = taken.tree
    if len(atoms) > 1:
        reasons.append(why)
    if any(isinstance(node, BinaryNode) and not node.on for node in nodes(tree)):
        reasons.append("a cross product: some atoms share no variable")
    return ChosenPlan(
        conjunction,
        tree,
        strategy,
        reduction,
        None if estimator is None else estimator.sizes,
        () if taken is None else taken.estimates,
        costs,
        tuple(reasons),
    )


def _uncounted(
    conjunction: Conjunction, reduction: Reduction, strategy: Strategy, order: Sequence[int] | None
) -> tuple[Tree, str]:
    if order is not None:
        return left_deep(conjunction, order), "two-way joins in the order that was asked for"
    if strategy is Strategy.WCOJ:
        leaves = [LeafNode(atom) for atom in range(len(conjunction.atoms))]
        return multiway(conjunction, leaves), "a multi-way join, as was asked for"
    if strategy is Strategy.BINARY:
        return left_deep(conjunction, greedy_order(conjunction)), "two-way joins, as was asked for"
    tree = by_shape(conjunction)
    if reduction.acyclic:
        return tree, "two-way joins, since the query is acyclic"
    return tree, "the core is joined at once, since two-way joins may make more than the largest result"


def _counted(
    combiner: Combiner, strategy: Strategy, order: Sequence[int] | None
) -> tuple[CostedPlan, tuple[tuple[str, Cost], ...], str]:
    search = Search(combiner)
    single = len(combiner.conjunction.atoms) == 1
    if single:
        return combiner.leaf(0), (), ""
    if order is not None:
        plan = combiner.leaf(order[0])
        for atom in order[1:]:
            plan = combiner.binary(plan, combiner.leaf(atom))
        return plan, (("binary", combiner.cost(plan)),), "two-way joins in the order that was asked for"
    if strategy is Strategy.BINARY:
        plan = search.binary()
        return plan, (("binary", combiner.cost(plan)),), "two-way joins, as was asked for"
    wcoj_plan = search.worst_case_optimal()
    if strategy is Strategy.WCOJ:
        return wcoj_plan, (("multiway", combiner.cost(wcoj_plan)),), "a multi-way join, as was asked for"
    binary = search.binary()
    mixed = search.mixed()
    found = {"binary": combiner.cost(binary), "multiway": combiner.cost(wcoj_plan)}
    found[kind(mixed.tree)] = combiner.cost(mixed)
    name = kind(mixed.tree)
    others = [f"{_times(cost, found[name])} {other}" for other, cost in found.items() if other != name]
    why = f"{_CALLED[name]}, the cheapest by the counted rows ({', '.join(others)})"
    return mixed, tuple(found.items()), why


_CALLED = {
    "binary": "two-way joins",
    "multiway": "one multi-way join",
    "hybrid": "multi-way and two-way joins",
}


def _times(cost: Cost, taken: Cost) -> str:
    return f"{cost.total / taken.total:.1f} times as much" if taken.total else "as much"


def _shape(reduction: Reduction) -> str:
    if reduction.acyclic:
        return "acyclic: the reduction of Graham takes out every atom"
    return f"cyclic: the reduction of Graham leaves {len(reduction.core)} atoms"
