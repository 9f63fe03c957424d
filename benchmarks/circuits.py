"""The cost of a circuit itself: build and start a large one, and step it without changes."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from dbsp import Circuit, Stream, col, count


@dataclass(frozen=True)
class Costs:
    """Seconds of each part; `operators` of the query circuit, `nodes` of the physical circuit."""

    operators: int
    nodes: int
    build: float
    validate: float
    start: float
    empty_tick: float

    @property
    def per_node(self) -> float:
        return self.empty_tick / self.nodes


def measure_circuit(operators: int = 1_000, ticks: int = 300) -> Costs:
    """Measure a circuit of so many different operators, with the median of its empty ticks."""
    began = time.perf_counter()
    circuit = large(operators)
    built = time.perf_counter()
    circuit.validate()
    valid = time.perf_counter()
    run = circuit.start()
    started = time.perf_counter()
    run.step({"a": [(1, 2)], "b": [(1, 2)]})
    times = []
    for _ in range(ticks):
        tick_began = time.perf_counter()
        run.step()
        times.append(time.perf_counter() - tick_began)
    nodes = sum(1 for _ in run.graph.walk())
    return Costs(
        len(circuit.nodes),
        nodes,
        built - began,
        valid - built,
        started - valid,
        statistics.median(times),
    )


def large(operators: int) -> Circuit:
    """Return branches of a filter, a join, an aggregate, a map and a distinct, in unions of ten."""
    circuit = Circuit("large")
    a, b = circuit.input("a", x=int, y=int), circuit.input("b", x=int, y=int)
    branches: list[Stream] = []
    while len(circuit.nodes) < operators - 12:
        n = len(circuit.nodes)
        joined = a.filter(col("x") > n).join(b, on=["x"])
        counted = joined.group_by("x").agg(y=count())
        branches.append(counted.map(x=col("x"), y=col("y") + n).distinct())
        if len(branches) == 10:
            circuit.output(f"out{n}", branches[0].union(*branches[1:]))
            branches = []
    circuit.output("out", a.union(b, *branches))
    return circuit
