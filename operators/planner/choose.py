"""The choice of a plan for a conjunction: two-way joins, a multi-way join, or both.

With row counts, the choice is the cheapest plan that the search finds (`search`). Without counts,
it depends on the shape of the query (`shape`). Acyclic queries are joined two atoms at a time,
because a good tree never creates many more rows than the result (Yannakakis, VLDB 1981). Cyclic
cores are joined at once, because every tree of two-way joins may create more rows than the largest
possible result (Ngo, Re and Rudra, SIGMOD Record 2013).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dbsp.lazy_dataclass import dataclass
from dbsp.operators.planner.acyclic import Reduction, reduce_ears
from dbsp.operators.planner.bounds import agm_bound, decompose, fractional_cover
from dbsp.operators.planner.combine import Combiner, CostedPlan, NodeEstimate
from dbsp.operators.planner.conjunction import Conjunction
from dbsp.operators.planner.costs import Cost
from dbsp.operators.planner.estimate import Estimator
from dbsp.operators.planner.search import Search
from dbsp.operators.planner.shape import by_shape, greedy_order, left_deep, multiway
from dbsp.operators.planner.statistics import Statistics
from dbsp.operators.planner.strategy import Strategy
from dbsp.operators.planner.tree import BinaryNode, LeafNode, MultiwayNode, Tree, nodes


@dataclass(frozen=True, slots=True)
class ChosenPlan:
    """A plan, and the facts that explain it.

    Args:
        conjunction: the query.
        tree: the plan.
        strategy: the requested strategy.
        reduction: Graham's reduction; its ears form the join tree.
        sizes: per atom, the number of distinct rows of the used variables; None without counts.
        estimates: per node of the tree, children first; empty without counts.
        costs: by name, the costs of this plan and of the alternatives.
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
        """(atom, parent) for every atom outside of the cyclic core."""
        return self.reduction.ears

    @property
    def cover(self) -> tuple[float, ...]:
        """Per atom its weight in the cheapest fractional edge cover, by its size if counted."""
        edges = self.conjunction.closed_edges
        logs = None if self.sizes is None else [math.log(max(1.0, size)) for size in self.sizes]
        return fractional_cover(edges, logs).weights

    @property
    def exponent(self) -> float:
        """A join of relations with n rows each has at most n^exponent rows."""
        return fractional_cover(self.conjunction.closed_edges).cost

    @property
    def agm_bound(self) -> float | None:
        """The maximum number of rows of the join; None without counts."""
        return None if self.sizes is None else agm_bound(self.conjunction.closed_edges, self.sizes)

    @property
    def width(self) -> float:
        """The fractional hypertree width, 1 for an acyclic query."""
        return 1.0 if self.acyclic else decompose(self.conjunction.closed_edges).width

    @property
    def kind(self) -> str:
        return kind(self.tree)


def kind(tree: Tree) -> str:
    """Return the kind of a tree by its nodes: "scan", "binary", "multiway" or "hybrid"."""
    found = {type(node) for node in nodes(tree)}
    if MultiwayNode not in found:
        return "binary" if BinaryNode in found else "scan"
    pure = isinstance(tree, MultiwayNode) and all(isinstance(part, LeafNode) for part in tree.parts)
    return "multiway" if pure else "hybrid"


MOST_CORE_ATOMS = 32
"""With more atoms in a dense core, a plan by row counts takes too long to find: 7 s for a clique of
12 variables. One multi-way join is not far from the best plan of a core in which every variable has
several atoms: each of them limits the values that the join proposes."""

MOST_ATOMS = 40
"""With more atoms in any body, the search for the cheapest plan takes too long: 57 s for a cycle of
105 atoms. An acyclic query is then joined two atoms at a time, in the best order that a greedy
search finds; a cyclic one gets the plan by its shape."""


def _is_large(conjunction: Conjunction, reduction: Reduction) -> bool:
    """Whether a cyclic query is too large for a plan by row counts."""
    core = [conjunction.closed_edges[atom] for atom in reduction.core]
    dense = len(core) > MOST_CORE_ATOMS and len(core) >= 2 * len(frozenset().union(*core))
    return dense or (bool(core) and len(conjunction.atoms) > MOST_ATOMS)


