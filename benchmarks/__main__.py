"""Command line: `python -m benchmarks w1 --size medium`, `python -m benchmarks all`.

Every workload is played by this engine (live, from rule text and from streams), by this engine anew for
every tick, by plain Python that maintains this one query, and by duckdb if it is installed; patterns in
graphs also by either strategy of joining that the planner of the rules chooses from. All must come to the
same result; the status is 1 if they do not.

`kernels` measures the inner loops, `growth` how the tick of each operator grows with its state at a constant
change, `circuit` what a large circuit costs that has nothing to do, `scaling` with which exponent
triangles take longer on larger graphs, `planner` what its choice of joins costs against the others,
`rewrites` what each rewriting of the rules is worth, `usage` what the choices of a caller cost,
`recursion` what recursive programs take to load and to change in every mode of recursion, against a fresh run
and duckdb, and `spark` what a tick costs that Spark drives, over what Spark takes without it.

`spark-crash` measures nothing: it kills Spark and the circuits it drives at random, 4, 30 or 100 times, and
looks whether the result is exact. It is not among `all`.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import platform
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console

import dbsp
from benchmarks.circuits import measure_circuit
from benchmarks.contest import Entry, Result, measure
from benchmarks.growth import DECADES, measure_growth
from benchmarks.kernels import measure_kernels
from benchmarks.patterns import WORKLOADS as GRAPHS
from benchmarks.planner import SHARES, measure_planner
from benchmarks.recursion import MODES, measure_recursion
from benchmarks.recursion_report import print_recursion
from benchmarks.recursive_programs import CASES as PROGRAMS
from benchmarks.report import (
    print_costs,
    print_crashes,
    print_driven,
    print_growth,
    print_passing,
    print_planner,
    print_rates,
    print_results,
    print_rewrites,
    print_scaling,
    print_usage,
)
from benchmarks.rewrites import SHARES as REWRITES
from benchmarks.rewrites import measure_rewrites
from benchmarks.scaling import POWERS, measure_scaling
from benchmarks.spark import DRIVEN, PASSING, measure_driven, measure_passing
from benchmarks.spark_crash import KILLS, measure_crashes
from benchmarks.usage import ROWS as USAGE
from benchmarks.usage import measure_usage
from benchmarks.workloads import SIZES, Workload, find_folder, make, read_folder, read_graph
from dbsp.errors import SetupError

ENTRIES = [
    Entry("engine (rules)", "benchmarks.engine", "Live"),
    Entry("engine (streams)", "benchmarks.engine", "LiveStreams"),
    Entry("engine (binary)", "benchmarks.engine", "LiveBinary", frozenset(GRAPHS)),
    Entry("engine (wcoj)", "benchmarks.engine", "LiveMultiway", frozenset(GRAPHS)),
    Entry("engine, anew", "benchmarks.engine", "Anew"),
    Entry("plain Python", "benchmarks.hand", "create"),
    Entry("duckdb, anew", "benchmarks.duck", "Requery"),
]
DEFAULT_SIZES = ("small", "medium", "large")

T = TypeVar("T")

app = typer.Typer(add_completion=False)


class What(StrEnum):
    all = "all"
    w1 = "w1"
    w3 = "w3"
    w3dag = "w3dag"
    w3chain = "w3chain"
    w2 = "w2"
    w5 = "w5"
    clique4 = "clique4"
    diamond = "diamond"
    kernels = "kernels"
    growth = "growth"
    circuit = "circuit"
    scaling = "scaling"
    planner = "planner"
    rewrites = "rewrites"
    usage = "usage"
    recursion = "recursion"
    spark_crash = "spark-crash"
    spark = "spark"


APART: dict[What, list[str]] = {
    What.kernels: [],
    What.growth: [],
    What.circuit: [],
    What.scaling: [],
    What.planner: [],
    What.rewrites: [],
    What.usage: [],
    What.recursion: [],
    What.spark_crash: [],
    What.spark: [],
}
"""What is measured without contestants."""


@app.command(help=__doc__)
def main(
    what: Annotated[What, typer.Argument(help="What to measure.")] = What.all,
    size: Annotated[str | None, typer.Option(help="small, medium or large (default: each in turn).")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Read the change logs below this folder instead of making them.")
    ] = None,
    graph: Annotated[
        Path | None, typer.Option(help="Find patterns in the graph of this file, one edge a line.")
    ] = None,
    edges: Annotated[int | None, typer.Option(help="Only so many edges of the graph, by chance.")] = None,
    galen: Annotated[
        Path | None, typer.Option(help="Folder or zip file of the ontology GALEN, for `recursion`.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Bound of each phase of ticks, per contestant.")] = 5.0,
    only: Annotated[
        str | None,
        typer.Option(
            help="Only contestants (operators of `growth`, queries of `planner`, rewritings, programs of "
            "`recursion`) whose name contains this."
        ),
    ] = None,
) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=190)  # in a file or a pipe nothing limits the tables
    threads = os.cpu_count()
    console.print(f"Python {platform.python_version()} on {platform.machine()}, {threads} processors")
    names = (APART | {What.all: list(SIZES), What.w3: ["w3dag", "w3chain"]}).get(what, [what.value])
    entries = [entry for entry in ENTRIES if what in APART or not only or only in entry.name]
    if not entries:
        raise typer.BadParameter(f"no contestant is called that: {', '.join(e.name for e in ENTRIES)}")
    agreed = True
    for name in names:
        for chosen in [size or ""] if size or graph else [s for s in DEFAULT_SIZES if s in SIZES[name]]:
            source = source_of(name, chosen, data, graph, edges)
            title = f"{name} {graph.stem if graph else chosen}"
            with console.status(title) as status:
                results = []
                for entry in entries:
                    if entry.workloads is None or name in entry.workloads:
                        status.update(f"{title}: {entry.name}")
                        results.append(contend(entry, name, source, seconds))
            agreed = print_results(console, title, results) and agreed
    if what in (What.all, What.kernels):
        print_rates(
            console, list(measure_kernels({"small": 100_000, "large": 10_000_000}.get(size or "", 1_000_000)))
        )
    part = "" if what is What.all else only or ""
    if what in (What.all, What.growth):
        decades = one_of(DECADES, size, what)
        with console.status("growth"):
            growths = list(measure_growth(decades, only=part))
        print_growth(console, growths)
    if what in (What.all, What.scaling):
        powers = one_of(POWERS, size, what)
        with console.status("scaling"):
            scalings = list(measure_scaling(powers))
        print_scaling(console, scalings)
    if what in (What.all, What.planner):
        share = one_of(SHARES, size, what)
        with console.status("planner"):
            planned = list(measure_planner(share, only=part))
        print_planner(console, planned)
    if what in (What.all, What.rewrites):
        share = one_of(REWRITES, size, what)
        with console.status("rewrites"):
            rewritten = list(measure_rewrites(share, only=part))
        print_rewrites(console, rewritten)
    if what in (What.all, What.usage):
        rows = one_of(USAGE, size, what)
        with console.status("usage"):
            costs = list(measure_usage(rows))
        print_usage(console, costs)
    if what in (What.all, What.recursion):
        agreed = recursive(console, what, size, part, galen, seconds) and agreed
    if what in (What.all, What.spark):
        agreed = through_spark(console, one_of(PASSING, size, what), one_of(DRIVEN, size, what)) and agreed
    if what in (What.all, What.circuit):
        print_costs(console, measure_circuit())
    if what is What.spark_crash:
        kills = one_of(KILLS, size, what)
        with console.status("spark-crash"), tempfile.TemporaryDirectory() as folder:
            crashes = measure_crashes(kills, Path(folder) / "crash", seed=time.time_ns())
        print_crashes(console, crashes)
        agreed = not crashes.problems
    raise typer.Exit(0 if agreed else 1)


def one_of(sizes: dict[str, T], size: str | None, what: What) -> T:
    if (chosen := size or "medium") not in sizes:
        raise typer.BadParameter(f"{what} has the sizes {', '.join(sizes)}")
    return sizes[chosen]


def recursive(
    console: Console, what: What, size: str | None, only: str, galen: Path | None, seconds: float
) -> bool:
    """Print what recursive programs take; False if a result differs. Among `all` they are small, unless
    another size is asked for, and in the mode that chooses by itself: each takes a process of its own."""
    among_all = what is What.all
    chosen = size or ("small" if among_all else "medium")
    if chosen not in DEFAULT_SIZES:
        raise typer.BadParameter(f"{what} has the sizes {', '.join(DEFAULT_SIZES)}")
    if galen is not None and not galen.exists():
        raise typer.BadParameter(f"{galen} does not exist")
    agreed, found = True, False
    modes = MODES[:1] if among_all else MODES
    for measured in measure_recursion(chosen, modes=modes, only=only, source=galen, seconds=seconds):
        agreed, found = print_recursion(console, chosen, measured) and agreed, True
    if not found:
        raise typer.BadParameter(
            f"no program of this size is called that: {', '.join(c.name for c in PROGRAMS)}"
        )
    return agreed


def through_spark(console: Console, rows: tuple[int, ...], sizes: tuple[str, ...]) -> bool:
    """Print what driving from Spark costs; False if a result differs. Without Spark nothing is measured."""
    try:
        session = dbsp.spark.session("benchmarks")
    except SetupError as error:
        console.print(f"spark: {error}")
        return True
    session.sparkContext.setLogLevel("ERROR")
    with console.status("spark"):
        passings = list(measure_passing(session, rows))
        driven = [
            one for name in ("w1", "w2") for size in sizes for one in measure_driven(session, name, size)
        ]
    session.stop()
    print_passing(console, passings)
    return print_driven(console, driven)


def source_of(
    name: str, size: str, data: Path | None, graph: Path | None, edges: int | None
) -> Callable[[], Workload]:
    """Where the workload comes from: a graph, a folder of logs, or the generators."""
    if graph is not None:
        if name not in GRAPHS or not graph.exists():
            raise typer.BadParameter(
                f"a graph that exists, and one of {', '.join(GRAPHS)}, not {name} {graph}"
            )
        return partial(read_graph, graph, name, edges)
    if data is not None:
        folder = find_folder(data, name, size)
        if not folder.exists():
            raise typer.BadParameter(f"{folder} does not exist")
        return partial(read_folder, folder)
    if size not in SIZES[name]:
        raise typer.BadParameter(f"{name} has the sizes {', '.join(SIZES[name])}")
    return partial(make, name, size)


def contend(entry: Entry, name: str, source: Callable[[], Workload], seconds: float) -> Result:
    """In a process of its own."""
    if entry.module == "benchmarks.duck" and importlib.util.find_spec("duckdb") is None:
        return Result(entry.name, note="not installed")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(measure, entry, name, source, seconds).result()
        except BrokenProcessPool:
            return Result(entry.name, note="the process died", failed=True)
        except Exception as error:
            return Result(entry.name, note=f"{type(error).__name__}: {error}", failed=True)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
