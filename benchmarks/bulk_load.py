"""Load the same rows in a transaction, in ticks, and in one step: time, memory, results."""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from benchmarks.usage import start

ROWS = {"tiny": 20_000, "small": 1_000_000, "medium": 10_000_000}
PARTS = 100
WAYS = ("transaction", "ticks", "one step")


@dataclass(frozen=True)
class BulkLoad:
    """Seconds of one way to load, the additional memory at its peak and after it, in bytes."""

    way: str
    seconds: float
    peak: int
    kept: int
    totals: int
    """The number of rows of the result."""


def measure_bulk_loads(rows: int, parts: int = PARTS) -> Iterator[BulkLoad]:
    """Load the rows in each way, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    for way in WAYS:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_load, args=(way, rows, parts, sender))
        process.start()
        yield receiver.recv()
        process.join()


def _load(way: str, rows: int, parts: int, sender: Connection) -> None:
    start("set").step({"sales": _table(0, 2_000)})  # compiles the kernels
    run = start("set")
    before = _peak()
    began = time.perf_counter()
    tables = (_table(first, rows // parts) for first in range(0, rows, rows // parts))
    if way == "transaction":
        with run.transaction() as transaction:
            for table in tables:
                transaction.step({"sales": table})
    elif way == "ticks":
        for table in tables:
            run.step({"sales": table})
    else:
        run.step({"sales": tables})
    seconds = time.perf_counter() - began
    peak = _peak() - before
    sender.send(BulkLoad(way, seconds, peak, run.state_bytes, len(run.view("totals"))))


def _table(first: int, rows: int) -> Any:
    """Sales of a thousand shops, with different ids in every part."""
    chance = np.random.default_rng(first)
    table = np.empty(rows, [("id", np.int64), ("shop", np.int64), ("amount", np.int64)])
    table["id"] = chance.permutation(np.arange(first, first + rows))
    table["shop"] = chance.integers(0, 1_000, rows)
    table["amount"] = chance.integers(1, 100, rows)
    return table


def _peak() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
