"""The cost of the planner's choice, compared with every strategy, for patterns in graphs."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import dbsp
from benchmarks.changes import Codes
from benchmarks.contest import net
from benchmarks.graphs import Churn, power_law, uniform
from benchmarks.patterns import PATTERNS

STRATEGIES = ("auto", "binary", "wcoj")

EDGES = {
    "triangle": 100_000,
    "cycle4": 10_000,
    "clique4": 50_000,
    "diamond": 50_000,
    "path2": 20_000,
    "star": 1_000,
    "barbell": 400,
}
"""Edges of the medium size, chosen so that results have about a million rows at most."""

SHARES = {"tiny": 0.01, "small": 0.1, "medium": 1.0, "large": 4.0}

GRAPHS: dict[str, Callable[[int, np.random.Generator], Codes]] = {
    "power law": power_law,
    "uniform": lambda edges, chance: uniform(edges, chance, degree=20),
}

Tick = dict[str, dict[tuple[int, ...], int]]


class Times(NamedTuple):
    """Processor seconds of the load, and of the median tick with one and with many changes."""

    load: float
    tick: float
    batch: float


@dataclass(frozen=True)
class Planned:
    """Times by strategy, and the rows of the final result."""

    query: str
    graph: str
    edges: int
    rows: int
    times: dict[str, Times]

    @property
    def ratios(self) -> Times:
        """The planner's time divided by that of the better strategy."""
        auto, *others = (self.times[strategy] for strategy in STRATEGIES)
        return Times(*(own / min(each) for own, *each in zip(auto, *others, strict=True)))


def measure_planner(
    share: float, *, ticks: int = 200, batches: int = 10, repeat: int = 3, only: str = ""
) -> Iterator[Planned]:
    """Measure every query on every graph: the minimum of several rounds of all strategies."""
    for query, edges in EDGES.items():
        for graph, make in GRAPHS.items():
            if only in f"{query}, {graph}":
                count = max(60, int(edges * share))
                base = make(count, np.random.default_rng(count))
                churn = Churn(base, query)
                singles = [net(churn.tick(1)) for _ in range(ticks)]
                many = [net(churn.tick(min(1_000, count // 10))) for _ in range(batches)]
                yield compared(query, graph, base, singles, many, repeat)


def compared(
    query: str, graph: str, base: Codes, ticks: list[Tick], batches: list[Tick], repeat: int
) -> Planned:
    played: dict[str, list[Times]] = {strategy: [] for strategy in STRATEGIES}
    found: dict[str, int] = {}
    for _ in range(1 + repeat):  # the first round compiles kernels and is not counted
        for strategy in STRATEGIES:
            times, found[strategy] = play(query, strategy, base, ticks, batches)
            played[strategy].append(times)
    if len(set(found.values())) > 1:
        raise ValueError(f"{query} on the {graph} graph: expected equal results, got {found} rows")
    least = {strategy: Times(*map(min, zip(*all_of[1:], strict=True))) for strategy, all_of in played.items()}
    return Planned(query, graph, len(base), found["auto"], least)


def play(query: str, strategy: str, base: Codes, ticks: list[Tick], batches: list[Tick]) -> tuple[Times, int]:
    """Return the times and the rows of the result."""
    run = dbsp.compile(PATTERNS[query].rules(), strategy=strategy).start()
    table = pa.table({"x": base[:, 0], "y": base[:, 1]})
    gc.collect()
    began = time.process_time()
    run.step({"e": table})
    load = time.process_time() - began
    tick, batch = (statistics.median(seconds(run, each)) for each in (ticks, batches))
    return Times(load, tick, batch), len(run.view("result"))


def seconds(run: dbsp.Run, ticks: list[Tick]) -> Iterator[float]:
    for tick in ticks:
        began = time.process_time()
        run.step(tick)
        yield time.process_time() - began
