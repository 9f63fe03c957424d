"""What a command of `dbsp db` works on: the database of a folder at a time, and a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dbsp.cli.console import remark
from dbsp.cli.db_options import TextFormat
from dbsp.cli.standard_input import stdin_lines
from dbsp.compiler.datomic.meaning.argument_checks import input_text
from dbsp.compiler.datomic.text.query_parser import parse_query
from dbsp.compiler.datomic.text.rule_parser import parse_rules
from dbsp.compiler.datomic.tree import query_tree as tree
from dbsp.datomic import Connection, Database, connect
from dbsp.datomic.connection import Durability
from dbsp.datomic.time_points import TimePoint
from dbsp.edn import Symbol, read
from dbsp.errors import CheckpointError, EdnError, InputError, broken_link, counted, shorten
from dbsp.io.problems import read_file
from dbsp.lazy_dataclass import dataclass

STDIN = "<stdin>"


@contextmanager
def opened(folder: Path, *, read_only: bool, group: bool = False) -> Iterator[Connection]:
    """Connect to the database of a folder, which exists already.

    With `group`, transactions are durable a short time after they are complete.
    """
    if not (folder / "log.sqlite").is_file():
        remedy = broken_link(folder) or f"create one: dbsp db init {folder}"
        raise CheckpointError(f"{folder} has no database; {remedy}", code="checkpoint-unreadable")
    durability = Durability.GROUP if group else Durability.COMMIT
    with connect(folder, read_only=read_only, durability=durability) as connection:
        yield connection


def time_point(text: str, option: str) -> TimePoint:
    """Return the point in time of an option: a number, or a time such as `2024-05-01T12:00Z`."""
    if text.isdecimal() and len(text) <= 18:
        return int(text)
    try:
        found: TimePoint = read(f'#inst "{text}"')
    except EdnError:
        raise InputError(
            f"{option} expects the number t of a transaction, its id or a time such as "
            f"2024-05-01T12:00:00Z, got {shorten(text)}",
            code="invalid-option",
        ) from None
    return found


@dataclass(frozen=True, slots=True)
class View:
    """The options that choose the facts of a database: as of a time, since a time, all of them."""

    as_of: str | None = None
    since: str | None = None
    history: bool = False

    def of(self, database: Database, sign: str = "--") -> Database:
        """Return the database with only these facts. `sign` starts the options in errors."""
        if self.as_of is not None:
            database = database.as_of(time_point(self.as_of, f"{sign}as-of"))
        if self.since is not None:
            database = database.since(time_point(self.since, f"{sign}since"))
        return database.history() if self.history else database


def is_text(argument: str) -> bool:
    """Whether an argument is EDN, and not the name of a file."""
    return argument.lstrip(" ,\t\r\n")[:1] in ("[", "{", "(", ";", "#")


def argument_text(argument: str, name: str) -> tuple[str, str]:
    """Return the text of an argument that is EDN, a file or `-`, and its name in errors."""
    if is_text(argument):
        return argument, name
    if not argument.strip():
        raise InputError(
            f"expected a {name}, the name of its file or - for standard input, got an empty text",
            code="query-arguments",
        )
    if argument == "-":
        return "".join(stdin_lines()), STDIN
    return file_text(Path(argument)), argument


def file_text(path: Path) -> str:
    """Return the text of a file. Raises InputError if there is none, or if it is not UTF-8."""
    try:
        return read_file(path, "file").decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"expected UTF-8 text, got the byte {error.object[error.start]:#04x} at {error.start:,}",
            where=str(path),
            code="invalid-encoding",
        ) from None


def format_of(argument: str | None, chosen: TextFormat | None) -> TextFormat:
    """Return the notation of a file: the chosen one, or that of its name."""
    if chosen is not None:
        return chosen
    if argument is None or is_text(argument):
        return TextFormat.EDN
    path = Path(argument)
    name = path.with_suffix("") if path.suffix == ".gz" else path
    return TextFormat.JSONL if name.suffix in (".jsonl", ".ndjson", ".json") else TextFormat.EDN


@dataclass(frozen=True, slots=True)
class GivenQuery:
    """A query of the command line and the values of its inputs but `$`."""

    query: tree.Query
    values: tuple[Any, ...]

    def arguments(self, database: Database) -> list[Any]:
        """Return the arguments of the query in the order of `:in`, with a database as `$`."""
        values = list(self.values)
        for place, given in enumerate(self.query.inputs):
            if _is_database(given):
                values.insert(place, database)
        return values


def given_query(argument: str, inputs: Sequence[str] | None, rules: Path | None) -> GivenQuery:
    """Return the query of an argument, with its rules and inputs.

    Raises InputError if the options do not fit `:in`.
    """
    text, file = argument_text(argument, "query")
    query = parse_query(text, file)
    parsed = None if rules is None else parse_rules(file_text(rules), str(rules))
    others = [each for each in query.inputs if not _is_database(each)]
    named = [each for each in others if not isinstance(each, tree.RulesInput)]
    given = list(inputs or ())
    values = [_value(each, input_text(name)) for each, name in zip(given, named, strict=False)]
    values += given[len(named) :]  # too many
    found = query_values(query, values, parsed, "give each with --input")
    if rules is not None and len(named) == len(others):
        raise InputError("--rules: the query has no %; add % to its :in", code="query-arguments")
    return GivenQuery(query, found)


def query_values(
    query: tree.Query, given: Sequence[Any], rules: tree.Rules | None, how: str
) -> tuple[Any, ...]:
    """Return the arguments of a query but the database, in the order of `:in`.

    Raises InputError if their number differs, with the advice `how` to give them, or if the query
    needs rules and there are none.
    """
    expected = [each for each in query.inputs if not _is_database(each)]
    named = [each for each in expected if not isinstance(each, tree.RulesInput)]
    if len(named) != len(given):
        number = counted(len(named), "value")
        reason = f" for {' '.join(map(input_text, named))} of :in"
        if not named:
            reason = ", because :in names only the database and rules"
        raise InputError(f"expected {number}{reason}, got {len(given)}; {how}", code="wrong-arity")
    rest = iter(given)
    values: list[Any] = []
    for each in expected:
        if not isinstance(each, tree.RulesInput):
            values.append(next(rest))
        elif rules is None:
            raise InputError(
                "the query has % in :in; give its rules: --rules FILE, or :rules at the prompt",
                code="query-arguments",
            )
        else:
            values.append(rules)
    return tuple(values)


def _value(text: str, name: str) -> Any:
    value = read(text, f"--input {name}")
    if isinstance(value, Symbol):
        remark(f"dbsp: warning: --input {text} is a symbol; a string has quotes: --input '\"{text}\"'")
    return value


def _is_database(given: tree.Input) -> bool:
    return isinstance(given, tree.SourceInput) and given.name == "$"
