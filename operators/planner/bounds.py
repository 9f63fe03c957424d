"""The maximum number of rows of a join, and the width of its tree decompositions.

For a query with atoms of sizes |R_e| and any weights x_e >= 0 that cover each variable, sum over
the atoms e with v of x_e >= 1, the result has at most prod |R_e|^x_e rows. The least such bound is
reached by some instance (Atserias, Grohe and Marx, FOCS 2008). A join variable by variable takes
time within this bound, up to a logarithm (Ngo, Re and Rudra, SIGMOD Record 2013). Every tree of
two-way joins may take more: n^2 instead of n^1.5 for the triangles of n edges.

    minimise sum x_e log |R_e|   subject to   sum_{e with v} x_e >= 1 for each v,   x_e >= 0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache

from dbsp.lazy_dataclass import dataclass
from dbsp.operators.planner.simplex import least_cover

EXACT_VARIABLES = 9
"""With at most this many variables the best decomposition is found, otherwise a good one."""


@dataclass(frozen=True, slots=True)
class Cover:
    """A fractional edge cover: the weight of each edge, and the sum of weight * cost."""

    weights: tuple[float, ...]
    cost: float


def fractional_cover(
    edges: Sequence[Collection[str]],
    costs: Sequence[float] | None = None,
    variables: Collection[str] | None = None,
) -> Cover:
    """Return the cheapest fractional edge cover of the variables (by default of all edges).

    With costs log |R_e|, its cost is the log of the AGM bound. With costs 1 (the default), it is
    the exponent of the bound n^cost for relations of n rows. O(one small linear program), about 1
    ms.

    >>> fractional_cover(["ab", "bc", "ac"])
    Cover(weights=(0.5, 0.5, 0.5), cost=1.5)

    Raises:
        ValueError: no edge has one of the variables.
    """
    costs = [1.0] * len(edges) if costs is None else costs
    wanted = sorted({name for edge in edges for name in edge} if variables is None else set(variables))
    if not wanted or not edges:
        if wanted:
            raise ValueError(f"no edge covers {wanted[0]}")
        return Cover((0.0,) * len(edges), 0.0)
    for name in wanted:
        if not any(name in edge for edge in edges):
            raise ValueError(f"no edge covers {name}")
    solved = least_cover([[name in edge for name in wanted] for edge in edges], costs)
    weights = tuple(round(float(weight), 9) + 0.0 for weight in solved)
    return Cover(weights, round(sum(weight * cost for weight, cost in zip(weights, costs, strict=True)), 9))


def agm_bound(edges: Sequence[Collection[str]], rows: Sequence[float]) -> float:
    """Return the maximum number of rows of the join; `inf` if a float cannot hold it.

    >>> round(agm_bound(["ab", "bc", "ac"], [100, 100, 100]))
    1000
    """
    if any(count == 0 for count in rows):
        return 0.0
    # An expected number of rows may be less than one; a relation with rows has at least one.
    cost = fractional_cover(edges, [math.log(max(1.0, count)) for count in rows]).cost
    return math.exp(cost) if cost < 700 else math.inf


def packed(edges: Sequence[Collection[str]], logs: Sequence[float]) -> float:
    """Return a lower bound of the log of the AGM bound, without a linear program.

    By duality, every y_v >= 0 with sum_{v in e} y_v <= log |R_e| satisfies sum y_v <= log AGM. Here
    each atom offers equal shares to its variables, and each variable takes the smallest offer.
    """
    shares: dict[str, float] = {}
    for edge, log in zip(edges, logs, strict=True):
        for name in edge:
            shares[name] = min(log / len(edge), shares.get(name, math.inf))
    return sum(shares.values())


@dataclass(frozen=True, slots=True)
class Decomposition:
    """A tree decomposition: each edge is in a bag, and the bags with a variable are connected.

    `parents[i]` is the bag above bag i, None for a root. `width` is the largest fractional cover
    number of a bag, with edges restricted to the bag: 1 for acyclic queries, 1.5 for the triangle.
    """

    bags: tuple[frozenset[str], ...]
    parents: tuple[int | None, ...]
    width: float


def decompose(edges: Sequence[frozenset[str]]) -> Decomposition:
    """Return a decomposition of the least width, the fractional hypertree width of the query.

    Each tree decomposition comes from an order of eliminating the variables. The bag of a variable
    is the variable and its remaining neighbours, which become neighbours of each other. With at
    most EXACT_VARIABLES variables, dynamic programming over the sets of eliminated variables finds
    the best order (Bodlaender et al., ACM Trans. Algorithms 2012), with O(2^n n) bags. Otherwise
    the variable that adds the fewest neighbour pairs is eliminated first.
    """
    names = sorted({name for edge in edges for name in edge})
    near = {v: frozenset(w for edge in edges if v in edge for w in edge if w != v) for v in names}

    @cache
    def width(bag: frozenset[str]) -> float:
        return fractional_cover([edge & bag for edge in edges], variables=bag).cost

    order = _best_order(names, near, width) if len(names) <= EXACT_VARIABLES else _min_fill(near)
    bags: list[frozenset[str]] = []
    for at, variable in enumerate(order):
        bags.append(_reached(near, frozenset(order[:at]), variable) | {variable})
    return _contract(order, bags, max(map(width, bags), default=0.0))


def _best_order(
    names: Sequence[str], near: Mapping[str, frozenset[str]], width: Callable[[frozenset[str]], float]
) -> list[str]:
    """Return the elimination order of the least width; among equals, the one with smaller bags."""
    best: dict[frozenset[str], tuple[tuple[float, int], list[str]]] = {frozenset(): ((0.0, 0), [])}
    for _ in names:
        following: dict[frozenset[str], tuple[tuple[float, int], list[str]]] = {}
        for eliminated, ((widest, total), order) in best.items():
            for variable in names:
                if variable in eliminated:
                    continue
                bag = _reached(near, eliminated, variable) | {variable}
                score = (max(widest, width(bag)), total + len(bag) ** 2)
                known = following.get(eliminated | {variable})
                if known is None or score < known[0]:
                    following[eliminated | {variable}] = (score, [*order, variable])
        best = following
    ((_, order),) = best.values()
    return order


def _min_fill(near: Mapping[str, frozenset[str]]) -> list[str]:
    left = {name: set(others) for name, others in near.items()}
    order = []

    def fill(name: str) -> int:
        return sum(b not in left[a] for a in left[name] for b in left[name] if a < b)

    while left:
        name = min(left, key=lambda candidate: (fill(candidate), len(left[candidate]), candidate))
        others = left.pop(name)
        for other in others:
            left[other] |= others - {other}
            left[other].discard(name)
        order.append(name)
    return order


def _reached(near: Mapping[str, frozenset[str]], eliminated: frozenset[str], start: str) -> frozenset[str]:
    """Return the remaining variables that are reachable from `start` through eliminated ones."""
    seen = {start}
    waiting = [start]
    while waiting:
        for name in near[waiting.pop()] - seen:
            seen.add(name)
            if name in eliminated:
                waiting.append(name)
    return frozenset(seen - eliminated - {start})


def _contract(order: Sequence[str], bags: Sequence[frozenset[str]], width: float) -> Decomposition:
    """Return the tree of the bags without contained bags.

    The parent of a bag is the bag of the variable that is eliminated next among its variables.
    """
    import networkx as nx  # slow to import

    place = {name: at for at, name in enumerate(order)}
    tree = nx.Graph()
    tree.add_nodes_from(range(len(bags)))
    for at, bag in enumerate(bags):
        above = [place[name] for name in bag if name != order[at]]
        if above:
            tree.add_edge(at, min(above))
    while contained := next(
        ((a, b) for edge in tree.edges for a, b in (edge, edge[::-1]) if bags[a] <= bags[b]), None
    ):
        small, large = contained
        tree.add_edges_from((large, other) for other in tree[small] if other != large)
        tree.remove_node(small)
    parents: dict[int, int | None] = {}
    for component in nx.connected_components(tree):
        root = max(component)
        parents[root] = None
        parents.update((child, parent) for parent, child in nx.bfs_edges(tree, root))
    number = {bag: at for at, bag in enumerate(sorted(parents))}
    return Decomposition(
        tuple(bags[bag] for bag in number),
        tuple(None if (up := parents[bag]) is None else number[up] for bag in number),
        width,
    )
