"""The pauses that snapshots cause, and what a checkpoint keeps of a long run.

A pause is the slowest of many single-row ticks on a large state: without a checkpoint, with the
journal alone, with snapshots in the background, and with snapshots in the tick. A long run changes
the same number of rows in each tick; its files, its manifest and its latency must stay the same.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from dbsp import Circuit, Run, col
from dbsp.durable import Store

ROWS = {"tiny": 20_000, "small": 1_000_000, "medium": 10_000_000}
TICKS = {"tiny": 400, "small": 50_000, "medium": 200_000}
"""The ticks of a long run."""
MODES = ("no checkpoint", "journal", "background", "in the tick")
NEVER = 10**9


@dataclass(frozen=True)
class Pauses:
    """Seconds of the ticks of one run; `slow` is the slowest of a hundred ticks.

    The other seconds are those in which a tick begins a snapshot, and those in which another thread
    writes one: they hold what a snapshot adds to a tick.
    """

    mode: str
    sync: bool
    snapshots: int
    median: float
    slow: float
    slowest: float
    beginning: float
    meanwhile: float


@dataclass(frozen=True)
class Age:
    """A long run after some ticks: its files, and the seconds of the latest ticks."""

    ticks: int
    files: int
    size: int
    manifest: int
    median: float
    slow: float
    opening: float


# --- pauses ---------------------------------------------------------------------------------------


def measure_pauses(rows: int, ticks: int = 10_000, every: Any = 1_000) -> Iterator[Pauses]:
    """Yield the pauses in every mode."""
    for sync in (False, True):
        for mode in MODES[sync:]:
            with tempfile.TemporaryDirectory() as folder:
                yield _pauses(Path(folder), mode, sync, rows, ticks, every)


def _pauses(folder: Path, mode: str, sync: bool, rows: int, ticks: int, every: Any) -> Pauses:
    due = NEVER if mode == "journal" else every
    store = Store(folder, snapshot_every=due, sync=sync, background=mode == "background")
    run = _summing(rows, None if mode == "no checkpoint" else store)
    keys = np.random.default_rng(7).integers(0, rows // 10, ticks).tolist()
    # The ticks that begin a snapshot, and those during which one is written.
    beginning, meanwhile = np.zeros((2, ticks), np.bool_)
    snapshots, writing = 0, False

    def noted(place: int) -> None:
        nonlocal snapshots, writing
        before, writing = writing, store._writer.work is not None
        begun = writing and not before
        begun |= mode == "in the tick" and store._manifest is not known[0]
        known[0] = store._manifest
        beginning[place], meanwhile[place] = begun, writing and not begun
        snapshots += begun

    known = [store._manifest]
    changes = ({"a": {(key, rows + place): 1}} for place, key in enumerate(keys))
    times = np.array(timed(run, changes, noted))
    store.close()
    return Pauses(
        mode,
        sync,
        snapshots,
        float(np.median(times)),
        float(np.quantile(times, 0.99)),
        float(times.max()),
        float(times[beginning].max(initial=0)),
        float(times[meanwhile].max(initial=0)),
    )


def timed(run: Run, changes: Iterator[Any], noted: Callable[[int], None]) -> list[float]:
    """Return the seconds of each tick, without collections of garbage."""
    times = []
    gc.collect()
    gc.disable()
    try:
        for place, change in enumerate(changes):
            began = time.perf_counter()
            run.step(change)
            times.append(time.perf_counter() - began)
            noted(place)
    finally:
        gc.enable()
    return times


def _summing(rows: int, store: Store | None) -> Run:
    """Return a run of a sum per key with so many rows, and a snapshot of it."""
    circuit = Circuit("pauses")
    a = circuit.input("a", k=int, v=int)
    circuit.output("totals", a.group_by("k").agg(total=col("v").sum()))
    circuit.output("all", a.distinct())
    run = circuit.start(checkpoint=store)
    values = np.arange(rows)
    run.step({"a": pa.table({"k": values % (rows // 10), "v": values})})
    for value in range(100):
        run.step({"a": {(value, value + 2 * rows): 1}})
    if store is not None:
        run.snapshot()
    return run


# --- long runs ------------------------------------------------------------------------------------


def measure_age(ticks: int, parts: int = 10, every: int = 1_000) -> Iterator[Age]:
    """Step a run with traces of about as many rows at any time; yield its age."""
    rows = min(20_000, 10 * ticks)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        run = _numbering(path, every)
        run.step({"a": [(x,) for x in range(rows)]})
        # Each tick replaces the oldest row.
        changes = ({"a": {(x,): -1, (x + rows,): 1}} for x in range(ticks))
        for part in range(parts):
            times = sorted(timed(run, _first(changes, ticks // parts), lambda place: None))
            _close(run)
            files = [file.stat().st_size for file in path.rglob("*") if file.is_file()]
            began = time.perf_counter()
            run = _numbering(path, every)
            opening = time.perf_counter() - began
            yield Age(
                (part + 1) * (ticks // parts),
                len(files),
                sum(files),
                (path / "manifest.json").stat().st_size,
                statistics.median(times),
                times[len(times) * 99 // 100],
                opening,
            )
        _close(run)


def _first(changes: Iterator[Any], count: int) -> Iterator[Any]:
    for _, change in zip(range(count), changes, strict=False):
        yield change


def _numbering(folder: Path, every: int) -> Run:
    circuit = Circuit("age")
    circuit.output("numbered", circuit.input("a", x=int, kind="set").number_rows(name="n"))
    return circuit.start(checkpoint=Store(folder, snapshot_every=every, sync=False))


def _close(run: Run) -> None:
    if run.log is not None:
        run.log.close()


# --- reports --------------------------------------------------------------------------------------


def print_pauses(console: Console, rows: int, pauses: Sequence[Pauses]) -> None:
    """Print the pauses in median ticks, too."""
    table = Table(title=f"Single-row ticks of a state of {rows:,} rows")
    headings = ("snapshots", "sync", "count", "median", "99 %", "slowest", "begins one", "during one")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "snapshots" else "right")
    for each in pauses:
        longest = (each.slow, each.slowest, each.beginning, each.meanwhile)
        table.add_row(
            each.mode,
            "yes" if each.sync else "no",
            str(each.snapshots),
            f"{each.median * 1e6:,.0f} us",
            *(f"{seconds * 1e6:,.0f} us ({seconds / each.median:.1f})" for seconds in longest),
        )
    console.print(table)
    console.print("In parentheses: median ticks.")


def print_age(console: Console, ages: Sequence[Age]) -> None:
    """Print the files and the latency by the number of ticks."""
    table = Table(title="A long run with a checkpoint")
    for heading in ("ticks", "files", "bytes", "manifest", "median tick", "99 %", "opening"):
        table.add_column(heading, justify="right")
    for age in ages:
        table.add_row(
            f"{age.ticks:,}",
            str(age.files),
            f"{age.size:,}",
            f"{age.manifest:,}",
            f"{age.median * 1e6:.0f} us",
            f"{age.slow * 1e6:.0f} us",
            f"{age.opening * 1e3:.0f} ms",
        )
    console.print(table)
