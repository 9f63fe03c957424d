"""Joins of sampled rows: estimate the number of prefixes when some of the variables are bound.

A sample starts from rows of one atom (or of a join of some) and binds further variables one by one,
as a delta term of the multi-way join does: the atom with the fewest values under a prefix proposes
them, the other atoms keep or drop them. So the estimate includes skew and correlation. Its cost is
that of a sample: `SAMPLE` starting rows, and at most `LIMIT` prefixes, drawn evenly from all
prefixes. (Wander joins, Li et al., SIGMOD 2016; sampled two-way joins for Delta-BiGJoin
plans, Ammar et al., VLDB 2018.)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from dbsp.kernels.arrays import Codes, Mask
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.planner.conjunction import Atom, Conjunction
from dbsp.operators.planner.statistics import SAMPLE, Statistics

LIMIT = 2_000
"""The maximum number of prefixes of a sample."""

LINK = 0.5
"""The assumed fraction of rows that satisfy a condition."""


@dataclass(frozen=True, slots=True)
class Prefixes:
    """Sampled bindings of some variables; each represents `each` bindings.

    `each` is an absolute number or one per starting row, depending on the start of the sample.
    """

    names: tuple[str, ...]
    rows: Codes
    each: float

    @property
    def count(self) -> float:
        """The estimated number of bindings; for an empty sample, half of the weight of one."""
        return max(len(self.rows), 0.5) * self.each

    def columns(self, names: Sequence[str]) -> Codes:
        return self.rows[:, [self.names.index(name) for name in names]]


@dataclass(frozen=True, slots=True)
class Extension:
    """The prefixes after binding one more variable, and the number of values proposed for it."""

    prefixes: Prefixes
    proposals: float
    proposer: int


class Sampling:
    """Samples of the joins of a conjunction over the counted rows.

    Only variables of atoms are sampled. A variable that a function computes gets one of the values
    that an atom has for it: a function returns one value, which the atom is assumed to have.
    """

    def __init__(self, conjunction: Conjunction, statistics: Statistics, seed: int = 0) -> None:
        self.conjunction = conjunction
        self.statistics = statistics
        self._random = np.random.default_rng(seed)

    def start(self, atom: int, names: Collection[str], per_row: bool = False) -> Prefixes:
        """Return a sample of the rows of an atom; it represents all rows, or with `per_row` one
        row."""
        source = self.conjunction.atoms[atom]
        wanted = tuple(name for name in source.names if name in names)
        every = self.statistics.index(_only(source, wanted), (), wanted)
        rows = self.statistics.sample(_only(source, wanted), wanted)
        total = 1.0 if per_row else len(every) * self.statistics.share(source)
        found = Prefixes(wanted, rows, total / len(rows) if len(rows) else 0.0)
        return self._linked(found, frozenset())

    def pair(self, left: int, right: int, names: Collection[str]) -> Prefixes:
        """Return an even sample of the join of two atoms, with its exact number of rows.

        Keys are drawn in proportion to the product of their degrees on both sides. A sample of the
        rows of one side would miss the few rows with very many matches.
        """
        first, second = (self.conjunction.atoms[atom] for atom in (left, right))
        shared = tuple(name for name in first.names if name in second.names and name in names)
        mine = tuple(name for name in first.names if name in names)
        theirs = tuple(name for name in second.names if name in names and name not in shared)
        by_left = self.statistics.index(first, shared, mine)
        by_right = self.statistics.index(second, shared, theirs)
        keys = by_left.pairs(by_right)
        counts = keys.left_degrees * keys.right_degrees
        total = int(counts.sum())
        key, offset = _spread(counts, min(1.0, LIMIT / max(1, total)), self._random)
        among = keys.right_degrees[key]
        rows = np.concatenate(
            [
                by_left.rest[keys.left[key] + offset // np.maximum(among, 1)],
                by_right.rest[keys.right[key] + offset % np.maximum(among, 1)],
            ],
            axis=1,
        )
        # Without a match, the join is empty.
        each = total / len(rows) if total else 0.0
        each *= self.statistics.share(first) * self.statistics.share(second)
        return self._linked(Prefixes((*mine, *theirs), rows, each), frozenset())

    def restart(self, sample: Prefixes, names: Sequence[str]) -> Prefixes:
        """Return the distinct bindings of some variables of a sample, representing one starting
        row."""
        rows = np.unique(sample.columns(names), axis=0) if names else sample.columns(names)[:1]
        if len(rows) > SAMPLE:
            rows = rows.take(np.sort(self._random.choice(len(rows), SAMPLE, replace=False)), 0)
        return Prefixes(tuple(names), rows, 1.0 / len(rows) if len(rows) else 0.0)

    def filter(self, sample: Prefixes, atoms: Collection[int]) -> Prefixes:
        """Return the prefixes for which each of the atoms has a row."""
        each = sample.each
        fits: Mask = np.ones(len(sample.rows), np.bool_)
        for atom in sorted(atoms):
            source = self.conjunction.atoms[atom]
            bound = tuple(name for name in source.names if name in sample.names)
            fits &= self.statistics.index(source, bound, ()).find(sample.columns(bound))[1] > 0
        return Prefixes(sample.names, sample.rows.compress(fits, 0), each)

    def extend(
        self, sample: Prefixes, variable: str, atoms: Collection[int], free: bool = False
    ) -> Extension:
        """Bind one more variable, which all of these atoms have.

        With `free`, a function computes the variable: every prefix gets one value without
        proposals.
        """
        offers = [self._offers(sample, variable, atom) for atom in sorted(atoms)]
        counts = np.stack([count for _, count, _ in offers])
        chosen = counts.argmin(axis=0)
        least = counts.min(axis=0) if len(sample.rows) else np.empty(0, np.int64)
        taken = np.minimum(least, 1) if free else least
        parts: list[tuple[Codes, Codes]] = []
        rate = min(1.0, LIMIT / max(1, int(taken.sum())))
        for number, (start, _, values) in enumerate(offers):
            mine = np.flatnonzero(chosen == number)
            prefix, offset = _spread(taken[mine], rate, self._random)
            if free:
                offset = self._random.integers(0, np.maximum(least[mine][prefix], 1))
            parts.append((mine[prefix], values[start[mine][prefix] + offset]))
        prefix = np.concatenate([part for part, _ in parts])
        value = np.concatenate([part for _, part in parts])
        rows = np.concatenate([sample.rows.take(prefix, 0), value[:, None]], axis=1)
        proposals = float(taken.sum()) * sample.each
        each = proposals / len(rows) if len(rows) else sample.each
        found = Prefixes((*sample.names, variable), rows, each)
        found = self.filter(found, atoms if len(atoms) > 1 else ())
        most = int(np.bincount(chosen[least > 0], minlength=len(offers)).argmax()) if len(chosen) else 0
        linked = self._linked(found, frozenset(sample.names))
        for atom in atoms:
            if set(self.conjunction.atoms[atom].names) <= set(linked.names):
                share = self.statistics.share(self.conjunction.atoms[atom])
                linked = Prefixes(linked.names, linked.rows, linked.each * share)
        return Extension(linked, 0.0 if free else proposals, sorted(atoms)[most])

    def _offers(self, sample: Prefixes, variable: str, atom: int) -> tuple[Codes, Codes, Codes]:
        """Return, per prefix, the start and number of the atom's values for the variable, and the
        values."""
        source = self.conjunction.atoms[atom]
        bound = tuple(name for name in source.names if name in sample.names)
        index = self.statistics.index(source, bound, (variable,))
        start, count = index.find(sample.columns(bound))
        return start, count, index.rest[:, 0]

    def _linked(self, sample: Prefixes, before: frozenset[str]) -> Prefixes:
        """Return the sample after the conditions that become testable."""
        known = self.conjunction.determined(before)
        determined = self.conjunction.determined(sample.names)
        tested = sum(link <= determined and not link <= known for link in self.conjunction.links)
        return Prefixes(sample.names, sample.rows, sample.each * LINK**tested)


def _only(atom: Atom, names: Collection[str]) -> Atom:
    """Return the atom without the other variables."""
    variables = tuple(name if name in names else None for name in atom.variables)
    return Atom(atom.relation, variables, atom.fixed, atom.equal)


def _spread(counts: Codes, rate: float, random: np.random.Generator) -> tuple[Codes, Codes]:
    """Return pairs (i, j) with 0 <= j < counts[i]: all, or an evenly drawn fraction `rate`."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    if rate < 1.0:
        at = np.sort(random.integers(0, total, round(total * rate))) if total else np.empty(0, np.int64)
    else:
        at = np.arange(total)
    owner = np.searchsorted(ends, at, "right")
    return owner, at - (ends - counts)[owner] if total else at
