"""Plans for subsets of the atoms with their costs, and the combination of several plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbsp.lazy_dataclass import dataclass
from dbsp.operators.planner import costs
from dbsp.operators.planner.costs import Cost
from dbsp.operators.planner.estimate import Estimator, Part, TermEstimate
from dbsp.operators.planner.shape import binary, multiway
from dbsp.operators.planner.tree import LeafNode, Tree
from dbsp.operators.traces.column_orders import Chain, orders_for

LAST_MARGIN = 0.8
"""Parts keep their written order unless another last part reduces the cost of loading below this
fraction."""


@dataclass(frozen=True, slots=True)
class NodeEstimate:
    """The estimates of one node: joined rows, rows after projection, and its delta terms."""

    tree: Tree
    joined: float
    rows: float
    terms: tuple[TermEstimate, ...] = ()


@dataclass(frozen=True, slots=True)
class CostedPlan:
    """A tree for some atoms and its costs.

    Args:
        rows: the number of rows of the result.
        rates: per atom, the mean number of result rows that change with one row of the atom.
        load: the time in ns of joins to load all rows.
        change: per atom, the time in ns of joins for one changed row.
        kept: the number of rows in the traces that its nodes read.
        estimates: the estimates of every node, children first.
    """

    tree: Tree
    atoms: Part
    rows: float
    rates: Mapping[int, float]
    load: float
    change: Mapping[int, float]
    kept: float
    estimates: tuple[NodeEstimate, ...]


class Combiner:
    """Builds plans and adds up their costs, with the numbers of an estimator."""

    def __init__(self, estimator: Estimator) -> None:
        self.estimator = estimator
        self.conjunction = estimator.conjunction
        self._terms: dict[tuple[Part, ...], tuple[TermEstimate, ...]] = {}
        relations = {atom.relation for atom in self.conjunction.atoms}
        self._relations = len(relations)
        self._rows = sum(estimator.statistics.rows(name) or 0.0 for name in relations) / max(
            1, len(relations)
        )

    def cost(self, plan: CostedPlan) -> Cost:
        """Return the cost of a plan.

        A changed row of a relation changes all atoms over it; the cost is the mean over relations.
        """
        change = sum(plan.change.values()) / self._relations
        return Cost(plan.load, change, plan.kept, self._rows)

    def total(self, plan: CostedPlan) -> float:
        return self.cost(plan).total

    def leaf(self, atom: int) -> CostedPlan:
        rows = self.estimator.sizes[atom]
        return CostedPlan(
            LeafNode(atom), frozenset({atom}), rows, {atom: 1.0}, 0.0, {atom: 0.0}, 0.0,
            (NodeEstimate(LeafNode(atom), rows, rows),),
        )  # fmt: skip

    def binary(self, left: CostedPlan, right: CostedPlan) -> CostedPlan:
        """Combine two plans by left ⋈ right.

        Both sides are stored as traces; a change on one side is looked up in the other.
        """
        atoms = left.atoms | right.atoms
        rows = self.estimator.kept(atoms)
        joined = max(rows, self._joined((left, right)))
        tree = binary(self.conjunction, left.tree, right.tree)
        rates, change = {}, {}
        for side, other in ((left, right), (right, left)):
            fan_out = joined / side.rows if side.rows else 0.0
            work = costs.visit(side.rows) + costs.visit(other.rows) + fan_out * costs.ROW
            for atom in side.atoms:
                rates[atom] = side.rates[atom] * fan_out
                change[atom] = side.change[atom] + side.rates[atom] * work + costs.NODE / costs.TICK
        return CostedPlan(
            tree, atoms, rows, rates,
            left.load + right.load + joined * costs.ROW,
            change,
            left.kept + right.kept + left.rows + right.rows,
            (*left.estimates, *right.estimates, NodeEstimate(tree, joined, rows)),
        )  # fmt: skip

    def multiway(self, parts: Sequence[CostedPlan]) -> CostedPlan:
        """Combine all parts in one node, which stores only the parts, in the orders its terms need.

        Loading costs the term of the last part, because only this term joins the new rows of all
        other parts. So the part whose term is cheapest for loading is last.
        """
        sets = tuple(part.atoms for part in parts)
        if sets not in self._terms:
            self._terms[sets] = tuple(self.estimator.term(sets, number) for number in range(len(sets)))
        pairs = list(zip(parts, self._terms[sets], strict=True))
        loads = [part.rows * term.work for part, term in pairs]
        if min(loads) < LAST_MARGIN * loads[-1]:
            pairs.append(pairs.pop(loads.index(min(loads))))
        parts = [part for part, _ in pairs]
        terms = [term for _, term in pairs]
        orders = [self._order(parts, part, term) for part, term in pairs]
        tree = multiway(self.conjunction, [part.tree for part in parts], orders)
        atoms = frozenset().union(*sets)
        rows = self.estimator.kept(atoms)
        joined = max(rows, self._joined(parts))
        rates, change = {}, {}
        for part, term in pairs:
            for atom in part.atoms:
                rates[atom] = part.rates[atom] * term.results
                change[atom] = part.change[atom] + part.rates[atom] * (costs.TRACE + term.work)
                change[atom] += costs.NODE / costs.TICK
        estimates = [estimate for part in parts for estimate in part.estimates]
        return CostedPlan(
            tree, atoms, rows, rates,
            sum(part.load for part in parts) + parts[-1].rows * terms[-1].work,
            change,
            sum(part.kept for part in parts) + self._traces(parts, terms),
            (*estimates, NodeEstimate(tree, joined, rows, tuple(terms))),
        )  # fmt: skip

    def _joined(self, parts: Sequence[CostedPlan]) -> float:
        """Return the rows of the join of the parts: fewer than of the atoms, if parts are
        projected."""
        joined = self.estimator.rows(frozenset().union(*(part.atoms for part in parts)))
        for part in parts:
            unprojected = self.estimator.rows(part.atoms)
            joined *= part.rows / unprojected if unprojected else 0.0
        return joined

    def _order(self, parts: Sequence[CostedPlan], changed: CostedPlan, term: TermEstimate) -> tuple[str, ...]:
        """Return the order of a term in the variables that the parts keep.

        The sampled order has variables of atoms. If a part keeps a variable computed from them
        instead, the computed variable replaces them.
        """
        shown = dict.fromkeys(name for part in parts for name in self.conjunction.kept(part.atoms))
        bound = set(self.conjunction.kept(changed.atoms))
        sampled = self.conjunction.bound(changed.atoms)
        order: list[str] = []
        for name in term.order:
            sampled = self.conjunction.determined({*sampled, name})
            for variable in shown:
                if variable in sampled and variable not in self.conjunction.determined(bound):
                    order.append(variable)
                    bound.add(variable)
        return tuple(order)

    def _traces(self, parts: Sequence[CostedPlan], terms: Sequence[TermEstimate]) -> float:
        """Return the rows in the traces of a multi-way node; atoms with the same pattern share
        traces."""
        chains: dict[object, set[Chain]] = {}
        rows: dict[object, float] = {}
        for number, part in enumerate(parts):
            columns = self._columns(part)
            pattern: object = number
            if isinstance(part.tree, LeafNode):
                atom = self.conjunction.atoms[part.tree.atom]
                pattern = (atom.relation, atom.fixed, atom.equal, frozenset(columns.values()))
            rows[pattern] = part.rows
            others = [other for other in range(len(parts)) if other != number]
            chains.setdefault(pattern, set()).update(
                self._read(columns, parts[other], terms[other]) for other in others
            )
        return sum(rows[key] * len(set(orders_for(chain).values())) for key, chain in chains.items())

    def _columns(self, part: CostedPlan) -> dict[str, int]:
        """Return the columns of the variables that a part keeps."""
        names = self.conjunction.kept(part.atoms)
        if not isinstance(part.tree, LeafNode):
            return {name: at for at, name in enumerate(names)}
        variables = self.conjunction.atoms[part.tree.atom].variables
        return {name: variables.index(name) for name in names if name in variables}

    def _read(self, columns: Mapping[str, int], changed: CostedPlan, term: TermEstimate) -> Chain:
        """Return the sets of bound columns with which the term of `changed` reads a part."""
        bound = set(self.conjunction.kept(changed.atoms))
        chain: list[frozenset[int]] = []
        for name in (*bound, *term.order):
            bound |= self.conjunction.determined({*bound, name})
            key = frozenset(columns[variable] for variable in columns if variable in bound)
            if key and key not in chain:
                chain.append(key)
        return tuple(chain)
