"""Aggregates of Python functions in queries: their arguments, and their errors."""

from __future__ import annotations

import pytest

from dbsp.datomic import Database, connect, q
from dbsp.errors import UserFunctionError


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


def test_errors_of_aggregates_name_the_aggregate(database: Database) -> None:
    with pytest.raises(
        UserFunctionError, match="function sum raised EvaluationError: sum: expected a number"
    ):
        q("[:find (sum ?n) :where [_ :name ?n]]", database)
