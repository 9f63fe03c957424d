"""Print the measurements of `benchmarks.spark_shards`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.report import bytes_text, time_text
from benchmarks.spark_shards import OneProcess, OnSpark, Taken


def print_spark_shards(console: Console, measured: Sequence[OnSpark]) -> bool:
    """Print the ways of one workload; return whether their results are equal."""
    ways = [each for each in measured if each.load.wall]
    workload = measured[0].workload
    table = Table(title=f"spark-shards: {workload}", title_justify="left", title_style="bold")
    table.add_column("changes")
    table.add_column("way")
    for name in ("time", "processor", "this / in the driver", "segments work"):
        table.add_column(name, justify="right")
    alone = next(each for each in ways if each.way == OneProcess.name)
    for each in ways:
        first = each is ways[0]
        table.add_row(f"load {each.rows:,} rows" if first else "", *_cells(each, each.load, alone.load), "")
    for size in ways[0].ticks:
        table.add_section()
        for each in measured:
            if size in each.ticks:
                rows = f"{size:,} row{'s' * (size > 1)}" if each is measured[0] else ""
                worked = " + ".join(map(time_text, each.worked.get(size, ())))
                table.add_row(rows, *_cells(each, each.ticks[size], alone.ticks[size]), worked)
    console.print(table)
    memory = Table(title=f"spark-shards: {workload}, memory of the load", title_justify="left")
    memory.add_column("way")
    for name in ("driver's Python", "largest Java process", "largest Python worker"):
        memory.add_column(name, justify="right")
    for each in ways:
        sizes = (each.peaks.python, each.peaks.java, each.peaks.worker)
        memory.add_row(each.way, *map(bytes_text, sizes))
    console.print(memory)
    agreed = len({each.outcome for each in ways}) == 1
    if not agreed:
        console.print(f"the results differ: {[(each.way, each.outcome) for each in ways]}")
    return agreed


def _cells(each: OnSpark, taken: Taken, alone: Taken) -> tuple[str, ...]:
    return (
        each.way,
        time_text(taken.seconds),
        time_text(taken.processor_seconds),
        f"{taken.seconds / alone.seconds:.2f} x",
    )
