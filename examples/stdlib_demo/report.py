"""What the demo prints: progress, views, deltas and times."""

from __future__ import annotations

import gc
import statistics
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from examples.stdlib_demo.extract import Facts, Library, Row, library_files, library_root

T = TypeVar("T")


@dataclass(frozen=True)
class Timing:
    """The cost of one edit in seconds, and the number of facts and view rows that it changed."""

    title: str
    facts: int
    rows: int
    tick: float
    scratch: float
    plain: float
    batch: float | None = None
    """The micro-batch of Spark around the tick."""


class Report:
    """Prints to a console; `rows` limits the rows of each table and delta."""

    def __init__(self, console: Console, rows: int) -> None:
        self.console = console
        self.rows = rows

    def line(self, text: str = "", style: str | None = None) -> None:
        """Print a line that may contain brackets."""
        self.console.print(text, style=style, markup=False, highlight=style is None)

    @contextmanager
    def step(self, doing: str, done: str) -> Iterator[None]:
        """Show what is done now, in a terminal, and print the seconds it took."""
        began = time.perf_counter()
        with self.console.status(doing):
            yield
        self.line(f"{done}: {seconds(time.perf_counter() - began)}")

    def heading(self, title: str) -> None:
        self.console.rule(f"[bold]{title}", align="left")

    # -- reading --------------------------------------------------------------------------------

    def read(self, limit: int | None, jobs: int | None) -> Library:
        """Read the standard library of this Python, with a progress bar."""
        files = library_files(library_root(), limit)
        began = time.perf_counter()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=self.console, transient=True) as progress:
            task = progress.add_task("reading the standard library", total=len(files))
            library = Library.read(files, jobs=jobs, progress=lambda: progress.advance(task))
        spent = seconds(time.perf_counter() - began)
        self.console.print(f"{len(library.sources)} modules of {library_root()} read in {spent}")
        for path, why in library.skipped:
            self.line(f"  skipped {path}: {why}", "yellow")
        return library

    def show_facts(self, facts: Facts) -> None:
        counted = ", ".join(f"{len(rows)} {name}" for name, rows in facts.relations().items())
        self.console.print(f"facts: {counted}; {facts.unresolved} calls with unknown callee")

    # -- views and deltas -----------------------------------------------------------------------

    def show_views(self, views: Mapping[str, Collection[Any]]) -> None:
        sizes = ", ".join(f"{len(found)} {name}" for name, found in views.items())
        self.console.print(f"views: {sizes}\n")
        heaviest = sorted(views["footprint"], key=lambda row: (-row[1], row[0]))
        self.table("Modules that an import loads", ("module", "modules loaded"), heaviest)
        self.table("Import cycles", ("one", "other"), sorted(views["cycle"]))
        held_back = sorted(views["held_back"])
        self.table("Deferred imports that would otherwise close a cycle", ("in", "import"), held_back)
        counted = Counter(danger for _, danger in views["risky"])
        self.table("Functions that can reach a dangerous call", ("call", "functions"), counted.most_common())
        named = [row for row in views["risky"] if row[1] == "os.system" and ".<" not in row[0]]
        self.table("... for example os.system", ("function",), sorted((function,) for function, _ in named))
        exposed = sorted(views["exposure"], key=lambda row: (-row[2], row))
        self.table("The most exposed modules", ("module", "call", "functions"), exposed)

    def table(self, title: str, columns: Iterable[str], found: list[tuple[Any, ...]]) -> None:
        more = f" ({len(found)} rows, {self.rows} shown)" if len(found) > self.rows else ""
        self.console.print(f"[bold]{title}[/]{more}")
        table = _table()
        for place, name in enumerate(columns):
            numbers = bool(found) and isinstance(found[0][place], int)
            table.add_column(name, justify="right" if numbers else "left")
        for row in found[: self.rows]:
            table.add_row(*(str(value) for value in row))
        self.console.print(table if found else "none")
        self.console.print()

    def show_deltas(self, what: str, deltas: Mapping[str, Mapping[Row, int]]) -> None:
        """Print the changed rows of each relation, retractions first."""
        for name, delta in deltas.items():
            plus = sum(weight > 0 for weight in delta.values())
            self.console.print(f"  {what} [bold]{name}[/]: [green]+{plus}[/] [red]-{len(delta) - plus}[/]")
            for row, weight in sorted(delta.items(), key=lambda item: (item[1], item[0]))[: self.rows]:
                line = f"      {weight:+d} {name}({', '.join(map(str, row))})"
                self.console.print(
                    line, style="green" if weight > 0 else "red", markup=False, highlight=False
                )
            if len(delta) > self.rows:
                self.console.print(f"      ... {len(delta) - self.rows} more")

    # -- times ----------------------------------------------------------------------------------

    def show_timings(self, timings: list[Timing], explained: str = "") -> None:
        """Print the time of each edit, and that of recomputing the views."""
        self.console.print("[bold]One tick compared with the same views from scratch[/]")
        on_spark = any(timing.batch is not None for timing in timings)
        table = _table()
        table.add_column("edit", overflow="fold", min_width=24)
        batch = ["micro-batch"] if on_spark else []
        for name in ("facts", "rows", *batch, "tick", "from scratch", "plain Python", "scratch / tick"):
            table.add_column(name, justify="right")
        for timing in timings:
            spent = [timing.tick, timing.scratch, timing.plain]
            spent = spent if timing.batch is None else [timing.batch, *spent]
            ratio = f"{timing.scratch / timing.tick:.3g} x"
            table.add_row(timing.title, str(timing.facts), str(timing.rows), *map(seconds, spent), ratio)
        self.console.print(table)
        self.console.print(
            "\nfacts, rows: changed facts, and changed rows of the views; from scratch: a fresh run of the"
            f" same program on the changed facts; plain Python: the same views by hand-written searches"
            f"{explained}",
            style="dim",
        )

    def show_spent(self, what: str, spent: Iterable[float]) -> None:
        """Print the median and the 99th percentile of the seconds of many ticks."""
        ordered = sorted(spent)
        median, late = statistics.median(ordered), ordered[round(0.99 * (len(ordered) - 1))]
        self.console.print(
            f"\n{len(ordered)} {what}: median {seconds(median)}, 99th percentile {seconds(late)}"
        )


def _table() -> Table:
    return Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Return the seconds that `work` took, and its result."""
    gc.collect()  # exclude the garbage of reading files from the measurement
    began = time.perf_counter()
    outcome = work()
    return time.perf_counter() - began, outcome


def seconds(spent: float) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if spent * factor >= 1:
            return f"{spent * factor:.3g} {unit}"
    return f"{spent * 1e6:.0f} us"
