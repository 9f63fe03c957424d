"""The growth of loads and insertions of triangles with the graph, on graphs with known exponents.

    two hubs    x -> h -> y -> g -> x for all x and all y, and edges between g and h: n edges have
                n / 2 triangles, but n^2 / 8 paths of two edges, which every binary plan computes
    tripartite  all edges from A to B, from B to C and from A to C, sqrt(n / 3) nodes each:
                (n / 3)^1.5 triangles, the maximum of n edges (Atserias, Grohe, Marx, SIAM J.
                Comput. 2013)

A load is one tick. A stream inserts the same edges, shuffled, in ticks of a fixed size.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.changes import Codes
from benchmarks.patterns import PATTERNS
from dbsp import Circuit

BATCH = 256
"""The number of edges that a tick of a stream inserts."""

POWERS = {"tiny": (9, 10), "small": (10, 13), "medium": (11, 15), "large": (11, 17)}
"""The minimum and maximum number of edges, as powers of two."""

MOST_PAIRS = 10_000_000
"""The maximum number of rows that a binary plan stores; larger graphs are not measured."""


@dataclass(frozen=True)
class Scaling:
    """Processor seconds by number of edges, the minimum of three runs."""

    graph: str
    plan: str
    phase: str
    edges: tuple[int, ...]
    results: tuple[int, ...]
    seconds: tuple[float, ...]

    @property
    def exponent(self) -> float | None:
        """p in seconds = c * edges^p: the slope of the logarithms by least squares."""
        if len(self.edges) < 2:
            return None
        return float(np.polyfit(np.log(self.edges), np.log(self.seconds), 1)[0])


def two_hubs(edges: int) -> Codes:
    side = np.arange(max(1, edges // 4))
    left, right = 2 + side, 2 + len(side) + side
    h, g = np.zeros_like(side), np.ones_like(side)
    spokes = [(left, h), (h, right), (right, g), (g, left)]
    return np.concatenate([np.column_stack(pair) for pair in spokes] + [np.array([(0, 1), (1, 0)])])


def tripartite(edges: int) -> Codes:
    nodes = round((edges / 3) ** 0.5)
    pairs = np.stack(np.meshgrid(np.arange(nodes), np.arange(nodes)), axis=-1).reshape(-1, 2)
    a, b, c = 0, nodes, 2 * nodes
    return np.concatenate([pairs + shift for shift in ([a, b], [b, c], [a, c])])


GRAPHS: dict[str, tuple[Callable[[int], Codes], Callable[[int], float]]] = {
    "two hubs": (two_hubs, lambda n: n * n / 8),
    "tripartite": (tripartite, lambda n: (n / 3) ** 1.5),
}
"""The generator of each graph, and the number of pairs of its edges that a binary plan joins."""

PLANS: dict[str, Callable[[], Circuit]] = {
    "multi-way": PATTERNS["triangle"].multiway,
    "binary": lambda: PATTERNS["triangle"].joins("as-written"),
}


def measure_scaling(powers: tuple[int, int], *, most_pairs: float = MOST_PAIRS) -> Iterator[Scaling]:
    """Measure both graphs with both plans, as a load and as a stream of insertions."""
    sizes = [2**power for power in range(powers[0], powers[1] + 1)]
    for graph, (make, pairs) in GRAPHS.items():
        for plan, build in PLANS.items():
            chosen = [size for size in sizes if plan == "multi-way" or pairs(size) <= most_pairs]
            for phase, batch in (("load", None), ("stream", BATCH)):
                yield grown(graph, plan, phase, [make(size) for size in chosen], build, batch)


def grown(
    graph: str,
    plan: str,
    phase: str,
    graphs: Sequence[Codes],
    build: Callable[[], Circuit],
    batch: int | None,
) -> Scaling:
    if graphs:
        spent(graphs[0], build, batch)  # compiles the kernels
    measured = [min(spent(edges, build, batch) for _ in range(3)) for edges in graphs]
    return Scaling(
        graph,
        plan,
        phase,
        tuple(map(len, graphs)),
        tuple(rows for rows, _ in measured),
        tuple(seconds for _, seconds in measured),
    )


def spent(edges: Codes, build: Callable[[], Circuit], batch: int | None) -> tuple[int, float]:
    """Return the number of triangles and the processor seconds."""
    shuffled = np.random.default_rng(len(edges)).permutation(edges)
    step = batch or len(edges)
    ticks = [
        {"e": pa.table({"x": part[:, 0], "y": part[:, 1]})}
        for part in (shuffled[start : start + step] for start in range(0, len(shuffled), step))
    ]
    run = build().start()
    gc.collect()
    began = time.process_time()
    for tick in ticks:
        run.step(tick)
    return len(run.view("result")), time.process_time() - began
