"""`dbsp checkpoint`: verify and describe the folders of checkpoints, delta logs and inboxes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dbsp.errors import counted

VERIFY_EXAMPLES = """Example, after restoring a folder from a copy:

dbsp checkpoint verify state && dbsp checkpoint show state"""

SHOW_EXAMPLES = """Example:

dbsp checkpoint show state"""

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
    from dbsp.durable.folder_report import verify_folder

    found = verify_folder(folder)
    for problem in found.problems:
        print(problem)
    if found.problems:
        raise typer.Exit(1)
    print(f"{folder}: {found.kind}, {counted(found.files, 'file')}, no problems")


def show(folder: Folder) -> None:
    """Print what a folder has: its program, the latest tick and its label, and sizes."""
    from dbsp.durable.folder_report import describe_folder

    lines = list(describe_folder(folder))
    width = max(len(name) for name, _ in lines)
    for name, text in lines:
        print(f"{name.ljust(width)}  {text}")
