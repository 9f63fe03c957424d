"""Runs the cases of queries against a database and the model of it, transaction by transaction."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from dbsp.datomic import connect, q
from dbsp.datomic.connection import Connection
from dbsp.datomic.subscription import Subscription

from .fixture_files import Case, DatabaseInput, cases, database_input, transactions
from .oracle import Fact, Model, answer, rows
from .oracle.answer import parse
from .results import value_key

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
"""Whether to run every variant of a case, not a sample."""


class Twin:
    """A database in memory and the model of it, which records the reported datoms."""

    def __init__(self, schema: Any = ()) -> None:
        self.conn: Connection = connect(":memory:")
        self.model = Model(start=[Fact(*fact_of(datom)) for datom in self.conn.db().datoms(":eavt")])
        if schema:
            self.transact(schema)

    def transact(self, data: Any) -> list[Any]:
        report = self.conn.transact(data)
        self.model.record(map(fact_of, report.tx_data))
        return list(report.tx_data)


def fact_of(datom: Any) -> tuple[Any, ...]:
    return (datom.e, datom.a, datom.v, datom.tx, datom.added)


@cache
def finished(database: str) -> Twin:
    """Return a database after all its transactions; the callers only read it."""
    twin = Twin()
    for transaction in transactions(database):
        twin.transact(transaction)
    return twin


def engine_database(given: DatabaseInput, conn: Connection) -> Any:
    db = conn.db()
    match given.operation:
        case "as-of":
            return db.as_of(given.t)
        case "since":
            return db.since(given.t)
        case "history":
            return (db if given.t is None else db.as_of(given.t)).history()
    return db


def engine_inputs(case: Case, main: Connection | None = None) -> list[Any]:
    """Return the inputs of a case for `q`; `main` is its database, if it is not finished."""
    found = []
    for form in case.inputs:
        given = database_input(form, case.database)
        if given is None:
            found.append(form)
        elif given.database == case.database and main is not None:
            found.append(engine_database(given, main))
        else:
            found.append(engine_database(given, finished(given.database).conn))
    return found


def oracle_inputs(case: Case, main: Model, until: int | None = None) -> list[Any]:
    """Return the inputs of a case for the evaluator, with the main database as of `until`."""
    found = []
    for form in case.inputs:
        given = database_input(form, case.database)
        if given is None:
            found.append(form)
        elif given == DatabaseInput(case.database):
            found.append(main.source(until=until))
        else:
            found.append(given.source(finished(given.database).model))
    return found


def follows_main(case: Case) -> bool:
    """Whether the main database, as it is now, is the source `$` of a case."""
    places = [i for i, form in enumerate(case.inputs) if database_input(form, case.database) is not None]
    names = names_of_inputs(case)
    return any(
        names[i] == "$" and database_input(case.inputs[i], case.database) == DatabaseInput(case.database)
        for i in places
    )


def names_of_inputs(case: Case) -> list[str]:
    """Return the items of `:in` as text."""
    inputs = parse(case.query).inputs
    return ["$"] if inputs is None else [repr(form) for form in inputs]


def subscription_inputs(case: Case) -> list[Any]:
    """Return the inputs of a case without `$`, which a subscription follows."""
    names = names_of_inputs(case)
    inputs = engine_inputs(case)
    return [value for name, value in zip(names, inputs, strict=True) if name != "$"]


def expected_rows(case: Case, main: Model, until: int | None = None) -> Counter[Any]:
    return bag(rows(case.query, *oracle_inputs(case, main, until)))


def bag(values: Iterable[Any]) -> Counter[Any]:
    return Counter(map(value_key, values))


def shaped(case: Case, result: Any) -> Any:
    """Return a key of a result in the shape of its `:find`."""
    query = parse(case.query)
    if query.kind in ("tuple", "scalar"):
        return value_key(result)
    return bag(result)


def one_shot_problem(case: Case, twin: Twin, t: int) -> str | None:
    """Return how `q` as of a transaction disagrees with the evaluator, or None."""
    inputs = [
        twin.conn.db().as_of(t)
        if database_input(form, case.database) == DatabaseInput(case.database)
        else value
        for form, value in zip(case.inputs, engine_inputs(case), strict=True)
    ]
    expected = expected_rows(case, twin.model, t)
    single = parse(case.query).kind in ("tuple", "scalar")
    result = q(case.query, *inputs)
    if single and len(expected) > 1:  # one of the rows
        return None if result is not None else f"as of {t}: nothing, expected one of {list(expected)}"
    query = parse(case.query)
    if query.kind == "relation" and query.labels is None:
        agrees = bag(result) == expected
    else:
        agrees = shaped(case, result) == shaped(case, answer(case.query, *oracle_inputs(case, twin.model, t)))
    if agrees:
        return None
    return f"as of {t}: {result}, expected {list(expected)}"


# --- live queries ------------------------------------------------------------------------------


@dataclass
class Watch:
    """A live query, and its rows as its deltas have built them."""

    case: Case
    subscription: Subscription
    rows: Counter[Any] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = bag(self.subscription.rows())

    def update(self) -> None:
        """Apply the waiting deltas; each has to be an exact change of the rows."""
        for delta in self.subscription.deltas():
            for row, weight in delta.rows:
                key = value_key(row)
                self.rows[key] += weight
                if weight not in (1, -1) or self.rows[key] < 0:
                    self.problems.append(f"t {delta.t}: {row} has weight {weight}")
            self.rows = +self.rows

    def compare(self, expected: Counter[Any], when: str) -> None:
        if self.rows != expected:
            missing, extra = expected - self.rows, self.rows - expected
            self.problems.append(f"{when}: missing {list(missing)[:3]}, extra {list(extra)[:3]}")
        if bag(self.subscription.rows()) != self.rows:
            self.problems.append(f"{when}: rows() differs from the sum of the deltas")


def fail_with(watches: Iterable[Watch]) -> None:
    """Fail with the problems of all cases, if there are any."""
    found = [
        f"{watch.case}\n    {watch.case.query}\n    {p}" for watch in watches for p in watch.problems[:2]
    ]
    assert not found, f"{len(found)} problems\n" + "\n".join(found[:40])


CASES = cases()
LIVE = [case for case in CASES if case.error is None and follows_main(case)]
"""The cases whose source `$` is the whole database of the case."""
FILES = sorted({case.file for case in LIVE})


def live_in(file: str) -> list[Case]:
    return [case for case in LIVE if case.file == file]
