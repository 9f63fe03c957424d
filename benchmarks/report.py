"""Print results as tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.bulk_load import PARTS, BulkLoad
from benchmarks.circuits import Costs
from benchmarks.contest import Phase, Result
from benchmarks.damage import OUTCOMES, Damages, by_specimen, total_of
from benchmarks.data_routes import Throughput
from benchmarks.faults import Campaign
from benchmarks.group_sizes import OneRow
from benchmarks.growth import Growth
from benchmarks.kernels import Rate
from benchmarks.kills import Killed
from benchmarks.limited_memory import LimitedLoad
from benchmarks.load_widths import LoadWidths
from benchmarks.planner import STRATEGIES, Planned, Times
from benchmarks.rewrites import Figures, Rewritten
from benchmarks.scaling import BATCH, Scaling
from benchmarks.shapes import Measured
from benchmarks.soak import Soaked
from benchmarks.spark import FLOOR, Driven, Passing
from benchmarks.spark_crash import Crashes
from benchmarks.startup import Start
from benchmarks.thread_counts import ThreadedLoad
from benchmarks.usage import Cost
from benchmarks.windows import Windowed

WORST_RATIO = 1.2
"""Target: time of the chosen plan divided by that of the best plan."""


def print_results(console: Console, title: str, results: Sequence[Result]) -> bool:
    """Print a table of times and one of ratios; return False if results differ."""
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("contestant")
    for name in (
        "load",
        "tick median",
        "tick p99",
        "batch median",
        "bulk median",
        "ticks",
        "resident",
        "peak",
        "result rows",
    ):
        table.add_column(name, justify="right")
    table.add_column("check")
    agreed = True
    expected = next(((result.loaded, result.final) for result in results if result.final), None)
    for result in results:
        skipped = result.final is None and not result.failed
        right = result.final is not None and (result.loaded, result.final) == expected
        agreed = agreed and (right or skipped)
        table.add_row(
            result.contestant,
            _pair(result.load, result.load_cpu),
            _pair(result.ticks.median, result.ticks.cpu_median),
            _pair(result.ticks.late, result.ticks.cpu_late),
            _pair(result.batches.median, result.batches.cpu_median),
            _pair(result.bulks.median, result.bulks.cpu_median),
            _counts(result.ticks, result.batches, result.bulks),
            bytes_text(result.resident),
            bytes_text(result.peak),
            str(result.final.rows) if result.final else "-",
            escape(result.note) or ("[green]ok[/]" if right else "[red]DIFFERS[/]"),
        )
    console.print(table)
    console.print("in brackets: processor time; resident: growth of the process during load", style="dim")
    _print_ratios(console, results)
    return agreed


def _print_ratios(console: Console, results: Sequence[Result]) -> None:
    own = results[0]
    if own.loaded is None:
        return
    table = Table(title=f"processor time of the others / {own.contestant}", title_justify="left")
    table.add_column("contestant")
    for name in ("load", "tick median", "tick p99", "batch median", "bulk median"):
        table.add_column(name, justify="right")
    for other in results[1:]:
        table.add_row(
            other.contestant,
            _ratio(other.load_cpu, own.load_cpu),
            _ratio(other.ticks.cpu_median, own.ticks.cpu_median),
            _ratio(other.ticks.cpu_late, own.ticks.cpu_late),
            _ratio(other.batches.cpu_median, own.batches.cpu_median),
            _ratio(other.bulks.cpu_median, own.bulks.cpu_median),
        )
    console.print(table)
    input_rate, result_rate = own.inputs / own.load_cpu, own.loaded.rows / own.load_cpu
    console.print(
        f"{own.contestant}: {input_rate:,.0f} input rows and {result_rate:,.0f} result rows"
        " per processor second of the load"
    )
    for when, sizes in (("after load", own.state_loaded), ("at the end", own.state_final)):
        if sizes is not None:
            state, stored = bytes_text(sizes.state), bytes_text(sizes.stored)
            console.print(
                f"{own.contestant}: {state} of state {when}, {sizes.state / sizes.stored:.2f} times the"
                f" {stored} of the rows that must be stored (inputs and result, 8 bytes per value)"
            )
    console.print()


def print_rates(console: Console, rates: Sequence[Rate]) -> None:
    table = Table(title="kernels", title_justify="left", title_style="bold")
    table.add_column("kernel")
    for name in ("rows", "time", "million rows / s"):
        table.add_column(name, justify="right")
    for rate in rates:
        table.add_row(rate.what, f"{rate.rows:,}", time_text(rate.seconds), f"{rate.per_second / 1e6:.1f}")
    console.print(table)


def print_growth(console: Console, growths: Sequence[Growth]) -> None:
    """Print one line per operator: the median tick at every size, and its growth between sizes."""
    table = Table(title="growth of the tick with the state", title_justify="left", title_style="bold")
    table.add_column("operator")
    for place, rows in enumerate(growths[0].rows if growths else ()):
        table.add_column(f"{rows:,} rows", justify="right")
        if place:
            table.add_column("growth", justify="right")
    table.add_column("slowest", justify="right")
    for growth in growths:
        cells = [time_text(growth.median[0])]
        for factor, median in zip(growth.factors, growth.median[1:], strict=True):
            cells += [time_text(median), f"{factor:.2f} x"]
        table.add_row(growth.name, *cells, time_text(max(growth.slowest)))
    console.print(table)
    console.print("median of single ticks of a few rows; slowest: of all ticks at all sizes", style="dim")


def print_group_sizes(console: Console, measured: Mapping[str, Sequence[OneRow]]) -> None:
    """Print one line per function: the median tick at every size of the group, load and state."""
    table = Table(title="ticks of one row by the size of its group", title_justify="left", title_style="bold")
    table.add_column("function")
    for one in next(iter(measured.values()), ()):
        table.add_column(f"{one.rows:,} rows", justify="right")
    for name in ("slowest", "load", "state"):
        table.add_column(name, justify="right")
    for name, sizes in measured.items():
        largest = sizes[-1]
        table.add_row(
            name,
            *(time_text(one.median) for one in sizes),
            time_text(max(one.slowest for one in sizes)),
            time_text(largest.load),
            f"{largest.state / 1e6:.1f} MB",
        )
    console.print(table)
    console.print("median processor time of a tick; load and state: of the largest group", style="dim")


def print_crashes(console: Console, crashes: Crashes) -> None:
    """Print each kill and the progress before it, and the differences at the end."""
    table = Table(title="killed at random", title_justify="left", title_style="bold")
    for name in ("killed", "queries had started", "ticks of the pipeline", "ticks of the delta log"):
        table.add_column(name, justify="left" if name == "killed" else "right")
    for life in crashes.lives:
        started = "yes" if life.started else "no"
        table.add_row(life.kind or "nothing", started, str(life.ticks), str(life.recorded))
    console.print(table)
    kills = ", ".join(f"{kind} {number}" for kind, number in crashes.kills.items())
    console.print(
        f"{crashes.kills.total()} kills ({kills}), {crashes.with_running_queries} of them with running"
        f" queries; {crashes.files} files in {crashes.seconds:.0f} s"
    )
    for problem in crashes.problems:
        console.print(problem, style="red", markup=False)
    if not crashes.problems:
        console.print("every micro-batch is one tick, in all three chains, and every tick is exact")


def print_faults(console: Console, campaigns: Iterable[Campaign]) -> bool:
    """Print one line per circuit and form of the tick as it ends; return whether all are right."""
    faults = 0
    problems: list[str] = []
    for done in campaigns:
        faults += done.undone + done.committed
        problems += done.problems
        console.print(
            f"{done.circuit:22}{done.how:10}{done.kind:18}{done.steps:>9,} steps"
            f"{done.undone:>8,} undone{done.committed:>7,} committed{len(done.problems):>4} wrong"
        )
        for problem in done.problems:
            console.print(problem, style="red", markup=False)
    console.print(f"{faults:,} faults, {len(problems)} wrong")
    return not problems


def print_kills(console: Console, circuits: Iterable[Killed]) -> bool:
    """Print one line per circuit as it ends; return whether all are right."""
    kills, problems = 0, 0
    for done in circuits:
        kills += done.kills
        problems += len(done.problems)
        console.print(
            f"{done.circuit:22}{done.kills:>6,} kills{done.ticks:>8,} ticks{done.ahead:>5,} not acknowledged"
            f"{len(done.problems):>4} wrong{done.seconds:>8.0f} s"
        )
        for problem in done.problems[:5]:
            console.print(problem, style="red", markup=False)
    console.print(f"{kills:,} kills, {problems} wrong")
    return not problems


def print_soak(console: Console, reports: Iterable[Soaked]) -> bool:
    """Print one line per report; return whether every check found the right views."""
    right = True
    for soaked in reports:
        console.print(
            f"{soaked.seconds:>7.0f} s{soaked.ticks:>10,} ticks, {soaked.checked:,} checked, "
            f"{soaked.interrupted:,} interrupted; a tick {soaked.median * 1e3:.2f} ms (median), "
            f"{soaked.slow * 1e3:.2f} (99 %), {soaked.slowest * 1e3:.0f} (max); "
            f"{soaked.resident_bytes / 2**20:.0f} MB, {soaked.state_rows:,} rows, {soaked.interned:,} values"
        )
        if soaked.problem:
            right = False
            console.print(soaked.problem, style="red", markup=False)
    return right


def print_windows(console: Console, reports: Iterable[Windowed]) -> bool:
    """Print one line per report; return whether every check found the right views."""
    right = True
    for report in reports:
        console.print(
            f"{report.ticks:>10,} ticks; a tick {report.median * 1e3:.2f} ms (median), "
            f"{report.slow * 1e3:.2f} (99 %), {report.slowest * 1e3:.0f} (max); "
            f"{report.state_rows:,} rows, {report.largest_trace:,} in the largest trace, "
            f"{report.view_rows:,} in views; {report.interned:,} values; "
            f"{report.file_bytes / 2**20:.1f} MB in files, {report.resident_bytes / 2**20:.0f} MB; "
            f"{report.processor:,.0f} s"
        )
        if report.problem:
            right = False
            console.print(report.problem, style="red", markup=False)
    return right


def print_damages(console: Console, damages: Damages, seed: int) -> None:
    """Print how often each kind of folder gave which outcome, and the defects."""
    title = f"damaged at random, seed {seed}"
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in ("folder", *OUTCOMES):
        table.add_column(name, justify="left" if name == "folder" else "right")
    for name, counted in (*by_specimen(damages), ("all", total_of(damages))):
        table.add_row(name, *(f"{counted[outcome]:,}" for outcome in OUTCOMES))
    console.print(table)
    for problem in damages.problems:
        console.print(problem, style="red", markup=False)


def print_scaling(console: Console, scalings: Sequence[Scaling]) -> None:
    """Print one line per graph, phase and plan: the time at every size, and the fitted exponent."""
    sizes = max((scaling.edges for scaling in scalings), key=len)
    table = Table(
        title="growth of triangles with the graph: processor time", title_justify="left", title_style="bold"
    )
    for name in ("graph", "phase", "plan"):
        table.add_column(name)
    for edges in sizes:
        table.add_column(f"2^{round(math.log2(edges))} edges", justify="right")
    table.add_column("triangles", justify="right")
    table.add_column("exponent", justify="right")
    for scaling in scalings:
        cells = [time_text(seconds) for seconds in scaling.seconds]
        cells += ["-"] * (len(sizes) - len(cells))
        exponent = "-" if scaling.exponent is None else f"{scaling.exponent:.2f}"
        found = f"{scaling.results[-1]:,}" if scaling.results else "-"
        table.add_row(scaling.graph, scaling.phase, scaling.plan, *cells, found, exponent)
    console.print(table)
    console.print(
        f"stream: in ticks of {BATCH} edges; triangles: of the largest graph; exponent p of c * edges^p by"
        " least squares in the logarithms; -: a binary plan would need too much memory",
        style="dim",
    )


def print_planner(console: Console, planned: Sequence[Planned]) -> None:
    """Print one line per query and graph: the times of all strategies, and the planner's ratio."""
    table = Table(title="planner: processor time", title_justify="left", title_style="bold")
    for name in ("query", "graph"):
        table.add_column(name)
    for name in (
        "edges",
        "rows",
        *(f"{phase}: {s}" for phase in Times._fields for s in (*STRATEGIES, "ratio")),
    ):
        table.add_column(name, justify="right")
    for one in planned:
        cells = []
        for phase, ratio in enumerate(one.ratios):
            cells += [time_text(one.times[strategy][phase]) for strategy in STRATEGIES]
            cells.append(f"[red]{ratio:.2f}[/]" if ratio > WORST_RATIO else f"{ratio:.2f}")
        table.add_row(one.query, one.graph, f"{one.edges:,}", f"{one.rows:,}", *cells)
    console.print(table)
    over = sum(ratio > WORST_RATIO for one in planned for ratio in one.ratios)
    worst = max(ratio for one in planned for ratio in one.ratios)
    console.print(
        f"ratio: auto / the better of the others; the worst is {worst:.2f}, {over} of"
        f" {len(planned) * len(Times._fields)} are above {WORST_RATIO}; batch: 1/10 of the edges, at most"
        " 1,000",
        style="dim",
    )


