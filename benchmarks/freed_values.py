"""Interned values that come and go: memory and files return to the start, and ticks stay as fast.

A run gets many different strings, all of which are retracted; then a run gets one new string in
every tick, and loses the one before.
"""

from __future__ import annotations

import gc
import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table

import dbsp
from benchmarks.contest import resident_bytes
from benchmarks.pauses import timed
from dbsp import Run
from dbsp.durable import Store

STRINGS = {"tiny": 100_000, "small": 1_000_000, "medium": 10_000_000}
"""The strings that are inserted and deleted."""
TICKS = {"tiny": 2_000, "small": 50_000, "medium": 200_000}
"""The ticks of one fresh string."""

_CHUNK = 500_000
_PROGRAM = ".decl session(name: symbol)\n.input session\n.output session\n"


@dataclass(frozen=True)
class Strings:
    """A run after one of the phases of a load of strings; sizes in bytes."""

    phase: str
    seconds: float
    values: int
    memory: int
    files: int
    size: int


@dataclass(frozen=True)
class Churn:
    """A run after some ticks of a fresh string each; times are those of the latest ticks."""

    ticks: int
    values: int
    memory: int
    files: int
    size: int
    manifest: int
    median: float
    slow: float
    slowest: float


def measure_strings(count: int) -> Iterator[Strings]:
    """Yield the phases: start, load, a snapshot, opening it, deletion, compaction."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = _started(folder, 10**9)
        # The first load compiles the kernels, and lets the process keep some memory.
        for weight in (1, -1):
            _change(run, "before", min(count, _CHUNK), weight)
        _compact(run)

        def phase(name: str, began: float) -> Strings:
            seconds = time.perf_counter() - began
            files = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
            return Strings(name, seconds, len(run.interner), resident_bytes(), len(files), sum(files))

        yield phase("start", time.perf_counter())
        began = time.perf_counter()
        _change(run, "string", count, 1)
        yield phase("load", began)
        began = time.perf_counter()
        run.snapshot()
        yield phase("snapshot", began)
        _close(run)
        del run
        gc.collect()
        began = time.perf_counter()
        run = _started(folder, 10**9)
        yield phase("opening", began)
        began = time.perf_counter()
        _change(run, "string", count, -1)
        yield phase("deletion", began)
        began = time.perf_counter()
        _compact(run)
        yield phase("compaction", began)
        _close(run)


def _compact(run: Run) -> None:
    run.step()  # the checkpoint keeps the latest result, with its values
    run.compact()
    run.step()
    run.snapshot()  # the previous manifest, and its files, are then those of the compacted run


def _change(run: Run, name: str, count: int, weight: int) -> None:
    for start in range(0, count, _CHUNK):
        names = [f"{name} {number}" for number in range(start, min(start + _CHUNK, count))]
        run.step({"session": pa.table({"name": names, "weight": pa.array([weight] * len(names))})})


def measure_churn(ticks: int, parts: int = 10, every: int = 1_000) -> Iterator[Churn]:
    """Step a run with a fresh string in each tick; yield its age after each part of the ticks."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = _started(folder, every)
        changes = (
            {"session": {(f"session-{tick}",): 1, (f"session-{tick - 1}",): -1}} for tick in itertools.count()
        )
        for part in range(parts):
            times = sorted(timed(run, itertools.islice(changes, ticks // parts), lambda place: None))
            if isinstance(run.log, Store):
                run.log.wait()
            files = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
            yield Churn(
                (part + 1) * (ticks // parts),
                len(run.interner),
                resident_bytes(),
                len(files),
                sum(files),
                (folder / "manifest.json").stat().st_size,
                statistics.median(times),
                times[len(times) * 99 // 100],
                times[-1],
            )
        _close(run)


def _started(folder: Path, every: int) -> Run:
    return dbsp.compile(_PROGRAM).start(checkpoint=Store(folder, snapshot_every=every, sync=False))


def _close(run: Run) -> None:
    if run.log is not None:
        run.log.close()


def print_strings(console: Console, count: int, phases: Sequence[Strings]) -> None:
    """Print the phases of a load."""
    table = Table(title=f"{count:,} different strings, inserted and deleted")
    for heading in ("after", "seconds", "values", "memory", "files", "bytes of files"):
        table.add_column(heading, justify="left" if heading == "after" else "right")
    for each in phases:
        table.add_row(
            each.phase,
            f"{each.seconds:.2f}",
            f"{each.values:,}",
            f"{each.memory / 2**20:,.0f} MB",
            str(each.files),
            f"{each.size:,}",
        )
    console.print(table)


def print_churn(console: Console, ages: Sequence[Churn]) -> None:
    """Print memory, files and latency by the number of ticks."""
    table = Table(title="One fresh string per tick, one row")
    headings = ("ticks", "values", "memory", "files", "bytes", "manifest", "median tick", "99 %", "slowest")
    for heading in headings:
        table.add_column(heading, justify="right")
    for age in ages:
        table.add_row(
            f"{age.ticks:,}",
            f"{age.values:,}",
            f"{age.memory / 2**20:,.0f} MB",
            str(age.files),
            f"{age.size:,}",
            f"{age.manifest:,}",
            *(f"{seconds * 1e6:,.0f} us" for seconds in (age.median, age.slow, age.slowest)),
        )
    console.print(table)
