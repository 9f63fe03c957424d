"""The inner loops in rows per second: sort, merge, probe, join."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.changes import Codes
from dbsp.kernels import consolidate, join_runs, register_run, sum_weights
from dbsp.kernels.run_tables import merge_some


@dataclass(frozen=True)
class Rate:
    what: str
    rows: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.rows / self.seconds


def measure_kernels(rows: int, repeat: int = 3) -> Iterator[Rate]:
    """Measure each kernel on `rows` rows: the best of several calls, without the first."""
    chance = np.random.default_rng(1)
    ones = np.ones(rows, np.int64)
    for what, width, values in (
        ("2 columns", 2, 1 << 40),
        ("3 columns", 3, 1 << 40),
        ("few values", 2, rows // 8),
    ):
        loose = chance.integers(0, max(2, values), (rows, width))
        yield rate(f"sort, {what}", rows, partial(consolidate, loose, ones), repeat)

    older, newer = sorted_run(chance, rows // 2), sorted_run(chance, rows - rows // 2)
    yield rate("merge of two runs", rows, partial(merge, older, newer), repeat)

    run = sorted_run(chance, rows)
    table = np.zeros((1, 3), np.int64)
    register_run(table, 0, *run)
    for share in (1, 100, 10_000):
        picked = np.sort(chance.choice(rows, max(1, rows // share), replace=False))
        keys = run[0][picked]
        what = f"probe, 1 row in {share}"
        yield rate(what, len(keys), partial(sum_weights, keys, table, 1), repeat)

    graph = consolidate(chance.integers(0, max(2, rows // 8), (rows, 2)), np.ones(rows, np.int64))
    register_run(table, 0, *graph)
    delta = (graph[0][::8].copy(), graph[1][::8].copy())
    columns = np.array([0, 1, -2], np.int64)
    joined = len(join_runs(*delta, 1, table, 1, 2, columns)[1])
    yield rate("join, result rows", joined, partial(join_runs, *delta, 1, table, 1, 2, columns), repeat)


def sorted_run(chance: np.random.Generator, rows: int) -> tuple[Codes, Codes]:
    return consolidate(chance.integers(0, 1 << 40, (rows, 2)), np.ones(rows, np.int64))


def merge(older: tuple[Codes, Codes], newer: tuple[Codes, Codes]) -> None:
    total = len(older[1]) + len(newer[1])
    out = np.empty((total, 2), np.int64), np.empty(total, np.int64)
    merge_some(*older, *newer, *out, np.zeros(4, np.int64), total)


def rate(what: str, rows: int, work: Callable[[], object], repeat: int) -> Rate:
    work()
    spent = []
    for _ in range(repeat):
        began = time.perf_counter()
        work()
        spent.append(time.perf_counter() - began)
    return Rate(what, rows, min(spent))
