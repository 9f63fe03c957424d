"""Estimate the rows of joins and the prefixes of delta terms, for one conjunction and its data."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import TypeAlias

from dbsp.errors import expect_present
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.planner import costs
from dbsp.operators.planner.bounds import agm_bound, packed
from dbsp.operators.planner.conjunction import Conjunction, connected
from dbsp.operators.planner.sampling import Prefixes, Sampling
from dbsp.operators.planner.statistics import Statistics
from dbsp.operators.planner.variable_orders import candidates

EXHAUSTIVE = 5
"""With at most this many variables to bind, all orders of a delta term are compared; otherwise the
order is greedy."""

Part = frozenset[int]
"""The atoms that one input of a multi-way join represents."""


@dataclass(frozen=True, slots=True)
class Level:
    """One variable of a delta term, per changed row.

    Args:
        variable: the variable that is bound.
        proposer: the atom that most often has the fewest values and so proposes them.
        proposals: the number of proposed values.
        prefixes: the number of values that the other atoms confirm.
    """

    variable: str
    proposer: int
    proposals: float
    prefixes: float


@dataclass(frozen=True, slots=True)
class TermEstimate:
    """The delta term of one part: its order, level by level, and the work per changed row in ns."""

    order: tuple[str, ...]
    levels: tuple[Level, ...]
    results: float
    work: float


class Estimator:
    """Estimates for one conjunction whose relations are all counted; results are cached."""

    def __init__(self, conjunction: Conjunction, statistics: Statistics) -> None:
        self.conjunction = conjunction
        self.statistics = statistics
        self.sampling = Sampling(conjunction, statistics)
        self.edges = conjunction.edges
        self._joined: dict[Part, Prefixes] = {}
        self._bounds: dict[tuple[tuple[frozenset[str], float], ...], float] = {}

    @cached_property
    def sizes(self) -> tuple[float, ...]:
        """Per atom, the number of distinct rows of its used variables."""
        return tuple(self._distinct(atom, edge) for atom, edge in enumerate(self.edges))

    def _distinct(self, atom: int, names: frozenset[str]) -> float:
        """Return the number of distinct values of some variables in an atom."""
        source = self.conjunction.atoms[atom]
        ordered = tuple(name for name in source.names if name in names)
        return len(self.statistics.index(source, ordered, ())) * self.statistics.share(source)

    # Sizes of joins

    def rows(self, atoms: Part) -> float:
        """Return the rows of the join of some atoms over all used variables, at most its AGM
        bound."""
        estimate = self.sample(atoms).count
        edges = [self.edges[atom] for atom in sorted(atoms)]
        return min(estimate, self._bound(edges, [self.sizes[atom] for atom in sorted(atoms)], estimate))

    def kept(self, atoms: Part) -> float:
        """Return the rows of the join of some atoms, projected to the variables used elsewhere.

        n rows distributed evenly over d places hit d (1 - e^(-n/d)) of them. d is the AGM bound of
        the atoms restricted to the kept variables.
        """
        rows = self.rows(atoms)
        names = self.source_variables(atoms)
        if names >= set().union(*(self.edges[atom] for atom in atoms)):
            return rows
        cut = [(atom, names & self.edges[atom]) for atom in sorted(atoms)]
        places = self._bound(
            [edge for _, edge in cut if edge], [self._distinct(atom, edge) for atom, edge in cut if edge]
        )
        return places * -math.expm1(-rows / places) if places > 0 else 0.0

    def source_variables(self, atoms: Part) -> frozenset[str]:
        """Return the kept variables of atoms; for computed variables, their arguments."""
        kept = set(self.conjunction.kept(atoms))
        own = set().union(*(self.edges[atom] for atom in atoms))
        for result, arguments in reversed(self.conjunction.functions):
            if result in kept and result not in own:
                kept |= arguments
        return frozenset(kept & own)

    def _bound(
        self, edges: Sequence[frozenset[str]], rows: Sequence[float], below: float = math.inf
    ) -> float:
        """Return the AGM bound, or infinity if it is certainly not below the given number."""
        if any(count <= 0 for count in rows):
            return 0.0
        logs = [math.log(max(1.0, count)) for count in rows]
        if below > 0 and packed(edges, logs) >= math.log(below):
            return math.inf
        key = tuple(zip(edges, rows, strict=True))
        if key not in self._bounds:
            self._bounds[key] = agm_bound(edges, rows)
        return self._bounds[key]

    def sample(self, atoms: Part) -> Prefixes:
        """Return a sample of the join of some atoms, extended from a sample of fewer atoms.

        Preferably all atoms with some variable are added together, so that they bind it together as
        in the multi-way join: a triangle is extended from an edge, not from a path.
        """
        if atoms in self._joined:
            return self._joined[atoms]
        if len(atoms) == 1:
            (atom,) = atoms
            found = self.sampling.start(atom, self.edges[atom])
        elif len(atoms) == 2 and not self.conjunction.functions:
            left, right = sorted(atoms)
            found = self.sampling.pair(left, right, self.edges[left] | self.edges[right])
        else:
            smaller = self._smaller(atoms)
            found = self._grow(self.sample(smaller), smaller, atoms)
        self._joined[atoms] = found
        return found

    def _smaller(self, atoms: Part) -> Part:
        for atom in sorted(atoms, reverse=True):
            # An atom that only filters another one is added last. Sampling it first would draw its
            # rows evenly and miss the few rows with very many matches.
            if any(self.edges[atom] <= self.edges[other] for other in atoms if other != atom):
                return atoms - {atom}
        names = sorted(set().union(*(self.edges[atom] for atom in atoms)))
        by_variable = [frozenset(atom for atom in atoms if name not in self.edges[atom]) for name in names]
        fitting = [part for part in by_variable if part and len(part) < len(atoms) and self.connected(part)]
        if fitting:
            return min(fitting, key=lambda part: (self._new(part, atoms), len(part), sorted(part)))
        return min(
            (atoms - {atom} for atom in atoms),
            key=lambda part: (not self.connected(part), self._new(part, atoms), sorted(part)),
        )

    def _new(self, part: Part, atoms: Part) -> int:
        """Return the number of variables that the other atoms add."""
        own = set().union(*(self.edges[atom] for atom in part))
        return len(set().union(*(self.edges[atom] for atom in atoms)) - own)

    def _grow(self, sample: Prefixes, smaller: Part, atoms: Part) -> Prefixes:
        added = sorted(atoms - smaller)
        edges = [self.edges[atom] for atom in added]
        written = self.conjunction.variables
        covered = [atom for atom in added if self.edges[atom] <= set(sample.names)]
        sample = self.sampling.filter(sample, covered)
        while left := set().union(*edges) - set(sample.names):
            bound = frozenset(sample.names)
            near = [name for name in candidates(bound, edges, written) if name in left]
            variable = max(near, key=lambda name: sum(name in edge for edge in edges))
            free = variable in self.conjunction.determined(bound)
            having = [atom for atom, edge in zip(added, edges, strict=True) if variable in edge]
            sample = self.sampling.extend(sample, variable, having, free).prefixes
        return sample

    def connected(self, atoms: Collection[int]) -> bool:
        """Whether no cross product is needed to join the atoms."""
        return connected([self.conjunction.closed_edges[atom] for atom in atoms])

    # Delta terms

    def term(self, parts: Sequence[Part], changed: int, order: Sequence[str] | None = None) -> TermEstimate:
        """Return the delta term of one part, with the best or the given order, and its cost.

        With at most EXHAUSTIVE variables to bind, the best order is found by dynamic programming
        over the sets of bound variables: the number of prefixes does not depend on the binding
        order.
        """
        walk = _Walk(self, parts, changed)
        if order is None:
            order = walk.best() if len(walk.left) <= EXHAUSTIVE else walk.greedy()
        return walk.along(order)


_Step: TypeAlias = tuple[Level, float, frozenset[str]]


class _Walk:
    """The delta term of one part during sampling: the prefixes of each set of bound variables."""

    def __init__(self, estimator: Estimator, parts: Sequence[Part], changed: int) -> None:
        self.estimator = estimator
        self.sampling = estimator.sampling
        self.conjunction = estimator.conjunction
        kept = [estimator.source_variables(part) for part in parts]
        own = kept[changed]
        # The atoms of the other parts, restricted to the variables that their part keeps.
        self.atoms = {
            atom: kept[number] & estimator.edges[atom]
            for number, part in enumerate(parts)
            if number != changed
            for atom in part
        }
        self.edges = [*self.atoms.values(), own]
        self.written = tuple(name for name in self.conjunction.variables if any(name in e for e in kept))
        if len(parts[changed]) == 1:
            (atom,) = parts[changed]
            prefixes = self.sampling.start(atom, own, per_row=True)
        else:
            prefixes = self.sampling.restart(estimator.sample(parts[changed]), sorted(own))
        tested = [atom for atom, edge in self.atoms.items() if edge <= own]
        self.first = self._complete(self.sampling.filter(prefixes, tested))
        self._states: dict[frozenset[str], Prefixes] = {frozenset(self.first.names): self.first}
        self._steps: dict[tuple[frozenset[str], str], _Step] = {}

    @property
    def left(self) -> list[str]:
        return [name for name in self.written if name not in self.first.names]

    def _complete(self, sample: Prefixes) -> Prefixes:
        """Return the sample extended by the variables that functions compute."""
        if not self.conjunction.functions:
            return sample
        for name in self.written:
            having = [atom for atom, edge in self.atoms.items() if name in edge]
            if having and name in self.conjunction.determined(sample.names) - set(sample.names):
                return self._complete(self.sampling.extend(sample, name, having, free=True).prefixes)
        return sample

    def step(self, bound: frozenset[str], variable: str) -> _Step:
        """Return the level that binds a variable next, its work, and the variables bound
        afterwards."""
        if (bound, variable) not in self._steps:
            self._steps[bound, variable] = self._step(bound, variable)
        return self._steps[bound, variable]

    def _step(self, bound: frozenset[str], variable: str) -> _Step:
        sample = self._states[bound]
        having = [atom for atom, edge in self.atoms.items() if variable in edge]
        extension = self.sampling.extend(sample, variable, having)
        after = self._complete(extension.prefixes)
        bound_after = frozenset(after.names)
        self._states.setdefault(bound_after, after)
        prefixes = self._states[bound_after].count if len(sample.rows) else 0.0
        level = Level(variable, extension.proposer, extension.proposals, prefixes)
        work = sample.count * len(having) * costs.COUNT
        work += extension.proposals * max(1, len(having) - 1) * costs.PROBE
        return level, work, bound_after

    def best(self) -> tuple[str, ...]:
        reached: dict[frozenset[str], tuple[float, tuple[str, ...]]] = {
            frozenset(self.first.names): (0.0, ())
        }
        done: tuple[float, tuple[str, ...]] | None = None
        while reached:
            following: dict[frozenset[str], tuple[float, tuple[str, ...]]] = {}
            for bound, (work, order) in sorted(reached.items(), key=lambda item: item[1]):
                left = candidates(bound, self.edges, self.written)
                if not left and (done is None or work < done[0]):
                    done = (work, order)
                for variable in left:
                    _, more, bound_after = self.step(bound, variable)
                    if bound_after not in following or work + more < following[bound_after][0]:
                        following[bound_after] = (work + more, (*order, variable))
            reached = following
        return expect_present(done, "an order that binds every variable")[1]

    def greedy(self) -> tuple[str, ...]:
        """Return an order that always binds the variable with the fewest prefixes next."""
        order: list[str] = []
        bound = frozenset(self.first.names)
        while left := candidates(bound, self.edges, self.written):
            steps = [self.step(bound, variable) for variable in left]
            level, _, bound = min(steps, key=lambda step: (step[0].prefixes, step[1]))
            order.append(level.variable)
        return tuple(order)

    def along(self, order: Sequence[str]) -> TermEstimate:
        levels: list[Level] = []
        work = costs.COUNT * len(self.atoms)
        bound = frozenset(self.first.names)
        for variable in order:
            level, more, bound = self.step(bound, variable)
            levels.append(level)
            work += more
        results = self._states[bound].count
        return TermEstimate(tuple(order), tuple(levels), results, work + results * costs.ROW)
