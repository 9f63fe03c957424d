"""`dbsp run`: facts in, results out, and a change script after that."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dbsp.cli import options

EXAMPLES = """Examples:

dbsp run reach.dl -F facts -D out
    reads facts/edge.facts, writes out/path.csv

dbsp run reach.dl -F facts -D -
    prints the results

dbsp run reach.dl -F facts -D out --deltas changes.txt
    then applies the script, tick by tick; the changes of the results go to out/deltas.txt"""


def run(
    program: options.ProgramPath,
    *,
    fact_dir: options.FactFolder = Path("."),
    output_dir: Annotated[
        Path,
        typer.Option("--output-dir", "-D", metavar="DIR", help="Where RELATION.csv goes; - prints instead."),
    ] = Path("."),
    deltas: Annotated[
        Path | None,
        typer.Option(
            "--deltas", metavar="FILE", help="A change script to apply afterwards.", show_default=False
        ),
    ] = None,
    jobs: options.Jobs = "1",
    no_preprocessor: options.NoPreprocessor = False,
    compilation: options.Compilation,
    time: options.Timing = False,
    max_iterations: options.MaxIterations = 100_000,
    max_memory: options.MaxMemory = "90%",
) -> None:
    """Run a program over fact files and write its results; then follow a change script.

    A change script has a line +relation(1, "text") for each row inserted, -relation(...) for each row
    deleted, and commit at the end of each tick. What a tick changes in the results is written in the
    same form.
    """
    from dbsp.cli import program_files
    from dbsp.cli.result_outputs import FolderOutput, StdoutOutput

    compiled = program_files.load_program(program, compilation)
    outputs = (
        StdoutOutput(compiled, time) if str(output_dir) == "-" else FolderOutput(compiled, output_dir, time)
    )
    # Read before anything is computed: a mistake in line 10,000 should show at once.
    ticks = [] if deltas is None else program_files.read_changes(compiled, deltas)
    at_work = program_files.start(compiled, fact_dir, max_iterations)
    outputs.loaded(at_work)
    try:
        for tick in ticks:
            outputs.ticked(program_files.apply_tick(at_work, tick, str(deltas)))
    finally:
        # Also after a tick that failed: the files then hold what the ticks before it left.
        outputs.finished(at_work)
