"""Pulls and entities of database values: now, in the past, and tried."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp.datomic import Connection, connect
from dbsp.edn.edn_values import Keyword
from dbsp.errors import ArgumentError, CompileError
from tests.profiles import examples

from .test_random_pulls import ATTRIBUTES, Fact, expected, graphs, patterns, written

NAME = Keyword("name")


def schema_of(attributes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        name: {
            ":db/valueType": f":db.type/{fields['value_type']}",
            ":db/cardinality": ":db.cardinality/many" if fields.get("many") else ":db.cardinality/one",
            ":db/isComponent": bool(fields.get("component")),
        }
        for name, fields in attributes.items()
    }


def connected(facts: list[Fact]) -> Connection:
    conn = connect(schema=schema_of(ATTRIBUTES))
    conn.transact([[":db/add", *fact] for fact in facts])
    return conn


@settings(max_examples=examples(25))
@given(graphs(), graphs(), patterns, st.integers(1, 5))
def test_pulls_of_databases(past: list[Fact], now: list[Fact], pattern: list[Any], entity: int) -> None:
    conn = connected(past)
    before = conn.db()
    changes = [[":db/retract", *fact] for fact in past if fact not in now]
    tried = before.with_(changes + [[":db/add", *fact] for fact in now if fact not in past])
    conn.transact(changes)
    conn.transact([[":db/add", *fact] for fact in now if fact not in past])
    data, after = written(pattern), conn.db()
    assert before.pull(data, entity) == expected(past, pattern, entity)
    assert after.pull(data, entity) == expected(now, pattern, entity)
    assert after.as_of(before.basis_t).pull(data, entity) == expected(past, pattern, entity)
    assert tried.db_after.pull(data, entity) == expected(now, pattern, entity)
    assert after.pull_many(data, [entity, 1]) == [after.pull(data, entity), after.pull(data, 1)]


def test_a_history_has_no_values_at_one_time() -> None:
    history = connected([(1, ":name", "a")]).db().history()
    for read in (
        lambda: history.pull("[*]", 1),
        lambda: history.pull_many("[*]", [1]),
        lambda: history.entity(1),
    ):
        with pytest.raises(
            ArgumentError, match=r"(pull|pull_many|entity): expected a database at one time, got"
        ):
            read()


@pytest.mark.parametrize("entities", [5, None, ":name"])
def test_many_pulls_need_a_collection_of_entities(entities: Any) -> None:
    with pytest.raises(ArgumentError, match="entities: expected a list of entities, got"):
        connected([(1, ":name", "a")]).db().pull_many("[*]", entities)


def test_entities_belong_to_a_database_value() -> None:
    conn = connected([(1, ":name", "a"), (2, ":next", 1)])
    first = conn.db().entity(1)
    again = conn.db().entity(1)
    conn.transact([[":db/add", 1, ":name", "b"]])
    later = conn.db().entity(1)
    assert first is not None and again is not None and later is not None
    assert first == again and first != later
    assert (first[":name"], later[":name"]) == ("a", "b")
    assert conn.db().entity(":no-such-ident") is None
    assert conn.db().entity(":name") is not None


def test_functions_are_arguments() -> None:
    db = connected([(1, ":name", "a")]).db()
    assert db.pull("[[:name :xform f]]", 1, functions={"f": lambda name: name * 2}) == {NAME: "aa"}
    assert db.pull_many("[[:name :xform f]]", [1], functions={"f": len}) == [{NAME: 1}]
    with pytest.raises(CompileError, match="unknown function f"):
        db.pull("[[:name :xform f]]", 1)


def test_a_pattern_follows_the_schema() -> None:
    conn = connected([(1, ":name", "a")])
    before = conn.db()
    with pytest.raises(CompileError, match="unknown attribute :color"):
        before.pull("[:color]", 1)
    conn.transact([{":db/ident": ":color"} | schema_of({":color": {"value_type": "string"}})[":color"]])
    conn.transact([[":db/add", 1, ":color", "red"]])
    assert conn.db().pull("[:color]", 1) == {Keyword("color"): "red"}
    with pytest.raises(CompileError, match="unknown attribute :color"):
        before.pull("[:color]", 1)


def test_pulled_values_can_be_pickled() -> None:
    found = connected([(1, ":name", "a"), (1, ":links", 2)]).db().pull("[*]", 1)
    assert pickle.loads(pickle.dumps(found)) == found
