"""Bounds on the size of joins, and decompositions into bags."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.kernels.arrays import Codes
from dbsp.operators.planner.acyclic import reduce_ears
from dbsp.operators.planner.bounds import agm_bound, decompose, fractional_cover, packed
from dbsp.operators.planner.conjunction import Conjunction
from tests.operators.planner.planner_support import conjunctions, edges, hypergraphs, joined, query, relations


@pytest.mark.parametrize(
    ("text", "exponent"),
    [
        ("ab bc ac", 1.5),
        ("ab bc cd da", 2),
        ("ab ac ad bc bd cd", 2),
        ("ab bc cd de ea", 2.5),
        ("ab ac ad", 3),
        ("ab bc cd", 2),
        ("abc ab", 1),
        ("abc abd acd bcd", 4 / 3),  # Loomis and Whitney
    ],
)
def test_the_exponent_of_a_query(text: str, exponent: float) -> None:
    cover = fractional_cover(edges(text))
    assert cover.cost == pytest.approx(exponent)
    for name in set(text) - {" "}:
        covered = [weight for weight, edge in zip(cover.weights, text.split(), strict=True) if name in edge]
        assert sum(covered) >= 1 - 1e-6


def test_small_relations_are_preferred_in_the_cover() -> None:
    # The product of two relations is smaller than the bound with the third relation.
    rows = [10.0, 1_000.0, 1_000_000.0]
    assert agm_bound(edges("ab bc ac"), rows) == pytest.approx(10_000)
    assert fractional_cover(edges("ab bc ac"), [math.log(number) for number in rows]).weights == (1, 1, 0)


def test_the_bound_without_rows_or_variables() -> None:
    assert agm_bound(edges("ab bc"), [0, 100]) == 0
    assert agm_bound([frozenset()], [1]) == 1
    assert fractional_cover([], [], []).cost == 0
    assert agm_bound([frozenset({f"v{i}"}) for i in range(200)], [1e6] * 200) == math.inf
    with pytest.raises(ValueError, match="no edge covers c"):
        fractional_cover(edges("ab"), variables="abc")
    with pytest.raises(ValueError, match="no edge covers a"):
        fractional_cover([], variables="ab")


@given(conjunctions(), relations())
def test_no_join_is_larger_than_its_bound(conjunction: Conjunction, data: dict[str, Codes]) -> None:
    every = range(len(conjunction.atoms))
    sizes = [len(joined(conjunction, data, [atom])) for atom in every]
    bound = agm_bound([frozenset(atom.names) for atom in conjunction.atoms], sizes)
    assert len(joined(conjunction, data, every)) <= bound * (1 + 1e-6)


def test_the_bound_is_reached() -> None:
    side = np.arange(5)
    complete = np.array([[a, b] for a in side for b in side])
    triangles = joined(query("ab bc ac"), {"e": complete}, range(3))
    assert len(triangles) == 125 == round(agm_bound(edges("ab bc ac"), [25] * 3))


@given(hypergraphs(), st.data())
def test_the_packing_is_never_above_the_bound(query: list[frozenset[str]], data: st.DataObject) -> None:
    logs = [data.draw(st.floats(0, 20)) for _ in query]
    assert packed(query, logs) <= fractional_cover(query, logs).cost + 1e-6


@given(hypergraphs())
def test_a_decomposition_is_a_tree_with_every_edge_in_a_bag(query: list[frozenset[str]]) -> None:
    found = decompose(query)
    assert all(any(edge <= bag for bag in found.bags) for edge in query)
    tree = nx.Graph()
    tree.add_nodes_from(range(len(found.bags)))
    tree.add_edges_from((bag, up) for bag, up in enumerate(found.parents) if up is not None)
    assert nx.is_forest(tree)
    for name in frozenset().union(*query):
        assert nx.is_connected(tree.subgraph(at for at, bag in enumerate(found.bags) if name in bag))
    assert not any(a < b for a in found.bags for b in found.bags)
    widths = [fractional_cover([edge & bag for edge in query], variables=bag).cost for bag in found.bags]
    assert found.width == pytest.approx(max(widths))
    assert (found.width == pytest.approx(1)) == reduce_ears(query).acyclic


@pytest.mark.parametrize(
    ("text", "width", "bags"),
    [
        ("ab bc ac", 1.5, 1),
        ("ab bc cd da", 2, 2),
        ("ab bc ac cd de ef df", 1.5, 3),
        ("ab bc ac bd cd", 1.5, 2),
        ("ab ac ad bc bd cd", 2, 1),
        ("ab bc cd de ef fg gh hi ij jk ka", 2, 9),  # too long for the exact search
    ],
)
def test_known_widths(text: str, width: float, bags: int) -> None:
    found = decompose(edges(text))
    assert (found.width, len(found.bags)) == (pytest.approx(width), bags)
