"""Queries with Python functions and in the form of Python data, one-shot and live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from dbsp.datomic import Connection, connect, q
from dbsp.edn import read

from .live_cases import Twin, bag
from .oracle import answer

SCHEMA = {":name": {":db/valueType": ":db.type/string"}, ":age": {":db/valueType": ":db.type/long"}}
PEOPLE = [("Ada", 36), ("Alan", 41), ("Grace", 85), ("Tony", 41)]


def people() -> list[dict[str, Any]]:
    return [{":db/id": number, ":name": name, ":age": age} for number, (name, age) in enumerate(PEOPLE, 1)]


@pytest.fixture
def conn() -> Connection:
    found = connect(schema=SCHEMA)
    found.transact(people())
    return found


def bounds(values: Sequence[int]) -> tuple[int, int]:
    return min(values), max(values)


CASES: list[tuple[str, list[Any], list[Any]]] = [
    (
        "[:find ?n :in $ ?old :where [?e :name ?n] [?e :age ?a] [(?old ?a)]]",
        [lambda age: age > 40],
        [("Alan",), ("Grace",), ("Tony",)],
    ),
    (
        "[:find ?n ?x :in $ ?f :where [?e :name ?n] [?e :age ?a] [(?f ?a 1) ?x]]",
        [lambda age, more: age * 10 + more],
        [("Ada", 361), ("Alan", 411), ("Grace", 851), ("Tony", 411)],
    ),
    (
        "[:find ?x :in $ ?f :where [_ :age ?a] [(?f ?a) ?x]]",
        [lambda age: age if age % 2 else None],  # nil binds nothing
        [(41,), (85,)],
    ),
    (
        "[:find ?n ?x :in $ ?f :where [_ :name ?n] [(?f ?n) [?x ...]]]",
        [lambda name: sorted(set(name) & set("aeo"))],
        [("Ada", "a"), ("Alan", "a"), ("Grace", "a"), ("Grace", "e"), ("Tony", "o")],
    ),
    (
        "[:find ?n ?f ?l :in $ ?split :where [_ :name ?n] [(?split ?n) [?f ?l]]]",
        [lambda name: (name[0], name[-1])],
        [("Ada", "A", "a"), ("Alan", "A", "n"), ("Grace", "G", "e"), ("Tony", "T", "y")],
    ),
    ("[:find (aggregate ?bounds ?a) :in $ ?bounds :where [_ :age ?a]]", [bounds], [((36, 85),)]),
]


@pytest.mark.parametrize(("query", "inputs", "expected"), CASES)
def test_functions_of_inputs(query: str, inputs: list[Any], expected: list[Any]) -> None:
    one = {":db/cardinality": ":db.cardinality/one"}
    twin = Twin([{":db/ident": name, **one, **about} for name, about in SCHEMA.items()])
    live = twin.conn.subscribe(query, *inputs)
    for person in people():
        twin.transact([person])
    assert bag(q(query, twin.conn.db(), *inputs)) == bag(expected)
    assert bag(answer(query, twin.model.source(), *inputs)) == bag(expected)
    assert bag(live.rows()) == bag(expected)
    twin.transact([[":db/retractEntity", 3]])
    assert bag(live.rows()) == bag(answer(query, twin.model.source(), *inputs))


def test_functions_and_aggregates_with_names(conn: Connection) -> None:
    functions = {"my/shout": str.upper, "my/bounds": bounds, "my/old": lambda age: age > 80}
    rules = "[[(old ?n) [?e :name ?n] [?e :age ?a] [(my/old ?a)]]]"
    query = "[:find ?x :in $ % :where (old ?n) [(my/shout ?n) ?x]]"
    assert q(query, conn.db(), rules, functions=functions) == [("GRACE",)]
    assert q("[:find (my/bounds ?a) . :where [_ :age ?a]]", conn.db(), functions=functions) == (36, 85)


@pytest.mark.parametrize(
    ("python", "text"),
    [
        ([":find", "?n", ":where", ["?e", ":name", "?n"]], "[:find ?n :where [?e :name ?n]]"),
        (
            {":find": ["?n"], ":where": [["?e", ":name", "?n"], ["?e", ":age", 41]]},
            "[:find ?n :where [?e :name ?n] [?e :age 41]]",
        ),
        (
            [":find", ["count", "?e"], ".", ":where", ["?e", ":age", "?a"], [[">", "?a", 40]]],
            "[:find (count ?e) . :where [?e :age ?a] [(> ?a 40)]]",
        ),
        (
            {
                ":find": [["?x", "..."]],
                ":where": [["_", ":age", "?a"], [["+", "?a", 1], "?x"], ["not", ["?e", ":age", "?x"]]],
            },
            "[:find [?x ...] :where [_ :age ?a] [(+ ?a 1) ?x] (not [_ :age ?x])]",
        ),
        (
            [
                *(":find", "?n", ":where", ["?e", ":name", "?n"]),
                ["or", ["?e", ":age", 36], ["?e", ":name", "Tony"]],
            ],
            '[:find ?n :where [?e :name ?n] (or [?e :age 36] [?e :name "Tony"])]',
        ),
    ],
)
def test_queries_as_python_data(python: Any, text: str, conn: Connection) -> None:
    assert q(python, conn.db()) == q(text, conn.db()) == q(read(text), conn.db())