def print_rewrites(console: Console, rewritten: Sequence[Rewritten]) -> None:
    """Print one line per case: time and state with the rewriting, and the ratio to without."""
    table = Table(title="rewrites: with / without", title_justify="left", title_style="bold")
    for name in ("rewriting", "program", "graph"):
        table.add_column(name)
    for name in ("edges", *(f"{one}{part}" for one in Figures._fields for part in ("", " ratio"))):
        table.add_column(name, justify="right")
    for one in rewritten:
        own = one.with_it
        texts = (time_text(own.load), time_text(own.tick), f"{own.rows:,}", f"{own.bytes:,}")
        cells = [
            cell for text, ratio in zip(texts, one.ratios, strict=True) for cell in (text, f"{ratio:.3f}")
        ]
        table.add_row(one.case.rewriting, one.case.what, one.case.graph, f"{one.edges:,}", *cells)
    console.print(table)


def print_usage(console: Console, costs: Sequence[Cost]) -> None:
    """One line per choice: the cost of a row, and the state size if the choice changes it."""
    table = Table(title="usage: what a caller's choices cost", title_justify="left", title_style="bold")
    for name in ("question", "choice"):
        table.add_column(name)
    for name in ("per row", "state bytes"):
        table.add_column(name, justify="right")
    for cost in costs:
        state = f"{cost.state_bytes:,}" if cost.state_bytes else ""
        table.add_row(cost.question, cost.choice, f"{cost.seconds_per_row * 1e6:.2f} us", state)
    console.print(table)


