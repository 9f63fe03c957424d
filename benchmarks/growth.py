"""The time of a tick by the size of the state: the same small change to larger relations."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.changes import Codes
from dbsp import Circuit, Stream, col, count

DECADES = {"tiny": (3, 4), "small": (4, 5), "medium": (4, 5, 6), "large": (4, 5, 6, 7)}
"""Rows of state, as powers of ten."""

CHANGE = 5
"""The number of rows that a tick deletes, and the number that it inserts."""

GROUP = 10
"""The rows of one key; the edges of one chain."""

Tick = dict[str, dict[tuple[int, ...], int]]


@dataclass(frozen=True)
class Case:
    """An operator, its relations and its changes.

    `base` returns the relations for a number of rows, `ticks` the changes to them.
    """

    name: str
    build: Callable[[Circuit], Stream]
    base: Callable[[int], dict[str, Codes]]
    ticks: Callable[[int, np.random.Generator], Iterator[Tick]]


@dataclass(frozen=True)
class Growth:
    """Seconds of the median tick and of the slowest one, for each number of rows."""

    name: str
    rows: tuple[int, ...]
    median: tuple[float, ...]
    slowest: tuple[float, ...]

    @property
    def factors(self) -> tuple[float, ...]:
        """The growth of the median from each number of rows to the next."""
        return tuple(after / before for before, after in zip(self.median, self.median[1:], strict=False))


def measure_growth(decades: Sequence[int], ticks: int = 200, only: str = "") -> Iterator[Growth]:
    """Measure every case whose name contains `only`, at every size."""
    for case in CASES:
        if only in case.name:
            sizes = tuple(10**decade for decade in decades)
            times = [tick_times(case, rows, ticks) for rows in sizes]
            medians = tuple(statistics.median(measured) for measured in times)
            yield Growth(case.name, sizes, medians, tuple(map(max, times)))


def tick_times(case: Case, rows: int, ticks: int) -> list[float]:
    """Return the seconds of every tick, after loading the relations and some unmeasured ticks."""
    circuit = Circuit(case.name)
    circuit.output("out", case.build(circuit))
    run = circuit.start()
    base = case.base(rows)
    run.step({name: table(codes, run.inputs[name].names) for name, codes in base.items()})
    del base
    changes = case.ticks(rows, np.random.default_rng(rows))
    warm, times = max(10, ticks // 10), []
    gc.collect()
    gc.disable()
    try:
        for _ in range(warm + ticks):
            change = next(changes)
            began = time.perf_counter()
            run.step(change)
            times.append(time.perf_counter() - began)
    finally:
        gc.enable()
    return times[warm:]


def table(codes: Codes, names: Sequence[str]) -> Any:
    return pa.table({name: codes[:, place] for place, name in enumerate(names)})


# --- relations and changes -----------------------------------------------------------------------


def pairs(rows: int) -> dict[str, Codes]:
    """Return keys with GROUP rows each; every value occurs once."""
    values = np.arange(rows)
    return {"a": np.column_stack((values % (rows // GROUP), values))}


def pairs_and_keys(rows: int) -> dict[str, Codes]:
    """Return `pairs`, and a second relation with one row for every second key."""
    keys = np.arange(0, rows // GROUP, 2)
    return pairs(rows) | {"b": np.column_stack((keys, keys))}


def replaced(rows: int, chance: np.random.Generator) -> Iterator[Tick]:
    """Replace rows of `pairs`, none of them twice, by rows with random keys."""
    keys = rows // GROUP
    deleted = iter(chance.permutation(rows).tolist())
    new = rows
    while True:
        change: dict[tuple[int, ...], int] = {}
        for _ in range(CHANGE):
            old = next(deleted)
            change[old % keys, old] = -1
            change[int(chance.integers(keys)), new] = 1
            new += 1
        yield {"a": change}


def replaced_on_both_sides(rows: int, chance: np.random.Generator) -> Iterator[Tick]:
    """Also delete one key of the other relation, or insert it again."""
    for number, tick in enumerate(replaced(rows, chance)):
        if number % 2 == 0:
            key = 2 * int(chance.integers(rows // GROUP // 2))
        tick["b"] = {(key, key): 1 if number % 2 else -1}
        yield tick


def upserted(rows: int, chance: np.random.Generator) -> Iterator[Tick]:
    """Assign new keys to old values; the value is the key of the relation."""
    while True:
        picked = chance.choice(rows, 2 * CHANGE, replace=False).tolist()
        yield {"a": {(int(chance.integers(rows)), value): 1 for value in picked}}


def smallest_deleted(rows: int, chance: np.random.Generator) -> Iterator[Tick]:
    """Delete the smallest values, and insert larger ones than all others."""
    keys, least = rows // GROUP, 0
    while True:
        change: dict[tuple[int, ...], int] = {}
        for value in range(least, least + CHANGE):
            change[value % keys, value] = -1
            change[0, rows + value] = 1
        least += CHANGE
        yield {"a": change}


def chains(rows: int) -> dict[str, Codes]:
    """Return the edges of chains of GROUP nodes with about `rows` pairs of connected nodes."""
    nodes = np.arange(max(1, 2 * rows // (GROUP - 1) // GROUP) * GROUP)
    edges = np.column_stack((nodes, nodes + 1))
    return {"a": edges[nodes % GROUP != GROUP - 1]}


def cut_and_repaired(rows: int, chance: np.random.Generator) -> Iterator[Tick]:
    """Delete the last edge of a chain, and insert it again in the next tick."""
    edges = chains(rows)["a"]
    last = edges[edges[:, 1] % GROUP == GROUP - 1]
    while True:
        x, y = last[int(chance.integers(len(last)))].tolist()
        for weight in (-1, 1):
            yield {"a": {(x, y): weight}}


# --- the operators -------------------------------------------------------------------------------


def bag(circuit: Circuit, name: str = "a") -> Stream:
    return circuit.input(name, k=int, v=int)


def closure(circuit: Circuit) -> Stream:
    edge = circuit.input("a", x=int, y=int)
    with circuit.fixpoint("closure") as scope:
        path = scope.variable("path", edge.schema)
        longer = path.join(edge, on=[("y", "x")], select=["x", "y_right"]).rename(y="y_right")
        scope.define(path, (edge + longer).distinct())
    return scope.leave(path)


CASES = (
    Case("distinct", lambda c: bag(c).distinct(), pairs, replaced),
    Case("join", lambda c: bag(c).join(bag(c, "b"), on=["k"]), pairs_and_keys, replaced_on_both_sides),
    Case(
        "semijoin",
        lambda c: bag(c).join(bag(c, "b"), on=["k"], how="semi"),
        pairs_and_keys,
        replaced_on_both_sides,
    ),
    Case(
        "antijoin",
        lambda c: bag(c).join(bag(c, "b"), on=["k"], how="anti"),
        pairs_and_keys,
        replaced_on_both_sides,
    ),
    Case("count, sum", lambda c: bag(c).group_by("k").agg(n=count(), t=col("v").sum()), pairs, replaced),
    Case(
        "min, max", lambda c: bag(c).group_by("k").agg(lo=col("v").min(), hi=col("v").max()), pairs, replaced
    ),
    Case(
        "min, max of one group",
        lambda c: bag(c).group_by().agg(lo=col("v").min(), hi=col("v").max()),
        pairs,
        smallest_deleted,
    ),
    Case("set input", lambda c: c.input("a", k=int, v=int, kind="set"), pairs, replaced),
    Case("keyed input", lambda c: c.input("a", k=int, v=int, key=("v",)), pairs, upserted),
    Case("closure", closure, chains, cut_and_repaired),
)
