"""Graham's reduction against the definition of acyclicity, and the blocks of a query."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given

from dbsp.operators.planner.acyclic import blocks, reduce_ears
from tests.operators.planner.planner_support import edges, hypergraphs


@pytest.mark.parametrize(
    ("query", "core"),
    [
        ("ab bc cd", ""),  # a path
        ("ab ac ad", ""),  # a star
        ("ab cd", ""),  # a cross product
        ("ab bc ac abc", ""),  # a triangle within an atom
        ("abc cde efa ace", ""),  # three atoms around a fourth
        ("ab ab", ""),
        ("ab bc ac", "ab bc ac"),
        ("ab bc cd da", "ab bc cd da"),
        ("abc cde efa", "abc cde efa"),  # the same without the fourth
        ("ab bc ac cd de", "ab bc ac"),  # a tail is removed
        ("ab bc ac cd de ef df", "ab bc ac cd de ef df"),  # two triangles with a bridge
        ("abx bcy acz", "abx bcy acz"),
    ],
)
def test_the_core_of_the_reduction(query: str, core: str) -> None:
    found = reduce_ears(edges(query))
    assert [query.split()[edge] for edge in found.core] == core.split()
    assert found.acyclic == (core == "")


@given(hypergraphs())
def test_a_query_is_acyclic_if_it_has_a_join_tree(query: list[frozenset[str]]) -> None:
    """Test acyclicity by a tree of maximum weight.

    A tree of the edges has the running intersection property if and only if the number of shared
    variables on its links is the sum over all variables of (their number of edges - 1). No tree has
    more (Bernstein and Goodman 1981)."""
    complete = nx.Graph()
    complete.add_nodes_from(range(len(query)))
    for a in range(len(query)):
        for b in range(a):
            complete.add_edge(a, b, weight=len(query[a] & query[b]))
    tree = nx.maximum_spanning_tree(complete)
    shared = sum(weight for _, _, weight in tree.edges(data="weight"))
    variables = frozenset().union(*query)
    wanted = sum(sum(name in edge for edge in query) - 1 for name in variables)
    assert reduce_ears(query).acyclic == (shared == wanted)


@given(hypergraphs())
def test_the_ears_are_a_join_tree(query: list[frozenset[str]]) -> None:
    found = reduce_ears(query)
    assert sorted([ear for ear, _ in found.ears] + list(found.core)) == list(range(len(query)))
    gone: set[int] = set()
    for ear, parent in found.ears:
        gone.add(ear)
        assert parent not in gone
        left = [query[edge] for edge in range(len(query)) if edge not in gone]
        shared = query[ear] & frozenset().union(*left)
        assert shared <= (query[parent] if parent is not None else frozenset())


def test_blocks_share_at_most_one_variable() -> None:
    query = edges("ab bc ac cd de ef df")
    assert blocks(query, range(7)) == ((0, 1, 2), (3,), (4, 5, 6))
    assert blocks(edges("ab bc ac bd cd"), range(5)) == ((0, 1, 2, 3, 4),)  # two triangles on one edge
    assert blocks(edges("ab bc ac cd de ce"), range(6)) == ((0, 1, 2), (3, 4, 5))  # on one vertex
    assert blocks(query, [0, 1, 2]) == ((0, 1, 2),)
    assert blocks(edges("a b"), range(2)) == ((0,), (1,))
