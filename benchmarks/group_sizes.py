"""The time of a tick of one row by the size of its group: aggregates and functions of an order.

All rows are in one group. A tick retracts a row or inserts one. Half of the retracted rows are the
least one that is left, so that extremes change, the others are random.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dbsp import (
    Circuit,
    Stream,
    col,
)

DECADES = {"tiny": (2, 3), "small": (3, 4), "medium": (3, 5), "large": (3, 5, 6)}
"""Rows of the group, as powers of ten."""


@dataclass(frozen=True)
class Case:
    """A function of groups; `value` makes the value of a row from its number."""

    name: str
    build: Callable[[Stream], Stream]
    type: type
    value: Callable[[int], Any]


@dataclass(frozen=True)
class OneRow:
    """Processor seconds of the load and of the ticks, and bytes of the state, for one size."""

    rows: int
    load: float
    median: float
    slowest: float
    state: int


def measure_group_sizes(
    decades: Sequence[int], ticks: int = 60, only: str = ""
) -> Iterator[tuple[str, list[OneRow]]]:
    """Measure every case whose name contains `only`, at every size of the group."""
    for case in CASES:
        if only in case.name:
            yield case.name, [measured(case, 10**decade, ticks) for decade in decades]


def measured(case: Case, rows: int, ticks: int) -> OneRow:
    """Load a group and change it row by row; the first ticks are not measured."""
    circuit = Circuit("group")
    circuit.output("out", case.build(circuit.input("a", k=int, n=int, x=case.type)))
    run = circuit.start()
    values = [case.value(number) for number in range(rows)]
    base = pa.table({"k": np.zeros(rows, np.int64), "n": np.arange(rows), "x": values})
    began = time.process_time()
    run.step({"a": base})
    load = time.process_time() - began
    changes = one_row(values, np.random.default_rng(rows))
    warm, times = max(4, ticks // 10), []
    gc.collect()
    gc.disable()
    try:
        for _ in range(warm + ticks):
            change = next(changes)
            began = time.process_time()
            run.step({"a": change})
            times.append(time.process_time() - began)
    finally:
        gc.enable()
    times = times[warm:]
    return OneRow(rows, load, statistics.median(times), max(times), run.state_bytes)


def one_row(values: Sequence[Any], chance: np.random.Generator) -> Iterator[dict[tuple[Any, ...], int]]:
    """Yield changes of one row each: retractions, and insertions of the same rows."""
    ascending = iter(sorted(range(len(values)), key=values.__getitem__))
    picked = iter(chance.permutation(len(values)).tolist())
    gone: set[int] = set()
    for turn in range(10**9):
        number = next(n for n in (picked if turn % 2 else ascending) if n not in gone)
        gone.add(number)
        row = (0, number, values[number])
        yield {row: -1}
        yield {(0, number, values[chance.integers(len(values))]): 1}


def scattered(number: int) -> int:
    """Return a number that looks random."""
    return number * 2_654_435_761 % 2**32


def decimal_fraction(number: int) -> float:
    return scattered(number) / 1000


def word(number: int) -> str:
    return f"customer-{scattered(number):08x}"


CASES = (
    Case("count_distinct", lambda a: a.group_by("k").agg(r=col("x").count_distinct()), int, scattered),
    Case("median", lambda a: a.group_by("k").agg(r=col("x").median()), int, scattered),
    Case("quantile", lambda a: a.group_by("k").agg(r=col("x").quantile(0.9)), float, decimal_fraction),
    Case("sum of floats", lambda a: a.group_by("k").agg(r=col("x").sum()), float, decimal_fraction),
    Case("avg of floats", lambda a: a.group_by("k").agg(r=col("x").mean()), float, decimal_fraction),
    Case("variance of ints", lambda a: a.group_by("k").agg(r=col("x").var()), int, scattered),
    Case("stddev of floats", lambda a: a.group_by("k").agg(r=col("x").std()), float, decimal_fraction),
    Case("min, max of strings", lambda a: a.group_by("k").agg(r=col("x").min(), s=col("x").max()), str, word),
    Case("lag", lambda a: a.lag("x", by="x", partition=["k"]), int, scattered),
    Case("rank", lambda a: a.rank(by="x", partition=["k"]), int, scattered),
    Case("dense_rank", lambda a: a.dense_rank(by="x", partition=["k"]), int, scattered),
)
