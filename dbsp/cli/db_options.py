"""Arguments and options that several commands of `dbsp db` share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class ResultFormat(StrEnum):
    """How `dbsp db query` prints the rows of a result."""

    TABLE = "table"
    EDN = "edn"
    JSON = "json"
    CSV = "csv"


class LineFormat(StrEnum):
    """How `dbsp db watch` prints changes: lines of EDN or of JSON."""

    EDN = "edn"
    JSON = "json"


class LogFormat(StrEnum):
    """How `dbsp db log` prints transactions."""

    TEXT = "text"
    EDN = "edn"
    JSON = "json"


class TextFormat(StrEnum):
    """The notations of transactions in files."""

    EDN = "edn"
    JSONL = "jsonl"


Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="The folder of the database.", show_default=False)
]
QueryText = Annotated[
    str,
    typer.Argument(
        metavar="QUERY", help="The query as EDN, a file with it, or - for stdin.", show_default=False
    ),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        metavar="EDN",
        help="The value of the next item of :in that is not $ or %; can be repeated.",
        show_default=False,
    ),
]
RuleFile = Annotated[
    Path | None,
    typer.Option("--rules", metavar="FILE", help="The rules for % in :in, as EDN.", show_default=False),
]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="T",
        help="Show the database as it was after this transaction: its number t, its id, or a time.",
        show_default=False,
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="T",
        help="Show only facts that were asserted after this transaction or time.",
        show_default=False,
    ),
]
History = Annotated[
    bool, typer.Option("--history", help="Show all datoms, also retracted facts and their retractions.")
]
RowFormat = Annotated[
    ResultFormat,
    typer.Option(
        "--format",
        "-f",
        help="A table, or one row per line as EDN, as JSON or as CSV. Tables shorten long values.",
    ),
]
Notation = Annotated[
    TextFormat | None,
    typer.Option(
        "--format",
        "-f",
        help="EDN, or JSON with one value per line. Default: JSON for .jsonl, .ndjson and .json, otherwise "
        "EDN.",
        show_default=False,
    ),
]
