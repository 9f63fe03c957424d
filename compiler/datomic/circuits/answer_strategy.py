"""How an answer joins the atoms of a body: two relations at a time, or all at once.

Joins of two relations are about three times as fast per row, but may create many more rows than the
result. An acyclic body is joined in an order in which that hardly happens (Yannakakis, VLDB 1981).
For a cyclic body the counts of the indices decide: the rows of a join are estimated as the product
of the mean fan-outs, in the direction of the join.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from dbsp.operators.planner.acyclic import reduce_ears
from dbsp.operators.planner.conjunction import Atom, Conjunction
from dbsp.operators.planner.strategy import Strategy

_TOLERATED = 4
"""Joins of two relations may create this many times as many rows as the largest relation has."""

_FEW = 1000


class Counts(Protocol):
    """Counts of the relations of the sources."""

    def rows(self, relation: str) -> float | None:
        """Return the number of rows; None for a relation of the circuit."""

    def fan_out(self, relation: str, given: Collection[int]) -> float:
        """Return the mean number of rows for values of these columns that occur in the relation."""


def strategy_for(conjunction: Conjunction, counts: Counts | None) -> Strategy:
    """Return BINARY or WCOJ for the atoms of a body. O(atoms^2)."""
    if reduce_ears(conjunction.closed_edges).acyclic:
        return Strategy.BINARY
    if counts is None:
        return Strategy.WCOJ
    sizes = [size for atom in conjunction.atoms if (size := counts.rows(atom.relation)) is not None]
    largest = max(sizes, default=0.0)
    return (
        Strategy.BINARY if _most_rows(conjunction, counts) <= _TOLERATED * largest + _FEW else Strategy.WCOJ
    )


def _most_rows(conjunction: Conjunction, counts: Counts) -> float:
    """Return the most rows after a join of two relations, in the order of most bound columns."""
    waiting = [atom for atom in conjunction.atoms if counts.rows(atom.relation) is not None]
    bound: set[str] = set()
    for atom in conjunction.atoms:
        if counts.rows(atom.relation) is None:
            bound.update(atom.names)
    rows = most = 1.0
    while waiting:

        def bound_share(atom: Atom, bound: Collection[str] = frozenset(bound)) -> float:
            return sum(name in bound for name in atom.variables) / len(atom.variables)

        atom = max(waiting, key=bound_share)
        waiting.remove(atom)
        given = [column for column, name in enumerate(atom.variables) if name in bound]
        if len(given) < len(atom.variables):
            rows *= counts.fan_out(atom.relation, given)
        most = max(most, rows)
        bound.update(atom.names)
    return most
