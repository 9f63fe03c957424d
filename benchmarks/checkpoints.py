"""Checkpoints of large states: what a snapshot writes, and what opening costs."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from dbsp import Circuit, Run
from dbsp.durable import Store

ROWS = {"tiny": 20_000, "small": 1_000_000, "medium": 10_000_000}

CHANGED = 100
"""One row in this many changes between two snapshots."""

_STATE = ("runs", "small", "interned", "memory")
"""The folders of a checkpoint with its state."""

T = TypeVar("T")


@dataclass(frozen=True)
class Snapshot:
    """A snapshot after a change of so many rows: wall seconds, and bytes of files."""

    changed: int
    seconds: float
    written: int
    state: int


@dataclass(frozen=True)
class Opening:
    """Opening a checkpoint in a process that has opened none: seconds, and memory of its own.

    `tick` are the seconds of the first tick after it, of one row.
    """

    how: str
    processor: float
    wall: float
    memory: int
    tick: float
    rows: int


def circuit() -> Circuit:
    """A join of a large input with a small one, so that its state is an index of the large one."""
    joined = Circuit("checkpoints")
    orders = joined.input("orders", customer=int, number=int)
    joined.output("found", orders.join(joined.input("asked", customer=int, by=int), on="customer"))
    return joined


def opened(folder: Path, verify: bool = True) -> Run:
    """Start the circuit on a folder."""
    return circuit().start(checkpoint=Store(folder, sync=False, snapshot_every=10**9, verify=verify))


def orders(start: int, rows: int, weight: int) -> pa.Table:
    """Orders of scattered customers."""
    numbers = np.arange(start, start + rows)
    customers = numbers * 2_654_435_761 % 100_003_681
    return pa.table({"customer": customers, "number": numbers, "weight": np.full(rows, weight)})


def measure_snapshots(rows: int, folder: Path) -> Iterator[Snapshot]:
    """Yield a snapshot after loading so many rows, and one after changing one percent of them."""
    run = opened(folder)
    half = rows // CHANGED // 2
    for changed, ticks in (
        (rows, [orders(0, rows, 1)]),
        (2 * half, [orders(0, half, -1), orders(rows, half, 1)]),
    ):
        for tick in ticks:
            run.step({"orders": tick})
        before = state_files(folder)
        seconds, _ = timed(lambda: run.log.snapshot())  # type: ignore[union-attr]
        after = state_files(folder)
        written = sum(size for file, size in after.items() if file not in before)
        yield Snapshot(changed, seconds, written, sum(after.values()))
    closed(run)


def state_files(folder: Path) -> dict[tuple[str, int], int]:
    """The bytes of the files of all snapshots, by name and time."""
    paths = [path for part in _STATE for path in (folder / part).iterdir()]
    found = [(path, path.stat()) for path in [*paths, *folder.glob("*.json")]]
    return {(str(path), stat.st_mtime_ns): stat.st_size for path, stat in found}


def measure_openings(folder: Path) -> Iterator[Opening]:
    """Yield the costs of opening, with all content verified and with headers only."""
    for verify in (True, False):
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            yield pool.submit(measure_opening, folder, verify).result()


def measure_opening(folder: Path, verify: bool) -> Opening:
    """Measure in this process; the tick is not recorded."""
    before, processor = own_memory(), time.process_time()
    wall, run = timed(lambda: opened(folder, verify))
    processor = time.process_time() - processor
    memory = own_memory() - before
    rows = sum(trace.rows for trace in run.scope.traces)
    closed(run)
    warm = circuit().start()  # a process loads the compiled kernels once
    warm.step({"orders": orders(0, 10_000, 1)})
    warm.step({"asked": [(1, 1)]})
    tick, _ = timed(lambda: run.step({"asked": [(2_654_435_761 % 100_003_681, 1)]}))
    return Opening(
        "all content verified" if verify else "headers verified", processor, wall, memory, tick, rows
    )


def own_memory() -> int:
    """The bytes of this process that belong to no file; 0 where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def timed(action: Callable[[], T]) -> tuple[float, T]:
    """Return the wall seconds of a call, and what it returned."""
    before = time.perf_counter()
    result = action()
    return time.perf_counter() - before, result


def closed(run: Run) -> None:
    """Release the folder of a run."""
    if run.log is not None:
        run.log.close()


def print_checkpoints(
    console: Console, rows: int, snapshots: list[Snapshot], openings: list[Opening]
) -> None:
    """Print one line per snapshot and per opening."""
    table = Table(title=f"snapshots of {rows:,} rows", title_justify="left", title_style="bold")
    for name in ("changed rows", "seconds", "MB written", "MB of state", "written share"):
        table.add_column(name, justify="right")
    for each in snapshots:
        share = f"{each.written / each.state:.1%}"
        sizes = (f"{size / 1e6:,.1f}" for size in (each.written, each.state))
        table.add_row(f"{each.changed:,}", f"{each.seconds:.3f}", *sizes, share)
    console.print(table)
    table = Table(title=f"opening {rows:,} rows", title_justify="left", title_style="bold")
    for name in ("how", "processor s", "wall s", "MB of memory", "first tick ms"):
        table.add_column(name, justify="left" if name == "how" else "right")
    for one in openings:
        numbers = (
            f"{one.processor:.3f}",
            f"{one.wall:.3f}",
            f"{one.memory / 1e6:,.1f}",
            f"{one.tick * 1e3:.2f}",
        )
        table.add_row(one.how, *numbers)
    console.print(table)
