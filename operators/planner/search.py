"""The search for the cheapest plan: dynamic programming over connected subsets, or greedy.

best(S) is the cheapest of

  - best(S1) ⋈ best(S2) for every split of S into two connected subsets,
  - one multi-way node over S, if S is a cyclic core (with or without atoms that only filter it) or
    the complete query,
  - for a complete cyclic query, one multi-way node over its core and the best plans of the
    subqueries that are attached to the core.

So cyclic cores get multi-way nodes, connected by two-way joins where that is cheaper. Hybrid plans
are found by the search, without special rules (Freitag et al., VLDB 2020, also decide bottom-up).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dbsp.operators.planner import costs
from dbsp.operators.planner.acyclic import blocks, reduce_ears
from dbsp.operators.planner.combine import Combiner, CostedPlan
from dbsp.operators.planner.conjunction import connected
from dbsp.operators.planner.estimate import Part

SUBSETS = 300
"""With at most this many connected subsets of atoms the search is exact (a path of 10 atoms has 55,
a star 1,023)."""

CORES = 40
"""The maximum number of cyclic subsets that are tried as multi-way nodes."""


class Search:
    """Finds plans of one conjunction: `binary` with two-way joins only, `mixed` with all nodes."""

    def __init__(self, combiner: Combiner) -> None:
        self.combiner = combiner
        self.edges = combiner.conjunction.closed_edges
        self.every: Part = frozenset(range(len(self.edges)))
        self._planned: dict[tuple[Part, tuple[Part, ...]], CostedPlan] = {}

    def binary(self) -> CostedPlan:
        return self._cross([self._plan(part, ()) for part in self._components()])

    def mixed(self) -> CostedPlan:
        return self._cross([self._mixed(part) for part in self._components()])

    def worst_case_optimal(self) -> CostedPlan:
        """Return one multi-way node over all atoms."""
        return self.combiner.multiway([self.combiner.leaf(atom) for atom in sorted(self.every)])

    def _plan(self, atoms: Part, cores: Sequence[Part]) -> CostedPlan:
        # `binary` and `mixed` have the same plan for an acyclic part.
        key = atoms, tuple(cores)
        if key not in self._planned:
            subsets = self._subsets(atoms)
            found = self._exact(atoms, subsets, cores) if subsets else self._greedy(atoms, cores)
            self._planned[key] = found
        return self._planned[key]

    def _mixed(self, atoms: Part) -> CostedPlan:
        cores = self._cores(atoms)
        best = self._plan(atoms, cores)
        if len(atoms) < 3:
            return best
        multiway_plan = self._over(sorted(atoms))
        if not cores:
            margin = costs.ACYCLIC_MARGIN * self.combiner.total(best)
            return multiway_plan if self.combiner.total(multiway_plan) < margin else best
        candidates = [best, multiway_plan]
        attached = self._attached(atoms)
        if any(len(part) > 1 for part in attached):
            core = reduce_ears([self.edges[atom] for atom in sorted(atoms)]).core
            leaves = [self.combiner.leaf(sorted(atoms)[at]) for at in core]
            candidates.append(self.combiner.multiway([*leaves, *(self._plan(part, ()) for part in attached)]))
        return min(candidates, key=self.combiner.total)

    def _exact(self, atoms: Part, subsets: Sequence[Part], cores: Sequence[Part]) -> CostedPlan:
        """Return the best plan by dynamic programming. Each subset comes after its own subsets."""
        best: dict[Part, CostedPlan] = {}
        wanted = frozenset(cores)
        for subset in subsets:
            if len(subset) == 1:
                best[subset] = self.combiner.leaf(*subset)
                continue
            plans = [self.combiner.binary(best[a], best[b]) for a, b in _halves(subset, best)]
            if subset in wanted:
                plans.append(self._over(sorted(subset)))
            best[subset] = min(plans, key=self.combiner.total)
        return best[atoms]

    def _greedy(self, atoms: Part, cores: Sequence[Part]) -> CostedPlan:
        """Return a greedy plan: the largest cores as nodes, then always the cheapest join.

        Source: Fegaras, DEXA 1998.
        """
        left = set(atoms)
        plans: list[CostedPlan] = []
        for core in sorted(cores, key=lambda core: (-len(core), sorted(core))):
            if core < atoms and core <= left:
                plans.append(self._over(sorted(core)))
                left -= core
        plans += [self.combiner.leaf(atom) for atom in sorted(left)]
        return self._merge(plans, cross=False)

    def _cross(self, plans: list[CostedPlan]) -> CostedPlan:
        """Return the cross product of components that share no variable, smallest first."""
        return self._merge(plans, cross=True)

    def _merge(self, plans: list[CostedPlan], cross: bool) -> CostedPlan:
        """Apply the join that adds the least cost until one plan remains; O(n^2) joins for n
        plans."""

        known: dict[tuple[Part, Part], tuple[float, CostedPlan] | None] = {}

        def joined(a: CostedPlan, b: CostedPlan) -> tuple[float, CostedPlan] | None:
            # A pair occurs again in every round until one of the two is joined.
            pair = (a.atoms, b.atoms)
            if pair not in known:
                known[pair] = None
                if cross or connected([*self._edges(a.atoms), *self._edges(b.atoms)]):
                    plan = self.combiner.binary(a, b)
                    total = self.combiner.total
                    known[pair] = total(plan) - total(a) - total(b), plan
            return known[pair]

        while len(plans) > 1:
            found = [
                (join[0], join[1], a, b)
                for at, a in enumerate(plans)
                for b in plans[at + 1 :]
                if (join := joined(a, b)) is not None
            ]
            _, plan, a, b = min(found, key=lambda candidate: candidate[0])
            plans = [plan, *(other for other in plans if other is not a and other is not b)]
        return plans[0]

    def _over(self, atoms: Sequence[int]) -> CostedPlan:
        return self.combiner.multiway([self.combiner.leaf(atom) for atom in atoms])

    def _edges(self, atoms: Part) -> list[frozenset[str]]:
        return [self.edges[atom] for atom in sorted(atoms)]

    def _components(self) -> list[Part]:
        left = sorted(self.every)
        found: list[Part] = []
        while left:
            grown = [left.pop(0)]
            while near := [
                atom for atom in left if connected([*self._edges(frozenset(grown)), self.edges[atom]])
            ]:
                grown.append(near[0])
                left.remove(near[0])
            found.append(frozenset(grown))
        return found

    def _subsets(self, atoms: Part) -> list[Part]:
        """Return the connected subsets, smaller ones first; an empty list if there are too many."""
        layer = {frozenset({atom}) for atom in atoms}
        found = sorted(layer, key=sorted)
        while layer := {
            part | {atom}
            for part in layer
            for atom in atoms - part
            if connected([*self._edges(part), self.edges[atom]])
        }:
            found += sorted(layer, key=sorted)
            if len(found) > SUBSETS:
                return []
        return found

    def _cores(self, atoms: Part) -> list[Part]:
        """Return the subsets to try as multi-way nodes: those without an ear, also with their
        filters."""
        blocked = [self._filtered(block, atoms) for block in self._blocks(atoms)]
        cyclic: list[Part] = []
        for subset in self._subsets(atoms):
            if len(subset) > 2 and len(reduce_ears(self._edges(subset)).core) == len(subset):
                cyclic += dict.fromkeys((subset, self._filtered(subset, atoms)))
        return list(dict.fromkeys([*blocked, *cyclic[:CORES]]))

    def _blocks(self, atoms: Part) -> Iterator[Part]:
        numbered = sorted(atoms)
        edges = self._edges(atoms)
        for block in blocks(edges, reduce_ears(edges).core):
            if len(block) > 2:
                yield frozenset(numbered[at] for at in block)

    def _filtered(self, block: Part, atoms: Part) -> Part:
        """Return a block with the atoms that add no variable to it."""
        names = frozenset().union(*self._edges(block))
        kept = self.combiner.conjunction.kept
        return block | {atom for atom in atoms if set(kept((atom,))) <= names}

    def _attached(self, atoms: Part) -> list[Part]:
        """Return the ears in groups that share a variable outside of the core."""
        numbered = sorted(atoms)
        reduction = reduce_ears(self._edges(atoms))
        core = frozenset().union(*(self.edges[numbered[at]] for at in reduction.core))
        left = sorted(numbered[ear] for ear, _ in reduction.ears) if reduction.core else []
        groups: list[Part] = []
        while left:
            group = [left.pop(0)]
            beyond = set(self.edges[group[0]] - core)
            while near := [atom for atom in left if not beyond.isdisjoint(self.edges[atom])]:
                group.append(near[0])
                left.remove(near[0])
                beyond |= self.edges[near[0]] - core
            groups.append(frozenset(group))
        return groups


def _halves(subset: Part, known: dict[Part, CostedPlan]) -> Iterator[tuple[Part, Part]]:
    """Yield the splits of a subset with known plans; the first atom stays on the left."""
    first, *others = sorted(subset)
    for number in range(2 ** len(others) - 1):
        left = frozenset([first, *(atom for at, atom in enumerate(others) if number >> at & 1)])
        if left in known and subset - left in known:
            yield left, subset - left
