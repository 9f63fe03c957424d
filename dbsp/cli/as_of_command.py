"""`dbsp checkpoint as-of`: print the results of a program as of an earlier tick."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dbsp.cli import options

if TYPE_CHECKING:
    from dbsp.compiler.program import Program
    from dbsp.data.zset import ZSet
    from dbsp.durable.past_run import PastRun

EXAMPLES = """Examples:

dbsp checkpoint as-of state reach.dl 41
    prints the results after tick 41

dbsp checkpoint as-of state reach.dl '2026-01-31 18:00' --relation edge
    prints the rows of one relation at that time

dbsp checkpoint as-of state reach.dl 41 --since 30
    prints the changes of the results from tick 31 to tick 41, as one change script

dbsp checkpoint as-of state reach.dl --since 30 --each
    prints the changes of each tick since then"""


def moment(text: str, option: str) -> int | str:
    """Return the tick or the time that a text means. Raises BadParameter."""
    if text.isdecimal() and text.isascii():
        return int(text)
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise options.invalid_option(
            f"{option}: expected a tick or a time such as '2026-01-31 18:00', got '{text}'"
        ) from None
    return text


def as_of(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder of a checkpoint.", show_default=False)
    ],
    program: options.ProgramPath,
    time: Annotated[
        str | None,
        typer.Argument(
            metavar="[T]",
            help="A tick, or a time such as '2026-01-31 18:00'. Default: the latest tick.",
            show_default=False,
        ),
    ] = None,
    *,
    relation: Annotated[
        list[str] | None,
        typer.Option(
            "--relation",
            metavar="NAME",
            help="Print this output or input only; can be repeated.",
            show_default=False,
        ),
    ] = None,
    output_dir: Annotated[
        Path,
        typer.Option(
            "--output-dir", "-D", metavar="DIR", help="Write RELATION.csv to this folder; - prints."
        ),
    ] = Path("-"),
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="T",
            help="Print the changes after this tick or time instead, as a change script.",
            show_default=False,
        ),
    ] = None,
    each: Annotated[bool, typer.Option("--each", help="With --since: print the changes by tick.")] = False,
    allow_pickle: options.AllowPickle = False,
    compilation: options.Compilation,
    max_memory: options.MaxMemory = "90%",
    threads: options.Threads = None,
) -> None:
    """Print the results of a program as of an earlier tick of its checkpoint, or their changes.

    A time means the last tick that was written until then. The ticks that can be opened are those
    that Store(folder, keep=...) keeps; 'dbsp checkpoint show' prints them. Nothing is locked or
    changed, so a run may use the folder meanwhile. Use the options with which the program was
    compiled.
    """
    from dbsp.cli import program_files
    from dbsp.cli.console import slow_work
    from dbsp.cli.result_outputs import FolderOutput, StdoutOutput

    if each and since is None:
        raise options.invalid_option("expected --since with --each")
    if str(output_dir) != "-" and (since is not None or relation):
        raise options.invalid_option("expected --output-dir without --since and --relation")
    until = None if time is None else moment(time, "T")
    start = None if since is None else moment(since, "--since")
    compiled = program_files.load_program(program, compilation)
    with slow_work(f"repeating the ticks of {folder}") as show:
        past = compiled.open(
            folder, as_of=until, allow_pickle=allow_pickle, progress=lambda tick: show(f"tick {tick:,}")
        )
        chosen = relation or list(past.outputs)
        if start is not None and not each:
            changes = {name: past.deltas(name, start) for name in chosen}
    if start is not None and each:
        _print_ticks(past, start, chosen)
    elif start is not None:
        _print_lines(changes)
    elif relation:
        _print_relations(compiled, past, relation)
    elif str(output_dir) == "-":
        StdoutOutput(compiled, False).loaded(past)
    else:
        FolderOutput(compiled, output_dir, False).finished(past)


def _print_lines(changes: Mapping[str, ZSet]) -> None:
    from dbsp.io.results import format_delta

    for line in format_delta(changes):
        print(line)


def _print_ticks(past: PastRun, since: int | str, relations: list[str]) -> None:
    for name in relations:
        past.output_port(name)  # raises if there is none
    for result in past.ticks(since):
        _print_lines({name: result[name] for name in relations})
        print(f"commit  // tick {result.number}", flush=True)


def _print_relations(program: Program, past: PastRun, relations: list[str]) -> None:
    from dbsp.compiler.datalog.meaning.directives import result_target
    from dbsp.io.places import write_place

    for name in relations:
        rows = past.view(name) if name in past.outputs or name not in past.inputs else past.asserted(name)
        write_place(result_target(name, {"IO": "stdout", "headers": "true"}, Path()), rows)
    sys.stdout.flush()
