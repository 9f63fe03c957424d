"""`dbsp db watch` and `dbsp db console`: follow the transactions of other processes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from dbsp.cli import db_options as options

WATCH_EXAMPLES = """Examples:

dbsp db watch people '[:find ?n ?a :where [?p :person/name ?n] [?p :person/age ?a]]'

dbsp db watch people '[:find (count ?p) . :where [?p :person/name]]' --since 1 --for 0
    prints the changes from transaction 2 to the latest, and ends

dbsp db watch people query.edn --format json | ./consumer"""


CONSOLE_EXAMPLES = """Examples:

dbsp db console people
    type queries and transactions; ':help' lists the commands

dbsp db console people < session.edn"""


def watch(
    folder: options.Folder,
    query: options.QueryText,
    *,
    input: options.Inputs = None,
    rules: options.RuleFile = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="T",
            help="Start with the changes after this transaction or time, instead of the current rows.",
            show_default=False,
        ),
    ] = None,
    poll: Annotated[
        float,
        typer.Option("--poll", metavar="SECONDS", min=0.001, help="How often to look for transactions."),
    ] = 0.1,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--for",
            metavar="SECONDS",
            min=0.0,
            help="End after this time. Default: Ctrl-C ends.",
            show_default=False,
        ),
    ] = None,
    format: Annotated[
        options.LineFormat,
        typer.Option("--format", "-f", help="EDN: one line per changed row; JSON: one line per transaction."),
    ] = options.LineFormat.EDN,
) -> None:
    """Print the rows of a query, and then their changes as transactions arrive.

    Follows the transactions of all processes. EDN has a line [[row ...] weight] for each changed
    row, with the weight 1 for a new row and -1 for a lost one, and after the rows of each
    transaction a comment with its number: ; t 5. JSON has a line {"t": 5, "rows": [[[row ...],
    weight], ...]} for each transaction that changes a row.
    """
    from dbsp.cli.database_access import given_query, opened, time_point
    from dbsp.cli.query_watch import follow

    given = given_query(query, input, rules)
    start = None if since is None else time_point(since, "--since")
    with opened(folder, read_only=True) as connection:
        follow(connection, given, start, format.value, poll, seconds)


def console(folder: options.Folder) -> None:
    """Ask and change a database at a prompt: queries, transactions, and commands such as :as-of.

    Live queries print their changes after each entry, also those by other processes. The prompt has
    history and completion; ':help' lists the commands. From a pipe, the command reads one entry
    after the other; after an error the exit code is 1.
    """
    from dbsp.cli.database_access import opened
    from dbsp.cli.database_console import DatabaseConsole
    from dbsp.cli.standard_input import stdin_lines

    with opened(folder, read_only=False) as connection:
        entries = DatabaseConsole(connection, str(folder))
        if sys.stdin.isatty():
            from dbsp.cli.database_completion import DatabaseCompleter, DatabaseLexer
            from dbsp.cli.prompt_session import hold, stored_history

            hold(
                entries,
                DatabaseCompleter(entries),
                DatabaseLexer(entries),
                history=stored_history("db-history"),
            )
        elif not entries.follow(stdin_lines()):
            raise typer.Exit(1)
