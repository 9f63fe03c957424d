"""Cases of queries: a database, a query, its inputs, and the expected result or error.

A file of cases names its database, `databases/NAME.edn`, which is a vector of transactions:

    database: people

    === title
    [:find ?e :where [?e :person/name]]
    in: $ 41
    ---
    [1] [2]

`in:` has the inputs, `$` alone if there is no such line. `$` is the database, `(as-of 3)`,
`(since 3)` and `(history)` are values of it, and `(db graph)` is another database, also
`(db graph as-of 3)`; everything else is EDN data. After the line of dashes are the rows, the items
of a collection, or the one tuple or scalar; nothing for no result. Instead of the dashes,
`oracle only` says that no result is written down, and `error: CODE` that the query is refused; the
lines after it are parts of the message.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from dbsp.edn import EdnList, Symbol, read, read_all

from .oracle import Model, Source

FOLDER = Path(__file__).parent / "fixtures"


@dataclass
class Case:
    file: str
    title: str
    database: str
    query: str
    inputs: list[Any]
    expected: list[Any] | None = None
    """The rows, items, tuple or scalar; None if they are not written down."""
    error: str | None = None
    parts: list[str] = field(default_factory=list)
    """Parts of the message of the error."""

    def __str__(self) -> str:
        return f"{self.file}: {self.title}"


def cases() -> list[Case]:
    return [case for path in sorted(FOLDER.glob("*.txt")) for case in read_cases(path)]


def read_cases(path: Path) -> list[Case]:
    head, *parts = path.read_text().split("\n=== ")
    database = head.removeprefix("database:").strip()
    found = []
    for part in parts:
        title, *lines = part.rstrip("\n").split("\n")
        end = next(
            i for i, line in enumerate(lines) if line in ("---", "oracle only") or line.startswith("error:")
        )
        query = [line for line in lines[:end] if not line.startswith("in:")]
        inputs = next((line.removeprefix("in:") for line in lines[:end] if line.startswith("in:")), "$")
        rest = lines[end + 1 :]
        case = Case(path.stem, title, database, "\n".join(query), read_all(inputs))
        if lines[end] == "---":
            case.expected = read_all("\n".join(rest))
        elif lines[end].startswith("error:"):
            case.error = lines[end].removeprefix("error:").strip()
            case.parts = [line for line in rest if line.strip()]
        found.append(case)
    return found


@cache
def transactions(database: str) -> tuple[Any, ...]:
    """Return the data of every transaction of a database."""
    path = FOLDER / "databases" / f"{database}.edn"
    return tuple(read(path.read_text(), str(path)))


@cache
def model(database: str) -> Model:
    """Return the model of a whole database."""
    result = Model()
    for transaction in transactions(database):
        result.transact(transaction)
    return result


@dataclass(frozen=True)
class DatabaseInput:
    """An input that is a database: `$`, `(as-of 3)`, `(db graph history)`."""

    database: str
    operation: str | None = None
    t: int | None = None

    def source(self, of: Model) -> Source:
        t = None if self.t is None else self.t % 2**42
        if self.operation == "as-of":
            return of.source(until=t)
        if self.operation == "since":
            return of.source(since=t or 0)
        return of.source(until=t, history=self.operation == "history")


def database_input(form: Any, main: str) -> DatabaseInput | None:
    """Return the database that an input stands for, or None if it is data."""
    if form == Symbol("$"):
        return DatabaseInput(main)
    if not isinstance(form, EdnList) or str(form[0]) not in ("as-of", "since", "history", "db"):
        return None
    words = list(form)
    if str(words[0]) == "db":
        main = str(words[1])
        words = words[2:]
    operation = str(words[0]) if words else None
    return DatabaseInput(main, operation, words[1] if len(words) > 1 else None)
