"""Counts of the loaded data: rows, distinct values, degrees, and sampled joins.

Each number is counted from the current rows of the relations at the first use, and cached. Counting
distinct prefixes costs one sort of the rows, about 0.1 s per million rows. Samples use a seeded
generator, so that the same data yield the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from dbsp.errors import expect_present
from dbsp.kernels.arrays import Codes, Mask
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.planner.conjunction import Atom

Hashes: TypeAlias = npt.NDArray[np.uint64]
Source: TypeAlias = Callable[[str], Codes | None]
Encode: TypeAlias = Callable[[str, int, Any], int | None]

SAMPLE = 1000
"""The number of rows of a relation that are drawn to estimate their matches."""

_PRIME = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


@dataclass(frozen=True, slots=True)
class Degree:
    """The number of distinct values under a present key."""

    mean: float
    maximum: int


@dataclass(frozen=True, slots=True)
class FanOut:
    """The number of matches in one atom for a row of another: the mean, and the probability of any.

    It has a direction: each of 1,000 orders matches one customer, who matches 1,000 orders.
    """

    mean: float
    exists: float


class Pairs(NamedTuple):
    """For every common key of two indices, the start and number of its values in each `rest`."""

    left: Codes
    left_degrees: Codes
    right: Codes
    right_degrees: Codes


class Index:
    """The distinct combinations of some columns, grouped by key columns.

    Keys are looked up by a hash of 64 bits; two of n keys collide with probability n^2 / 2^64.
    """

    __slots__ = ("_hashes", "_starts", "degrees", "rest")

    degrees: Codes
    """The number of values under each key."""

    def __init__(self, keys: Codes, rest: Codes) -> None:
        every = _hashed(np.concatenate([keys, rest], axis=1))
        first = np.unique(every, return_index=True)[1]
        hashes = _hashed(keys.take(first, 0))
        order = np.argsort(hashes, kind="stable")
        self.rest = rest.take(first[order], 0)
        self._hashes, self._starts, self.degrees = np.unique(
            hashes[order], return_index=True, return_counts=True
        )

    def __len__(self) -> int:
        return len(self.rest)

    def find(self, keys: Codes) -> tuple[Codes, Codes]:
        """Return the start in `rest` and the number of the values under each key."""
        if not len(self):
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
        wanted = _hashed(keys)
        at = np.minimum(np.searchsorted(self._hashes, wanted), len(self._hashes) - 1)
        return self._starts[at], np.where(self._hashes[at] == wanted, self.degrees[at], 0)

    def pairs(self, other: Index) -> Pairs:
        """Return the common keys of two indices."""
        _, mine, theirs = np.intersect1d(self._hashes, other._hashes, True, return_indices=True)
        return Pairs(self._starts[mine], self.degrees[mine], other._starts[theirs], other.degrees[theirs])


def _hashed(rows: Codes) -> Hashes:
    result = np.full(len(rows), 1, np.uint64)
    for column in range(rows.shape[1]):
        result = (result ^ rows[:, column].astype(np.uint64)) * _PRIME
        result = (result ^ (result >> np.uint64(29))) * _MIX
        result ^= result >> np.uint64(32)
    return result


class Statistics:
    """Counts over the current rows of relations.

    Args:
        source: returns the rows of a relation as int64[n, arity], None if they are unknown. It is
            called once per relation.
        encode: returns the code of a constant in a column of a relation, None if no row has it.
            Without it, a constant is assumed to have the mean frequency of the column's values.
        seed: the seed of the sampling.

    >>> counted = Statistics({"e": np.array([[1, 2], [1, 3], [2, 3]])}.get)
    >>> counted.rows("e"), counted.distinct("e", (0,)), counted.rows("f")
    (3.0, 2.0, None)
    """

    def __init__(self, source: Source, encode: Encode | None = None, seed: int = 0) -> None:
        self._source = source
        self._encode = encode
        self._seed = seed
        self._relations: dict[str, Codes | None] = {}
        self._matching: dict[Atom, tuple[Codes, float]] = {}
        self._indices: dict[tuple[Atom, tuple[int, ...], tuple[int, ...]], Index] = {}
        self._fan_outs: dict[tuple[Atom, Atom], FanOut] = {}

    @staticmethod
    def none() -> Statistics:
        """Return statistics without any counts."""
        return Statistics(lambda relation: None)

    def knows(self, relation: str) -> bool:
        return self._rows(relation) is not None

    def codes(self, relation: str) -> Codes:
        """Return the rows of a known relation."""
        return expect_present(self._rows(relation), f"known rows of relation '{relation}'")

    def code(self, relation: str, column: int, value: Any) -> int | None:
        """Return the code of a constant in a column, None if no row has it or codes are unknown."""
        return None if self._encode is None else self._encode(relation, column, value)

    def rows(self, relation: str) -> float | None:
        """Return the number of rows of the relation."""
        found = self._rows(relation)
        return None if found is None else float(len(found))

    def distinct(self, relation: str, columns: Sequence[int]) -> float | None:
        """Return the number of distinct combinations of values of the columns."""
        found = self._rows(relation)
        if found is None:
            return None
        names = tuple(f"{column}" if column in columns else None for column in range(found.shape[1]))
        return float(len(self.index(Atom(relation, names), [f"{column}" for column in columns], ())))

    def matching(self, atom: Atom) -> float | None:
        """Return the number of distinct rows, of the columns with variables, that match the
        atom."""
        if not self.knows(atom.relation):
            return None
        return len(self.index(atom, atom.names, ())) * self._present(atom)[1]

    def selectivity(self, atom: Atom) -> float | None:
        """Return the fraction of rows that have the constants and equal columns of the atom."""
        total = self.rows(atom.relation)
        if total is None:
            return None
        rows, share = self._present(atom)
        return share * len(rows) / total if total else 1.0

    def degree(self, atom: Atom, given: Collection[str], counted: Collection[str]) -> Degree | None:
        """Return the number of combinations of `counted` variables per combination of `given`
        ones."""
        if not self.knows(atom.relation):
            return None
        degrees = self.index(atom, _in_order(atom, given), _in_order(atom, counted)).degrees
        if not len(degrees):
            return Degree(0.0, 0)
        return Degree(float(degrees.mean()) * self._present(atom)[1], int(degrees.max()))

    def fan_out(self, left: Atom, right: Atom) -> FanOut | None:
        """Return the number of rows of `right` that match a row of `left` on the shared variables.

        Based on at most SAMPLE rows of `left`, drawn without replacement; exact if it has no more.
        """
        if not (self.knows(left.relation) and self.knows(right.relation)):
            return None
        if (left, right) not in self._fan_outs:
            shared = _in_order(right, left.names)
            rest = [name for name in right.names if name not in shared]
            rows = self.sample(left, shared)
            counts = self.index(right, shared, rest).find(rows)[1]
            share = self._present(right)[1]
            found = FanOut(float(counts.mean()) * share, float((counts > 0).mean())) if len(rows) else None
            self._fan_outs[left, right] = found or FanOut(0.0, 0.0)
        return self._fan_outs[left, right]

    def sample(self, atom: Atom, names: Sequence[str], size: int = SAMPLE) -> Codes:
        """Return up to `size` distinct rows that match the atom, with the columns of these
        variables."""
        rows = self.index(atom, (), atom.names).rest
        if len(rows) > size:
            chosen = np.random.default_rng(self._seed).choice(len(rows), size, replace=False, shuffle=False)
            rows = rows.take(np.sort(chosen), 0)
        return rows[:, [atom.names.index(name) for name in names]]

    def index(self, atom: Atom, keys: Sequence[str], rest: Sequence[str]) -> Index:
        """Return the rows of the atom as an index from some of its variables to others.

        Atoms that differ only in the names of their variables share an index.
        """
        pattern = Atom(atom.relation, (), atom.fixed, atom.equal)
        by = tuple(atom.variables.index(name) for name in keys)
        under = tuple(atom.variables.index(name) for name in rest)
        known = self._indices.get((pattern, by, under))
        if known is None:
            rows, _ = self._present(atom)
            known = self._indices[pattern, by, under] = Index(rows[:, list(by)], rows[:, list(under)])
        return known

    def share(self, atom: Atom) -> float:
        """Return the factor for counts of the atom, for constants that could not be encoded."""
        return self._present(atom)[1]

    def _rows(self, relation: str) -> Codes | None:
        if relation not in self._relations:
            self._relations[relation] = self._source(relation)
        return self._relations[relation]

    def _present(self, atom: Atom) -> tuple[Codes, float]:
        """Return the rows that match the atom, and the fraction that has its unencoded
        constants."""
        pattern = Atom(atom.relation, (), atom.fixed, atom.equal)
        if pattern not in self._matching:
            rows = self.codes(atom.relation)
            fits: Mask = np.ones(len(rows), np.bool_)
            share = 1.0
            for column, value in atom.fixed:
                if self._encode is None:
                    share /= max(1, len(np.unique(rows[:, column])))
                elif (code := self._encode(atom.relation, column, value)) is None:
                    fits[:] = False
                else:
                    fits &= rows[:, column] == code
            for left, right in atom.equal:
                fits &= rows[:, left] == rows[:, right]
            self._matching[pattern] = (rows if fits.all() else rows.compress(fits, 0), share)
        return self._matching[pattern]


def _in_order(atom: Atom, names: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in atom.names if name in names)
