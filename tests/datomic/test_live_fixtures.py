"""Every case of the fixtures as a live query; every delta has to be the exact change.

From the schema alone, with each transaction of the database; and while facts are retracted and
added again, one by one and in random chunks.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.profiles import examples

from .fixture_files import Case, transactions
from .live_cases import FILES, LONG, Twin, Watch, expected_rows, fail_with, live_in, subscription_inputs


@pytest.mark.parametrize("file", FILES)
def test_live_from_the_schema_alone(file: str) -> None:
    cases = live_in(file)
    schema, *later = transactions(cases[0].database)
    twin = Twin(schema)
    watches = watch_all(twin, cases)
    for transaction in later:
        step(twin, watches, transaction)
    fail_with(watches)


@pytest.mark.parametrize("file", FILES)
def test_live_while_facts_are_retracted_and_added_again(file: str) -> None:
    cases, random = live_in(file), Random(file)
    twin = Twin()
    for transaction in transactions(cases[0].database):
        twin.transact(transaction)
    watches = watch_all(twin, cases)
    facts = [fact for fact in twin.model.source().datoms if fact.e < 2**42]
    random.shuffle(facts)
    for fact in facts if LONG else facts[: examples(8)]:
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
