"""Print the measurements of recursive programs as tables, and compare them with their targets."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.recursion import PEER, Measured, Phase
from benchmarks.recursive_programs import GALEN, GALEN_ROWS, W3
from benchmarks.report import bytes_text, time_text

LOAD = 1.0
"""Target: seconds to load W3 of the medium size."""

TICK = 2e-3
"""Target: seconds of the median tick that deletes or inserts one edge of W3."""

COMPACT = 100
"""Target: bytes per result row of W3 after compaction."""

PEAK = 200
"""Target: bytes per result row of W3 at the peak of the load."""

SLOWEST = 1.5
"""Target: time of the slowest tick divided by the time of a fresh run."""

GALEN_LOAD = 300.0
"""Target: seconds to load GALEN."""

GALEN_PEAK = 8e9
"""Target: bytes of the process that loads GALEN."""


@dataclass(frozen=True)
class Target:
    """A measured value, its upper bound, and both as text."""

    what: str
    found: float
    bound: float
    text: str

    @property
    def missed(self) -> bool:
        return self.found > self.bound


def print_recursion(console: Console, size: str, measured: Sequence[Measured]) -> bool:
    """Print a table of loads, one of changes, and the targets; return False if results differ."""
    wrong = disagreeing(measured)
    print_loads(console, measured, wrong)
    if any(one.phases for one in measured):
        print_changes(console, measured)
    for target in targets(size, measured):
        verdict = "[red]MISSED[/]" if target.missed else "[green]met[/]"
        console.print(f"target: {target.what}: {target.text}, {verdict}")
    console.print()
    return not wrong and not any(one.failed for one in measured)


def disagreeing(measured: Sequence[Measured]) -> set[str]:
    """Return the contestants whose result after the load or a deletion is wrong."""
    wrong: set[str] = set()
    expected: dict[str, object] = {}
    for one in measured:
        if one.failed:
            continue
        found = {"load": one.result} | {phase.name: phase.result for phase in one.phases}
        if any(expected.setdefault(when, result) != result for when, result in found.items()):
            wrong.add(one.contestant)
        if one.case == GALEN and tuple(outcome.rows for outcome in one.result) != GALEN_ROWS:
            wrong.add(one.contestant)
    return wrong


def print_loads(console: Console, measured: Sequence[Measured], wrong: set[str]) -> None:
    table = Table(title=measured[0].case, title_justify="left", title_style="bold")
    table.add_column("recursion")
    for name in (
        "input rows",
        "result rows",
        "load",
        f"/ {measured[0].contestant}",
        "rows / s",
        "bytes / row: loaded",
        "compacted",
        "stored",
        "peak",
        "peak",
    ):
        table.add_column(name, justify="right")
    table.add_column("check")
    for one in measured:
        if one.failed:
            table.add_row(one.contestant, *["-"] * 10, f"[red]{escape(one.note)}[/]")
            continue
        own = (one.resident, one.compacted, one.stored, one.peak)
        sizes = [f"{size / max(one.rows, 1):,.0f}" for size in own]
        if one.contestant == PEER:
            sizes[:3] = "-", "-", "-"
        table.add_row(
            one.contestant,
            f"{one.inputs:,}",
            f"{one.rows:,}",
            time_text(one.load),
            f"{one.load / max(measured[0].load, 1e-9):.2f} x",
            f"{one.rows / max(one.load, 1e-9):,.0f}",
            *sizes,
            bytes_text(one.peak),
            "[red]DIFFERS[/]" if one.contestant in wrong else "[green]ok[/]",
        )
    console.print(table)
    console.print(
        "processor time; bytes: growth of the process; stored: rows and weights after compaction",
        style="dim",
    )


def print_changes(console: Console, measured: Sequence[Measured]) -> None:
    """Print one line per kind of change and mode: deletions and insertions of the same rows."""
    table = Table(title=f"{measured[0].case}: changes", title_justify="left")
    for name in ("change", "recursion"):
        table.add_column(name)
    for name in (
        "rows",
        "ticks",
        "fresh run",
        "delete",
        "/ fresh",
        "slowest",
        "insert",
        "/ fresh",
        "slowest",
        f"{PEER} / delete",
    ):
        table.add_column(name, justify="right")
    peer = {phase.name: phase for one in measured if one.contestant == PEER for phase in one.phases}
    live = [one for one in measured if one.contestant != PEER and one.phases]
    for place in range(len(live[0].phases) if live else 0):
        for one in live:
            phase = one.phases[place]
            deletion, insertion = statistics.median(phase.deletions), statistics.median(phase.insertions)
            ratios = [ratio_text(ratio) for ratio in phase.ratios(one.whole)]
            other = peer.get(phase.name)
            table.add_row(
                phase.name,
                one.contestant,
                f"{phase.rows:,}",
                str(len(phase.deletions)),
                time_text(statistics.median(phase.fresh)),
                time_text(deletion),
                *ratios[:2],
                time_text(insertion),
                *ratios[2:],
                f"{other.fresh[0] / deletion:,.1f} x" if other else "-",
            )
    console.print(table)
    console.print(
        "/ fresh, slowest: the median and the slowest tick divided by a fresh run that loads the current "
        f"input; red above {SLOWEST}",
        style="dim",
    )


def ratio_text(ratio: float) -> str:
    return f"[red]{ratio:.3f}[/]" if ratio > SLOWEST else f"{ratio:.3f}"


def targets(size: str, measured: Sequence[Measured]) -> Iterator[Target]:
    """Yield the targets of the recursion mode auto."""
    own = next((one for one in measured if one.contestant == "auto" and not one.failed), None)
    if own is None:
        return
    rows = max(own.rows, 1)
    if own.case == GALEN:
        yield seconds_target("load", own.load, GALEN_LOAD)
        most = own.before + own.peak
        text = f"{most / 1e9:.1f} of {GALEN_PEAK / 1e9:.0f} GB"
        yield Target("peak of the process", most, GALEN_PEAK, text)
    if own.case == W3 and size == "medium":
        yield seconds_target("load", own.load, LOAD)
        for what, found, bound in (("compacted", own.compacted, COMPACT), ("at the peak", own.peak, PEAK)):
            each = found / rows
            yield Target(f"bytes per row {what}", each, bound, f"{each:.0f} of {bound}")
        for phase in own.phases:
            if phase.rows == 1:
                yield seconds_target("delete an edge, median", statistics.median(phase.deletions), TICK)
                yield seconds_target("insert an edge, median", statistics.median(phase.insertions), TICK)
    if own.phases:
        slowest, phase = max(
            ((slowest_of(own, phase), phase) for phase in own.phases), key=lambda one: one[0]
        )
        text = f"{slowest:.2f} of {SLOWEST} ({phase.name})"
        yield Target("slowest tick / fresh run", slowest, SLOWEST, text)


def slowest_of(one: Measured, phase: Phase) -> float:
    _, deletion, _, insertion = phase.ratios(one.whole)
    return max(deletion, insertion)


def seconds_target(what: str, found: float, bound: float) -> Target:
    return Target(what, found, bound, f"{time_text(found)} of {time_text(bound)}")
