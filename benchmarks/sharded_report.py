"""Print the measurements of `benchmarks.sharded`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.report import bytes_text, time_text
from benchmarks.shard_kills import ShardsKilled
from benchmarks.sharded import Phase, Sharded
from benchmarks.spark_kills import SparkKilled

WORST_SHARE = 1.15
"""Target: the state of a shard divided by its even share of the state of one process."""


def print_shards(console: Console, measured: Sequence[Sharded]) -> bool:
    """Print the ways of one workload; return whether their results are equal."""
    workload = measured[0].workload
    alone = next((each for each in measured if not each.shards), None)
    times = Table(title=f"shards: {workload}", title_justify="left", title_style="bold")
    times.add_column("changes")
    times.add_column("processes")
    for name in ("time", "one process / this", "caller's processor", "busiest shard", "all processors"):
        times.add_column(name, justify="right")
    for size in (0, *measured[0].ticks):
        base = None if alone is None else phase_of(alone, size)
        for each in measured:
            phase = phase_of(each, size)
            caller, *shards = phase.by_process
            times.add_row(
                ("load" if not size else f"{size:,} row{'s' * (size > 1)}") if each is measured[0] else "",
                each.name,
                time_text(phase.seconds),
                "-" if base is None else f"{base.seconds / phase.seconds:.2f} x",
                time_text(caller),
                time_text(max(shards, default=None)),
                time_text(caller + sum(shards)),
            )
        times.add_section()
    console.print(times)
    states = Table(
        title=f"shards: {workload}, state after the load", title_justify="left", title_style="bold"
    )
    states.add_column("processes")
    for name in ("rows", "bytes", "largest shard, bytes", "by its even share", "rows sent", "bytes sent"):
        states.add_column(name, justify="right")
    for each in measured:
        largest = max(each.bytes)
        share = None if alone is None else largest * max(1, each.shards) / alone.bytes[0]
        states.add_row(
            each.name,
            f"{sum(each.rows):,}",
            bytes_text(sum(each.bytes)),
            bytes_text(largest),
            "-" if share is None else f"{share:.2f}" + (" (target 1.15)" if share > WORST_SHARE else ""),
            f"{each.sent_rows:,}",
            bytes_text(each.sent_bytes),
        )
    console.print(states)
    agreed = len({each.outcome for each in measured}) == 1
    if not agreed:
        console.print(f"the results differ: {[(each.name, each.outcome) for each in measured]}")
    return agreed


def phase_of(measured: Sharded, size: int) -> Phase:
    """The ticks of some rows, or the load for 0."""
    return measured.ticks[size] if size else measured.load


def print_shard_kills(console: Console, done: ShardsKilled) -> bool:
    """Print the outcome; return whether every tick was right."""
    console.print(
        f"{done.shards:,} kills of shards, {done.coordinators:,} of coordinators, {done.ticks:,} ticks, "
        f"{done.ahead:,} not acknowledged, {len(done.problems)} wrong, {done.seconds:.0f} s"
    )
    for problem in done.problems:
        console.print(problem, style="red", markup=False)
    return not done.problems


def print_spark_kills(console: Console, done: SparkKilled) -> bool:
    """Print the outcome; return whether every tick was right."""
    kills = ", ".join(f"{count:,} {kind}" for kind, count in sorted(done.kills.items()))
    traps = ", ".join(f"{count:,} {kind}" for kind, count in sorted(done.traps.items())) or "none"
    console.print(
        f"{done.kills.total():,} kills ({kills}); traps: {traps}; {done.ticks:,} ticks, {done.failed:,} "
        f"raised and repeated, {done.ahead:,} not acknowledged, {len(done.problems)} wrong, "
        f"{done.seconds:.0f} s"
    )
    for problem in done.problems:
        console.print(problem, style="red", markup=False)
    return not done.problems
