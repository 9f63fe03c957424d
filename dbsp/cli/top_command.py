"""`dbsp top`: show what the operators of a program do while changes arrive."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dbsp.cli import options
from dbsp.cli.sort_by import SortBy

if TYPE_CHECKING:
    from rich.console import Console

    from dbsp.cli.operator_table import OperatorTable

EXAMPLES = """Examples:

dbsp top reach.dl -F facts
    loads the facts, and prints the operators that took the most time

dbsp top reach.dl -F facts --deltas changes.txt --sort latest
    shows the slowest operators of each tick while the script runs

tail -f changes.log | dbsp top reach.dl -F facts --sort memory
    shows the operators that store the most, until Ctrl-C"""

_REFRESHES = 4
"""The refreshes of the table in a second."""
_HEAD = 5
"""The lines of a table that are not operators."""


def top(
    program: options.ProgramPath,
    *,
    fact_dir: options.FirstFacts = None,
    deltas: Annotated[
        Path | None,
        typer.Option(
            "--deltas",
            metavar="FILE",
            help="Apply this change script after loading; without it, the changes on standard input.",
            show_default=False,
        ),
    ] = None,
    sort: Annotated[
        SortBy,
        typer.Option(
            "--sort",
            help="What the first operator has most of: time in all ticks, time in the latest tick, rows that "
            "it emitted, or memory.",
        ),
    ] = SortBy.TIME,
    lines: Annotated[
        int | None,
        typer.Option(
            "--lines",
            "-n",
            metavar="N",
            min=1,
            help="Show at most N operators. Default: as many as the terminal has lines for, or 20.",
            show_default=False,
        ),
    ] = None,
    compilation: options.Compilation,
    max_iterations: options.MaxIterations = 100_000,
    max_memory: options.MaxMemory = "90%",
    threads: options.Threads = None,
    memory_limit: options.MemoryLimit = None,
    max_unpacked: options.MaxUnpacked = None,
) -> None:
    """Show what the operators of a program do while changes arrive.

    Loads the facts, applies changes tick by tick, and shows for each operator the rows that it
    emitted, its time, and what it stores. The operators inside of a recursion are indented; the
    time of a recursion contains theirs. At a terminal the table is refreshed four times a second.
    At the end of the changes, or at Ctrl-C, it is printed on standard output.

    The results of the program are not printed. Measuring makes a tick a little slower.
    """
    from rich.console import Console

    from dbsp.cli import program_files
    from dbsp.cli.conversation import Conversation
    from dbsp.cli.operator_table import OperatorTable
    from dbsp.cli.standard_input import stdin_lines
    from dbsp.display.rich_form import to_rich

    compiled = program_files.load_program(program, compilation)
    ticks = None if deltas is None else program_files.read_changes(compiled, deltas)
    piped = ticks is None and not sys.stdin.isatty()
    run = program_files.start(
        compiled, fact_dir, max_iterations, memory_limit, changes_from_stdin=piped, observe=True
    )
    console = Console()
    table = OperatorTable(run, sort)
    failed = False
    try:
        with _shown(console, table, lines):
            if ticks is not None:
                for tick in ticks:
                    table.ticked(program_files.apply_tick(run, tick, str(deltas)))
            elif piped:
                conversation = Conversation(compiled, run, table.ticked)
                conversation.follow(stdin_lines())
                failed = conversation.failed
    finally:
        console.print(to_rich(table.document(lines or 20)))
    if failed:
        raise typer.Exit(1)


@contextmanager
def _shown(console: Console, table: OperatorTable, lines: int | None) -> Iterator[None]:
    """Refresh the table on the terminal until the block ends; elsewhere do nothing."""
    if not console.is_terminal:
        yield
        return
    from rich.console import RenderableType
    from rich.live import Live

    from dbsp.display.rich_form import to_rich

    def current() -> RenderableType:
        return to_rich(table.document(lines or max(1, console.height - _HEAD)))

    with Live(get_renderable=current, console=console, refresh_per_second=_REFRESHES, screen=True):
        yield
