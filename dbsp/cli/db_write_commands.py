"""`dbsp db init`, `transact` and `import`: create a database and change it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dbsp.cli import db_options as options

INIT_EXAMPLES = """Examples:

dbsp db init people --schema schema.edn

dbsp db init notes --open-schema"""

TRANSACT_EXAMPLES = """Examples:

dbsp db transact people '[{:person/name "Ada" :person/age 36}]'

dbsp db transact people changes.edn

echo '[[":db/add", 17, ":person/name", "Ada"]]' | dbsp db transact people --format jsonl"""


def init(
    folder: options.Folder,
    *,
    schema: Annotated[
        Path | None,
        typer.Option(
            "--schema",
            metavar="FILE.edn",
            help="Attributes to define: a map from names to definitions, or a transaction.",
            show_default=False,
        ),
    ] = None,
    open_schema: Annotated[
        bool,
        typer.Option(
            "--open-schema",
            help="Let transactions use attributes without defining them; such an attribute accepts any "
            "value.",
        ),
    ] = False,
) -> None:
    """Create a database in a folder, or define further attributes of one that exists.

    What the database has already stays as it is.
    """
    from dbsp.cli.database_access import file_text
    from dbsp.datomic import connect
    from dbsp.edn import read

    attributes = None if schema is None else read(file_text(schema), str(schema))
    exists = (folder / "log.sqlite").exists()
    with connect(folder, schema=attributes, open_schema=open_schema) as connection:
        print(f"{folder}: {'existing' if exists else 'new'} database, t {connection.db().basis_t}")


def transact(
    folder: options.Folder,
    source: Annotated[
        str,
        typer.Argument(
            metavar="[FILE|-|TEXT]",
            help="A file, or the transactions themselves. Default: -, standard input.",
            show_default=False,
        ),
    ] = "-",
    *,
    format: options.Notation = None,
) -> None:
    """Execute transactions: each top-level form of EDN, or each line of JSON, is one.

    A transaction is a vector of operations and maps. Prints a line for each when it is durable: its
    number t, the id of its entity, the number of its datoms and the entities of its tempids. An
    error ends the command; the transactions before it are in the database.
    """
    from dbsp.cli.console import remark, report
    from dbsp.cli.database_access import format_of, opened
    from dbsp.cli.transaction_files import read_transactions, source_lines
    from dbsp.cli.transaction_texts import report_line
    from dbsp.errors import DbspError

    notation = format_of(source, format)
    line_format = "json" if notation is options.TextFormat.JSONL else "edn"
    done = 0
    with opened(folder, read_only=False) as connection, source_lines(source, "transaction") as (lines, file):
        try:
            for form in read_transactions(lines, file, notation):
                print(report_line(connection.transact(form), line_format), flush=True)
                done += 1
        except DbspError as error:
            report(error)
            if done:
                remark(f"dbsp: transactions before the error, which are in the database: {done}")
            raise typer.Exit(1) from None
