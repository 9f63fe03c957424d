"""Joins of two relations, or of all at once, by the shape of a body and by counts."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from dbsp.compiler.datomic.circuits.answer_strategy import strategy_for
from dbsp.operators.planner.conjunction import Atom, Conjunction
from dbsp.operators.planner.strategy import Strategy


class FixedCounts:
    """Relations with a number of rows, and a fan-out in both directions."""

    def __init__(self, **relations: tuple[float, float]) -> None:
        self.relations = relations
        self.asked: list[tuple[str, tuple[int, ...]]] = []

    def rows(self, relation: str) -> float | None:
        found = self.relations.get(relation)
        return None if found is None else found[0]

    def fan_out(self, relation: str, given: Collection[int]) -> float:
        self.asked.append((relation, tuple(given)))
        rows, fan_out = self.relations[relation]
        return fan_out if given else rows


def body(*atoms: str) -> Conjunction:
    """Return the conjunction of atoms such as `edge x y`."""
    parts = [atom.split() for atom in atoms]
    return Conjunction(tuple(Atom(name, tuple(variables)) for name, *variables in parts), frozenset("x"))


TRIANGLE = body("edge x y", "edge y z", "edge z x")


@pytest.mark.parametrize("atoms", [("edge x y",), ("edge x y", "edge y z"), ("a x y", "b x z", "c x w")])
def test_an_acyclic_body_is_joined_two_by_two(atoms: tuple[str, ...]) -> None:
    counts = FixedCounts(edge=(1e9, 1e6), a=(1e9, 1e6), b=(1e9, 1e6), c=(1e9, 1e6))
    assert strategy_for(body(*atoms), counts) == strategy_for(body(*atoms), None) == Strategy.BINARY
    assert counts.asked == []


def test_a_cyclic_body_without_counts_is_joined_at_once() -> None:
    assert strategy_for(TRIANGLE, None) == Strategy.WCOJ


@pytest.mark.parametrize(
    ("rows", "fan_out", "expected"),
    [
        (1e6, 1, Strategy.BINARY),
        (1e6, 4, Strategy.BINARY),
        (1e6, 4.1, Strategy.WCOJ),
        (100, 14, Strategy.BINARY),  # a few rows more are tolerated
        (100, 14.1, Strategy.WCOJ),
        (0, 1, Strategy.BINARY),
    ],
)
def test_the_fan_out_decides_for_a_triangle(rows: float, fan_out: float, expected: Strategy) -> None:
    assert strategy_for(TRIANGLE, FixedCounts(edge=(rows, fan_out))) == expected


def test_the_last_atom_of_a_cycle_is_a_test() -> None:
    counts = FixedCounts(edge=(1000, 2))
    strategy_for(TRIANGLE, counts)
    # Scan, then one join by a bound column; the third atom has no free column.
    assert counts.asked == [("edge", ()), ("edge", (0,))]


def test_relations_of_the_circuit_bind_their_variables() -> None:
    counts = FixedCounts(edge=(1e6, 3))
    assert strategy_for(body("query x", "edge x y", "edge y z", "edge z x"), counts) == Strategy.BINARY
    # 3 rows for x, then 9; the largest relation does not matter for so few.
    assert counts.asked == [("edge", (0,)), ("edge", (0,))]


def test_rows_multiply_along_a_longer_cycle() -> None:
    square = body("edge x y", "edge y z", "edge z w", "edge w x")
    assert strategy_for(square, FixedCounts(edge=(1e6, 2))) == Strategy.BINARY
    assert strategy_for(square, FixedCounts(edge=(1e6, 2.1))) == Strategy.WCOJ


def test_the_largest_relation_is_the_measure() -> None:
    mixed = body("small x y", "large y z", "small z x")
    assert strategy_for(mixed, FixedCounts(small=(1e4, 1), large=(1e6, 40))) == Strategy.BINARY
    assert strategy_for(mixed, FixedCounts(small=(1e6, 1), large=(1e4, 40))) == Strategy.WCOJ
