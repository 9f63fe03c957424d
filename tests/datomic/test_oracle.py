"""The reference evaluator gives the results that were written out by hand."""

from __future__ import annotations

import pytest

from dbsp.edn import read

from . import fixture_files
from .fixture_files import Case, database_input, model
from .oracle import RefusedError, answer
from .oracle.query import read_query
from .results import as_set, value_key

CASES = fixture_files.cases()


def oracle_inputs(case: Case) -> list[object]:
    found = []
    for form in case.inputs:
        database = database_input(form, case.database)
        found.append(form if database is None else database.source(model(database.database)))
    return found


@pytest.mark.parametrize("case", [c for c in CASES if c.expected is not None], ids=str)
def test_result_written_by_hand(case: Case) -> None:
    result = answer(case.query, *oracle_inputs(case))
    if read_query(read(case.query)).kind in ("tuple", "scalar"):
        assert value_key(result) == value_key(case.expected[0] if case.expected else None)
    else:
        assert as_set(result) == as_set(case.expected)


FOUND = {"unbound-variable", "or-variables", "unknown-rule", "unknown-source", "not-stratifiable"}
"""The errors that the evaluator has to find; it takes the syntax for granted."""


@pytest.mark.parametrize("case", [c for c in CASES if c.error in FOUND], ids=str)
def test_refused_query(case: Case) -> None:
    with pytest.raises(RefusedError):
        answer(case.query, *oracle_inputs(case))


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 400
    assert len({str(case) for case in CASES}) == len(CASES)


# --- the model of a database -------------------------------------------------------------------


def test_replay_of_a_replaced_and_of_a_retracted_value() -> None:
    people = model("people")
    age = [fact for fact in people.facts() if fact.e == 1 and repr(fact.a) == ":person/age"]
    assert [(fact.v, fact.tx % 2**42, fact.added) for fact in age] == [
        (36, 3, True),
        (36, 5, False),
        (37, 5, True),
    ]
    for t, ages in [(2, []), (3, [36]), (4, [36]), (5, [37]), (8, [37])]:
        assert people.source(until=t).values(1, age[0].a) == ages
    assert people.source(since=4).values(1, age[0].a) == [37]
    assert people.source(since=5).values(1, age[0].a) == []
    assert people.source(history=True).values(1, age[0].a) == [36, 36, 37]
