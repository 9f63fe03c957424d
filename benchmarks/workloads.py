"""The workloads: deterministic data, consisting of a base to load and a log of changes by tick.

    w1       orders(order, customer, amount) join customers(customer, region): totals by region
    w3dag    transitive closure of components of 250 nodes each: deep, narrow, some with a cycle
    w3chain  transitive closure of one chain; delete an edge, insert it again
    w2       triangles of a graph whose degrees follow a power law
    w5       directed cycles of four edges, of such a graph
    clique4  cliques of four nodes
    diamond  two triangles that share an edge (`benchmarks.patterns` defines these four)

The log has ticks of one change each, then batches, then bulks of up to 10,000 changes, at most a
quarter of the graph. A change of a customer's region is a deletion and an insertion in one tick.
`read_folder` reads such logs from CSV files instead, `read_graph` a graph.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.changes import Change, Codes, Row, take
from benchmarks.graphs import Churn, power_law, read_edges
from benchmarks.patterns import WORKLOADS as GRAPHS

COLUMNS: dict[str, dict[str, tuple[str, ...]]] = {
    "w1": {"orders": ("o", "c", "amount"), "customers": ("c", "region")},
    "w3dag": {"e": ("x", "y")},
    "w3chain": {"e": ("x", "y")},
} | {name: {"e": ("x", "y")} for name in GRAPHS}
SIZES = {  # the number of orders, nodes, edges of the chain, edges
    "w1": {"tiny": 500, "small": 10_000, "medium": 100_000, "large": 1_000_000},
    "w3dag": {"tiny": 250, "small": 2_000, "medium": 20_000, "large": 50_000},
    "w3chain": {"tiny": 20, "small": 200, "medium": 1_000},
    "w2": {"tiny": 200, "small": 20_000, "medium": 200_000, "large": 1_000_000},
    "w5": {"tiny": 200, "small": 5_000, "medium": 20_000, "large": 60_000},
    "clique4": {"tiny": 200, "small": 10_000, "medium": 50_000, "large": 200_000},
    "diamond": {"tiny": 200, "small": 10_000, "medium": 50_000, "large": 200_000},
}
COMPONENT = 250
REGIONS = 50


@dataclass(frozen=True)
class Workload:
    """`base` by relation, int64[n, columns]; `ticks` of one change, `batches` of many, `bulks` of
    even more changes."""

    name: str
    size: str
    base: dict[str, Codes]
    ticks: list[list[Change]]
    batches: list[list[Change]]
    bulks: list[list[Change]] = field(default_factory=list)

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        return COLUMNS[self.name]


def make(name: str, size: str) -> Workload:
    """Return a workload; the data depends only on the arguments."""
    count = SIZES[name][size]
    chance = random.Random(name)
    tiny = size == "tiny"
    if name in GRAPHS:
        edges = power_law(
            count, np.random.default_rng(chance.randrange(1 << 32)), degree=15 if name == "clique4" else 5
        )
        return churned(name, size, edges, Churn(edges, name))
    if name == "w1":
        shop = _Shop(chance, count)
        base = shop.base()
        ticks = [shop.tick(1) for _ in range(20 if tiny else 1000)]
        return Workload(
            name, size, base, ticks, [shop.tick(20 if tiny else 1000) for _ in range(2 if tiny else 50)]
        )
    graph = _Layers(chance, count) if name == "w3dag" else _Chain(chance, count)
    base = {"e": _array(graph.edges, 2)}
    return Workload(name, size, base, list(itertools.islice(graph.ticks(), 20 if tiny else 200)), [])


def layers(nodes: int) -> Codes:
    """Return the edges of w3dag with a number of nodes."""
    return _array(_Layers(random.Random("w3dag"), nodes).edges, 2)


def read_graph(file: Path, name: str, edges: int | None = None) -> Workload:
    """Read a graph with `read_edges`; the changes delete and insert its own edges."""
    if name not in GRAPHS:
        raise ValueError(f"expected a workload with a graph ({', '.join(GRAPHS)}), got {name}")
    found = read_edges(file, ordered=name != "w5", edges=edges)
    return churned(name, file.stem, found, Churn(found, name, own=True))


def churned(name: str, size: str, edges: Codes, churn: Churn) -> Workload:
    tiny = size == "tiny"
    return Workload(
        name,
        size,
        {"e": edges},
        [churn.tick(1) for _ in range(20 if tiny else 1000)],
        [churn.tick(20 if tiny else 100) for _ in range(2 if tiny else 50)],
        [churn.tick(min(10_000, len(edges) // 4)) for _ in range(2 if tiny else 5)],
    )


class _Shop:
    def __init__(self, chance: random.Random, orders: int) -> None:
        self.chance = chance
        self.numbers = itertools.count()
        self.regions = [chance.randrange(REGIONS) for _ in range(orders // 10)]
        self.orders = [self.order() for _ in range(orders)]

    def base(self) -> dict[str, Codes]:
        return {"orders": _array(self.orders, 3), "customers": _array(enumerate(self.regions), 2)}

    def order(self) -> Row:
        return next(self.numbers), self.chance.randrange(len(self.regions)), self.chance.randint(1, 999)

    def tick(self, changes: int) -> list[Change]:
        moved: set[int] = set()
        return [change for _ in range(changes) for change in self.change(moved)]

    def change(self, moved: set[int]) -> Iterator[Change]:
        kind = self.chance.random()
        if kind < 0.4:
            self.orders.append(self.order())
            yield "orders", 1, self.orders[-1]
        elif kind < 0.8:
            yield "orders", -1, take(self.orders, self.chance)
        else:
            customer = self.chance.randrange(len(self.regions))
            while customer in moved:  # a customer moves at most once in a tick
                customer = self.chance.randrange(len(self.regions))
            moved.add(customer)
            yield "customers", -1, (customer, self.regions[customer])
            self.regions[customer] = (self.regions[customer] + self.chance.randrange(1, REGIONS)) % REGIONS
            yield "customers", 1, (customer, self.regions[customer])


class _Layers:
    """Node i of a component has one or two edges into the next dozen nodes; one component in twenty
    also has a backward edge, and so a cycle."""

    def __init__(self, chance: random.Random, nodes: int) -> None:
        self.chance = chance
        self.components = nodes // COMPONENT
        edges: set[Row] = set()
        for component in range(self.components):
            for node in range(COMPONENT - 1):
                edges.update(self.edge(component, node) for _ in range(chance.choice((1, 1, 2, 2))))
            if component % 20 == 0:
                low, high = sorted(chance.sample(range(COMPONENT), 2))
                edges.add((component * COMPONENT + high, component * COMPONENT + low))
        self.edges = sorted(edges)
        chance.shuffle(self.edges)

    def edge(self, component: int, node: int) -> Row:
        target = min(COMPONENT - 1, node + self.chance.randint(1, 12))
        return component * COMPONENT + node, component * COMPONENT + target

    def ticks(self) -> Iterator[list[Change]]:
        chance, edges, present = self.chance, list(self.edges), set(self.edges)
        while True:
            if chance.random() < 0.5:
                edge = self.edge(chance.randrange(self.components), chance.randrange(COMPONENT - 1))
                if edge not in present:
                    present.add(edge)
                    edges.append(edge)
                    yield [("e", 1, edge)]
            else:
                edge = take(edges, chance)
                present.discard(edge)
                yield [("e", -1, edge)]


class _Chain:
    def __init__(self, chance: random.Random, length: int) -> None:
        self.chance = chance
        self.edges: list[Row] = [(node, node + 1) for node in range(length)]

    def ticks(self) -> Iterator[list[Change]]:
        while True:
            edge = self.chance.choice(self.edges)
            yield [("e", -1, edge)]
            yield [("e", 1, edge)]


def _array(rows: Iterable[Row], width: int) -> Codes:
    return np.array(list(rows), np.int64).reshape(-1, width)


# -- files --------------------------------------------------------------------------------------


def find_folder(data: Path, name: str, size: str) -> Path:
    """Return `data` if it contains a workload, else `data/<name>_<size>`."""
    return data if (data / "meta.json").exists() else data / f"{name}_{size}"


def read_folder(folder: Path) -> Workload:
    """Read `<relation>.csv` with lines `op,tick,columns...` without a header; tick 0 is the base.

    `meta.json` contains k1 and k2: ticks 1 to k1 have one change, the next k2 ticks are the
    batches. The folder is named `<workload>_<size>`.
    """
    name, _, size = folder.resolve().name.partition("_")
    if name not in COLUMNS:
        raise ValueError(f"{folder}: expected a workload of {', '.join(COLUMNS)}, got '{name}'")
    meta = json.loads((folder / "meta.json").read_text())
    base: dict[str, Codes] = {}
    log: defaultdict[int, list[Change]] = defaultdict(list)
    for relation, columns in COLUMNS[name].items():
        lines = np.loadtxt(folder / f"{relation}.csv", np.int64, delimiter=",", ndmin=2)
        if lines.shape[1] != len(columns) + 2:
            raise ValueError(
                f"{folder / relation}.csv: expected {len(columns) + 2} columns, got {lines.shape[1]}"
            )
        at_start = lines[:, 1] == 0
        base[relation] = np.ascontiguousarray(lines[at_start, 2:])
        for op, tick, *row in lines[~at_start].tolist():
            log[tick].append((relation, op, tuple(row)))
    small, last = meta["k1"], meta["k1"] + meta["k2"]
    ticks = [log.get(tick, []) for tick in range(1, small + 1)]
    batches = [log.get(tick, []) for tick in range(small + 1, last + 1)]
    return Workload(name, size, base, ticks, batches)
