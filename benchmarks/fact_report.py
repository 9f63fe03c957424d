"""Print the measurements of databases of facts, beside their aims."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.fact_databases import IMPORT_AIM, Answered, Committed, Imported, Measured
from benchmarks.report import bytes_text, time_text


def print_databases(console: Console, measured: Sequence[Measured]) -> bool:
    """Print tables of imports, transactions and queries; return False if a result is wrong."""
    _print_imports(console, [one for one in measured if isinstance(one, Imported)])
    _print_commits(console, [one for one in measured if isinstance(one, Committed)])
    return _print_queries(console, [one for one in measured if isinstance(one, Answered)])


def _print_imports(console: Console, imports: Sequence[Imported]) -> None:
    table = _table("imports: processor time", "data", "form")
    for name in ("datoms", "time", "datoms / s", "aim", "memory"):
        table.add_column(name, justify="right")
    for one in imports:
        rate = _coloured(f"{one.per_second:,.0f}", one.per_second >= IMPORT_AIM)
        table.add_row(
            one.data,
            one.form,
            f"{one.datoms:,}",
            time_text(one.seconds),
            rate,
            f"{IMPORT_AIM:,.0f}",
            bytes_text(one.resident),
        )
    console.print(table)


def _print_commits(console: Console, commits: Sequence[Committed]) -> None:
    table = _table("transaction of one datom", "storage")
    for name in ("elapsed", "processor: system", "user", "aim"):
        table.add_column(name, justify="right")
    for one in commits:
        times = time_text(one.elapsed), time_text(one.system)
        table.add_row(one.storage, *times, *_beside_aim(one.user, one.aim))
    console.print(table)


def _print_queries(console: Console, queries: Sequence[Answered]) -> bool:
    table = _table("queries: median processor time", "data", "query")
    for name in (
        "rows",
        "first call",
        "one-shot",
        "aim",
        "subscribe",
        "live tick",
        "aim",
        "p99",
        "transaction",
        "memory of live",
    ):
        table.add_column(name, justify="right")
    table.add_column("check")
    for one in queries:
        table.add_row(
            one.data,
            one.query.name,
            f"{one.rows:,}",
            time_text(one.first),
            *_beside_aim(one.once, one.query.aim),
            time_text(one.subscribe),
            *_beside_aim(one.tick, one.query.live_aim),
            time_text(one.slow_tick),
            time_text(one.transaction),
            bytes_text(one.resident),
            "[red]WRONG[/]" if one.problems else "[green]ok[/]",
        )
    console.print(table)
    console.print(
        "live tick: how much a subscription lengthens a transaction that changes its result; transaction:"
        " the same without live queries",
        style="dim",
    )
    for one in queries:
        for problem in one.problems:
            console.print(f"{one.query.name}: {problem}", style="red", markup=False)
    return not any(one.problems for one in queries)


def _table(title: str, *names: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in names:
        table.add_column(name)
    return table


def _beside_aim(seconds: float | None, aim: float | None) -> tuple[str, str]:
    """A time and its aim; red if the time is longer."""
    if seconds is None or aim is None:
        return time_text(seconds), time_text(aim)
    return _coloured(time_text(seconds), seconds <= aim), time_text(aim)


def _coloured(text: str, reached: bool) -> str:
    return text if reached else f"[red]{text}[/]"
