"""`dbsp inspect`: show the running circuit of a program in a local web page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dbsp.cli import options

EXAMPLES = """Examples:

dbsp inspect reach.dl
    starts empty; edit rows in the page

dbsp inspect reach.dl -F facts --deltas changes.txt
    loads facts, then the page applies the script tick by tick"""


def inspect(
    program: options.ProgramPath,
    *,
    fact_dir: options.FirstFacts = None,
    deltas: Annotated[
        Path | None,
        typer.Option(
            "--deltas",
            metavar="FILE",
            help="A change script, whose ticks the page applies one by one.",
            show_default=False,
        ),
    ] = None,
    port: options.Port = 0,
    history: Annotated[
        int, typer.Option("--history", min=1, metavar="N", help="Keep the last N ticks for the page.")
    ] = 50,
    open_page: options.OpenPage = False,
    compilation: options.Compilation,
    max_iterations: options.MaxIterations = 100_000,
    max_memory: options.MaxMemory = "90%",
    threads: options.Threads = None,
    memory_limit: options.MemoryLimit = None,
    max_unpacked: options.MaxUnpacked = None,
) -> None:
    """Show the running circuit of a program in a local web page, until Ctrl-C.

    The page shows the operators with their rows, times and state. It steps the circuit tick by
    tick, edits rows of the inputs, and shows the changes and the rows of every stream.

    The server answers this machine only. The printed address has a secret token, and gives access
    to all rows.
    """
    from dbsp.cli import program_files
    from dbsp.cli.shown_page import show
    from dbsp.inspector import serve

    compiled = program_files.load_program(program, compilation)
    # Read the script before any computation, so that an error in line 10,000 appears at once.
    ticks = [] if deltas is None else program_files.read_changes(compiled, deltas)
    run = program_files.start(compiled, fact_dir, max_iterations, memory_limit)
    with serve(run, compiled, script=ticks, port=port, history=history) as inspector:
        show(inspector, open_page)
