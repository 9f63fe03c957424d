"""The cost of an inspector for the ticks of a run, and the time until a page shows a circuit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from rich.console import Console
from rich.table import Table

import dbsp
from benchmarks.engine import Live
from benchmarks.workloads import Workload, make
from dbsp.inspector import serve
from tests.inspector.browsers import chromium

WORKLOADS = ("w1", "w3dag", "w3chain")
OPERATORS = {"tiny": 20, "small": 500, "medium": 1_000}
STATES = ("never open", "open", "closed again")
ROUNDS = 20


@dataclass(frozen=True)
class InspectedTicks:
    """The median processor time of a tick, in seconds, by the state of the inspector."""

    workload: str
    changed_rows: int
    seconds: dict[str, float]


@dataclass(frozen=True)
class ShownCircuit:
    """The seconds from the request of the page until its circuit is drawn."""

    operators: int
    edges: int
    seconds: float


def measure_inspected_ticks(size: str) -> Iterator[InspectedTicks]:
    """Step three equal runs in turns: one without an inspector, one with, one after closing it.

    The ticks are cut into rounds, so that all three runs share what else the machine does. The time
    is that of the thread that steps.
    """
    for name in WORKLOADS:
        workload = make(name, size)
        yield _measured(workload, workload.ticks)
        if workload.batches:
            yield _measured(workload, workload.batches)


def _measured(workload: Workload, ticks: list[list[tuple[str, tuple[int, ...], int]]]) -> InspectedTicks:
    contestants = {state: Live(workload.name) for state in STATES}
    for contestant in contestants.values():
        contestant.load(workload.base)
    inspector = serve(contestants["open"].run)
    serve(contestants["closed again"].run).close()
    prepared = [contestants["open"].prepare(changes) for changes in ticks]
    taken: dict[str, list[float]] = {state: [] for state in STATES}
    length = max(1, len(prepared) // ROUNDS)
    for start in range(0, len(prepared), length):
        for state, contestant in contestants.items():
            for changes in prepared[start : start + length]:
                before = time.thread_time()
                contestant.run.step(changes)
                taken[state].append(time.thread_time() - before)
    inspector.close()
    outcomes = {state: contestant.outcome() for state, contestant in contestants.items()}
    if len(set(map(repr, outcomes.values()))) != 1:
        raise AssertionError(f"expected equal results with and without an inspector, got {outcomes}")
    rows = int(median(sum(map(len, changes.values())) for changes in prepared))
    return InspectedTicks(workload.name, rows, {state: median(times) for state, times in taken.items()})


def large_program(operators: int) -> dbsp.Program:
    """Return a program whose running circuit has at least so many operators.

    Every relation reads two earlier ones, so that the rules are a few levels deep, as in programs
    that people write.
    """
    text = ".decl e(x: number, y: number) .input e\n.decl r0(x: number, y: number)\nr0(x, y) :- e(x, y).\n"
    number = 1
    while True:
        number += max(1, operators // 20)
        rules = "".join(
            f".decl r{i}(x: number, y: number) .output r{i}\n"
            f"r{i}(x, z) :- r{i // 4}(x, y), e(y, z), x != z + {i}, !r{i // 3}(z, x).\n"
            for i in range(1, number)
        )
        program = dbsp.compile(text + rules)
        if sum(1 for _ in program.circuit("physical").walk()) >= operators:
            return program


def measure_shown_circuit(operators: int, rounds: int = 3) -> ShownCircuit | None:
    """Open the page of a large circuit in the Chromium of the system; None if there is none."""
    browser = chromium()
    if browser is None:
        return None
    from playwright.sync_api import sync_playwright

    program = large_program(operators)
    with serve(program.start({"e": [(1, 2), (2, 3)]}), program) as inspector, sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        taken = []
        for _ in range(rounds):
            tab = launched.new_context(viewport={"width": 1280, "height": 800}).new_page()
            began = time.perf_counter()
            tab.goto(inspector.url)
            tab.wait_for_selector("body[data-ready]")
            taken.append(time.perf_counter() - began)
            nodes = tab.locator("#circuit .node").count()
            edges = tab.locator("#circuit .edge").count()
        launched.close()
    return ShownCircuit(nodes, edges, min(taken))


def print_inspected(console: Console, ticks: list[InspectedTicks], shown: ShownCircuit | None) -> None:
    """One line per workload, and one for the page."""
    table = Table(
        title="inspector: processor time of a tick, median", title_justify="left", title_style="bold"
    )
    for name in ("workload", "changed rows"):
        table.add_column(name)
    for state in (*STATES, "open costs", "closed costs"):
        table.add_column(state, justify="right")
    for each in ticks:
        never = each.seconds["never open"]
        table.add_row(
            each.workload,
            f"{each.changed_rows:,}",
            *(f"{each.seconds[state] * 1e3:.3f} ms" for state in STATES),
            *(f"{each.seconds[state] / never - 1:+.0%}" for state in ("open", "closed again")),
        )
    console.print(table)
    if shown is None:
        console.print("the page was not measured: chromium is not installed")
    else:
        console.print(
            f"a circuit of {shown.operators:,} operators and {shown.edges:,} streams is shown after "
            f"{shown.seconds:.2f} s"
        )
