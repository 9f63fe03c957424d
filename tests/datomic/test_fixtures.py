"""Every case of the fixtures in four ways, compared with the reference evaluator.

One-shot; live from the schema alone, with every delta checked; live while every fact is retracted
and added again; and from the past: as of every transaction, and live since one.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from dbsp.datomic import q
from dbsp.errors import DbspError

from . import fixture_files
from .fixture_files import Case, DatabaseInput, database_input, transactions
from .live_cases import (
    Twin,
    Watch,
    bag,
    engine_inputs,
    expected_rows,
    fail_with,
    finished,
    follows_main,
    oracle_inputs,
    subscription_inputs,
)
from .oracle import answer
from .oracle.answer import parse
from .results import value_key

CASES = list(fixture_files.cases())
ANSWERED = [case for case in CASES if case.error is None]
LIVE = [case for case in ANSWERED if follows_main(case)]
FILES = sorted({case.file for case in LIVE})


def in_file(file: str) -> list[Case]:
    return [case for case in LIVE if case.file == file]


def shaped(case: Case, result: Any) -> Any:
    """Return a key of a result in the shape of its `:find`."""
    query = parse(case.query)
    if query.kind in ("tuple", "scalar"):
        return value_key(result)
    return bag(result)


# --- one-shot ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ANSWERED, ids=str)
def test_one_shot(case: Case) -> None:
    twin = finished(case.database)
    assert one_shot_problem(case, twin, twin.model.t) is None
    result = q(case.query, *engine_inputs(case))
    if case.expected is not None:
        single = parse(case.query).kind in ("tuple", "scalar")
        written = (case.expected or [None])[0] if single else case.expected
        assert shaped(case, result) == shaped(case, written)


@pytest.mark.parametrize("case", [case for case in CASES if case.error is not None], ids=str)
def test_refused(case: Case) -> None:
    with pytest.raises(DbspError) as caught:
        q(case.query, *engine_inputs(case))
    for part in [f"[{case.error}]", *case.parts]:
        assert part in str(caught.value)


# --- live --------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", FILES)
def test_live_from_the_schema_alone(file: str) -> None:
    live_from_the_schema_alone(in_file(file))


def live_from_the_schema_alone(cases: list[Case]) -> None:
    schema, *later = transactions(cases[0].database)
    twin = Twin(schema)
    watches = watch_all(twin, cases)
    for transaction in later:
        step(twin, watches, transaction)
    fail_with(watches)


@pytest.mark.parametrize("file", FILES)
def test_live_while_facts_are_retracted_and_added_again(file: str) -> None:
    live_while_facts_are_retracted_and_added_again(in_file(file))


def live_while_facts_are_retracted_and_added_again(cases: list[Case]) -> None:
    random = Random(cases[0].file)
    twin = Twin()
    for transaction in transactions(cases[0].database):
        twin.transact(transaction)
    watches = watch_all(twin, cases)
    facts = [fact for fact in twin.model.source().datoms if fact.e < 2**42]
    random.shuffle(facts)
    for fact in facts[:8]:
        step(twin, watches, [(":db/retract", *fact[:3])], compare=False)
        step(twin, watches, [(":db/add", *fact[:3])], compare=False)
    while facts:
        count = random.randint(1, len(facts))
        chunk, facts = facts[:count], facts[count:]
        step(twin, watches, [(":db/retract", *fact[:3]) for fact in chunk])
        step(twin, watches, [(":db/add", *fact[:3]) for fact in chunk])
    fail_with(watches)


def watch_all(twin: Twin, cases: list[Case]) -> list[Watch]:
    watches = []
    for case in cases:
        watch = Watch(case, twin.conn.subscribe(case.query, *subscription_inputs(case)))
        watch.compare(expected_rows(case, twin.model), "at first")
        watches.append(watch)
    return watches


def step(twin: Twin, watches: list[Watch], data: Any, *, compare: bool = True) -> None:
    twin.transact(data)
    for watch in watches:
        watch.update()
        if compare:
            watch.compare(expected_rows(watch.case, twin.model), f"t {twin.model.t}")


# --- the past ----------------------------------------------------------------------------------


@pytest.mark.parametrize("file", FILES)
def test_as_of_every_transaction(file: str) -> None:
    problems = []
    for case in in_file(file):
        twin = finished(case.database)
        for t in range(1, twin.model.t + 1):
            if (problem := one_shot_problem(case, twin, t)) is not None:
                problems.append(f"{case}\n    {case.query}\n    {problem}")
    assert not problems, "\n".join(problems[:40])


def one_shot_problem(case: Case, twin: Twin, t: int) -> str | None:
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
    if shaped(case, result) == shaped(case, answer(case.query, *oracle_inputs(case, twin.model, t))):
        return None
    return f"as of {t}: {result}, expected {list(expected)}"


@pytest.mark.parametrize("file", FILES)
def test_live_since_a_transaction(file: str) -> None:
    live_since_a_transaction(in_file(file))


def live_since_a_transaction(cases: list[Case]) -> None:
    watches = []
    for case in cases:
        twin = finished(case.database)
        last = twin.model.t
        start = Random(case.title).randint(1, last)
        subscription = twin.conn.subscribe(case.query, *subscription_inputs(case), since=start)
        watch = Watch(case, subscription)
        watches.append(watch)
        changes = {delta.t: delta.rows for delta in subscription.deltas()}
        after = expected_rows(case, twin.model, start)
        for t in range(start + 1, last + 1):
            before, after = after, expected_rows(case, twin.model, t)
            rows = changes.pop(t, [])
            gained = bag(row for row, weight in rows if weight == 1)
            lost = bag(row for row, weight in rows if weight == -1)
            if (gained, lost) != (after - before, before - after):
                watch.problems.append(
                    f"since {start}, t {t}: {rows}, expected {after - before, before - after}"
                )
        if changes:
            watch.problems.append(f"since {start}: changes at {sorted(changes)}")
        watch.compare(after, f"since {start}")
        subscription.close()
    fail_with(watches)
