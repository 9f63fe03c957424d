"""Test whether a query is acyclic: Graham's reduction, and the join tree that it finds.

A query is (alpha-)acyclic if its atoms form a tree in which, for each variable, the atoms with this
variable are connected (the running intersection property). Then joining along the tree never
creates a row that is discarded later (Yannakakis, VLDB 1981). Otherwise a core remains. Every tree
of two-way joins over the core may create more rows than the largest possible result.

The reduction (Graham 1979; Yu and Ozsoyoglu 1979) repeats, until nothing changes:
  - remove a variable that occurs in only one edge;
  - remove an ear: an edge whose variables are all in another edge, its parent in the join tree.
The query is acyclic if and only if no edge remains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dbsp.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Reduction:
    """The result of the reduction.

    Args:
        ears: (edge, parent) in the order of removal, so each edge comes before its parent. The
            parent is None for the root of a component, which shares no variable with other edges.
        core: the remaining edges, without any ear; empty for an acyclic query.
    """

    ears: tuple[tuple[int, int | None], ...]
    core: tuple[int, ...]

    @property
    def acyclic(self) -> bool:
        return not self.core


def reduce_ears(edges: Sequence[frozenset[str]]) -> Reduction:
    """Apply Graham's reduction to a hypergraph; O(n^3) set operations for n edges.

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
    """Return an edge, with its parent: another edge that has all its shared variables."""
    uses = Counter(name for edge in left.values() for name in edge)
    for index, edge in left.items():
        shared = {name for name in edge if uses[name] > 1}
        if not shared:
            return index, None
        # Of several parents take the smallest: the join with it adds the fewest variables.
        parents = [other for other in left if other != index and shared <= left[other]]
        if parents:
            return index, min(parents, key=lambda other: (len(left[other]), other))
    return None


def blocks(edges: Sequence[frozenset[str]], chosen: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Group the chosen edges by biconnected component: two components share at most one variable.

    Two triangles connected by an edge are three blocks. A block can be joined on its own: other
    blocks restrict its result no more than a semijoin does. Edges with at most one variable go to
    the first block that has it. Blocks are in the order of their first edges.
    """
    import networkx as nx  # slow to import

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
