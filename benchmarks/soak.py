"""Step a durable run for a chosen time, with interrupts, and check it against fresh runs.

The program has a join, aggregates, negation, recursion and strings; the number of rows stays about
the same. Signals interrupt ticks at random times. At every check, each view must equal the view of
a fresh run over the rows that are present.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dbsp
from benchmarks.contest import resident_bytes
from dbsp import Program, Run
from dbsp.durable import Store

RULES = """
    .decl edge(x: number, y: number) .input edge
    .decl person(x: number, name: symbol) .input person
    .decl path(x: number, y: number) .output path
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
    .decl reached(name: symbol, n: number) .output reached
    reached(name, n) :- person(x, name), n = count : { path(x, _) }.
    .decl lonely(name: symbol) .output lonely
    lonely(name) :- person(x, name), !edge(x, _), !edge(_, x).
    .decl triangle(x: number, y: number, z: number) .output triangle
    triangle(x, y, z) :- edge(x, y), edge(y, z), edge(z, x).
"""
NODES = 60
ROWS = 120
"""The number of edges, and of people, that are present after the first ticks."""
CHECK_EVERY = 200
"""The number of ticks from one check to the next."""

Rows = dict[str, set[tuple[Any, ...]]]
Change = dict[str, dict[tuple[Any, ...], int]]


@dataclass(frozen=True)
class Soaked:
    """The state of a soak test after some time; latencies are those since the last report."""

    seconds: float
    ticks: int
    checked: int
    interrupted: int
    median: float
    slow: float
    slowest: float
    resident_bytes: int
    state_rows: int
    interned: int
    problem: str = ""


def measure_soak(seconds: float, folder: Path, reports: int = 10, seed: int = 1) -> Iterator[Soaked]:
    """Step a run so long; yield a report after each of so many parts of the time."""
    chance = random.Random(seed)
    program = dbsp.compile(RULES)
    run = program.start(checkpoint=Store(folder, sync=False))
    rows: Rows = {"edge": set(), "person": set()}
    latencies: list[float] = []
    ticks = checked = interrupted = 0
    started = time.perf_counter()
    reported = 0
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        while True:
            change = _change(rows, chance)
            at = run.tick
            began = time.perf_counter()
            interrupted += _step(run, change, chance if ticks > CHECK_EVERY else None)
            latencies.append(time.perf_counter() - began)
            if run.tick > at:
                _apply(rows, change)
                ticks += 1
            problem = ""
            if ticks % CHECK_EVERY == 0 and run.tick > at:
                problem = _difference(program, run, rows)
                checked += CHECK_EVERY
            passed = time.perf_counter() - started
            if problem or passed >= seconds * (reported + 1) / reports:
                reported = int(passed / seconds * reports)
                latencies.sort()
                yield Soaked(
                    passed,
                    ticks,
                    checked,
                    interrupted,
                    latencies[len(latencies) // 2],
                    latencies[len(latencies) * 99 // 100],
                    latencies[-1],
                    resident_bytes(),
                    run.state_rows,
                    len(run.interner),
                    problem,
                )
                latencies = []
                if problem or passed >= seconds:
                    return
    finally:
        signal.signal(signal.SIGALRM, before)
        if run.log is not None:
            run.log.close()


def _change(rows: Rows, chance: random.Random) -> Change:
    """Return some insertions, and as many deletions as keep the number of rows."""
    change: Change = {"edge": {}, "person": {}}
    for name, part in change.items():
        for _ in range(chance.randrange(4)):
            x, y = chance.randrange(NODES), chance.randrange(NODES)
            part[(x, y) if name == "edge" else (x, f"name{y}")] = 1
        surplus = len(rows[name]) + len(part) - ROWS
        for row in chance.sample(sorted(rows[name]), max(0, min(surplus, len(rows[name])))):
            part.setdefault(row, -1)
    return change


def _apply(rows: Rows, change: Change) -> None:
    for name, part in change.items():
        rows[name] = (rows[name] | {r for r, w in part.items() if w > 0}) - {
            r for r, w in part.items() if w < 0
        }


def _step(run: Run, change: Change, chance: random.Random | None) -> bool:
    """Step the run; with `chance` a signal may interrupt it. Return whether one has."""
    try:
        try:
            if chance is not None and chance.random() < 0.05:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00005, 0.005))
            run.step(change)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        return True
    return False


def _difference(program: Program, run: Run, rows: Rows) -> str:
    """Return how the views differ from those of a fresh run; empty if they do not."""
    fresh = program.start({name: sorted(part) for name, part in rows.items()})
    for name in fresh.outputs:
        mine, right = run.view(name).to_dict(), fresh.view(name).to_dict()
        if mine != right:
            rest = sorted(mine.items() ^ right.items())[:3]
            return f"tick {run.tick}: view {name} differs in {rest}"
    return ""
