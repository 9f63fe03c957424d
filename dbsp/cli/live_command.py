"""`dbsp live`: changes from standard input, deltas to standard output, for as long as they come."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated

import typer

from dbsp.cli import options

EXAMPLES = """Examples:

dbsp live reach.dl
    type changes, then commit; ask for rows and why they are there; 'help' lists it all

dbsp live reach.dl -F facts --initial < changes.txt > deltas.txt

tail -f changes.log | dbsp live reach.dl | ./consumer"""


def live(
    program: options.ProgramPath,
    *,
    fact_dir: Annotated[
        Path | None,
        typer.Option(
            "--fact-dir",
            "-F",
            metavar="DIR",
            help="Load RELATION.facts from there first; without it, start empty.",
            show_default=False,
        ),
    ] = None,
    initial: Annotated[
        bool, typer.Option("--initial", help="Print the results of the loaded facts as a tick of their own.")
    ] = False,
    compilation: options.Compilation,
    time: options.Timing = False,
    max_iterations: options.MaxIterations = 100_000,
    max_memory: options.MaxMemory = "90%",
) -> None:
    """Keep the results of a program up to date with changes typed or piped in.

    Reads a change script from standard input, line by line. At each commit the changes since the last
    one are applied as one tick, and what they change in the results is printed in the same form,
    ending with commit. A tick with an error in it changes nothing.

    At a terminal there is a prompt, with history and completion, at which there is more to type: queries,
    proofs of rows, drawings; 'help' lists it.
    """
    from dbsp.cli import program_files
    from dbsp.cli.conversation import Conversation, show_initial

    compiled = program_files.load_program(program, compilation)
    if fact_dir is not None:
        at_work = program_files.start(compiled, fact_dir, max_iterations, changes_from_stdin=True)
    else:
        at_work = program_files.start_empty(compiled, max_iterations)
    if initial:
        show_initial(compiled, at_work)
    if sys.stdin.isatty():
        from dbsp.cli.commands import ConsoleCommands
        from dbsp.cli.prompt import converse

        converse(ConsoleCommands(compiled, at_work))
        return
    conversation = Conversation(compiled, at_work, timed=time)
    if isinstance(sys.stdin, io.TextIOWrapper):
        # Bytes that are no text make their line wrong, and nothing else.
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
    conversation.follow(iter(sys.stdin.readline, ""))
    if conversation.failed:
        raise typer.Exit(1)
