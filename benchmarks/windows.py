"""Step windows over event time with a watermark for many ticks: all sizes must stay flat.

Two streams of events, each with late rows and retractions, are joined by time and user; windows of
both are counted by user, the largest value of each window is kept, the names of a window are a set.
Every event has a new name. Outputs are behind `recent`. The run has a checkpoint. At every report
the views must equal those of a run over the recent events.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.contest import resident_bytes
from dbsp import Circuit, Run, col, count
from dbsp.durable import Store

TICKS = {"small": 20_000, "medium": 200_000, "large": 2_000_000}
PER_TICK = 5
LATENESS = 50
WINDOW, HOP = 60, 20

Change = dict[str, dict[tuple[Any, ...], int]]


@dataclass(frozen=True)
class Windowed:
    """The state of a run after some ticks; latencies, in seconds, are those since the last one."""

    ticks: int
    state_rows: int
    largest_trace: int
    """The rows of the largest trace."""
    view_rows: int
    interned: int
    file_bytes: int
    resident_bytes: int
    median: float
    slow: float
    slowest: float
    processor: float
    problem: str = ""


def windows_circuit() -> Circuit:
    """Return a circuit whose traces all forget what the watermarks have passed."""
    circuit = Circuit("windows")
    columns = {"t": int, "user": int, "v": int, "name": str}
    streams = {name: circuit.input(name, schema=columns) for name in ("click", "sale")}
    split = {name: stream.watermark("t", LATENESS) for name, stream in streams.items()}
    clicks, sales = split["click"], split["sale"]
    windows = clicks.on_time.window("t", WINDOW, HOP)
    totals = windows.group_by("window_end", "user").agg(n=count(), total=col("v").sum(), most=col("v").max())
    circuit.output("totals", totals.recent(clicks.watermark, "window_end"))
    names = windows.select("window_end", "name").distinct()
    circuit.output("names", names.recent(clicks.watermark, "window_end"))
    pairs = clicks.on_time.range_join(
        sales.on_time.map(bought=col("t"), user=col("user"), price=col("v")),
        on=["user"], left="t", right="bought", low=0, high=10,
    )  # fmt: skip
    sold = pairs.window("t", WINDOW).group_by("window_end").agg(n=count(), total=col("price").sum())
    circuit.output("sold", sold.recent(clicks.watermark, "window_end"))
    circuit.output("late", clicks.late.group_by().agg(n=count()))
    return circuit


def measure_windows(ticks: int, folder: Path, reports: int = 10, seed: int = 1) -> Iterator[Windowed]:
    """Step a run for so many ticks; yield a report after each of so many parts."""
    chance = random.Random(seed)
    run = windows_circuit().start(checkpoint=Store(folder, sync=False))
    latencies: list[float] = []
    recent: list[Change] = []
    for tick in range(1, ticks + 1):
        change = _change(tick, chance)
        recent = [*recent[-2 * (LATENESS + WINDOW) :], change]
        began = time.perf_counter()
        run.step(change)
        latencies.append(time.perf_counter() - began)
        if tick * reports % ticks < reports:
            latencies.sort()
            yield Windowed(
                tick,
                run.state_rows,
                max(trace.rows for trace in run.scope.traces),
                sum(len(run.view(name)) for name in run.outputs),
                len(run.interner),
                sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
                resident_bytes(),
                latencies[len(latencies) // 2],
                latencies[len(latencies) * 99 // 100],
                latencies[-1],
                time.process_time(),
                _difference(run, recent) if tick > len(recent) else "",
            )
            latencies = []
    if run.log is not None:
        run.log.close()


def _change(tick: int, chance: random.Random) -> Change:
    """Return events around the time of a tick, with retractions, and some that are too late."""
    change: Change = {"click": {}, "sale": {}}
    for part in change.values():
        for _ in range(PER_TICK):
            back = chance.randrange(3 * LATENESS) if chance.random() < 0.02 else chance.randrange(LATENESS)
            name = f"{tick}.{chance.randrange(1000)}"
            row = (tick - back, chance.randrange(20), chance.randrange(100), name)
            part[row] = -1 if chance.random() < 0.1 else 1
    return change


def _difference(run: Run, recent: list[Change]) -> str:
    """Return how views differ from those of a run over the latest ticks; empty if they do not."""
    fresh = windows_circuit().start()
    for change in recent:
        fresh.step(change)
    for name in ("totals", "names", "sold"):
        if run.view(name).to_dict() != fresh.view(name).to_dict():
            return f"tick {run.tick}: view {name} differs from a run over the latest {len(recent)} ticks"
    return ""
