"""Random graphs and graphs from files, and streams of changes to their edges."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.changes import Change, Codes, Row, take

CLOSING = 0.4
"""The share of edges (a, c) that close a path a -> b -> c and so form triangles."""

CLOSING_ROUNDS = 200
"""How often edges that close paths are drawn; then the others close none."""


def power_law(edges: int, chance: np.random.Generator, *, degree: int = 5, exponent: float = 2.4) -> Codes:
    """Return distinct edges without loops; the degrees follow a power law with this exponent.

    Node i is an end of an edge with a probability proportional to (i + i0)^(-1 / (exponent - 1))
    (the model of Chung and Lu, PNAS 2002), with shuffled numbers. Then paths are closed: the
    degrees keep their skew, and there are about as many triangles as edges.
    """
    nodes = nodes_for(edges, degree)
    weight = (np.arange(nodes) + nodes**0.5 / 16) ** (-1 / (exponent - 1))
    bounds = np.cumsum(weight) / weight.sum()
    number = chance.permutation(nodes)

    def draw(count: int) -> Codes:
        return number[np.searchsorted(bounds, chance.random((count, 2)), side="right").clip(max=nodes - 1)]

    loose = collect(edges - int(CLOSING * edges), draw)
    rounds = iter(range(CLOSING_ROUNDS))

    def draw_closed(count: int) -> Codes:
        # A small graph may have too few paths.
        return draw(count) if next(rounds, None) is None else closing(loose, count, chance)

    return collect(edges, draw_closed, loose)


def uniform(edges: int, chance: np.random.Generator, *, degree: int = 5) -> Codes:
    """Return distinct edges without loops between random nodes."""
    nodes = nodes_for(edges, degree)
    return collect(edges, lambda count: chance.integers(0, nodes, (count, 2)))


def nodes_for(edges: int, degree: int) -> int:
    """Return a number of nodes for `degree` edges per node, at most 1/4 of all possible edges."""
    return max(edges // degree, int((4 * edges) ** 0.5) + 2)


def closing(edges: Codes, count: int, chance: np.random.Generator) -> Codes:
    """Return (a, c) for `count` random paths a -> b -> c; fewer if paths end in b."""
    ordered = edges[np.argsort(edges[:, 0], kind="stable")]
    first = edges[chance.integers(0, len(edges), count)]
    low = np.searchsorted(ordered[:, 0], first[:, 1], side="left")
    high = np.searchsorted(ordered[:, 0], first[:, 1], side="right")
    continues = high > low
    low, high = low[continues], high[continues]
    second = ordered[low + (chance.random(len(low)) * (high - low)).astype(np.int64)]
    return np.column_stack((first[continues, 0], second[:, 1]))


def collect(number: int, draw: Callable[[int], Codes], have: Codes | None = None) -> Codes:
    """Draw `number` edges, without loops and duplicates, in the order of drawing."""
    found = np.empty((0, 2), np.int64) if have is None else have
    while len(found) < number:
        more = draw(2 * (number - len(found)) + 16)
        more = more[more[:, 0] != more[:, 1]]
        both = np.concatenate((found, more))
        _, places = np.unique(both, axis=0, return_index=True)
        found = both[np.sort(places)]
    return np.ascontiguousarray(found[:number], np.int64)


def read_edges(file: Path, *, ordered: bool, edges: int | None = None) -> Codes:
    """Read the first two numbers of every line as an undirected edge; `#` starts a comment.

    An edge is directed from its lower to its higher node, so that every clique is found once. If
    not `ordered`, the direction is random, because otherwise no directed cycle exists. `edges`
    keeps a random sample.
    """
    lines = np.loadtxt(file, np.int64, comments="#", usecols=(0, 1), ndmin=2)
    found = np.unique(np.sort(lines[lines[:, 0] != lines[:, 1]], axis=1), axis=0)
    chance = np.random.default_rng(1)
    found = chance.permutation(found)[:edges]
    if not ordered:
        turned = chance.random(len(found)) < 0.5
        found[turned] = found[turned, ::-1]
    return np.ascontiguousarray(found)


class Churn:
    """Random deletions of present edges and insertions of absent edges, with equal probability.

    Half of the new edges close paths of the first graph, the other half connect ends of its edges;
    with `own`, new edges are edges that an earlier tick deleted.
    """

    def __init__(self, edges: Codes, seed: str, *, own: bool = False) -> None:
        self.base = edges
        self.chance = random.Random(seed)
        self.numbers = np.random.default_rng(self.chance.randrange(1 << 32))
        self.edges: list[Row] = list(map(tuple, edges.tolist()))
        self.present = set(self.edges)
        self.deleted: list[Row] = []
        self.fresh = None if own else self.draw()

    def draw(self) -> Iterator[Row]:
        while True:
            ends = self.base[self.numbers.integers(0, len(self.base), (512, 2)), [0, 1]]
            closed = closing(self.base, 512, self.numbers)
            both = self.numbers.permutation(np.concatenate((ends, closed)))
            yield from ((x, y) for x, y in both.tolist() if x != y)

    def tick(self, changes: int) -> list[Change]:
        """Return a number of changes without repeated edges."""
        lost: list[Row] = []
        gained: list[Row] = []
        tick: list[Change] = []
        for _ in range(changes):
            edge = self.new_edge() if self.chance.random() < 0.5 else None
            if edge is not None:
                gained.append(edge)
                tick.append(("e", 1, edge))
            elif self.edges:
                lost.append(take(self.edges, self.chance))
                tick.append(("e", -1, lost[-1]))
        # Only now, so that the tick neither deletes its insertions nor inserts its deletions.
        self.edges += gained
        self.present.difference_update(lost)
        self.deleted += lost
        return tick

    def new_edge(self) -> Row | None:
        if self.fresh is None:
            return take(self.deleted, self.chance) if self.deleted else None
        edge = next(edge for edge in self.fresh if edge not in self.present)
        self.present.add(edge)
        return edge
