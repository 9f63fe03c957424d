"""`dbsp db`: the commands on databases of facts, which import the database when they run."""

from __future__ import annotations

import typer
from typer.core import TyperCommand

from dbsp.cli import db_live_commands as live
from dbsp.cli import db_read_commands as read
from dbsp.cli import db_why_command as reasons
from dbsp.cli import db_write_commands as write
from dbsp.cli.help_text import paragraphs

COMMANDS = (
    ("init", write.init, write.INIT_EXAMPLES),
    ("transact", write.transact, write.TRANSACT_EXAMPLES),
    ("query", read.query, read.QUERY_EXAMPLES),
    ("as-of", read.as_of, read.AS_OF_EXAMPLES),
    ("explain", read.explain, read.EXPLAIN_EXAMPLES),
    ("why", reasons.why, reasons.WHY_EXAMPLES),
    ("watch", live.watch, live.WATCH_EXAMPLES),
    ("console", live.console, live.CONSOLE_EXAMPLES),
    ("log", read.log, read.LOG_EXAMPLES),
    ("import", write.import_files, write.IMPORT_EXAMPLES),
    ("export", read.export, read.EXPORT_EXAMPLES),
)


def databases() -> typer.Typer:
    """Return the commands on databases of facts."""
    group = typer.Typer(
        no_args_is_help=True,
        help="Create databases of facts, change them, and ask them in Datomic's query language.",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name, command, examples in COMMANDS:
        group.command(name, cls=TyperCommand, help=paragraphs(command.__doc__), epilog=examples)(command)
    return group
