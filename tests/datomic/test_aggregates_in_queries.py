"""Aggregates of Python functions in queries: their arguments, and their errors."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from dbsp.compiler.datomic.meaning.query_aggregates import AGGREGATES
from dbsp.datomic import Database, connect, q, why
from dbsp.errors import DbspError, EvaluationError


@pytest.fixture(scope="module")
def database() -> Database:
    conn = connect(":memory:", schema={":name": {}, ":age": {}})
    conn.transact([{":name": "Zoe", ":age": 7}])
    conn.transact([{":name": "Ada", ":age": 7.5}, {":name": "Max", ":age": 3}])
    return conn.db()


def test_a_function_gets_the_sorted_values(database: Database) -> None:
    query = "[:find (my/all ?n) . :where [_ :name ?n]]"
    assert q(query, database, functions={"my/all": tuple}) == ("Ada", "Max", "Zoe")
    query = "[:find (?f ?a) . :in $ ?f :where [_ :age ?a]]"
    assert q(query, database, tuple) == (3, 7, 7.5)


def test_arguments_come_before_the_values(database: Database) -> None:
    query = "[:find (my/top 2 ?n) . :where [_ :name ?n]]"
    functions = {"my/top": lambda number, names: tuple(names[-number:])}
    assert q(query, database, functions=functions) == ("Max", "Zoe")
    query = "[:find (aggregate ?f ?k ?n) . :in $ ?f ?k :where [_ :name ?n]]"
    assert q(query, database, functions["my/top"], 1) == ("Zoe",)


def test_the_mean_of_longs_is_exact() -> None:
    conn = connect(":memory:", schema={":a": {":db/valueType": ":db.type/long"}})
    query = "[:find ?side (avg ?a) :where [_ :a ?a] [(< ?a 0) ?side]]"
    live = conn.subscribe(query)
    facts = [-(2**63), 1 - 2**63, 2**63 - 1, 2**62, 2**53 + 1, 2**53 + 2, 3, 2**63 - 9]
    for remaining in (8, 6, 3, 1):
        for a in facts[remaining:]:
            conn.transact([[":db/retract", facts.index(a) + 1, ":a", a]])
        conn.transact([[":db/add", at, ":a", a] for at, a in enumerate(facts[:remaining], start=1)])
        sides: dict[bool, list[int]] = {}
        for a in facts[:remaining]:
            sides.setdefault(a < 0, []).append(a)
        expected = [(side, float(Fraction(sum(longs), len(longs)))) for side, longs in sorted(sides.items())]
        assert live.rows() == conn.db().q(query) == expected


def test_the_sum_of_doubles_follows_the_changes() -> None:
    conn = connect(":memory:", schema={":a": {":db/valueType": ":db.type/double"}, ":g": {}})
    query = "[:find ?g (sum ?a) :with ?e :where [?e :a ?a] [?e :g ?g]]"
    live = conn.subscribe(query)
    values = [0.1, 1e16, -1e16, 0.2, 5e-324, 1e308, 1e308, -1e308, math.inf, -math.inf, -0.0]
    for start, end in ((0, 4), (0, 7), (3, 8), (4, 9), (2, 10), (10, 11)):
        conn.transact([{":db/id": 100 + at, ":a": values[at], ":g": "x"} for at in range(start, end)])
        gone = [at for at in range(len(values)) if not start <= at < end]
        conn.transact([[":db/retract", 100 + at, ":a"] for at in gone])
        found = [total for _, total in live.rows()]
        assert repr(found) == repr([total for _, total in conn.db().q(query)])
        assert repr(found) == repr([AGGREGATES["sum"].evaluate(values[start:end])])


@pytest.mark.parametrize(
    ("element", "message"),
    [
        ("(sum ?n)", "sum: expected a number, got 'Ada' of type string [wrong-value-type]"),
        ("(min ?x)", "min: cannot compare 'Ada' of type string with 3 of type long [not-comparable]"),
        ("(max 2 ?x)", "max: cannot compare 'Ada' of type string with 3 of type long [not-comparable]"),
        (
            "(f ?x)",
            "function f raised ZeroDivisionError: division by zero for [3, 'Ada'] [user-function]",
        ),
    ],
)
def test_errors_of_aggregates_are_about_the_query(database: Database, element: str, message: str) -> None:
    query = f"[:find (count ?x) {element} :in $ [?x ...] :where [_ :name ?n]]"
    conn = connect(":memory:", schema={":name": {}})
    conn.transact([{":name": "Ada"}])

    def explain(text: str, values: list[Any], functions: dict[str, Any]) -> Any:
        return why(text, database, values, row=(..., ...), functions=functions)

    for ask in (database.q, conn.subscribe, explain):
        with pytest.raises(DbspError) as caught:
            ask(query, [3, "Ada"], functions={"f": lambda values: 1 / 0})
        assert str(caught.value).split("\n") == [
            f"query:1:19: error: {message}",
            f"    {query}",
            f"                      {'^' * len(element)}",
        ]


def test_the_error_of_a_sum_of_longs_marks_it() -> None:
    conn = connect(":memory:", schema={":age": {":db/valueType": ":db.type/long"}})
    conn.transact([{":age": 2**62}, {":age": 2**62 + 1}])
    query = "[:find (count ?a) (sum ?a) (avg ?a) :where [_ :age ?a]]"
    for ask in (conn.db().q, conn.subscribe):
        with pytest.raises(DbspError, match="the sum of a group is outside the 64-bit range") as caught:
            ask(query)
        assert str(caught.value).endswith("\n" + " " * 22 + "^" * len("(sum ?a)"))


def test_the_error_of_a_live_query_has_no_tick() -> None:
    conn = connect(":memory:", schema={":age": {":db/cardinality": ":db.cardinality/many"}})
    conn.transact([{":age": 3}])
    live = conn.subscribe("[:find ?a :where [_ :age ?a] [(< ?a 5)]]")
    conn.transact([{":age": "old"}])
    with pytest.raises(EvaluationError, match="cannot compare 'old' of type string with 5") as caught:
        live.rows()
    assert "tick" not in str(caught.value)
