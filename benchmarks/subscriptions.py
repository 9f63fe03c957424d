"""What many subscriptions to one run cost: the same query, other constants, and other queries."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

import dbsp
from dbsp import Run

COUNTS = {"tiny": (1, 5), "small": (1, 10, 100), "medium": (1, 10, 100, 1_000)}
TICKS = 200
PEOPLE = 2_000
FOLLOWED = 20_000

PROGRAM = """
    .decl follows(x: number, y: number) .input follows
    .decl city(x: number, c: number) .input city
    .decl near(x: number, y: number) .output near
    near(x, z) :- follows(x, y), follows(y, z).
"""


def another(number: int) -> str:
    """Return a query whose form differs from those of all other numbers."""
    tests = ("<", "<=", ">", ">=", "!=")
    first, second = ("follows", "near")[number % 2], ("follows", "near", "city")[number // 2 % 3]
    one, two = tests[number // 6 % 5], tests[number // 30 % 5]
    more = "".join(f", city(y, d{each}), d{each} {tests[each % 5]} {each}" for each in range(number // 150))
    return f"{first}(7, y), {second}(y, c), y {one} {number}, c {two} {number}{more}"


KINDS: dict[str, Callable[[int], str]] = {
    "the same query": lambda number: "near(7, y), city(y, c)",
    "other constants": lambda number: f"near({number}, y), city(y, c)",
    "other queries": another,
}


@dataclass(frozen=True)
class Subscribed:
    """The processor seconds of one kind and number of subscriptions."""

    kind: str
    number: int
    first: float
    """The first subscription: its circuit, and the relations sorted for it."""
    next: float
    """The median of the others; that of the first if there are no others."""
    tick: float
    """The median tick of one new row, which changes about 20 rows of `near`."""
    alone: float
    """The same without subscriptions."""
    close: float
    """The mean of closing one."""
    circuits: int
    rows: int
    """The rows that only subscriptions keep."""


def measure_subscriptions(counts: tuple[int, ...], only: str = "") -> Iterator[Subscribed]:
    """Measure every kind with each number of subscriptions, in new runs."""
    for kind, query in KINDS.items():
        for number in counts if only in kind else ():
            yield _measured(kind, query, number)


def _measured(kind: str, query: Callable[[int], str], number: int) -> Subscribed:
    run, other = _started(), _started()
    began = []
    subscriptions = []
    for each in range(number):
        start = time.process_time()
        subscriptions.append(run.subscribe(query(each)))
        began.append(time.process_time() - start)
    # In turns: both runs share what else the machine does.
    ticks: tuple[list[float], list[float]] = ([], [])
    rows = random.Random(2)
    for _ in range(TICKS):
        row = rows.randrange(PEOPLE), rows.randrange(PEOPLE)
        for times, stepped in zip(ticks, (run, other), strict=True):
            start = time.process_time()
            stepped.step({"follows": {row: 1}})
            times.append(time.process_time() - start)
    for subscription in subscriptions:
        total = dbsp.ZSet.empty(subscription.columns, run.interner)
        for delta in subscription.deltas():
            total = total + delta
        if total != subscription.view():
            raise AssertionError(f"the deltas of {subscription.target} do not sum to its rows")
    scopes = run._live.scopes if run._live is not None else []
    circuits, kept = len(scopes), sum(scope.rows for scope in scopes)
    start = time.process_time()
    for subscription in subscriptions:
        subscription.close()
    closed = (time.process_time() - start) / number
    first, *rest = began
    alike = statistics.median(rest or began)
    medians = [statistics.median(times) for times in ticks]
    return Subscribed(kind, number, first, alike, *medians, closed, circuits, kept)


def _started() -> Run:
    rows = random.Random(1)
    follows = [(rows.randrange(PEOPLE), rows.randrange(PEOPLE)) for _ in range(FOLLOWED)]
    return dbsp.compile(PROGRAM).start({"follows": follows, "city": [(n, n % 50) for n in range(PEOPLE)]})


def print_subscriptions(console: Console, measured: list[Subscribed]) -> None:
    """Print one line per kind and number."""
    table = Table(title="subscriptions: processor time", title_justify="left", title_style="bold")
    table.add_column("kind")
    for name in ("number", "first", "each other", "tick", "tick alone", "close", "circuits", "rows kept"):
        table.add_column(name, justify="right")
    for each in measured:
        times = (each.first, each.next, each.tick, each.alone, each.close)
        shown = [f"{seconds * 1e3:,.2f} ms" for seconds in times]
        table.add_row(each.kind, f"{each.number:,}", *shown, f"{each.circuits:,}", f"{each.rows:,}")
    console.print(table)
