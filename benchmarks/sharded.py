"""One circuit in one process and in several: loads, ticks of all sizes, state, exchanged rows.

All ways take the same changes in turn, so that what else the machine does slows all of them. A tick
deletes rows of the largest relation, the next inserts them again. The state must be what it was,
and all results must be equal.
"""

from __future__ import annotations

import ctypes
import gc
import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import dbsp
from benchmarks.changes import Codes
from benchmarks.contest import Outcome
from benchmarks.engine import RULES, outcome_of, tables
from benchmarks.workloads import make
from dbsp.shards.shard_stats import ShardStats
from dbsp.shards.sharded_run import ShardedRun

SHARDS = {
    "tiny": {"w1": "tiny", "w2": "tiny", "w3dag": "tiny"},
    "small": {"w1": "medium", "w2": "small", "w3dag": "small"},
    "medium": {"w1": "large", "w2": "medium", "w3dag": "medium"},
    "large": {"w1": "large", "w2": "large", "w3dag": "large"},
}
"""The size of each workload."""
WAYS = (0, 1, 2, 4)
"""Numbers of shards; 0 is a run of one process."""
TICKS = {1: 50, 100: 30, 10_000: 5, 100_000: 3}
"""By the rows of a tick, how many pairs of ticks are measured."""
LOADS = 2


@dataclass
class Phase:
    """Seconds of ticks: by tick the time, by process (the caller's first) the processor time."""

    wall: list[float] = field(default_factory=list)
    processors: list[list[float]] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return statistics.median(self.wall)

    @property
    def by_process(self) -> list[float]:
        """The mean processor time of a tick in each process."""
        return [statistics.fmean(times) for times in zip(*self.processors, strict=True)]


@dataclass
class Sharded:
    """A workload on a number of shards, 0 for a run of one process."""

    workload: str
    shards: int
    load: Phase = field(default_factory=Phase)
    ticks: dict[int, Phase] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)
    """By shard, the rows of all state after the load."""
    bytes: list[int] = field(default_factory=list)
    sent_rows: int = 0
    """The rows that the load moved between shards."""
    sent_bytes: int = 0
    outcome: Outcome | None = None

    @property
    def name(self) -> str:
        return f"{self.shards} shards" if self.shards > 1 else "1 shard" if self.shards else "one process"


class Way:
    """A run of the workload, in one process or in several."""

    def __init__(self, workload: str, shards: int) -> None:
        program = dbsp.compile(RULES[workload])
        self.measured = Sharded(workload, shards)
        self.run: dbsp.Run | ShardedRun
        if shards:
            self.run = ShardedRun(program.circuit("distributed"), shards)
        else:
            self.run = dbsp.Run(program.circuit("physical"))
        base = tables(workload, make(workload, "tiny").base)
        for weight in (1, -1, 1, -1):  # compiles the kernels
            self.run.step({name: weighted(rows, weight) for name, rows in base.items()})
        self._moved = moved(self.run.stats()) if isinstance(self.run, ShardedRun) else (0, 0)

    @property
    def processes(self) -> list[int]:
        """The ids of the processes, the caller's first."""
        run = self.run
        return (
            [os.getpid(), *(stats.process for stats in run.stats())]
            if isinstance(run, ShardedRun)
            else [os.getpid()]
        )

    def step(self, changes: Mapping[str, Any], phase: Phase, processes: Sequence[int]) -> None:
        before = [processor_seconds(process) for process in processes]
        started = time.perf_counter()
        self.run.step(changes)
        phase.wall.append(time.perf_counter() - started)
        after = [processor_seconds(process) for process in processes]
        phase.processors.append([end - start for end, start in zip(after, before, strict=True)])

    def record_state(self) -> None:
        """Note the state and the exchanged rows."""
        run, measured = self.run, self.measured
        if isinstance(run, ShardedRun):
            stats = run.stats()
            measured.rows, measured.bytes = [each.rows for each in stats], [each.bytes for each in stats]
            (rows, size), (rows_before, size_before) = moved(stats), self._moved
            measured.sent_rows, measured.sent_bytes = rows - rows_before, size - size_before
        else:
            measured.rows, measured.bytes = [run.state_rows], [run.state_bytes]

    def close(self) -> None:
        if isinstance(self.run, ShardedRun):
            self.run.close()


def measure_shards(
    sizes: Mapping[str, str],
    ways: Sequence[int] = WAYS,
    ticks: Mapping[int, int] = TICKS,
    loads: int = LOADS,
    only: str = "",
) -> Iterator[list[Sharded]]:
    """Yield for each workload the measurements of all ways."""
    for workload, size in sizes.items():
        if only in workload:
            base = make(workload, size).base
            running: list[Way] = []
            try:
                yield [way.measured for way in _measured(workload, base, running, ways, ticks, loads)]
            finally:
                for way in running:
                    way.close()


def _measured(
    workload: str,
    base: dict[str, Codes],
    running: list[Way],
    ways: Sequence[int],
    ticks: Mapping[int, int],
    loads: int,
) -> list[Way]:
    loading = {shards: Phase() for shards in ways}
    for _ in range(loads):
        for way in running:
            way.close()
        running.clear()
        for shards in ways:
            way = Way(workload, shards)
            running.append(way)
            changes = tables(workload, base)
            release_memory()
            way.step(changes, loading[shards], way.processes)
    for way in running:
        way.measured.load = loading[way.measured.shards]
        way.record_state()
    relation, rows = max(base.items(), key=lambda item: len(item[1]))
    chance = np.random.default_rng(1)
    processes = [way.processes for way in running]
    for size, count in ticks.items():
        if size > len(rows) // 2:
            continue
        phases = [way.measured.ticks.setdefault(size, Phase()) for way in running]
        for _ in range(count):
            chosen = np.sort(chance.choice(len(rows), size, replace=False))
            table = tables(workload, {relation: rows[chosen]})[relation]
            for weight in (-1, 1):
                change = changed(table, weight)
                for way, phase, pids in zip(running, phases, processes, strict=True):
                    way.step({relation: change}, phase, pids)
    for way in running:
        way.measured.outcome = outcome_of(way.run)
    return running


def release_memory() -> None:
    """Return unused memory to the system: the processes of shards have none from earlier loads."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # only glibc has it
        trim(0)


def moved(stats: Sequence[ShardStats]) -> tuple[int, int]:
    """Return the rows and bytes that have gone from one shard to another."""
    counts = [counts for each in stats for counts in each.exchanges.values()]
    return sum(each.rows_received for each in counts), sum(each.bytes_sent for each in counts)


def weighted(table: pa.Table, weight: int) -> pa.Table:
    return table.append_column("weight", pa.array(np.full(len(table), weight)))


def changed(table: pa.Table, weight: int) -> Any:
    """Return the change in the form that a caller with so many rows has."""
    if len(table) > 1:
        return weighted(table, weight)
    return {tuple(column[0].as_py() for column in table.columns): weight}


def processor_seconds(process: int) -> float:
    """The processor time of all threads of a process that are alive."""
    if process == os.getpid():
        return time.process_time()
    tasks = Path(f"/proc/{process}/task")
    if not tasks.exists():
        return 0.0  # only Linux reports it
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9
