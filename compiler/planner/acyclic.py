"""Is a query acyclic? Graham's reduction, and the join tree that it finds.

A query is (alpha-)acyclic if its atoms can be connected into a tree such that the atoms with any one
variable are connected in it (the running intersection property). Then joining along the tree never
makes a result that is thrown away later (Yannakakis, VLDB 1981). Otherwise a core is left for which
every tree of two-way joins may be worse than the largest possible result.

The reduction (Graham 1979; Yu and Ozsoyoglu 1979) repeats, until nothing changes:
  - forget a variable that only one edge has;
  - take out an edge, an ear, whose variables are all in another edge, its parent in the join tree.
The query is acyclic if and only if no edge is left in the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx


@dataclass(frozen=True, slots=True)
class Reduction:
    """What the reduction found.

    Args:
        ears: (edge, parent) as they were taken out, so each edge stands before its parent. The
            parent is None for the root of a component: it shares nothing with what was left.
        core: the edges that no ear was found among; empty for an acyclic query.
    """

    ears: tuple[tuple[int, int | None], ...]
    core: tuple[int, ...]

    @property
    def acyclic(self) -> bool:
        return not self.core


def reduce_ears(edges: Sequence[frozenset[str]]) -> Reduction:
    """Graham's reduction of a hypergraph; O(n^3) set operations for n edges.

    >>> reduce_ears([frozenset("ab"), frozenset("bc"), frozenset("cd")]).ears
    ((0, 1), (1, 2), (2, None))
    >>> reduce_ears([frozenset("ab"), frozenset("bc"), frozenset("ac"), frozenset("cd")])
    Reduction(ears=((3, 1),), core=(0, 1, 2))
    """
    left = dict(enumerate(edges))
    ears: list[tuple[int, int | None]] = []
    while found := _ear(left):
        ears.append(found)
        del left[found[0]]
    return Reduction(tuple(ears), tuple(left))


def _ear(left: dict[int, frozenset[str]]) -> tuple[int, int | None] | None:
    """An edge whose variables that others have as well are all in one of the others."""
    uses = Counter(name for edge in left.values() for name in edge)
    for index, edge in left.items():
        shared = {name for name in edge if uses[name] > 1}
        if not shared:
            return index, None
        # Of several parents the one with least besides: the join with it brings least along.
        parents = [other for other in left if other != index and shared <= left[other]]
        if parents:
            return index, min(parents, key=lambda other: (len(left[other]), other))
    return None


def blocks(edges: Sequence[frozenset[str]], chosen: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The chosen edges by biconnected component: two components share one variable at most.

    Two triangles with an edge between them are three blocks. A block can be joined by itself without
    an intermediate result that the other blocks would have made smaller by more than a semijoin.
    Edges of a single variable or none go to the first block that has it; in the order of their first edges.
    """
    graph = nx.Graph()
    for index in chosen:
        names = sorted(edges[index])
        graph.add_nodes_from(names)
        graph.add_edges_from((a, b) for at, a in enumerate(names) for b in names[at + 1 :])
    components = [frozenset(component) for component in nx.biconnected_components(graph)]
    components += [frozenset({name}) for name in nx.isolates(graph)]
    components.sort(key=sorted)
    groups: dict[frozenset[str], list[int]] = {}
    for index in chosen:
        home = next((component for component in components if edges[index] <= component), frozenset())
        groups.setdefault(home, []).append(index)
    return tuple(sorted(tuple(group) for group in groups.values()))
