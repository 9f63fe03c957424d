"""What is counted of the loaded data: rows, distinct values, degrees, and sampled joins.

Nothing is guessed: each number comes from the present rows of the relations, is counted when it is
first asked for, and remembered. Counting distinct prefixes costs one sort of the rows, about 0.1 s per
million. What is sampled uses a seeded generator, so that the same data give the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from dbsp.compiler.planner.conjunction import Atom
from dbsp.kernels.arrays import Codes, Mask

Hashes: TypeAlias = npt.NDArray[np.uint64]
Source: TypeAlias = Callable[[str], Codes | None]
Encode: TypeAlias = Callable[[str, int, Any], int | None]

SAMPLE = 1000
"""So many rows of a relation are drawn to estimate what they meet elsewhere."""

_PRIME = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


@dataclass(frozen=True, slots=True)
class Degree:
    """How many different values stand under a key that is present."""

    mean: float
    maximum: int


@dataclass(frozen=True, slots=True)
class FanOut:
    """How many rows of one atom a row of another meets: on average, and with what probability any.

    It has a direction: 1,000 orders meet one customer each, a customer meets 1,000 orders.
    """

    mean: float
    exists: float


class Pairs(NamedTuple):
    """For every key of two indices where its values start in each `rest`, and how many they are."""

    left: Codes
    left_degrees: Codes
    right: Codes
    right_degrees: Codes


class Index:
    """The distinct combinations of some columns, grouped by some of them: keys and what is under them.

    Keys are looked up by a hash of 64 bits; two of n keys have the same with probability n^2 / 2^64.
    """

    __slots__ = ("_hashes", "_starts", "degrees", "rest")

    degrees: Codes
    """How many values there are under each key."""

    def __init__(self, keys: Codes, rest: Codes) -> None:
        every = _hashed(np.concatenate([keys, rest], axis=1))
        first = np.unique(every, return_index=True)[1]
        hashes = _hashed(keys[first])
        order = np.argsort(hashes, kind="stable")
        self.rest = rest[first[order]]
        self._hashes, self._starts, self.degrees = np.unique(
            hashes[order], return_index=True, return_counts=True
        )

    def __len__(self) -> int:
        return len(self.rest)

    def find(self, keys: Codes) -> tuple[Codes, Codes]:
        """Where in `rest` the values under each key start, and how many they are."""
        if not len(self):
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
        wanted = _hashed(keys)
        at = np.minimum(np.searchsorted(self._hashes, wanted), len(self._hashes) - 1)
        return self._starts[at], np.where(self._hashes[at] == wanted, self.degrees[at], 0)

    def pairs(self, other: Index) -> Pairs:
        """The keys that both have."""
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
    """Counts over the present rows of relations.

    Args:
        source: the rows of a relation as int64[n, arity], None if they are not known. It is asked
            once per relation.
        encode: the code of a constant in a column of a relation, None for one that no row has.
            Without it a constant is taken to be as frequent as the column's values are on average.
        seed: of the sampling.

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
        """Statistics that know nothing."""
        return Statistics(lambda relation: None)

    def knows(self, relation: str) -> bool:
        return self._rows(relation) is not None

    def rows(self, relation: str) -> float | None:
        """How many rows the relation has."""
        found = self._rows(relation)
        return None if found is None else float(len(found))

    def distinct(self, relation: str, columns: Sequence[int]) -> float | None:
        """How many different combinations of values the columns have."""
        found = self._rows(relation)
        if found is None:
            return None
        names = tuple(f"{column}" if column in columns else None for column in range(found.shape[1]))
        return float(len(self.index(Atom(relation, names), [f"{column}" for column in columns], ())))

    def matching(self, atom: Atom) -> float | None:
        """How many different rows, of the columns with variables, fit the pattern of the atom."""
        if not self.knows(atom.relation):
            return None
        return len(self.index(atom, atom.names, ())) * self._present(atom)[1]

    def selectivity(self, atom: Atom) -> float | None:
        """The part of the relation's rows that have the constants and equal columns of the atom."""
        total = self.rows(atom.relation)
        if total is None:
            return None
        rows, share = self._present(atom)
        return share * len(rows) / total if total else 1.0

    def degree(self, atom: Atom, given: Collection[str], counted: Collection[str]) -> Degree | None:
        """How many combinations of the `counted` variables the atom has for one of the `given`."""
        if not self.knows(atom.relation):
            return None
        degrees = self.index(atom, _in_order(atom, given), _in_order(atom, counted)).degrees
        if not len(degrees):
            return Degree(0.0, 0)
        return Degree(float(degrees.mean()) * self._present(atom)[1], int(degrees.max()))

    def fan_out(self, left: Atom, right: Atom) -> FanOut | None:
        """How many rows of `right` a row of `left` meets on the variables that both have.

        From up to SAMPLE rows of `left`, drawn without replacement; exact if it has no more.
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
        """Up to `size` of the different rows that fit the atom, their columns for these variables."""
        rows = self.index(atom, (), atom.names).rest
        if len(rows) > size:
            chosen = np.random.default_rng(self._seed).choice(len(rows), size, replace=False, shuffle=False)
            rows = rows[np.sort(chosen)]
        return rows[:, [atom.names.index(name) for name in names]]

    def index(self, atom: Atom, keys: Sequence[str], rest: Sequence[str]) -> Index:
        """The atom's rows as an index from some of its variables to others; atoms that differ only in
        the names of their variables share it."""
        pattern = Atom(atom.relation, (), atom.fixed, atom.equal)
        by = tuple(atom.variables.index(name) for name in keys)
        under = tuple(atom.variables.index(name) for name in rest)
        known = self._indices.get((pattern, by, under))
        if known is None:
            rows, _ = self._present(atom)
            known = self._indices[pattern, by, under] = Index(rows[:, list(by)], rows[:, list(under)])
        return known

    def share(self, atom: Atom) -> float:
        """What to multiply counts of the atom by, for constants whose rows could not be told apart."""
        return self._present(atom)[1]

    def _rows(self, relation: str) -> Codes | None:
        if relation not in self._relations:
            self._relations[relation] = self._source(relation)
        return self._relations[relation]

    def _present(self, atom: Atom) -> tuple[Codes, float]:
        """The rows that fit the atom's pattern, and the part of them that has its unencoded constants."""
        pattern = Atom(atom.relation, (), atom.fixed, atom.equal)
        if pattern not in self._matching:
            rows = self._rows(atom.relation)
            if rows is None:
                raise KeyError(f"the rows of {atom.relation} are not known")
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
            self._matching[pattern] = (rows if fits.all() else rows[fits], share)
        return self._matching[pattern]


def _in_order(atom: Atom, names: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in atom.names if name in names)
