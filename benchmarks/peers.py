"""This engine beside duckdb and pathway, in one run: loads, ticks, memory, and first deletions.

The workloads w1, w2, w3dag, w3chain and w5 run in a new process for each contestant, with equal
results. Then come closures: of chains, whose loads should grow as their results, and of the dag.
Each is loaded, loses one row for the first time, and is compared with a fresh run and with duckdb.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from rich.console import Console
from rich.table import Table

import dbsp
from benchmarks.contest import Result
from benchmarks.every_kernel import use_every_kernel
from benchmarks.processes import in_new_process
from benchmarks.recursion import (
    Outcomes,
    agree,
    begin_peak,
    changes,
    duckdb_query,
    fresh_run,
    peak_bytes,
    results,
    table,
    timed,
    without,
)
from benchmarks.recursive_programs import CASES, Case, Relations
from benchmarks.report import bytes_text, time_text

WORKLOADS = ("w1", "w2", "w3dag", "w3chain", "w5")

CHAINS = {"tiny": (20, 40), "small": (500, 1_000), "medium": (1_000, 2_000, 4_000)}
CHAINS["large"] = (*CHAINS["medium"], 8_000)
"""The links of the chains, by size."""

DAGS = {"tiny": (250,), "small": (2_000,), "medium": (20_000,), "large": (50_000,)}
"""The nodes of the dag, by size."""

_FORM = ", left-linear"

LOAD_AIM = 1.0
"""A load should take at most this many times the load of duckdb and its first result."""

DELETION_AIM = 0.1
"""The first deletion should take at most this many times the load."""

RESTART_AIM = 1.5
"""The first deletion should take at most this many times a fresh run without the row."""


@dataclass(frozen=True)
class Comparison:
    """A quantity of this engine and the same of another, in seconds or bytes."""

    what: str
    quantity: str
    own: float
    other: str
    theirs: float
    aim: float | None = None
    """The largest ratio of both that is aimed at."""

    @property
    def ratio(self) -> float:
        return self.own / self.theirs if self.theirs else float("inf")


def compare_workload(title: str, contestants: Sequence[Result]) -> Iterator[Comparison]:
    """Compare each form of this engine with each other system that has played the workload."""
    played = [result for result in contestants if result.final is not None]
    for own in played:
        if not own.contestant.startswith("engine"):
            continue
        for other in played:
            if other.contestant.startswith("engine"):
                continue
            what = f"{title}, {own.contestant.removeprefix('engine ').strip('()')}"
            aim = LOAD_AIM if other.contestant.startswith("duckdb") else None
            yield Comparison(what, "load", own.load_cpu, other.contestant, other.load_cpu, aim)
            for quantity, mine, its in (
                ("tick", own.ticks, other.ticks),
                ("batch", own.batches, other.batches),
                ("bulk", own.bulks, other.bulks),
            ):
                if mine.cpu_median and its.cpu_median:
                    yield Comparison(what, quantity, mine.cpu_median, other.contestant, its.cpu_median)
            yield Comparison(what, "peak memory", own.peak, other.contestant, other.peak)


@dataclass(frozen=True)
class Closure:
    """The load of a closure and its first deletion; seconds of processor time, and bytes."""

    what: str
    rows: int
    load: float
    state: int
    peak: int
    deletion: float
    deletion_peak: int
    fresh: float
    duck: float | None = None

    def compared(self) -> Iterator[Comparison]:
        if self.duck is not None:
            yield Comparison(self.what, "load", self.load, "duckdb", self.duck, LOAD_AIM)
        yield Comparison(self.what, "first deletion", self.deletion, "its load", self.load, DELETION_AIM)
        yield Comparison(self.what, "first deletion", self.deletion, "fresh run", self.fresh, RESTART_AIM)
        yield Comparison(self.what, "peak memory of the load", self.peak, "its state", self.state)
        yield Comparison(
            self.what, "peak memory of the deletion", self.deletion_peak, "that of the load", self.peak
        )


def measure_closures(size: str) -> Iterator[Closure]:
    """Measure the closures of a size, each in a new process."""
    for name, sizes in (("closure of a chain", CHAINS), ("closure of the dag", DAGS)):
        for number in sizes[size]:
            yield in_new_process(_measure_closure, name + _FORM, number)


def _measure_closure(name: str, number: int) -> Closure:
    case = next(case for case in CASES if case.name == name)
    use_every_kernel()
    _load(case, case.base(case.sizes["tiny"]))
    base = case.base(number)
    found, result = _load(case, base)
    if importlib.util.find_spec("duckdb") is None:
        return found
    duck, expected = duckdb_query(case)(base)
    agree(result, expected, f"{case.name}: the load")
    return replace(found, duck=duck)


def _load(case: Case, base: Relations) -> tuple[Closure, Outcomes]:
    program = dbsp.compile(case.rules)
    tables = {name: table(case, name, rows) for name, rows in base.items()}
    run = program.start()
    before = begin_peak()
    load = timed(run, tables)
    peak = peak_bytes() - before
    loaded = results(case, run)
    state = max(run.state_bytes, 1)
    picked = np.array([len(base["e"]) // 2])
    before_deletion = begin_peak()
    deletion = timed(run, changes(case, base, picked, -1))
    deletion_peak = peak_bytes() - min(before, before_deletion)
    fresh, found = fresh_run(case, dbsp.compile(case.rules, recursion="insert-only"), without(base, picked))
    agree(results(case, run), found, f"{case.name}: the first deletion")
    rows = sum(outcome.rows for outcome in loaded)
    what = f"{case.name.removesuffix(_FORM)} of {len(base['e']):,} edges"
    return Closure(what, rows, load, state, peak, deletion, deletion_peak, fresh), loaded


def print_closures(console: Console, closures: Sequence[Closure]) -> None:
    found = Table(title="closures", title_justify="left", title_style="bold")
    found.add_column("closure")
    for name in ("rows", "load", "per row", "duckdb", "state per row", "first deletion", "fresh run"):
        found.add_column(name, justify="right")
    for one in closures:
        found.add_row(
            one.what,
            f"{one.rows:,}",
            time_text(one.load),
            time_text(one.load / one.rows),
            "-" if one.duck is None else time_text(one.duck),
            f"{one.state / one.rows:.0f} B",
            time_text(one.deletion),
            time_text(one.fresh),
        )
    console.print(found)
    console.print("processor time; duckdb has one thread", style="dim")


def print_comparisons(console: Console, comparisons: Sequence[Comparison]) -> None:
    """Print one line per comparison; a ratio above its aim is red."""
    found = Table(title="this engine / the other", title_justify="left", title_style="bold")
    found.add_column("what")
    found.add_column("quantity")
    found.add_column("the other")
    for name in ("this engine", "the other", "ratio", "aim"):
        found.add_column(name, justify="right")
    for one in comparisons:
        text = bytes_text if "memory" in one.quantity else time_text
        missed = one.aim is not None and one.ratio > one.aim
        ratio = f"{one.ratio:.2f}" if one.ratio >= 0.1 else f"1/{1 / max(one.ratio, 1e-9):,.0f}"
        found.add_row(
            one.what,
            one.quantity,
            one.other,
            text(one.own),
            text(one.theirs),
            f"[red]{ratio}[/]" if missed else ratio,
            "" if one.aim is None else f"{one.aim:g}",
        )
    console.print(found)
    aimed = [one for one in comparisons if one.aim is not None]
    reached = sum(one.ratio <= one.aim for one in aimed if one.aim is not None)
    console.print(f"{reached} of {len(aimed)} aims reached")
