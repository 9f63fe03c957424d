"""Run benchmarks, for example `python -m benchmarks w1 --size medium` or `... all`.

The contestants of a workload are this engine (live, from rules and from streams), this engine from
scratch for every tick, plain Python that maintains the one query, and duckdb if it is installed;
for patterns in graphs also both join strategies of the planner. All results must be equal; the exit
code is 1 if they are not.

`kernels` measures the inner loops, `growth` the tick of each operator by the size of its state,
`groups` the tick of one row by the size of its group, for aggregates and functions of an order,
`loads` the load of operators with rows that fit a word and with wide rows,
`circuit` the cost of a large idle circuit, `scaling` the exponent of triangles by the size of the
graph, `planner` the cost of the planner's choice of joins, `rewrites` the gain of each rewriting of
the rules, `shapes` rules that are slow unless the compiler knows their shape, `usage` the cost of a
caller's choices, `io` the rows per second of each form of a table and of each file, beside Polars
and DuckDB, `checkpoint` what snapshots write and what opening costs, `pauses` the ticks that wait
for snapshots and the files of a long run, `startup` the cost of a first use beside them and
Soufflé, `recursion` loads and changes of recursive programs in every recursion mode, compared with
a fresh run and duckdb, `spark` the cost of a tick that Spark drives, above Spark's own cost,
`datomic` databases of facts: imports, transactions, queries, and the same queries live, `values`
interned strings that come and go, `limits` state of four times the memory limit beside a run
without a limit, `shards` one circuit in one process and in several, `threads` loads by one thread
and by several (with `--galen`, of GALEN too), `transaction` loads of the same rows in a
transaction, in ticks, and in one step, `edits` updates of a running program beside starts of the
edited one, `subscriptions` the same query, other constants and other queries for up to 1,000
subscribers of one run, and `inspector` what an open inspector costs a tick and when its page shows
a circuit. Not part of `all` are `spark-shards`, which measures one circuit on Spark's executors, in
the driver, and Spark jobs by hand, and `peers`, which compares this engine with duckdb and pathway
and prints the ratios that it aims at.

These measure nothing, check that results are exact, and are not part of `all`: `faults` raises
exceptions at every step of ticks (with the size medium at one step in 11, with small at one in
101), `kills` kills durable runs at random (3, 20 or 68 times for each of 14 circuits),
`shard-kills` kills shards and coordinators of a durable sharded run (10, 60 or 200 times),
`spark-kills` kills executors, workers, drivers, their JVMs and servers of Spark Connect that step a
run or a streaming query on shards, and lets tasks and the file system fail (5, 30 or 100 kills),
`spark-crash` kills Spark and the circuits that it drives (4, 30 or 100 times), and `soak` steps a
run for `--seconds` and interrupts it at random; it reports memory and latencies, too. `windows`
steps windows with a watermark for 20,000, 200,000 or 2,000,000 ticks: both stay flat. `damage`
damages the files of checkpoints, delta logs, inboxes and pipelines at random, `--count` times, and
`fuzz` sends `--count` random programs, fact files, change scripts and JSON circuits to dbsp;
`--seed` repeats them. The exit code is 1 if a result is wrong, a process dies, or another exception
than DbspError is raised.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import tempfile
import time
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console

import dbsp
from benchmarks.bulk_load import ROWS as BULK
from benchmarks.bulk_load import measure_bulk_loads
from benchmarks.checkpoints import ROWS as CHECKPOINTS
from benchmarks.checkpoints import measure_openings, measure_snapshots, print_checkpoints
from benchmarks.circuits import measure_circuit
from benchmarks.contest import Entry, Result, measure
from benchmarks.damage import COUNTS, measure_damages
from benchmarks.data_routes import ROWS as ROUTES
from benchmarks.data_routes import measure_routes
from benchmarks.fact_databases import SIZES as FACTS
from benchmarks.fact_databases import measure_databases
from benchmarks.fact_report import print_databases
from benchmarks.faults import STRIDES, measure_faults
from benchmarks.freed_values import STRINGS, measure_churn, measure_strings, print_churn, print_strings
from benchmarks.freed_values import TICKS as CHURN
from benchmarks.fuzz import cases_of, fuzz, print_campaign
from benchmarks.fuzz_cases import KINDS
from benchmarks.group_sizes import DECADES as GROUPS
from benchmarks.group_sizes import measure_group_sizes
from benchmarks.growth import DECADES, measure_growth
from benchmarks.inspected import OPERATORS, measure_inspected_ticks, measure_shown_circuit, print_inspected
from benchmarks.kernels import measure_kernels
from benchmarks.kills import KILLS as KILLED
from benchmarks.kills import measure_kills
from benchmarks.limited_memory import LIMITS, measure_limits
from benchmarks.load_widths import ROWS as LOADS
from benchmarks.load_widths import measure_load_widths
from benchmarks.patterns import WORKLOADS as GRAPHS
from benchmarks.pauses import ROWS as PAUSES
from benchmarks.pauses import TICKS as AGES
from benchmarks.pauses import measure_age, measure_pauses, print_age, print_pauses
from benchmarks.peers import (
    CHAINS,
    Comparison,
    compare_workload,
    measure_closures,
    print_closures,
    print_comparisons,
)
from benchmarks.peers import WORKLOADS as PEER_WORKLOADS
from benchmarks.planner import SHARES, measure_planner
from benchmarks.processes import in_new_process
from benchmarks.program_edits import ROWS as EDITED
from benchmarks.program_edits import measure_edits, print_edits
from benchmarks.recursion import MODES, measure_recursion
from benchmarks.recursion_report import print_recursion
from benchmarks.recursive_programs import CASES as PROGRAMS
from benchmarks.recursive_programs import GALEN
from benchmarks.report import (
    print_bulk_loads,
    print_costs,
    print_crashes,
    print_damages,
    print_driven,
    print_faults,
    print_group_sizes,
    print_growth,
    print_kills,
    print_limits,
    print_load_widths,
    print_passing,
    print_planner,
    print_rates,
    print_results,
    print_rewrites,
    print_routes,
    print_scaling,
    print_shapes,
    print_soak,
    print_startup,
    print_threads,
    print_usage,
    print_windows,
)
from benchmarks.rewrites import SHARES as REWRITES
from benchmarks.rewrites import measure_rewrites
from benchmarks.scaling import POWERS, measure_scaling
from benchmarks.shapes import SHARES as SHAPES
from benchmarks.shapes import measure_shapes
from benchmarks.shard_kills import SHARD_KILLS, measure_shard_kills
from benchmarks.sharded import SHARDS, measure_shards
from benchmarks.sharded_report import print_shard_kills, print_shards, print_spark_kills
from benchmarks.soak import measure_soak
from benchmarks.spark import DRIVEN, PASSING, measure_driven, measure_passing
from benchmarks.spark_crash import KILLS, measure_crashes
from benchmarks.spark_kills import SPARK_KILLS, measure_spark_kills
from benchmarks.spark_shards import DRIVER_MEMORY, SPARK_SHARDS, measure_spark_shards
from benchmarks.spark_shards_report import print_spark_shards
from benchmarks.startup import REPEATS as STARTS
from benchmarks.startup import measure_startup
from benchmarks.subscriptions import COUNTS as SUBSCRIPTIONS
from benchmarks.subscriptions import measure_subscriptions, print_subscriptions
from benchmarks.thread_counts import ROUNDS as THREADED
from benchmarks.thread_counts import measure_threads
from benchmarks.usage import ROWS as USAGE
from benchmarks.usage import measure_usage
from benchmarks.windows import TICKS as WINDOWED
from benchmarks.windows import measure_windows
from benchmarks.workloads import SIZES, Workload, find_folder, make, read_folder, read_graph
from dbsp.errors import SetupError

ENTRIES = [
    Entry("engine (rules)", "benchmarks.engine", "Live"),
    Entry("engine (streams)", "benchmarks.engine", "LiveStreams"),
    Entry("engine (joins)", "benchmarks.engine", "LiveJoins", frozenset(GRAPHS)),
    Entry("engine (joins as written)", "benchmarks.engine", "LiveWrittenJoins", frozenset(GRAPHS)),
    Entry("engine (binary)", "benchmarks.engine", "LiveBinary", frozenset(GRAPHS)),
    Entry("engine (wcoj)", "benchmarks.engine", "LiveMultiway", frozenset(GRAPHS)),
    Entry("engine, from scratch", "benchmarks.engine", "FromScratch"),
    Entry("plain Python", "benchmarks.hand", "create"),
    Entry("duckdb, from scratch", "benchmarks.duck", "Requery", needs="duckdb"),
]
PEERS = [
    *(e for e in ENTRIES if e.name in ("engine (rules)", "engine (streams)", "duckdb, from scratch")),
    Entry("pathway", "benchmarks.pathway_peer", "Live", needs="pathway"),
]
"""The contestants of `peers`."""

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
    groups = "groups"
    loads = "loads"
    circuit = "circuit"
    scaling = "scaling"
    planner = "planner"
    rewrites = "rewrites"
    shapes = "shapes"
    usage = "usage"
    transaction = "transaction"
    edits = "edits"
    inspector = "inspector"
    subscriptions = "subscriptions"
    startup = "startup"
    io = "io"
    checkpoint = "checkpoint"
    pauses = "pauses"
    recursion = "recursion"
    peers = "peers"
    fuzz = "fuzz"
    faults = "faults"
    kills = "kills"
    shard_kills = "shard-kills"
    spark_kills = "spark-kills"
    soak = "soak"
    windows = "windows"
    spark_crash = "spark-crash"
    damage = "damage"
    spark = "spark"
    spark_shards = "spark-shards"
    datomic = "datomic"
    limits = "limits"
    values = "values"
    shards = "shards"
    threads = "threads"


WITHOUT_CONTESTANTS: dict[What, list[str]] = {
    What.kernels: [],
    What.growth: [],
    What.groups: [],
    What.loads: [],
    What.circuit: [],
    What.scaling: [],
    What.planner: [],
    What.rewrites: [],
    What.shapes: [],
    What.usage: [],
    What.transaction: [],
    What.edits: [],
    What.inspector: [],
    What.subscriptions: [],
    What.startup: [],
    What.io: [],
    What.checkpoint: [],
    What.pauses: [],
    What.recursion: [],
    What.peers: [],
    What.fuzz: [],
    What.faults: [],
    What.kills: [],
    What.shard_kills: [],
    What.spark_kills: [],
    What.soak: [],
    What.windows: [],
    What.spark_crash: [],
    What.damage: [],
    What.spark: [],
    What.spark_shards: [],
    What.datomic: [],
    What.limits: [],
    What.values: [],
    What.shards: [],
    What.threads: [],
}
"""The measurements without contestants."""


@app.command(help=__doc__)
def main(
    what: Annotated[What, typer.Argument(help="The measurement.")] = What.all,
    size: Annotated[str | None, typer.Option(help="small, medium or large (default: all three).")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Read the change logs in this folder instead of generating them.")
    ] = None,
    graph: Annotated[
        Path | None, typer.Option(help="Find patterns in the graph of this file, one edge per line.")
    ] = None,
    edges: Annotated[int | None, typer.Option(help="Use a random sample of this many edges.")] = None,
    galen: Annotated[
        Path | None, typer.Option(help="Folder or zip file of the ontology GALEN, for `recursion`.")
    ] = None,
    genealogy: Annotated[
        Path | None, typer.Option(help="Folder with person.tsv and advised.tsv, for `datomic`.")
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="Time limit of each phase, per contestant; the time of `soak`.")
    ] = 5.0,
    only: Annotated[
        str | None,
        typer.Option(
            help="Only contestants (operators of `growth` and `loads`, functions of `groups`, queries of "
            "`planner`, rewritings, shapes, programs of `recursion`, queries of `datomic`, circuits of "
            "`faults` and `kills`) whose name contains this."
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Number of damages of `damage`, or of cases of `fuzz`.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of `damage`, or the first seed of `fuzz`.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="programs, facts, scripts or circuits, for `fuzz` (default: all).")
    ] = None,
    master: Annotated[
        str, typer.Option(help="Spark's master of `spark-shards`, such as local-cluster[2,1,1024].")
    ] = "local[2]",
) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=190)  # a file or pipe has no width
    threads = os.cpu_count()
    console.print(f"Python {platform.python_version()} on {platform.machine()}, {threads} processors")
    names = (WITHOUT_CONTESTANTS | {What.all: list(SIZES), What.w3: ["w3dag", "w3chain"]}).get(
        what, [what.value]
    )
    entries = [e for e in ENTRIES if what in WITHOUT_CONTESTANTS or not only or only in e.name]
    if not entries:
        known = ", ".join(entry.name for entry in ENTRIES)
        raise typer.BadParameter(f"expected a part of a contestant's name ({known}), got '{only}'")
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
    if what in (What.all, What.groups):
        decades = one_of(GROUPS, size, what)
        with console.status("groups"):
            sizes = dict(measure_group_sizes(decades, only=part))
        print_group_sizes(console, sizes)
    if what in (What.all, What.loads):
        rows = one_of(LOADS, size, what)
        with console.status("loads"):
            widths = list(measure_load_widths(rows, only=part))
        print_load_widths(console, rows, widths)
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
    if what in (What.all, What.shapes):
        share = one_of(SHAPES, size, what)
        with console.status("shapes"):
            shapes = list(measure_shapes(share, only=part))
        print_shapes(console, shapes)
    if what in (What.all, What.usage):
        rows = one_of(USAGE, size, what)
        with console.status("usage"):
            costs = list(measure_usage(rows))
        print_usage(console, costs)
    if what in (What.all, What.edits):
        edited = one_of(EDITED, size or "medium", what)
        with console.status("edits"):
            print_edits(console, edited, list(measure_edits(edited)))
    if what in (What.all, What.transaction):
        rows = one_of(BULK, size, what)
        with console.status("transaction"):
            loads = list(measure_bulk_loads(rows))
        print_bulk_loads(console, rows, loads)
    if what in (What.all, What.inspector):
        operators = one_of(OPERATORS, size, what)
        with console.status("inspector"):
            ticks = list(measure_inspected_ticks("tiny" if size == "tiny" else "small"))
            shown = measure_shown_circuit(operators)
        print_inspected(console, ticks, shown)
    if what in (What.all, What.subscriptions):
        counts = one_of(SUBSCRIPTIONS, size, what)
        with console.status("subscriptions"):
            subscribed = list(measure_subscriptions(counts, only=part))
        print_subscriptions(console, subscribed)
    if what in (What.all, What.startup):
        with console.status("startup"):
            starts = list(measure_startup(one_of(STARTS, size, what)))
        print_startup(console, starts)
    if what in (What.all, What.io):
        rows = one_of(ROUTES, size, what)
        with console.status("io"):
            routes = list(measure_routes(rows))
        print_routes(console, rows, routes)
    if what in (What.all, What.checkpoint):
        rows = one_of(CHECKPOINTS, size, what)
        with console.status("checkpoint"), tempfile.TemporaryDirectory() as folder:
            snapshots = list(measure_snapshots(rows, Path(folder)))
            openings = list(measure_openings(Path(folder)))
        print_checkpoints(console, rows, snapshots, openings)
    if what in (What.all, What.pauses):
        rows = one_of(PAUSES, size, what)
        with console.status("pauses"):
            print_pauses(console, rows, list(measure_pauses(rows)))
            print_age(console, list(measure_age(one_of(AGES, size, what))))
    if what in (What.all, What.recursion):
        agreed = recursive(console, what, size, part, galen, seconds) and agreed
    if what is What.peers:
        agreed = beside_peers(console, size or "medium", data, galen, seconds)
    if what in (What.all, What.spark):
        agreed = through_spark(console, one_of(PASSING, size, what), one_of(DRIVEN, size, what)) and agreed
    if what is What.spark_shards:
        agreed = sharded_by_spark(console, one_of(SPARK_SHARDS, size, what), part, master) and agreed
    if what in (What.all, What.datomic):
        agreed = databases(console, one_of(FACTS, size, what), genealogy, part) and agreed
    if what in (What.all, What.limits):
        with console.status("limits"):
            loads = list(measure_limits(one_of(LIMITS, size, what)))
        agreed = print_limits(console, loads) and agreed
    if what in (What.all, What.values):
        count = one_of(STRINGS, size, what)
        with console.status("values"):
            print_strings(console, count, list(measure_strings(count)))
            print_churn(console, list(measure_churn(one_of(CHURN, size, what))))
    if what in (What.all, What.shards):
        with console.status("shards"):
            compared = list(measure_shards(one_of(SHARDS, size, what), only=part))
        for ways in compared:
            agreed = print_shards(console, ways) and agreed
    if what in (What.all, What.threads):
        one_of(THREADED, size, what)
        with console.status("threads"):
            threaded = list(measure_threads(size or "medium", only=part, source=galen))
        agreed = print_threads(console, threaded) and agreed
    if what in (What.all, What.circuit):
        print_costs(console, measure_circuit())
    if what is What.fuzz:
        if kind is not None and kind not in KINDS:
            raise typer.BadParameter(f"fuzz expects a kind of {', '.join(KINDS)}, got '{kind}'")
        with console.status("fuzz"):
            campaign = fuzz(cases_of(count or 1000, seed or 0, kind))
        print_campaign(console, campaign)
        agreed = not campaign.bad
    if what is What.faults:
        agreed = print_faults(console, measure_faults(one_of(STRIDES, size, what), only=part))
    if what is What.kills:
        agreed = print_kills(console, measure_kills(one_of(KILLED, size, what), only=part))
    if what is What.shard_kills:
        agreed = print_shard_kills(console, measure_shard_kills(one_of(SHARD_KILLS, size, what)))
    if what is What.spark_kills:
        kills = one_of(SPARK_KILLS, size, what)
        with console.status("spark-kills"):
            spark_killed = measure_spark_kills(kills, time.time_ns() if seed is None else seed)
        agreed = print_spark_kills(console, spark_killed)
    if what is What.soak:
        with tempfile.TemporaryDirectory() as folder:
            agreed = print_soak(console, measure_soak(seconds, Path(folder)))
    if what is What.windows:
        with tempfile.TemporaryDirectory() as folder:
            agreed = print_windows(console, measure_windows(one_of(WINDOWED, size, what), Path(folder)))
    if what is What.spark_crash:
        kills = one_of(KILLS, size, what)
        with console.status("spark-crash"), tempfile.TemporaryDirectory() as folder:
            crashes = measure_crashes(kills, Path(folder) / "crash", seed=time.time_ns())
        print_crashes(console, crashes)
        agreed = not crashes.problems
    if what is What.damage:
        seed = time.time_ns() % 1_000_000 if seed is None else seed
        number = one_of(COUNTS, size, what) if count is None else count
        with console.status("damage"), tempfile.TemporaryDirectory() as folder:
            damages = measure_damages(number, Path(folder), seed)
        print_damages(console, damages, seed)
        agreed = not damages.problems
    raise typer.Exit(0 if agreed else 1)


def one_of(sizes: dict[str, T], size: str | None, what: What) -> T:
    if (chosen := size or "medium") not in sizes:
        raise typer.BadParameter(f"{what} expects a size of {', '.join(sizes)}, got '{chosen}'")
    return sizes[chosen]


def recursive(
    console: Console, what: What, size: str | None, only: str, galen: Path | None, seconds: float
) -> bool:
    """Print the measurements of recursive programs; return False if a result differs.

    For `all`, the default size is small and the only recursion mode auto, because each program runs
    in a new process.
    """
    among_all = what is What.all
    chosen = size or ("small" if among_all else "medium")
    if chosen not in DEFAULT_SIZES:
        sizes = ", ".join(DEFAULT_SIZES)
        raise typer.BadParameter(f"{what} expects a size of {sizes}, got '{chosen}'")
    if galen is not None and not galen.exists():
        raise typer.BadParameter(f"{galen} does not exist")
    agreed, found = True, False
    modes = MODES[:1] if among_all else MODES
    for measured in measure_recursion(chosen, modes=modes, only=only, source=galen, seconds=seconds):
        agreed, found = print_recursion(console, chosen, measured) and agreed, True
    if not found:
        known = ", ".join(case.name for case in PROGRAMS)
        raise typer.BadParameter(f"expected a part of a program's name ({known}), got '{only}'")
    return agreed


def beside_peers(console: Console, size: str, data: Path | None, galen: Path | None, seconds: float) -> bool:
    """Print this engine beside other systems; return False if a result differs."""
    one_of(CHAINS, size, What.peers)
    agreed = True
    comparisons: list[Comparison] = []
    for name in PEER_WORKLOADS:
        chosen = size if size in SIZES[name] else "medium"
        title = f"{name} {chosen}"
        with console.status(title):
            source = source_of(name, chosen, data, None, None)
            found = [contend(entry, name, source, seconds) for entry in PEERS]
        agreed = print_results(console, title, found) and agreed
        comparisons += compare_workload(title, found)
    with console.status("closures"):
        measured = list(measure_closures(size))
    print_closures(console, measured)
    if galen is not None:
        agreed = recursive(console, What.recursion, None, GALEN, galen, seconds) and agreed
    print_comparisons(console, [*comparisons, *(one for each in measured for one in each.compared())])
    return agreed


def through_spark(console: Console, rows: tuple[int, ...], sizes: tuple[str, ...]) -> bool:
    """Print the cost of driving from Spark; return False if a result differs.

    Without Spark nothing is measured.
    """
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


def sharded_by_spark(console: Console, sizes: dict[str, int], only: str, master: str) -> bool:
    """Print circuits on executors; return False if a result differs."""
    try:
        session = dbsp.spark.session("benchmarks", master=master, settings=DRIVER_MEMORY)
    except SetupError as error:
        raise typer.BadParameter(str(error)) from None
    session.sparkContext.setLogLevel("ERROR")
    agreed = True
    for ways in measure_spark_shards(session, sizes, only=only):
        agreed = print_spark_shards(console, ways) and agreed
    session.stop()
    return agreed


def databases(console: Console, sizes: tuple[int, int], genealogy: Path | None, only: str) -> bool:
    """Print the measurements of databases of facts; return False if a result is wrong."""
    if genealogy is not None and not (genealogy / "person.tsv").exists():
        raise typer.BadParameter(f"{genealogy / 'person.tsv'} does not exist")
    with console.status("datomic"):
        measured = list(measure_databases(sizes, genealogy, only))
    return print_databases(console, measured)


def source_of(
    name: str, size: str, data: Path | None, graph: Path | None, edges: int | None
) -> Callable[[], Workload]:
    """Return the source of the workload: a graph, a folder of logs, or a generator."""
    if graph is not None:
        if name not in GRAPHS or not graph.exists():
            raise typer.BadParameter(
                f"expected a graph file and one of {', '.join(GRAPHS)}, got {graph} and {name}"
            )
        return partial(read_graph, graph, name, edges)
    if data is not None:
        folder = find_folder(data, name, size)
        if not folder.exists():
            raise typer.BadParameter(f"{folder} does not exist")
        return partial(read_folder, folder)
    if size not in SIZES[name]:
        raise typer.BadParameter(f"{name} expects a size of {', '.join(SIZES[name])}, got '{size}'")
    return partial(make, name, size)


def contend(entry: Entry, name: str, source: Callable[[], Workload], seconds: float) -> Result:
    """Measure a contestant in a new process."""
    if entry.needs and importlib.util.find_spec(entry.needs) is None:
        return Result(entry.name, note="not installed")
    try:
        return in_new_process(measure, entry, name, source, seconds)
    except BrokenProcessPool:
        return Result(entry.name, note="the process died", failed=True)
    except Exception as error:
        return Result(entry.name, note=f"{type(error).__name__}: {error}", failed=True)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
