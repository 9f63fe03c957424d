"""The pauses that snapshots cause: single-row ticks of a large state, with and without snapshots.

Each measurement steps the same run: without a checkpoint, with the journal alone, and with
snapshots, which are written in the background or in the tick.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dbsp import Circuit, Run, sum_
from dbsp.durable import Store

ROWS = {"tiny": 20_000, "small": 1_000_000, "medium": 10_000_000}
MODES = ("no checkpoint", "journal", "background", "in the tick")
NEVER = 10**9


@dataclass(frozen=True)
class Pauses:
    """Seconds of the ticks of one run."""

    mode: str
    sync: bool
    rows: int
    ticks: int
    snapshots: int
    median: float
    slow: float
    """The slowest of a hundred ticks."""
    slowest: float
    total: float

    @property
    def factor(self) -> float:
        """The slowest tick in median ticks."""
        return self.slowest / self.median


def measure_pauses(
    rows: int, ticks: int = 20_000, every: Any = 1_000, syncs: tuple[bool, ...] = (False, True)
) -> Iterator[Pauses]:
    """Yield the pauses in every mode."""
    for sync in syncs:
        for mode in MODES:
            if mode == "no checkpoint" and sync:
                continue
            with tempfile.TemporaryDirectory() as folder:
                yield _pauses(Path(folder), mode, sync, rows, ticks // 4 if sync else ticks, every)


def _pauses(folder: Path, mode: str, sync: bool, rows: int, ticks: int, every: Any) -> Pauses:
    background = mode == "background"
    store = Store(
        folder, snapshot_every=NEVER if mode == "journal" else every, sync=sync, background=background
    )
    run = started(rows, None if mode == "no checkpoint" else store)
    chance = np.random.default_rng(7)
    changes = zip(chance.integers(0, rows // 10, ticks).tolist(), range(rows, rows + ticks), strict=True)
    times, snapshots, last = [], 0, store._manifest
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        for key, value in changes:
            began = time.perf_counter()
            run.step({"a": {(key, value): 1}})
            times.append(time.perf_counter() - began)
            snapshots += store._manifest is not last
            last = store._manifest
    finally:
        gc.enable()
        gc.unfreeze()
    store.close()
    ordered = sorted(times)
    return Pauses(
        mode,
        sync,
        rows,
        ticks,
        snapshots,
        statistics.median(ordered),
        ordered[len(ordered) * 99 // 100],
        ordered[-1],
        sum(times),
    )


def started(rows: int, store: Store | None) -> Run:
    """Return a run of a sum per key with so many rows, and a snapshot of it."""
    circuit = Circuit("snapshots")
    a = circuit.input("a", k=int, v=int)
    circuit.output("totals", a.group_by("k").agg(total=sum_("v")))
    circuit.output("all", a.distinct())
    run = circuit.start(checkpoint=store)
    values = np.arange(rows)
    run.step({"a": pa.table({"k": values % (rows // 10), "v": values})})
    for value in range(100):
        run.step({"a": {(value, value + 2 * rows): 1}})
    if store is not None:
        run.snapshot()
    return run
