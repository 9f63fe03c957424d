"""The cost of a caller's choices: the form of rows, the size of a tick, the kind of an input."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from dbsp import Circuit, Run, ZSet, col

ROWS = {"tiny": 2_000, "small": 100_000, "medium": 500_000}
TICKS = (1, 10, 100, 1_000, 10_000)


@dataclass(frozen=True)
class Cost:
    """Processor seconds per row of one choice, and the state after it."""

    question: str
    choice: str
    seconds_per_row: float
    state_bytes: int


def start(kind: str = "zset") -> Run:
    """A run of a sum per group over an input of the given kind ("key": keyed by id)."""
    circuit = Circuit("usage")
    how = {"key": "id"} if kind == "key" else {"kind": kind}
    sales = circuit.input("sales", schema={"id": int, "shop": int, "amount": int}, **how)
    circuit.output("totals", sales.group_by("shop").agg(total=col("amount").sum()))
    return circuit.start()


def table(rows: int) -> pa.Table:
    """Sales of a thousand shops."""
    chance = np.random.default_rng(7)
    return pa.table(
        {
            "id": np.arange(rows),
            "shop": chance.integers(0, 1_000, rows),
            "amount": chance.integers(1, 100, rows),
        }
    )


def load(form: Callable[[], Any], kind: str = "zset") -> Run:
    """Start a run and load it in one tick."""
    run = start(kind)
    run.step({"sales": form()})
    return run


def play(ticks: list[pa.Table]) -> None:
    """Step a new run through the ticks."""
    run = start()
    for tick in ticks:
        run.step({"sales": tick})


def seconds(work: Callable[[], object], repeat: int) -> float:
    """The least processor time of several calls."""
    taken = []
    for _ in range(repeat):
        before = time.process_time()
        work()
        taken.append(time.process_time() - before)
    return min(taken)


def measure_usage(rows: int, repeat: int = 3) -> Iterator[Cost]:
    """Yield the cost of every choice for a load of so many rows."""
    arrow = table(rows)
    frame = arrow.to_pandas()
    tuples = list(zip(*(column.to_pylist() for column in arrow.columns), strict=True))
    weights = dict.fromkeys(tuples, 1)
    play([arrow.slice(0, 10)])  # loads the kernels
    forms: dict[str, Callable[[], Any]] = {
        "Arrow table": lambda: arrow,
        "ZSet.from_pandas": lambda: ZSet.from_pandas(frame),
        "list of tuples": lambda: tuples,
        "dict of rows to weights": lambda: weights,
    }
    for name, form in forms.items():
        taken = seconds(partial(load, form), repeat)
        yield Cost("form of the rows", name, taken / rows, 0)
    for size in TICKS:
        ticks = [arrow.slice(at, size) for at in range(0, min(rows, 200 * size), size)]
        yield Cost("rows per tick", f"{size:,}", seconds(partial(play, ticks), 1) / sum(map(len, ticks)), 0)
    for kind in ("zset", "set", "key"):
        taken = seconds(partial(load, lambda: arrow, kind), repeat)
        yield Cost("kind of the input", kind, taken / rows, load(lambda: arrow, kind).state_bytes)
