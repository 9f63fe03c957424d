"""The load of each operator with rows that fit a word, and with wide rows that do not.

    narrow   (g, v, t)      10,000 groups, 20 bits, a serial number
    wide     (g, v, f, t)   the same, 30 bits, and a float

Wide rows are sorted in another way, and rows of real data often are wide. The times are wall-clock,
because loads use all threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dbsp import Circuit, Stream, col

ROWS = {"tiny": 2_000, "small": 300_000, "medium": 1_000_000, "large": 4_000_000}
GROUPS = 10_000
ROUNDS = 3
"""Each load is measured so often; the fastest counts."""

WIDTHS = {"narrow": {"g": int, "v": int, "t": int}, "wide": {"g": int, "v": int, "f": float, "t": int}}

Build = Callable[[Stream, Stream], Stream]
CASES: dict[str, Build] = {
    "input": lambda s, o: s,
    "filter": lambda s, o: s.filter(col("v") % 2 == 0),
    "map": lambda s, o: s.with_columns(x=col("v") * 2 + col("g")),
    "distinct": lambda s, o: s.distinct(),
    "sum by group": lambda s, o: s.group_by("g").agg(total=col("v").sum()),
    "median by group": lambda s, o: s.group_by("g").agg(middle=col("v").median()),
    "join": lambda s, o: s.join(o, on="g"),
    "left join": lambda s, o: s.join(o, on="g", how="left"),
    "anti join": lambda s, o: s.join(o, on="g", how="anti"),
    "range join": lambda s, o: s.range_join(o, on="g", left="t", right="w", low=-1000, high=1000),
    "as-of join": lambda s, o: s.asof_join(o, on="g", left="t", right="w"),
    "top 3 of a group": lambda s, o: s.top_k(3, by="v", partition=["g"]),
    "rank": lambda s, o: s.rank(by="v", partition=["g"]),
    "lag": lambda s, o: s.lag("v", by="t", partition=["g"]),
    "window": lambda s, o: s.window("t", 1000),
}


@dataclass(frozen=True)
class LoadWidths:
    """Seconds of the load of one operator, by the width of the rows, and the rows of the result."""

    case: str
    seconds: dict[str, float]
    results: dict[str, int]


def measure_load_widths(rows: int, only: str = "") -> Iterator[LoadWidths]:
    """Measure every case whose name contains `only`."""
    for name, build in CASES.items():
        if only not in name:
            continue
        seconds, results = {}, {}
        for width in WIDTHS:
            tables = {"s": _table(width, rows), "o": _others(rows)}
            found = [_load(build, width, tables) for _ in range(ROUNDS)]
            seconds[width] = min(one for one, _ in found)
            results[width] = found[0][1]
        yield LoadWidths(name, seconds, results)


def _load(build: Build, width: str, tables: dict[str, pa.Table]) -> tuple[float, int]:
    circuit = Circuit("loads")
    rows, others = circuit.input("s", **WIDTHS[width]), circuit.input("o", g=int, u=int, w=int)
    circuit.output("out", build(rows, others))
    run = circuit.start()
    began = time.perf_counter()
    result = run.step(tables)
    return time.perf_counter() - began, len(result["out"])


def _table(width: str, rows: int) -> pa.Table:
    random = np.random.default_rng(rows)
    columns = {"g": random.integers(0, GROUPS, rows), "v": random.integers(0, 1 << 20, rows)}
    if width == "wide":
        columns["v"] += random.integers(0, 1 << 10, rows) << 20
        columns["f"] = random.random(rows)
    return pa.table({**columns, "t": np.arange(rows)})


def _others(rows: int) -> pa.Table:
    random = np.random.default_rng(1)
    size = rows // 10
    return pa.table(
        {
            "g": random.integers(0, GROUPS, size),
            "u": random.integers(0, 1 << 20, size),
            "w": random.integers(0, rows, size),
        }
    )
