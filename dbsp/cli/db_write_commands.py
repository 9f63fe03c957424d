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


IMPORT_EXAMPLES = """Examples:

dbsp db export people > people.edn && dbsp db init copy && dbsp db import copy people.edn

dbsp db import people persons.csv persons.parquet --entity-key :person/email

dbsp db import people entities.jsonl --batch 50000"""


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


def import_files(
    folder: options.Folder,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="EDN, JSON lines, CSV or Parquet, by its name.", show_default=False
        ),
    ],
    *,
    entity_key: Annotated[
        str | None,
        typer.Option(
            "--entity-key",
            metavar="ATTRIBUTE",
            help="The unique attribute that finds the known entities of the rows of tables.",
            show_default=False,
        ),
    ] = None,
    batch: Annotated[
        int, typer.Option("--batch", metavar="N", min=1, help="Maps or rows in a transaction.")
    ] = 10_000,
    format: options.Notation = None,
) -> None:
    """Import files: transactions, entity maps and tables.

    EDN and JSON lines have whole transactions, as the command export writes them, or maps and
    single operations, which are collected into transactions. A tempid is the same entity in the
    whole file, but within a transaction of the file only there.

    The columns of a CSV or Parquet file have the names of attributes, :person/name or person/name;
    a column :db/id has the entities. Each row is a new entity, or the known one with the same
    unique identity. An empty cell asserts nothing.

    An error ends the command, and names the file and line; the transactions before it are in the
    database.
    """
    from dbsp.cli.console import loading, remark, report
    from dbsp.cli.database_access import format_of, opened
    from dbsp.cli.database_import import Import
    from dbsp.errors import DbspError

    size = sum(path.stat().st_size for path in files if path.is_file())
    with loading(size) as advance, opened(folder, read_only=False, group=True) as connection:
        running = Import(connection, batch, entity_key, advance)
        try:
            for path in files:
                running.read(path, format_of(str(path), format))
        except DbspError as error:
            report(error)
            remark(f"dbsp: imported before the error: {running.summary}")
            raise typer.Exit(1) from None
    print(f"imported {running.summary}")
