"""Edit a rule of a running program: the cost of `run.update` beside a start of the new program."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import dbsp
from benchmarks.report import time_text
from dbsp import Program, Run

ROWS = {"tiny": 2_000, "small": 100_000, "medium": 1_000_000, "large": 10_000_000}

SHOP = """
.decl orders(id: number, customer: number, amount: number)
.input orders
.decl calls(id: number, customer: number, amount: number)
.input calls
.decl customer(id: number, region: number)
.input customer
.decl edge(x: number, y: number)
.input edge
.decl placed(id: number, customer: number, amount: number)
placed(id, customer, amount) :- orders(id, customer, amount).
placed(id, customer, amount) :- calls(id, customer, amount), amount > 0.
.decl sold(id: number, region: number, amount: number)
sold(id, region, amount) :- placed(id, customer, amount), customer(customer, region), amount < 99.
.decl total(region: number, amount: number)
.output total
total(region, sum amount : sold(_, region, amount)) :- customer(_, region).
.decl near(x: number, y: number)
.output near
near(x, y) :- sold(_, x, y).
near(x, z) :- near(x, y), edge(y, z).
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
.decl large(id: number, region: number)
.output large
large(id, region) :- orders(id, customer, amount), amount > 89, customer(customer, region).
"""
LOOP = ".decl loop(x: number)\n.output loop\nloop(x) :- path(x, x).\n"
CALLS = "placed(id, customer, amount) :- calls(id, customer, amount), amount > 0."
EDITS = {
    "nothing": ("", ""),
    "add a rule over the graph": (".decl large", LOOP + ".decl large"),
    "replace the recursive rule": ("path(x, y), edge(y, z)", "edge(x, y), path(y, z)"),
    "replace the filter of large orders": ("amount > 89", "amount > 90"),
    "change one of two rules, with readers": ("amount > 0", "amount > 1"),
    "drop one of two rules, with readers": (CALLS, ""),
    "replace one of two rules, with readers": (
        "calls(id, customer, amount), amount > 0",
        "calls(id, amount, customer)",
    ),
    "replace a filter, with readers": ("amount < 99", "amount < 98"),
    "replace the recursive rule, with readers": ("near(x, y), edge(y, z)", "edge(y, z), near(x, y), y > 0"),
    "replace the join of all orders": ("amount) :- placed", "amount + 1) :- placed"),
}
"""By edit, a text of the program and its replacement."""


@dataclass(frozen=True)
class Edited:
    """What one edit cost, in seconds of processor time, beside a start of the edited program."""

    edit: str
    update: float
    start: float
    replayed_rows: int
    kept: int
    changed: int
    rebuilt: int


def measure_edits(rows: int) -> Iterator[Edited]:
    """Edit a new run in each way, and compare its views with those of a start."""
    tables = _tables(rows)
    _started(dbsp.compile(SHOP), _tables(ROWS["tiny"]))  # compiles the kernels
    for name, (text, replacement) in EDITS.items():
        program = dbsp.compile(SHOP.replace(text, replacement, 1))
        run = _started(dbsp.compile(SHOP), tables)
        began = time.process_time()
        done = run.update(program)
        update = time.process_time() - began
        began = time.process_time()
        fresh = _started(program, tables)
        start = time.process_time() - began
        for output in fresh.outputs:
            if run.view(output) != fresh.view(output):
                raise AssertionError(f"after '{name}', the view of '{output}' is not that of a new run")
        yield Edited(name, update, start, done.replayed_rows, done.kept, done.changed, done.rebuilt)


def _started(program: Program, tables: dict[str, Any]) -> Run:
    run = program.start()
    run.step(tables)
    return run


def _tables(rows: int) -> dict[str, Any]:
    """Return orders, a tenth as many customers, and a graph of rings of 20 nodes."""
    chance = np.random.default_rng(3)
    customers = rows // 10
    nodes = np.arange(1_800)
    calls = max(rows // 100, 1)
    columns = {
        "calls": (
            rows + np.arange(calls),
            chance.integers(0, customers, calls),
            chance.integers(0, 100, calls),
        ),
        "orders": (np.arange(rows), chance.integers(0, customers, rows), chance.integers(0, 100, rows)),
        "customer": (np.arange(customers), chance.integers(0, 50, customers)),
        "edge": (nodes, nodes // 20 * 20 + (nodes + 1) % 20),
    }
    return {name: np.column_stack(each).astype(np.int64) for name, each in columns.items()}


def print_edits(console: Console, rows: int, edits: list[Edited]) -> None:
    """One line per edit."""
    title = f"edits: a program over {rows:,} orders continues with an edited rule"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("edit")
    for name in ("update", "start", "ratio", "rows read", "traces kept", "changed", "rebuilt"):
        table.add_column(name, justify="right")
    for each in edits:
        table.add_row(
            each.edit,
            time_text(each.update),
            time_text(each.start),
            f"{each.update / each.start:.2f}",
            f"{each.replayed_rows:,}",
            str(each.kept),
            str(each.changed),
            str(each.rebuilt),
        )
    console.print(table)