def choose(
    conjunction: Conjunction,
    statistics: Statistics | None = None,
    strategy: Strategy = Strategy.AUTO,
    order: Sequence[int] | None = None,
) -> ChosenPlan:
    """Choose a plan for a conjunction of one or more atoms.

    Args:
        conjunction: the query.
        statistics: counts of the loaded rows, used if all relations are known.
        strategy: the allowed kinds of nodes.
        order: all atoms in the order of a left-deep tree of two-way joins; overrides the rest.

    Raises:
        ValueError: the conjunction has no atoms, the order does not have each atom once, or an
        order
            is combined with Strategy.WCOJ.
    """
    atoms = conjunction.atoms
    if not atoms:
        raise ValueError("expected at least one atom in the conjunction, got none")
    if order is not None:
        if sorted(order) != list(range(len(atoms))):
            raise ValueError(f"expected an order of the atoms 0 to {len(atoms) - 1}, got {list(order)}")
        if strategy is Strategy.WCOJ:
            raise ValueError("a multi-way join has no order of atoms; use either the order or the strategy")
    unknown = [atom.relation for atom in atoms if statistics is None or not statistics.knows(atom.relation)]
    estimator = None if unknown or statistics is None else Estimator(conjunction, statistics)
    chosen: CostedPlan | None = None
    costs: tuple[tuple[str, Cost], ...] = ()
    reduction = reduce_ears(conjunction.closed_edges)
    reasons = [_shape(reduction)]
    large = strategy is Strategy.AUTO and order is None and _is_large(conjunction, reduction)
    if estimator is None or large:
        tree, why = _uncounted(conjunction, reduction, strategy, order)
        if large and estimator is not None:
            why += "; row counts are not used for cyclic bodies of so many atoms"
        elif unknown and len(atoms) > 1:
            why += f"; no row counts for {', '.join(dict.fromkeys(unknown))}"
    else:
        chosen, costs, why = _counted(Combiner(estimator), strategy, order)
        tree = chosen.tree
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
        () if chosen is None else chosen.estimates,
        costs,
        tuple(reasons),
    )


def _uncounted(
    conjunction: Conjunction, reduction: Reduction, strategy: Strategy, order: Sequence[int] | None
) -> tuple[Tree, str]:
    if order is not None:
        return left_deep(conjunction, order), "two-way joins in the requested order"
    if strategy is Strategy.WCOJ:
        leaves = [LeafNode(atom) for atom in range(len(conjunction.atoms))]
        return multiway(conjunction, leaves), "a multi-way join, as requested"
    if strategy is Strategy.BINARY:
        return left_deep(conjunction, greedy_order(conjunction)), "two-way joins, as requested"
    tree = by_shape(conjunction)
    if reduction.acyclic:
        return tree, "two-way joins, because the query is acyclic"
    return tree, (
        "a multi-way join of the core, because two-way joins may create more rows than the largest result"
    )


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
        return plan, (("binary", combiner.cost(plan)),), "two-way joins in the requested order"
    large = strategy is Strategy.AUTO and len(combiner.conjunction.atoms) > MOST_ATOMS
    if strategy is Strategy.BINARY or large:
        plan = search.binary()
        why = "as requested"
        if large:
            why = f"in a greedy order, because there are more than {MOST_ATOMS} atoms"
        return plan, (("binary", combiner.cost(plan)),), f"two-way joins, {why}"
    wcoj_plan = search.worst_case_optimal()
    if strategy is Strategy.WCOJ:
        return wcoj_plan, (("multiway", combiner.cost(wcoj_plan)),), "a multi-way join, as requested"
    binary = search.binary()
    mixed = search.mixed()
    found = {"binary": combiner.cost(binary), "multiway": combiner.cost(wcoj_plan)}
    found[kind(mixed.tree)] = combiner.cost(mixed)
    name = kind(mixed.tree)
    others = [f"{other} {_compared(cost, found[name])}" for other, cost in found.items() if other != name]
    why = f"{_NAMES[name]}, the cheapest plan by the row counts ({', '.join(others)})"
    return mixed, tuple(found.items()), why


_NAMES = {
    "binary": "two-way joins",
    "multiway": "one multi-way join",
    "hybrid": "multi-way and two-way joins",
}


def _compared(cost: Cost, chosen: Cost) -> str:
    return f"costs {cost.total / chosen.total:.1f} times as much" if chosen.total else "costs the same"


def _shape(reduction: Reduction) -> str:
    if reduction.acyclic:
        return "acyclic: Graham's reduction removes every atom"
    return f"cyclic: Graham's reduction leaves {len(reduction.core)} atoms"