def print_bulk_loads(console: Console, rows: int, loads: Sequence[BulkLoad]) -> None:
    """One line per way to load."""
    title = f"transaction: {rows:,} rows in {PARTS} parts (transaction, ticks), or at once (one step)"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("way")
    for name in ("seconds", "peak MB", "kept MB"):
        table.add_column(name, justify="right")
    for load in loads:
        table.add_row(load.way, f"{load.seconds:.1f}", f"{load.peak / 1e6:,.0f}", f"{load.kept / 1e6:,.0f}")
    console.print(table)


def print_load_widths(console: Console, rows: int, loads: Sequence[LoadWidths]) -> None:
    """One line per operator."""
    title = f"loads: {rows:,} rows that fit a word (narrow) and that do not (wide), for each row"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("operator")
    for name in ("narrow", "wide", "ratio", "results (wide)"):
        table.add_column(name, justify="right")
    for load in loads:
        narrow, wide = load.seconds["narrow"], load.seconds["wide"]
        times = f"{narrow / rows * 1e9:,.0f} ns", f"{wide / rows * 1e9:,.0f} ns", f"{wide / narrow:.2f}"
        table.add_row(load.case, *times, f"{load.results['wide']:,}")
    console.print(table)


def print_startup(console: Console, starts: Sequence[Start]) -> None:
    """One line per step and system."""
    title = "startup: each step in a new process (start), or the size on disk (installed)"
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in ("step", "system"):
        table.add_column(name)
    for name in ("processor", "elapsed", "MB"):
        table.add_column(name, justify="right")
    for start in starts:
        if start.processor is None:
            table.add_row(start.step, start.system, "not installed", "", "")
            continue
        times = (time_text(start.processor), time_text(start.elapsed)) if start.processor else ("", "")
        table.add_row(start.step, start.system, *times, f"{start.megabytes:,.0f}")
    console.print(table)


