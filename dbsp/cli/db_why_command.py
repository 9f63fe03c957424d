"""`dbsp db why`: print why a row is in the result of a query, or why it is not."""

from __future__ import annotations

from typing import Annotated

import typer

from dbsp.cli import db_options as options

WHY_EXAMPLES = """Examples:

dbsp db why people '[:find ?n :where [?p :person/name ?n] [?p :person/age ?a] [(> ?a 18)]]' '["Ada"]'

dbsp db why people '[:find ?n ?a :where [?p :person/name ?n] [?p :person/age ?a]]' '["Ada" _]' --json"""


def why(
    folder: options.Folder,
    query: options.QueryText,
    row: Annotated[
        str,
        typer.Argument(
            metavar="ROW",
            help="A vector with a value for each element of :find; _ matches any value.",
            show_default=False,
        ),
    ],
    *,
    input: options.Inputs = None,
    rules: options.RuleFile = None,
    as_of: options.AsOf = None,
    since: options.Since = None,
    history: options.History = False,
    depth: Annotated[
        int | None,
        typer.Option(
            "--depth",
            min=1,
            metavar="N",
            help="Depth in rules; default 12, and 1 for a missing row.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print why a row is in the result of a query, or why it is not.

    A proof has the datoms by which each clause holds. For a missing row, prints the matches that
    satisfy most of the clauses: + holds, - fails, ? lacks a value of a variable.
    """
    from dbsp.cli.database_access import View, given_query, opened
    from dbsp.compiler.why.proof import DEPTH, Proof
    from dbsp.datomic import why as explained
    from dbsp.edn import Symbol, read

    given = given_query(query, input, rules)
    values = read(row, "row")
    if isinstance(values, tuple):
        values = tuple(... if value == Symbol("_") else value for value in values)
    with opened(folder, read_only=True) as connection:
        database = View(as_of, since, history).of(connection.db())
        found = explained(given.query, *given.arguments(database), row=values, depth=depth)
    if json:
        print(found.to_json())
    elif isinstance(found, Proof):
        print(*found.lines(depth or DEPTH), sep="\n")
    else:
        print(*found.lines(), sep="\n")
