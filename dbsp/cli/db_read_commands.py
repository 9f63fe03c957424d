"""`dbsp db query`, `as-of`, `explain` and `log`: read a database."""

from __future__ import annotations

from typing import Annotated

import typer

from dbsp.cli import db_options as options

QUERY_EXAMPLES = """Examples:

dbsp db query people '[:find ?n ?a :where [?p :person/name ?n] [?p :person/age ?a]]'

dbsp db query people '[:find ?p ?a :in $ ?least :where [?p :person/age ?a] [(<= ?least ?a)]]' -i 18

dbsp db query people adults.edn --rules family.edn --format csv > adults.csv

dbsp db query people '[:find ?v ?t ?added :where [_ :person/age ?v ?t ?added]]' --history"""

AS_OF_EXAMPLES = """Examples:

dbsp db as-of people 5 '[:find ?n :where [_ :person/name ?n]]'

dbsp db as-of people 2024-05-01T12:00:00Z '[:find (count ?p) . :where [?p :person/name]]'"""

EXPLAIN_EXAMPLES = """Example:

dbsp db explain people '[:find ?n :where [?p :person/friend ?f] [?f :person/name ?n]]'"""

LOG_EXAMPLES = """Examples:

dbsp db log people

dbsp db log people --from 2024-05-01 --format json | jq .

dbsp db log people --from 7 --to 7"""


EXPORT_EXAMPLES = """Examples:

dbsp db export people > people.edn

dbsp db export people --history --format jsonl | gzip > people.jsonl.gz

dbsp db export people --as-of 2024-05-01 > may.edn"""


def query(
    folder: options.Folder,
    query: options.QueryText,
    *,
    input: options.Inputs = None,
    rules: options.RuleFile = None,
    as_of: options.AsOf = None,
    since: options.Since = None,
    history: options.History = False,
    format: options.RowFormat = options.ResultFormat.TABLE,
) -> None:
    """Print the answer of a query.

    QUERY is EDN that starts with [ or {, or the name of a file, or - for standard input. The
    options select the facts that the query sees: the current ones, those of a past time, those
    asserted since a time, or all datoms.
    """
    from dbsp.cli.database_access import View, given_query, opened
    from dbsp.cli.query_output import result_lines
    from dbsp.datomic import q

    given = given_query(query, input, rules)
    with opened(folder, read_only=True) as connection:
        database = View(as_of, since, history).of(connection.db())
        result = q(given.query, *given.arguments(database))
    for line in result_lines(given.query, result, format):
        print(line)


def as_of(
    folder: options.Folder,
    time: Annotated[
        str, typer.Argument(metavar="T", help="The number t of a transaction, its id, or a time.")
    ],
    query_text: options.QueryText,
    *,
    input: options.Inputs = None,
    rules: options.RuleFile = None,
    format: options.RowFormat = options.ResultFormat.TABLE,
) -> None:
    """Print the answer of a query over the database as it was after a transaction or at a time.

    The same as dbsp db query FOLDER QUERY --as-of T.
    """
    query(folder, query_text, input=input, rules=rules, as_of=time, format=format)


def explain(
    folder: options.Folder,
    query: options.QueryText,
    *,
    input: options.Inputs = None,
    rules: options.RuleFile = None,
) -> None:
    """Print how a query is evaluated: its rules, the plan of each, and the indices that it reads.

    Each index is printed with the columns that it is sorted by, its attribute, and its rows.
    """
    from dbsp.cli.database_access import given_query, opened
    from dbsp.cli.query_plans import plan_lines

    given = given_query(query, input, rules)
    with opened(folder, read_only=True) as connection:
        for line in plan_lines(given, connection.db()):
            print(line)


def log(
    folder: options.Folder,
    *,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="T", help="The first transaction, or a time.", show_default=False),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="T", help="The last transaction, or a time.", show_default=False),
    ] = None,
    format: Annotated[
        options.LogFormat,
        typer.Option("--format", "-f", help="Text for people, or one transaction per line as EDN or JSON."),
    ] = options.LogFormat.TEXT,
) -> None:
    """Print the transactions of a database with their datoms, from the oldest.

    In the text, + is a fact that the transaction asserted and - one that it retracted.
    """
    from dbsp.cli.database_access import opened
    from dbsp.cli.transaction_texts import log_lines, transactions_between

    with opened(folder, read_only=True) as connection:
        database = connection.db()
        for transaction in transactions_between(connection.log, database, start, end):
            for line in log_lines(transaction, database, format):
                print(line)


def export(
    folder: options.Folder,
    *,
    as_of: options.AsOf = None,
    history: Annotated[
        bool, typer.Option("--history", help="Write all transactions with their times.")
    ] = False,
    format: Annotated[
        options.TextFormat,
        typer.Option("--format", "-f", help="EDN, or JSON with one transaction per line."),
    ] = options.TextFormat.EDN,
) -> None:
    """Write the facts of a database, or its history, such that import reads them into a new one.

    Entities keep their ids. Without --history, the facts become new transactions of about 10,000
    datoms, and facts about transactions are left out, which a warning reports.
    """
    from collections import Counter

    from dbsp.cli.console import remark
    from dbsp.cli.database_access import View, opened
    from dbsp.cli.database_export import history_transactions, state_transactions, transaction_text

    skipped: Counter[str] = Counter()
    with opened(folder, read_only=True) as connection:
        database = View(as_of).of(connection.db())
        if history:
            last = database.basis_t if database.as_of_t is None else database.as_of_t
            transactions = history_transactions(database, connection.tx_range(None, last + 1))
        else:
            transactions = state_transactions(database, skipped)
        for operations in transactions:
            print(transaction_text(operations, format))
    for what, count in skipped.items():
        if count:
            remark(f"dbsp: warning: {what} that are not exported: {count:,}; --history exports them")
