"""`dbsp run`: read facts, write results, then apply a change script."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dbsp.cli import options
from dbsp.errors import counted

if TYPE_CHECKING:
    from dbsp.runtime.run import Run
    from dbsp.shards.sharded_run import ShardedRun

EXAMPLES = """Examples:

dbsp run reach.dl -F facts -D out
    reads facts/edge.facts, writes out/path.csv

dbsp run reach.dl -F facts -D -
    prints the results

dbsp run reach.dl -F facts -D out --deltas changes.txt
    also applies the script, tick by tick, and writes the changes of the results to out/deltas.txt

dbsp run reach.dl -F facts -D out --shards 4
    runs in four processes, each with a part of the rows

dbsp run reach.dl -F facts -D out --profile reach.svg
    also draws where the time went"""


class ProfileBy(StrEnum):
    """What the colours of a profile show."""

    TIME = "time"
    ROWS = "rows"
    STATE = "state"


def run(
    program: options.ProgramPath,
    *,
    fact_dir: options.FactFolder = Path("."),
    output_dir: Annotated[
        Path,
        typer.Option(
            "--output-dir", "-D", metavar="DIR", help="Write RELATION.csv to this folder; - prints instead."
        ),
    ] = Path("."),
    deltas: Annotated[
        Path | None,
        typer.Option(
            "--deltas", metavar="FILE", help="Apply this change script after loading.", show_default=False
        ),
    ] = None,
    threads: options.Threads = None,
    no_preprocessor: options.NoPreprocessor = False,
    compilation: options.Compilation,
    time: options.Timing = False,
    max_iterations: options.MaxIterations = 100_000,
    max_memory: options.MaxMemory = "90%",
    memory_limit: options.MemoryLimit = None,
    shards: options.Shards = None,
    max_unpacked: options.MaxUnpacked = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            "--profile",
            metavar="FILE",
            help="Draw the circuit with the time, rows and state of every operator to this file: .svg, "
            ".png, .pdf, .dot, .mmd or .json.",
            show_default=False,
        ),
    ] = None,
    profile_by: Annotated[
        ProfileBy,
        typer.Option("--profile-by", help="What the colours of the profile show."),
    ] = ProfileBy.TIME,
) -> None:
    """Run a program over fact files, write its results, then apply a change script.

    A change script has a line +relation(1, "text") for each inserted row, -relation(...) for each
    deleted row, and commit at the end of each tick. The changes of the results are written in the
    same form.
    """
    if profile is not None and shards is not None:
        raise options.invalid_option("--profile measures a run in one process; leave out --shards")
    from dbsp.cli import program_files
    from dbsp.cli.result_outputs import FolderOutput, StdoutOutput

    compiled = program_files.load_program(program, compilation)
    outputs = (
        StdoutOutput(compiled, time) if str(output_dir) == "-" else FolderOutput(compiled, output_dir, time)
    )
    # Read the script before any computation, so that an error in line 10,000 appears at once.
    ticks = [] if deltas is None else program_files.read_changes(compiled, deltas)
    run: Run | ShardedRun
    profiled: Run | None = None
    if shards is None:
        measured = profile is not None
        run = profiled = program_files.start(
            compiled, fact_dir, max_iterations, memory_limit, observe=measured
        )
    else:
        run = program_files.start_sharded(compiled, fact_dir, shards, max_iterations, memory_limit)
    outputs.loaded(run)
    try:
        for tick in ticks:
            outputs.ticked(program_files.apply_tick(run, tick, str(deltas)))
    finally:
        # After a failed tick, the files hold the results of the ticks before it.
        outputs.finished(run)
    if profile is not None and profiled is not None:
        title = f"{program.name}: {profile_by} of {counted(profiled.tick, 'tick')}"
        profiled.draw(profile, profile=profile_by.value, title=title)
