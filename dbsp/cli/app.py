"""The application: its options, its help, and its commands, one module per command."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Annotated

import typer

from dbsp.cli import (
    as_of_command,
    check_command,
    checkpoint_command,
    explain_command,
    graph_command,
    inspect_command,
    live_command,
    run_command,
    top_command,
    tour_command,
    warmup_command,
    why_command,
)
from dbsp.cli.command_names import CommandGroup
from dbsp.cli.db_app import databases
from dbsp.cli.help_text import paragraphs
from dbsp.cli.options import expanded
from dbsp.cli.souffle_flags import Command

COMMANDS: dict[str, ModuleType] = {
    "run": run_command,
    "live": live_command,
    "inspect": inspect_command,
    "tour": tour_command,
    "graph": graph_command,
    "explain": explain_command,
    "top": top_command,
    "why": why_command,
    "check": check_command,
    "warmup": warmup_command,
}
"""The modules of the commands; each has a function with the name of the command."""


def application(first: str = "") -> typer.Typer:
    """Return the application for a command line that begins with the word `first`.

    It has the command of this name only, if there is one: to build all of them takes a tenth of a
    short run.
    """
    app = typer.Typer(
        name="dbsp",
        cls=CommandGroup,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="Exit codes: 0 success; 1 an error in the program or its data; 2 an invalid command line; "
        "130 interrupted.",
    )
    app.callback()(_options)
    groups = {"checkpoint": checkpoints, "db": databases}
    is_known = first in COMMANDS or first in groups
    for name, module in COMMANDS.items():
        if name == first or not is_known:
            command = getattr(module, name)
            register = app.command(cls=Command, help=paragraphs(command.__doc__), epilog=module.EXAMPLES)
            register(expanded(command))
    for name, group in groups.items():
        if name == first or not is_known:
            app.add_typer(group(), name=name)
    return app


def checkpoints() -> typer.Typer:
    """Return the commands on the folders of checkpoints."""
    group = typer.Typer(
        no_args_is_help=True,
        help="Verify or describe the folder of a checkpoint, a delta log or an inbox; compact a "
        "checkpoint, or look into its past.",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for command, examples in (
        (checkpoint_command.verify, checkpoint_command.VERIFY_EXAMPLES),
        (checkpoint_command.show, checkpoint_command.SHOW_EXAMPLES),
        (checkpoint_command.compact, checkpoint_command.COMPACT_EXAMPLES),
        (as_of_command.as_of, as_of_command.EXAMPLES),
    ):
        register = group.command(cls=Command, help=paragraphs(command.__doc__), epilog=examples)
        register(expanded(command))
    return group


def _show_version(requested: bool) -> None:
    if requested:
        # An import statement would make the command line depend on all that the package exports.
        print(f"dbsp {sys.modules['dbsp'].__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Run Datalog programs and keep their results up to date while the data changes.

    Programs use Soufflé's dialect; facts and results are files of tab-separated rows.
    """
