"""Measure a contestant: load, ticks of all sizes, memory, and a checksum of the result.

Each contestant runs in a new process, so that contestants share no memory and no compiled code. It
plays the tiny size of the workload first, so that compilation at first use is not measured, nor the
load of compiled code.
"""

from __future__ import annotations

import gc
import importlib
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from benchmarks.changes import Change, Codes, Row
from benchmarks.workloads import Workload, make

MODULUS = (1 << 61) - 1


class Outcome(NamedTuple):
    """The number of rows of a result, the sum of a*1000003 + b*10007 + c over them modulo 2^61 - 1,
    and the sum of their fourth column."""

    rows: int
    checksum: int
    fourth: int = 0


class Sizes(NamedTuple):
    """Bytes of all state, and of the rows that must be stored: the inputs and the result."""

    state: int
    stored: int


class Contestant(Protocol):
    """A contestant. `prepare`, which is not timed, converts changes to the form that `tick` takes.

    After `load` and after every `tick` the whole result must be available. A contestant with
    threads also has a method `close`. A method `warm_up` is called once, before the tiny size.
    """

    def load(self, base: dict[str, Codes]) -> None: ...

    def prepare(self, changes: list[Change]) -> Any: ...

    def tick(self, prepared: Any) -> None: ...

    def outcome(self) -> Outcome: ...


@dataclass
class Phase:
    """Seconds of each tick: wall-clock time and processor time."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def median(self) -> float | None:
        return statistics.median(self.wall) if self.wall else None

    @property
    def cpu_median(self) -> float | None:
        return statistics.median(self.cpu) if self.cpu else None

    @property
    def late(self) -> float | None:
        """The 99th percentile."""
        return _percentile(self.wall, 0.99)

    @property
    def cpu_late(self) -> float | None:
        return _percentile(self.cpu, 0.99)


def _percentile(values: list[float], share: float) -> float | None:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


@dataclass
class Result:
    contestant: str
    inputs: int = 0  # rows of the base
    load: float = 0.0
    load_cpu: float = 0.0
    ticks: Phase = field(default_factory=Phase)
    batches: Phase = field(default_factory=Phase)
    bulks: Phase = field(default_factory=Phase)
    loaded: Outcome | None = None
    final: Outcome | None = None
    resident: int = 0  # bytes by which the process grew during load
    peak: int = 0  # bytes, of the whole process
    state_loaded: Sizes | None = None
    state_final: Sizes | None = None
    note: str = ""
    failed: bool = False


@dataclass(frozen=True)
class Entry:
    """The name of a contestant and the module that defines it, to import in another process.

    `workloads` are the workloads that it supports; None for all.
    """

    name: str
    module: str
    factory: str
    workloads: frozenset[str] | None = None
    needs: str = ""
    """The package that the contestant needs."""

    def create(self, workload: str) -> Contestant:
        contestant: Contestant = getattr(importlib.import_module(self.module), self.factory)(workload)
        return contestant


def measure(entry: Entry, name: str, source: Callable[[], Workload], seconds: float) -> Result:
    """Play the workload with one contestant; `seconds` limits each phase of ticks.

    Ticks beyond the limit are applied together, untimed, so that the final results are comparable.
    """
    first = entry.create(name)
    warm_up: Callable[[], None] | None = getattr(first, "warm_up", None)
    if warm_up is not None:
        warm_up()
    play(first, make(name, "tiny"), Result(entry.name), seconds=1.0)
    _close(first)
    del first
    workload = source()
    gc.collect()
    before = resident_bytes()
    contestant, result = entry.create(name), Result(entry.name)
    sizes: Callable[[], Sizes] | None = getattr(contestant, "sizes", None)

    def loaded() -> None:
        gc.collect()
        result.resident = resident_bytes() - before
        result.state_loaded = sizes() if sizes else None

    play(contestant, workload, result, seconds=seconds, loaded=loaded)
    result.state_final = sizes() if sizes else None
    _close(contestant)
    result.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )
    return result


def _close(contestant: Contestant) -> None:
    close: Callable[[], None] | None = getattr(contestant, "close", None)
    if close is not None:
        close()


def play(
    contestant: Contestant,
    workload: Workload,
    result: Result,
    *,
    seconds: float,
    loaded: Callable[[], None] | None = None,
) -> None:
    result.inputs = sum(len(rows) for rows in workload.base.values())
    began, began_cpu = time.perf_counter(), time.process_time()
    contestant.load(workload.base)
    result.load, result.load_cpu = time.perf_counter() - began, time.process_time() - began_cpu
    if loaded is not None:
        loaded()
    result.loaded = contestant.outcome()
    for ticks, phase in (
        (workload.ticks, result.ticks),
        (workload.batches, result.batches),
        (workload.bulks, result.bulks),
    ):
        deadline = time.perf_counter() + seconds
        done = 0
        for changes in ticks:
            if phase.wall and time.perf_counter() > deadline:
                break
            prepared = contestant.prepare(changes)
            cpu = time.process_time()
            began = time.perf_counter()
            contestant.tick(prepared)
            phase.wall.append(time.perf_counter() - began)
            phase.cpu.append(time.process_time() - cpu)
            done += 1
        if done < len(ticks):
            rest = net(change for changes in ticks[done:] for change in changes)
            merged = [(relation, sign, row) for relation, rows in rest.items() for row, sign in rows.items()]
            contestant.tick(contestant.prepare(merged))
    result.final = contestant.outcome()


def net(changes: Iterable[Change]) -> dict[str, dict[Row, int]]:
    """Return the net changes by relation, with deletions first."""
    found: dict[str, dict[Row, int]] = {}
    for relation, sign, row in changes:
        rows = found.setdefault(relation, {})
        weight = rows.pop(row, 0) + sign
        if weight:
            rows[row] = weight
    return {name: dict(sorted(rows.items(), key=lambda item: item[1])) for name, rows in found.items()}


def checksum(rows: list[Row]) -> Outcome:
    width = len(rows[0]) if rows else 2
    return checksum_of(np.array(rows, np.int64).reshape(-1, width))


def checksum_of(rows: Codes) -> Outcome:
    """Return the exact outcome: the products are below 2^63, and the sum uses two halves."""
    values = rows[:, 0] * 1_000_003 + rows[:, 1] * 10_007
    if rows.shape[1] > 2:
        values = values + rows[:, 2]
    low, high = int((values & 0xFFFF_FFFF).sum()), int((values >> 32).sum())
    fourth = int(rows[:, 3].sum()) if rows.shape[1] > 3 else 0
    return Outcome(len(rows), (low + (high << 32)) % MODULUS, fourth)


def resident_bytes() -> int:
    """Return the memory of this process, or its peak where the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
