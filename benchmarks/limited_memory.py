"""State of four times the memory limit: loading, ticks of one row, memory; with and without it.

Each run has a process of its own, since freed memory of one would count for the other.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from dbsp import Circuit, Run, col, count

LIMITS = {"tiny": 1 << 20, "small": 8 << 20, "medium": 64 << 20, "large": 256 << 20}
TIMES = 4
"""The state in multiples of the limit."""
PIECES = 100
"""The ticks that load the state."""
SHOPS = 20_000
TICKS = 2_000


@dataclass(frozen=True)
class LimitedLoad:
    """What one run needed; sizes in bytes."""

    limit: int | None
    rows: int
    load_seconds: float
    median_tick: float
    slowest_tick: float
    peak: int
    """The most anonymous memory, above that of the process before."""
    files: int
    total: int
    """The sum of a column of a result, equal for all runs."""

    @property
    def exceeded(self) -> bool:
        """Whether the memory was more than the limit and a fifth."""
        return self.limit is not None and self.peak > self.limit * 6 // 5


def start(limit: int | None) -> Run:
    circuit = Circuit("sales")
    sales = circuit.input("sale", kind="set", id=int, shop=int, amount=int)
    shops = circuit.input("shop", kind="set", shop=int, city=int)
    joined = sales.join(shops, on="shop")
    circuit.output("by_city", joined.group_by("city").agg(n=count(), total=col("amount").sum()))
    circuit.output("sales", sales)
    run = circuit.start(memory_limit=limit)
    run.step({"shop": {"shop": np.arange(SHOPS), "city": np.arange(SHOPS) % 500}})
    return run


def sales_of(first: int, rows: int) -> dict[str, np.ndarray]:
    """Rows in an order unlike that of the trace, so that merges read everywhere."""
    ids = np.arange(first, first + rows) * 2654435761 % 2**40
    return {"id": ids, "shop": ids % SHOPS, "amount": ids % 97}


def load(limit: int | None, rows: int) -> LimitedLoad:
    """Load the state and change single rows of it."""
    warm = start(None)
    warm.step({"sale": sales_of(0, 10_000)})
    warm.step({"sale": {(1, 2, 3): 1}})
    del warm
    run = start(limit)
    memory = _Memory()
    size = rows // PIECES
    started = time.perf_counter()
    for piece in range(PIECES):
        run.step({"sale": sales_of(piece * size, size)})
    seconds = time.perf_counter() - started
    ticks = []
    chance = np.random.default_rng(1)
    for number in range(TICKS):
        old = sales_of(int(chance.integers(0, rows)), 1)
        gone = tuple(int(old[name][0]) for name in ("id", "shop", "amount"))
        change = {(2**50 + number, number % SHOPS, 7): 1, gone: -1}
        before = time.perf_counter()
        run.step({"sale": change})
        ticks.append(time.perf_counter() - before)
    total = sum(row[2] for row in run.view("by_city").rows())
    peak = memory.stop()
    return LimitedLoad(
        limit, rows, seconds, statistics.median(ticks), max(ticks), peak, run.file_bytes, total
    )


class _Memory:
    """Watches the anonymous memory of this process."""

    def __init__(self) -> None:
        self._base = self._peak = _anonymous()
        self._going = True
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while self._going:
            self._peak = max(self._peak, _anonymous())
            time.sleep(0.003)

    def stop(self) -> int:
        self._going = False
        self._thread.join()
        return self._peak - self._base


def _anonymous() -> int:
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")), 0)


def measure_limits(limit: int) -> Iterator[LimitedLoad]:
    """Load the same rows without a limit, and with one of a quarter of their bytes."""
    rows = TIMES * limit // 24
    for each in (None, limit):
        code = f"from benchmarks.limited_memory import main; main({each}, {rows})"
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
        yield LimitedLoad(**json.loads(done.stdout))


def main(limit: int | None, rows: int) -> None:
    """Print one measurement as JSON."""
    print(json.dumps(asdict(load(limit, rows))))
