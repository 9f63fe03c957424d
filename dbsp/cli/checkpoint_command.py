"""`dbsp checkpoint verify`, `show`, `compact`: durable folders on the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dbsp.cli import options
from dbsp.errors import counted

if TYPE_CHECKING:
    from dbsp.durable.report_facts import Fact

VERIFY_EXAMPLES = """Example, after restoring a folder from a copy:

dbsp checkpoint verify state && dbsp checkpoint show state"""

SHOW_EXAMPLES = """Examples:

dbsp checkpoint show state

dbsp checkpoint show state --json | jq .journal.bytes"""

COMPACT_EXAMPLES = """Example:

dbsp checkpoint compact state reach.dl"""

Folder = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER", help="The folder of a checkpoint, a delta log or an inbox.", show_default=False
    ),
]


def verify(folder: Folder) -> None:
    """Verify every file of a folder, and print a line for each that is damaged, missing or foreign.

    The exit code is 1 if there is a problem. A damaged snapshot is a problem although the run
    continues from the one before it. Nothing is changed, so a run may use the folder meanwhile.
    """
    from dbsp.cli.console import slow_work
    from dbsp.durable.folder_report import verify_folder

    with slow_work(f"verifying {folder}") as watch:
        found = verify_folder(folder, watch)
    for problem in found.problems:
        print(problem)
    if found.problems:
        raise typer.Exit(1)
    print(f"{folder}: {found.kind}, {counted(found.files, 'file')}, no problems")


def show(
    folder: Folder,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> None:
    """Print what a folder has: its program, the latest tick and its label, history, and sizes.

    With --json, names are lower case with underscores, sizes are in bytes, and times in seconds
    since 1970.
    """
    from dbsp.durable.folder_report import describe_folder

    facts = describe_folder(folder)
    if as_json:
        print(json.dumps(_nested(facts), indent=2, ensure_ascii=False))
        return
    width = max(len(fact.name) for fact in facts)
    for fact in facts:
        print(f"{fact.name.ljust(width)}  {fact.text}")


def _nested(facts: Sequence[Fact]) -> dict[str, Any]:
    """Return facts by name; those that belong to another one are its member `parts`."""
    nested: dict[str, Any] = {}
    last = ""
    for fact in facts:
        if fact.name.startswith(" "):
            if not isinstance(nested[last], dict):
                nested[last] = {"value": nested[last]}
            nested[last].setdefault("parts", {})[fact.name.strip()] = fact.value
        else:
            last = fact.name.replace(" ", "_")
            nested[last] = fact.value
    return nested


def compact(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder of a checkpoint.", show_default=False)
    ],
    program: options.ProgramPath,
    *,
    allow_pickle: options.AllowPickle = False,
    compilation: options.Compilation,
    max_memory: options.MaxMemory = "90%",
) -> None:
    """Compact the state of a checkpoint, and write it as a snapshot.

    Retracted rows, and texts that no row has any more, then take no space. No tick takes place, and
    the history stays as it is. The files of the two snapshots before are removed by later ones. The
    folder must not be in use.
    Use the options with which the program was compiled.
    """
    from dbsp.cli import program_files
    from dbsp.durable import Store
    from dbsp.durable.history import kept_manifests
    from dbsp.durable.past_ticks import expect_checkpoint

    compiled = program_files.load_program(program, compilation)
    expect_checkpoint(folder)
    if all(not manifest.tick for manifest in kept_manifests(folder)[0]) and compiled.open(folder).tick == 0:
        print(f"{folder}: no ticks, nothing to compact")  # starting it would apply the facts
        return
    run = compiled.start(checkpoint=Store(folder, allow_pickle=allow_pickle))
    try:
        done = run.compact()
        print(f"{folder}: tick {run.tick:,}, {done}; {run.state_rows:,} rows left")
    finally:
        if run.log is not None:
            run.log.close()
