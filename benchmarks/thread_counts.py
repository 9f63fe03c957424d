"""Loads of the same rows by one thread and by several: times, results.

The numbers of threads take turns, and the least time of each counts. On a machine that others use,
the processor time of the calling thread shows what a free machine would need: the caller computes
like the other threads, and waits for them without using the processor.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dbsp
from benchmarks.engine import Live, outcome_of, tables
from benchmarks.recursion import Outcomes, results, table
from benchmarks.recursive_programs import GALEN, galen
from benchmarks.workloads import make
from dbsp.kernels.thread_count import available_cores

WORKLOADS = ("w1", "w2", "w3dag")
ROUNDS = {"tiny": 1, "small": 5, "medium": 5, "large": 3}


@dataclass
class ThreadedLoad:
    """A load by a number of threads: the least seconds of all rounds, and the results."""

    workload: str
    threads: int
    elapsed: float
    caller: float
    """Processor time of the calling thread."""
    processor: float
    """Processor time of all threads."""
    results: Outcomes
    agreed: bool = True
    """Whether the results of every round are those of one thread."""


def thread_counts() -> list[int]:
    """Return the numbers of threads to measure: powers of two up to the cores, at least 1 and 2."""
    most = max(2, available_cores())
    return [1 << power for power in range(most.bit_length())]


def measure_threads(size: str, *, only: str = "", source: Path | None = None) -> Iterator[list[ThreadedLoad]]:
    """Measure each workload whose name contains `only`; with a `source`, GALEN too."""
    for name in WORKLOADS:
        if only in name:
            workload, live = make(name, size), Live(name)
            rounds = ROUNDS[size]
            yield measure_loads(f"{name} {size}", live.start, tables(name, workload.base), _outcome, rounds)
    if source is not None and only in GALEN:
        case = galen(source)
        start = dbsp.compile(case.rules).start
        change = {name: table(case, name, rows) for name, rows in case.base(0).items()}
        yield measure_loads(GALEN, start, change, lambda run: results(case, run), 1)


def _outcome(run: dbsp.Run) -> Outcomes:
    return (outcome_of(run),)


def measure_loads(
    workload: str,
    start: Callable[[], dbsp.Run],
    change: Any,
    outcomes: Callable[[dbsp.Run], Outcomes],
    rounds: int,
) -> list[ThreadedLoad]:
    """Load the same change into new runs."""
    loads: dict[int, ThreadedLoad] = {}
    try:
        for _ in range(rounds):
            for threads in thread_counts():
                dbsp.set_threads(threads)
                load = _load(workload, threads, start(), change, outcomes)
                best = loads.setdefault(threads, load)
                best.agreed = best.agreed and load.results == loads[1].results
                best.elapsed = min(best.elapsed, load.elapsed)
                best.caller = min(best.caller, load.caller)
                best.processor = min(best.processor, load.processor)
    finally:
        dbsp.set_threads(None)
    return list(loads.values())


def _load(
    workload: str, threads: int, run: dbsp.Run, change: Any, outcomes: Callable[[dbsp.Run], Outcomes]
) -> ThreadedLoad:
    gc.collect()
    elapsed, caller, processor = time.perf_counter(), time.thread_time(), time.process_time()
    run.step(change)
    return ThreadedLoad(
        workload,
        threads,
        time.perf_counter() - elapsed,
        time.thread_time() - caller,
        time.process_time() - processor,
        outcomes(run),
    )
