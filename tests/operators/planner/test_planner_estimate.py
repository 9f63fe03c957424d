"""Estimated numbers of joined rows and prefixes, compared with exact counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given

from dbsp.kernels.arrays import Codes
from dbsp.operators.planner.bounds import agm_bound
from dbsp.operators.planner.conjunction import Atom, Conjunction
from dbsp.operators.planner.estimate import Estimator
from dbsp.operators.planner.sampling import LINK
from dbsp.operators.planner.statistics import Statistics
from tests.operators.planner.planner_support import conjunctions, graph, joined, query, relations


def estimator(conjunction: Conjunction, data: dict[str, Codes]) -> Estimator:
    return Estimator(conjunction, Statistics(data.get, encode=lambda relation, column, value: value))


@given(conjunctions(), relations())
def test_no_estimate_is_above_the_bound(conjunction: Conjunction, data: dict[str, Codes]) -> None:
    found = estimator(conjunction, data)
    every = frozenset(range(len(conjunction.atoms)))
    bound = agm_bound(conjunction.edges, found.sizes)
    assert 0 <= found.rows(every) <= bound * (1 + 1e-6)
    assert 0 <= found.kept(every) <= max(1.0, bound) * (1 + 1e-6)


@given(conjunctions(), relations())
def test_small_joins_are_counted_exactly(conjunction: Conjunction, data: dict[str, Codes]) -> None:
    """A join that fits into a sample is counted exactly, without conditions and functions."""
    everything = frozenset(conjunction.variables)
    plain = Conjunction(conjunction.atoms, everything)
    every = range(len(plain.atoms))
    actual = len(joined(plain, data, every))
    if actual:
        assert estimator(plain, data).rows(frozenset(every)) == pytest.approx(actual)


@given(conjunctions(), relations())
def test_terms_count_the_results(conjunction: Conjunction, data: dict[str, Codes]) -> None:
    plain = Conjunction(conjunction.atoms, frozenset(conjunction.variables))
    every = range(len(plain.atoms))
    parts = [frozenset({atom}) for atom in every]
    actual = len(joined(plain, data, every))
    found = estimator(plain, data)
    for changed in every:
        if actual and len(parts) > 1:
            term = found.term(parts, changed)
            assert term.results * found.sizes[changed] == pytest.approx(actual)
            assert set(term.order) == set(plain.variables) - set(plain.atoms[changed].names)


def wedges_and_triangles(rows: Codes, vertices: int) -> tuple[int, int]:
    matrix = np.zeros((vertices, vertices), np.int64)
    matrix[rows[:, 0], rows[:, 1]] = 1
    paths = matrix @ matrix
    return int(paths.sum()), int((paths * matrix).sum())


def test_joins_of_a_skewed_graph() -> None:
    rows = graph(1_000, 40_000, 0.7)
    wedges, triangles = wedges_and_triangles(rows, 1_000)
    found = estimator(query("ab bc ac"), {"e": rows})
    assert found.rows(frozenset({0, 1})) == pytest.approx(wedges, rel=0.2)
    assert found.rows(frozenset({0, 1, 2})) == pytest.approx(triangles, rel=0.25)
    assert triangles < wedges / 5
    for changed in range(3):
        term = found.term([frozenset({atom}) for atom in range(3)], changed)
        assert term.results * len(rows) == pytest.approx(triangles, rel=0.25)
        (level,) = term.levels
        # The atom with fewer values proposes, so fewer than the mean of a wedge.
        assert level.prefixes < level.proposals < wedges / len(rows)


def test_a_few_rows_with_very_many_matches_are_not_missed() -> None:
    # All vertices are joined to one vertex: nearly all paths go through it.
    others = np.arange(1, 5_000)
    hub = np.zeros_like(others)
    rows = np.concatenate([np.stack([others, hub], axis=1), np.stack([hub, others], axis=1)])
    found = estimator(query("ab bc cd", "abc"), {"e": rows})
    paths = len(others) ** 2 + len(others)  # through the hub, and from it and back
    assert found.rows(frozenset({0, 1})) == paths
    assert found.rows(frozenset({1, 2})) == len(rows)  # d is not read
    assert found.rows(frozenset({0, 1, 2})) == pytest.approx(paths)
    star = estimator(query("ab ac ad"), {"e": rows})
    assert star.rows(frozenset({0, 1, 2})) == pytest.approx(float(len(others)) ** 3, rel=0.01)


def test_the_projected_rows_of_a_join() -> None:
    rows = np.array([[x, y] for x in range(50) for y in range(20)])
    found = estimator(query("ab bc", "a"), {"e": rows})
    assert found.kept(frozenset({0, 1})) == pytest.approx(50)
    assert found.kept(frozenset({0})) == len(rows)
    assert estimator(query("ab bc", ""), {"e": rows}).kept(frozenset({0, 1})) == pytest.approx(1)


def test_an_order_starts_with_the_fewest_proposals() -> None:
    # x has few z but many y.
    many = np.array([[x, x * 100 + y] for x in range(50) for y in range(100)])
    few = np.array([[x, x + 1] for x in range(50)])
    ends = np.array([[y, x + 1] for x, y in many])
    conjunction = query("xy xz yz", relations=["many", "few", "ends"])
    start = Conjunction((*conjunction.atoms, Atom("v", ("x",))), conjunction.needed)
    found = estimator(start, {"many": many, "few": few, "ends": ends, "v": np.arange(50)[:, None]})
    parts = [frozenset({atom}) for atom in range(4)]
    term = found.term(parts, 3)
    assert term.order == ("z", "y")
    assert [level.prefixes for level in term.levels] == pytest.approx([1, 100])
    assert found.term(parts, 3, ("y", "z")).work > term.work


def test_variables_that_functions_compute_are_not_proposed() -> None:
    rows = np.array([[x, x + 1] for x in range(40)])
    atoms = (Atom("e", ("x", "y")), Atom("e", ("z", "u")), Atom("e", ("y", "v")))
    conjunction = Conjunction(atoms, frozenset("xyzuv"), functions=(("z", frozenset("xy")),))
    found = estimator(conjunction, {"e": rows})
    parts = [frozenset({atom}) for atom in range(3)]
    assert set(found.term(parts, 0).order) == {"u", "v"}
    assert found.rows(frozenset({0, 1})) == pytest.approx(40, rel=0.1)  # no cross product
    assert set(found.term(parts, 1).order) >= {"x", "v"}


def test_a_condition_is_assumed_to_keep_half_of_the_rows() -> None:
    rows = np.array([[x, y] for x in range(20) for y in range(20)])
    conjunction = query("ab bc")
    ordered = Conjunction(conjunction.atoms, conjunction.needed, links=(frozenset("ac"),))
    found = estimator(ordered, {"e": rows})
    plain = estimator(conjunction, {"e": rows})
    assert found.rows(frozenset({0, 1})) == LINK * plain.rows(frozenset({0, 1}))
    parts = [frozenset({0}), frozenset({1})]
    assert found.term(parts, 0).results == LINK * plain.term(parts, 0).results


def test_many_variables_are_ordered_greedily() -> None:
    rows = graph(300, 600, 0.1)
    conjunction = query("ab bc cd de ef fg gh")
    found = estimator(conjunction, {"e": rows})
    term = found.term([frozenset({atom}) for atom in range(7)], 3)
    assert set(term.order) == set("abcfgh")
    bound = {"d", "e"}
    for name in term.order:
        assert any(name in atom.names and bound & set(atom.names) for atom in conjunction.atoms)
        bound.add(name)


def test_an_empty_relation() -> None:
    found = estimator(
        query("ab bc ac", relations=["e", "f", "e"]),
        {"e": np.ones((3, 2), np.int64), "f": np.empty((0, 2), np.int64)},
    )
    assert found.rows(frozenset({0, 1, 2})) == 0
    term = found.term([frozenset({atom}) for atom in range(3)], 0)
    assert math.isfinite(term.work)
