"""Recursive views over the standard library's own source, kept exact while files are edited.

    python -m examples.stdlib_demo              the whole library, without its tests
    python -m examples.stdlib_demo --limit 80   a part of it

The facts are read from the source on this machine (extract.py), the views are defined in
program.dl. Then some files are edited: their text is read again, and the changes of the facts are
one tick. The demo prints the deltas of the tick, its time, and the time of recomputing the views
from scratch. The exit code is 1 if the results ever differ.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

import dbsp
from examples.stdlib_demo import edits, plain
from examples.stdlib_demo.extract import Library, library_files, library_root

PROGRAM = Path(__file__).with_name("program.dl")

T = TypeVar("T")

app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class Edit:
    """One or more files with a new text each."""

    title: str
    texts: Mapping[str, str]


@dataclass(frozen=True)
class Timing:
    """The cost of one edit in seconds, and the number of facts and view rows that it changed."""

    title: str
    facts: int
    rows: int
    tick: float
    scratch: float
    plain: float


@app.command(help=__doc__)
def main(
    limit: Annotated[int | None, typer.Option(help="Read at most this many files.", min=1)] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes that read files (default: all).", min=1)] = None,
    rows: Annotated[int, typer.Option(help="Rows shown per table.", min=1)] = 8,
    ticks: Annotated[int, typer.Option(help="Single changes timed at the end.", min=2)] = 200,
) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=110)
    raise typer.Exit(Demo(console, rows).play(limit, jobs, ticks))


class Demo:
    def __init__(self, console: Console, rows: int) -> None:
        self.console = console
        self.rows = rows
        self.program = dbsp.compile(PROGRAM)
        self.timings: list[Timing] = []
        self.differences = 0
        self.texts: dict[str, str] = {}  # of the files edited so far

    def play(self, limit: int | None, jobs: int | None, ticks: int) -> int:
        """Run the demo; return the exit code."""
        self.library = self.read(limit, jobs)
        self.facts = self.library.facts()
        self.show_facts()
        # A small run first keeps the compilation of the kernels out of the measurements.
        with self.console.status("preparing the kernels; the first run on a machine compiles them"):
            seconds, _ = _timed(self.warm_up)
        self.console.print(f"kernels ready: {_time(seconds)} (compiled once per machine)")
        seconds, self.run = _timed(lambda: self.program.start(initial=self.facts.relations()))
        self.console.print(f"facts loaded, all views computed: {_time(seconds)}\n")
        self.show_views()
        self.check("load")
        for edit in self.edits():
            self.apply(edit)
        self.show_timings()
        self.many_small_changes(ticks)
        if self.differences:
            self.console.print(f"[red]{self.differences} views differ from their recomputation[/]")
            return 1
        self.console.print("[green]every view equals its recomputation, after every tick[/]")
        return 0

    def warm_up(self) -> None:
        few = {name: sorted(rows)[:50] for name, rows in self.facts.relations().items()}
        run = self.program.start(initial=few)
        for weight in (-1, 1):
            run.step({name: dict.fromkeys(rows[:5], weight) for name, rows in few.items()})

    # -- reading --------------------------------------------------------------------------------

    def read(self, limit: int | None, jobs: int | None) -> Library:
        files = library_files(library_root(), limit)
        began = time.perf_counter()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=self.console, transient=True) as progress:
            task = progress.add_task("reading the standard library", total=len(files))
            library = Library.read(files, jobs=jobs, progress=lambda: progress.advance(task))
        seconds = _time(time.perf_counter() - began)
        self.console.print(f"{len(library.sources)} modules of {library_root()} read in {seconds}")
        for path, why in library.skipped:
            self.console.print(f"  skipped {path}: {why}", style="yellow", markup=False)
        return library

    def show_facts(self) -> None:
        counted = ", ".join(f"{len(rows)} {name}" for name, rows in self.facts.relations().items())
        self.console.print(f"facts: {counted}; {self.facts.unresolved} calls with unknown callee")

    # -- views ----------------------------------------------------------------------------------

    def show_views(self) -> None:
        views = {name: [row for row, _ in self.run.view(name)] for name in self.run.outputs}
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

    # -- edits ----------------------------------------------------------------------------------

    def edits(self) -> Iterable[Edit]:
        """Yield the edits; each is chosen among the facts after the previous edit."""
        for choose in (self.drop_an_import, self.add_a_call, self.empty_a_function):
            edit = choose()
            if edit is not None:
                yield edit
        changed = {name: _file_text(self.library.sources[name].path) for name in self.texts}
        yield Edit(f"all files restored: {', '.join(changed)}", changed)

    def text(self, module: str) -> str:
        """Return the current text of a file."""
        return self.texts.get(module) or _file_text(self.library.sources[module].path)

    def drop_an_import(self) -> Edit | None:
        preferred = [
            ("shutil", "zipfile"),
            ("tempfile", "shutil"),
            ("inspect", "dis"),
            ("argparse", "gettext"),
        ]
        for importer, imported in [*preferred, *sorted(self.facts.imports)]:
            if (importer, imported) in self.facts.imports:
                text, package = self.text(importer), self.library.sources[importer].package
                try:
                    text = edits.drop_import(text, importer, package=package, imported=imported)
                except ValueError:  # only a package on the path to an imported module
                    continue
                return Edit(f"{importer} no longer imports {imported}", {importer: text})
        return None

    def add_a_call(self) -> Edit | None:
        function = self.pick("json.decoder.JSONDecoder.decode", "shutil.copyfile")
        if function is None:
            return None
        module, name = function
        text = edits.add_statement(self.text(module), name, "import os; os.system('true')")
        return Edit(f"{module}.{name} calls os.system", {module: text})

    def empty_a_function(self) -> Edit | None:
        function = self.pick("subprocess.Popen.__init__", "subprocess.run")
        if function is None:
            return None
        module, name = function
        return Edit(f"{module}.{name} does nothing", {module: edits.empty_body(self.text(module), name)})

    def pick(self, *preferred: str) -> tuple[str, str] | None:
        """Return (module, name inside it) of a preferred function, or else of a called function."""
        home = dict(self.facts.defines)
        called = sorted({callee for caller, callee in self.facts.calls if callee in home and caller in home})
        for function in [*preferred, *called]:
            module = home.get(function)
            if module is not None and "<" not in function:
                name = function.removeprefix(f"{module}.")
                try:
                    edits.empty_body(self.text(module), name)
                except ValueError:  # a class
                    continue
                return module, name
        return None

    def apply(self, edit: Edit) -> None:
        self.console.rule(f"[bold]{edit.title}", align="left")
        began = time.perf_counter()
        self.texts |= edit.texts
        for name, text in edit.texts.items():
            self.library = self.library.with_text(name, text)
        facts = self.library.facts()
        reading = time.perf_counter() - began
        changes = self.facts.changes_to(facts)
        self.facts = facts
        tick, delta = _timed(lambda: self.run.step(changes))
        changed = sum(len(rows) for rows in changes.values())
        moved = {name: found for name, found in delta.items() if len(found)}
        self.console.print(f"read again in {_time(reading)}; {changed} facts changed; tick {_time(tick)}")
        for name, rows in changes.items():
            self.print_delta(name, list(rows.items()), "facts")
        for name, found in moved.items():
            self.print_delta(name, list(found), "view")
        scratch, naive = self.check(edit.title)
        total = sum(len(found) for found in moved.values())
        self.timings.append(Timing(edit.title, changed, total, tick, scratch, naive))
        self.console.print()

    def print_delta(self, name: str, found: list[tuple[Any, int]], what: str) -> None:
        plus = sum(weight > 0 for _, weight in found)
        self.console.print(f"  {what} [bold]{name}[/]: [green]+{plus}[/] [red]-{len(found) - plus}[/]")
        for row, weight in sorted(found, key=lambda item: (item[1], item[0]))[: self.rows]:
            style = "green" if weight > 0 else "red"
            line = f"      {weight:+d} {name}({', '.join(map(str, row))})"
            self.console.print(line, style=style, markup=False, highlight=False)
        if len(found) > self.rows:
            self.console.print(f"      ... {len(found) - self.rows} more")

    # -- from scratch ---------------------------------------------------------------------------

    def check(self, when: str) -> tuple[float, float]:
        """Compare every view with two recomputations; return their seconds."""
        scratch, fresh = _timed(lambda: self.program.start(initial=self.facts.relations()))
        naive, expected = _timed(lambda: plain.recompute(self.facts))
        for name in self.run.outputs:
            live = self.run.view(name)
            if live != fresh.view(name):
                self.report_difference(f"{name} after {when}: differs from a fresh run of the program")
            if live.to_dict() != dict.fromkeys(expected[name], 1):
                self.report_difference(f"{name} after {when}: differs from plain Python")
        return scratch, naive

    def report_difference(self, message: str) -> None:
        self.differences += 1
        self.console.print(message, style="red", markup=False)

    def show_timings(self) -> None:
        self.console.print("[bold]One tick compared with the same views from scratch[/]")
        table = _table()
        table.add_column("edit", overflow="fold", min_width=24)
        for name in ("facts", "rows", "tick", "from scratch", "plain Python", "scratch / tick"):
            table.add_column(name, justify="right")
        for timing in self.timings:
            times = (_time(timing.tick), _time(timing.scratch), _time(timing.plain))
            ratio = f"{timing.scratch / timing.tick:.0f} x"
            table.add_row(timing.title, str(timing.facts), str(timing.rows), *times, ratio)
        self.console.print(table)
        self.console.print(
            "\nfacts, rows: changed facts, and changed rows of the views; from scratch: a fresh run of the"
            " same program on the changed facts; plain Python: the same views by hand-written searches",
            style="dim",
        )

    def many_small_changes(self, ticks: int) -> None:
        """Retract and insert single facts, to measure ticks with small changes."""
        chooser = random.Random(0)
        pool = [(name, row) for name in ("calls", "imports") for row in sorted(getattr(self.facts, name))]
        spent: list[float] = []
        for name, row in chooser.sample(pool, min(len(pool), ticks // 2)):
            for weight in (-1, 1):
                began = time.perf_counter()
                self.run.step({name: {row: weight}})
                spent.append(time.perf_counter() - began)
        spent.sort()
        median, late = statistics.median(spent), spent[int(0.99 * (len(spent) - 1))]
        self.console.print(
            f"\n{len(spent)} ticks of one fact each: median {_time(median)}, 99th percentile {_time(late)}"
        )
        self.check(f"{len(spent)} small ticks")


def _table() -> Table:
    return Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)


def _file_text(path: str) -> str:
    with tokenize.open(path) as file:  # respects coding cookies
        return file.read()


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    gc.collect()  # exclude the garbage of reading files from the measurement
    began = time.perf_counter()
    outcome = work()
    return time.perf_counter() - began, outcome


def _time(seconds: float) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.0f} us"


if __name__ == "__main__":
    app()