def print_routes(console: Console, rows: int, measured: Sequence[Throughput]) -> None:
    """Print one line per route: millions of rows per second of dbsp, Polars and DuckDB."""
    table = Table(
        title=f"io: {rows:,} rows into a count per group, millions of rows per second (wall-clock)",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("row")
    table.add_column("route")
    for name in ("dbsp", "Polars", "DuckDB"):
        table.add_column(name, justify="right")
    for one in measured:
        speeds = (one.dbsp, one.polars, one.duckdb)
        cells = ["" if speed is None else f"{speed / 1e6:.2f}" for speed in speeds]
        table.add_row(one.shape, one.route, *cells)
    console.print(table)


def print_shapes(console: Console, measured: Sequence[Measured]) -> None:
    """Print one line per shape: the time of its plan, its load and a tick, and its memory."""
    table = Table(
        title="shapes of rules: processor time, and memory after and during the ticks",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("shape")
    for name in ("size", "plan", "load", "tick of one change", "state", "peak", "rows"):
        table.add_column(name, justify="right")
    for one in measured:
        table.add_row(
            one.shape.name,
            f"{one.size:,}",
            f"{one.plan:.3f} s",
            f"{one.load:.3f} s",
            f"{one.tick * 1e3:.3f} ms",
            f"{one.state / 1e6:.1f} MB",
            f"{one.peak / 1e6:.0f} MB",
            f"{one.rows:,}",
        )
    console.print(table)


def print_passing(console: Console, passings: Sequence[Passing]) -> None:
    """Print one line per number of rows and way through Spark."""
    table = Table(
        title="rows from Spark through a circuit to a sink: median micro-batch",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("rows", justify="right")
    table.add_column("way")
    for name in ("micro-batch", "above the floor", "of it: fetch", "tick", "sink", "rows / s"):
        table.add_column(name, justify="right")
    for one in passings:
        parts = [time_text(seconds) for seconds in one.parts] or ["-"] * 3
        over = f"{one.over * 1e3:+.1f} ms" if one.way != FLOOR else "floor"
        rate = f"{one.per_second:,.0f}" if one.rows else "-"
        table.add_row(f"{one.rows:,}", one.way, time_text(one.seconds), over, *parts, rate)
    console.print(table)
    console.print(
        "every row has four integers and is emitted unchanged; floor: the same files fetched as Arrow and"
        " ignored; without a checkpoint, Spark uses a temporary folder",
        style="dim",
    )


def print_driven(console: Console, driven: Sequence[Driven]) -> bool:
    """Print one line per workload and phase; return False if Spark's result differs."""
    table = Table(title="workloads driven from Spark", title_justify="left", title_style="bold")
    table.add_column("workload")
    table.add_column("phase")
    for name in ("rows", "without Spark", "Spark's floor", "through Spark", "above both"):
        table.add_column(name, justify="right")
    table.add_column("check")
    for one in driven:
        table.add_row(
            f"{one.workload} {one.size}",
            one.phase,
            f"{one.rows:,}",
            *(time_text(seconds) for seconds in (one.direct, one.floor, one.through)),
            f"{one.over * 1e3:+.1f} ms",
            "[green]ok[/]" if one.agreed else "[red]DIFFERS[/]",
        )
    console.print(table)
    console.print(
        "through Spark: with a checkpoint and a Parquet folder as sink; load: the first micro-batch of a"
        " query, including Spark's planning",
        style="dim",
    )
    return all(one.agreed for one in driven)


def print_costs(console: Console, costs: Costs) -> None:
    table = Table(
        title=f"a circuit of {costs.operators:,} operators", title_justify="left", title_style="bold"
    )
    table.add_column("what")
    table.add_column("time", justify="right")
    for what, seconds in (
        ("build", costs.build),
        ("validate", costs.validate),
        (f"make incremental, schedule and start ({costs.nodes:,} nodes)", costs.start),
        ("tick without a change", costs.empty_tick),
        ("the same, per node", costs.per_node),
    ):
        table.add_row(what, time_text(seconds))
    console.print(table)


def print_limits(console: Console, loads: Sequence[LimitedLoad]) -> bool:
    """Print the runs; return whether the results are equal and the memory is within the limit."""
    title = f"limits: {loads[0].rows:,} rows with and without a memory limit"
    table = Table(title=title, title_justify="left", title_style="bold")
    for column in ("limit", "load", "rows/s", "median tick", "slowest tick", "peak memory", "files"):
        table.add_column(column, justify="right")
    for load in loads:
        table.add_row(
            "-" if load.limit is None else f"{load.limit >> 20} MB",
            time_text(load.load_seconds),
            f"{load.rows / load.load_seconds:,.0f}",
            time_text(load.median_tick),
            time_text(load.slowest_tick),
            f"{load.peak >> 20} MB",
            f"{load.files >> 20} MB",
        )
    console.print(table)
    return len({load.total for load in loads}) == 1 and not any(load.exceeded for load in loads)


def print_threads(console: Console, workloads: Sequence[Sequence[ThreadedLoad]]) -> bool:
    """Print the loads of each workload; return whether the results are equal."""
    table = Table(title="loads by threads", title_justify="left", title_style="bold")
    for column in ("workload", "threads", "load", "caller's processor time", "all threads'", "gain"):
        table.add_column(column, justify="left" if column == "workload" else "right")
    for loads in workloads:
        for load in loads:
            table.add_row(
                load.workload,
                str(load.threads),
                time_text(load.elapsed),
                time_text(load.caller),
                time_text(load.processor),
                f"{loads[0].caller / load.caller:.2f}",
            )
    console.print(table)
    return all(load.agreed for loads in workloads for load in loads)


def time_text(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 0.9995:  # what three digits show as 1
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def bytes_text(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size / 1e3:,.1f} kB"


def _pair(wall: float | None, cpu: float | None) -> str:
    return f"{time_text(wall)} ({time_text(cpu)})" if wall is not None else "-"


def _counts(*phases: Phase) -> str:
    return "/".join(str(len(phase.wall)) for phase in phases)


def _ratio(other: float | None, own: float | None) -> str:
    if not other or not own:
        return "-"
    ratio = other / own
    return f"{ratio:,.0f} x" if ratio >= 10 else f"{ratio:.2g} x"
