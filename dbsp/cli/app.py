"""The application: its options, its help, and its commands, one module per command."""

from __future__ import annotations

import sys
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


def _show_version(requested: bool) -> None:
    if requested:
        # An import statement would make the command line depend on all that the package exports.
        print(f"dbsp {sys.modules['dbsp'].__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Run Datalog programs and keep their results up to date while the data changes.

    Programs use Soufflé's dialect; facts and results are files of tab-separated rows.
    """


for module, command in (
    (run_command, run_command.run),
    (live_command, live_command.live),
    (inspect_command, inspect_command.inspect),
    (tour_command, tour_command.tour),
    (graph_command, graph_command.graph),
    (explain_command, explain_command.explain),
    (top_command, top_command.top),
    (why_command, why_command.why),
    (check_command, check_command.check),
    (warmup_command, warmup_command.warmup),
):
    app.command(cls=Command, help=paragraphs(command.__doc__), epilog=module.EXAMPLES)(expanded(command))

checkpoints = typer.Typer(
    name="checkpoint",
    no_args_is_help=True,
    help="Verify or describe the folder of a checkpoint, a delta log or an inbox; compact a checkpoint, or "
    "look into its past.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(checkpoints)
for subcommand, examples in (
    (checkpoint_command.verify, checkpoint_command.VERIFY_EXAMPLES),
    (checkpoint_command.show, checkpoint_command.SHOW_EXAMPLES),
    (checkpoint_command.compact, checkpoint_command.COMPACT_EXAMPLES),
    (as_of_command.as_of, as_of_command.EXAMPLES),
):
    register = checkpoints.command(cls=Command, help=paragraphs(subcommand.__doc__), epilog=examples)
    register(expanded(subcommand))
app.add_typer(databases)
