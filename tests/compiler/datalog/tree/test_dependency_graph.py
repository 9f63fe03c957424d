"""Graphs of names give the results of networkx."""

from __future__ import annotations

import itertools

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from dbsp.compiler.datalog.tree.dependency_graph import DependencyGraph

nodes = st.integers(0, 7)
graphs = st.tuples(st.lists(nodes, max_size=5), st.lists(st.tuples(nodes, nodes), max_size=16))


@given(graphs)
def test_components(parts: tuple[list[int], list[tuple[int, int]]]) -> None:
    own, other = both(parts)
    assert list(own.components()) == list(nx.strongly_connected_components(other))
    assert list(own.edges) == list(other.edges)
    assert all(own.has_edge(a, b) == other.has_edge(a, b) for a in range(9) for b in range(9))


@given(graphs, st.permutations(range(8)))
def test_order(parts: tuple[list[int], list[tuple[int, int]]], keys: list[int]) -> None:
    # Edges from smaller to larger nodes have no cycle.
    own, other = both((parts[0], [(min(edge), max(edge)) for edge in parts[1] if edge[0] != edge[1]]))
    expected = nx.lexicographical_topological_sort(other, key=keys.__getitem__)
    assert list(own.in_order(keys.__getitem__)) == list(expected)


@given(graphs)
def test_paths(parts: tuple[list[int], list[tuple[int, int]]]) -> None:
    own, other = both(parts)
    for source, lengths in nx.all_pairs_shortest_path_length(other):
        for target, length in lengths.items():
            path = own.path(source, target)
            assert len(path) == length + 1
            assert (path[0], path[-1]) == (source, target)
            assert all(own.has_edge(a, b) for a, b in itertools.pairwise(path))


def test_nodes_in_or_behind_a_cycle_have_no_order() -> None:
    graph = DependencyGraph([(1, 2), (2, 3), (3, 2), (3, 4)], nodes=[5])
    assert list(graph.in_order(lambda node: node)) == [1, 5]


def both(
    parts: tuple[list[int], list[tuple[int, int]]],
) -> tuple[DependencyGraph[int], nx.DiGraph]:
    own = DependencyGraph(parts[1], parts[0])
    other = nx.DiGraph()
    other.add_nodes_from(parts[0])
    other.add_edges_from(parts[1])
    return own, other
