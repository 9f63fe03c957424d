"""`Database.q`: a query over one database value."""

from __future__ import annotations

import re
import traceback
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import dbsp
from dbsp.compiler.why.proof import Proof
from dbsp.compiler.why.refusal import Refusal
from dbsp.datomic import Connection, connect, q, why
from dbsp.edn import Keyword, read
from dbsp.errors import CompileError, DbspError, InputError


@pytest.fixture
def conn() -> Connection:
    connection = connect(schema={":name": {}, ":age": {}})
    connection.transact(
        [{":db/id": 1, ":name": "Ada", ":age": 36}, {":db/id": 2, ":name": "Eva", ":age": 17}]
    )
    return connection


def test_the_database_is_the_source_of_the_query(conn: Connection) -> None:
    names = "[:find [?n ...] :where [_ :name ?n]]"
    assert conn.db().q(names) == q(names, conn.db()) == ["Ada", "Eva"]


def test_a_past_database_answers_as_it_was(conn: Connection) -> None:
    conn.transact([[":db/add", 2, ":age", 18]])
    age = "[:find ?a . :where [2 :age ?a]]"
    assert (conn.db().q(age), conn.db().as_of(conn.db().basis_t - 1).q(age)) == (18, 17)


@pytest.mark.parametrize("order", ["$ % ?least", "% $ ?least", "% ?least $"])
def test_the_inputs_are_those_of_in_without_the_source(conn: Connection, order: str) -> None:
    text = f"[:find [?n ...] :in {order} :where [?p :name ?n] [?p :age ?a] (enough ?a ?least)]"
    rules = "[[(enough [?a ?b]) [(>= ?a ?b)]]]"
    assert conn.db().q(text, rules, 18) == ["Ada"]


def test_python_functions_have_names(conn: Connection) -> None:
    text = "[:find [?u ...] :where [_ :name ?n] [(my/loud ?n) ?u]]"
    assert conn.db().q(text, functions={"my/loud": str.upper}) == ["ADA", "EVA"]


def test_a_query_without_the_source_is_refused(conn: Connection) -> None:
    with pytest.raises(InputError) as caught:
        conn.db().q("[:find ?x :in $other ?x :where [$other ?x]]", [[1]], 1)
    assert "db.q reads the source $, which :in does not have; add $ to :in" in caught.value.message
    assert caught.value.code == "unknown-source"
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.filename for frame in frames] == [__file__]


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("[[:age 36] :name ?x]", "1:19: error: lookup ref [:age 36]: the values of :age are not unique"),
        ("[?x :friend [:age 36]]", "1:30: error: lookup ref [:age 36]: the values of :age are not unique"),
        ("[[:name] :age ?x]", "1:19: error: expected a lookup ref [:unique-attribute value], got [:name]"),
        ('[[:name "Ada" 1] :age ?x]', 'expected a lookup ref [:unique-attribute value], got [:name "Ada" 1]'),
        ("[[] :age ?x]", "expected a lookup ref [:unique-attribute value], got []"),
        (
            "[?x :age] [(missing? $ [:name] :age)]",
            "expected a lookup ref [:unique-attribute value], got [:name]",
        ),
    ],
)
def test_wrong_lookup_refs_are_refused(clause: str, message: str) -> None:
    schema = {
        ":name": {":db/unique": ":db.unique/value"},
        ":age": {},
        ":friend": {":db/valueType": ":db.type/ref"},
    }
    conn = connect(schema=schema)
    conn.transact([{":db/id": 1, ":name": "Ada", ":age": 36, ":friend": 1}])
    for ask in (conn.db().q, conn.subscribe):
        with pytest.raises(CompileError) as caught:
            ask(f"[:find ?x :where {clause}]")
        assert message in str(caught.value)
        assert caught.value.diagnostics[0].code == "unknown-entity"


REFS: dict[str, Any] = {
    ":name": {},
    ":mail": {":db/unique": ":db.unique/value", ":db/valueType": ":db.type/string"},
    ":boss": {":db/unique": ":db.unique/value", ":db/valueType": ":db.type/ref"},
    ":size": {":db/unique": ":db.unique/value", ":db/valueType": ":db.type/double"},
    ":born": {":db/unique": ":db.unique/value", ":db/valueType": ":db.type/instant"},
}


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        ("[:mail 5]", "attribute :mail expects a string, got the long 5 [wrong-type]"),
        ("[:boss [:mail 5]]", "attribute :mail expects a string, got the long 5 [wrong-type]"),
        ("[:mail :ada]", "attribute :mail expects a string, got the keyword :ada [wrong-type]"),
        ('[:size "1"]', 'attribute :size expects a double, got the string "1" [wrong-type]'),
        (
            "[:size 9007199254740993]",
            "attribute :size: the long 9007199254740993 is not exactly a double [value-out-of-range]",
        ),
    ],
)
def test_values_of_lookup_refs_have_the_type_of_the_attribute(ref: str, message: str) -> None:
    conn = connect(schema=REFS)
    with pytest.raises(DbspError) as caught:
        conn.db().q("[:find ?x :in $ ?p :where [?p :name ?x]]", read(ref))
    assert str(caught.value).startswith(f"query:1:17: error: the value of ?p: {message}")
    for clause in (
        f"[{ref} :name ?x]",
        f"[?x :boss {ref}]",
        f"[(get-else $ {ref} :name 1) ?x]",
        f"(named {ref} ?x)",
    ):
        query = f"[:find ?x :where {clause} :rules [(named ?p ?n) [?p :name ?n]]]"
        for ask in (conn.db().q, conn.subscribe):
            with pytest.raises(CompileError) as found:
                ask(query)
            assert str(found.value).startswith(f"query:1:{query.index(ref) + 1}: error: {message}")


def test_values_of_lookup_refs_are_found_as_they_are_stored() -> None:
    conn = connect(schema=REFS)
    conn.transact([{":db/id": 1, ":name": "Ada", ":size": 5.0, ":born": datetime(2020, 1, 1, tzinfo=UTC)}])
    for ref in ([":size", 5], (":born", datetime(2020, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))))):
        query = [":find", "?x", ".", ":where", [ref, ":name", "?x"]]
        assert conn.db().q(query) == conn.subscribe(query).result() == "Ada"
        assert conn.db().q("[:find ?x . :in $ ?p :where [?p :name ?x]]", ref) == "Ada"
        assert isinstance(why(query, conn.db(), row=("Ada",)), Proof)


MAILS = {":mail": {":db/unique": ":db.unique/value"}, ":name": {}}


@pytest.mark.parametrize(
    ("query", "with_one", "with_both"),
    [
        ("[:find ?n :in $ ?a [?b ...] :where [?a :name ?n]]", [], [("Bo",)]),
        ("[:find ?b :in $ ?a [?b ...] :where (not [?b :age])]", [(1,)], [(1,), (2,)]),
        ("[:find ?a :in $ ?a [?b ...] :where (not [?a :age])]", [], [(2,)]),
        ("[:find ?n :in $ ?a [?b ...] :where [_ :name ?n] (not [?a :age])]", [], [("Ada",), ("Bo",)]),
        ("[:find ?b :in $ ?a [?b ...] :where (or [?b :name] (not [?b :age]))]", [(1,)], [(1,), (2,)]),
        ("[:find (count ?b) :in $ ?a [?b ...] :where (not [?b :age])]", [(1,)], [(2,)]),
        ("[:find ?b ?x :in $ ?a [?b ...] :where [(get-else $ ?b :age 3) ?x]]", [(1, 3)], [(1, 3), (2, 3)]),
        ("[:find ?b :in $ ?a [?b ...] :where [(missing? $ ?b :age)]]", [(1,)], [(1,), (2,)]),
        ("[:find ?x :in $ ?a [?b ...] :where [?b] [(str ?b) ?x]]", [("1",)], [("1",), ("2",)]),
        ("[:find ?b :in $ ?a [?b ...] :where [?b] [(< ?b 9)]]", [(1,)], [(1,), (2,)]),
        ("[:find ?n :in $ ?a [?b ...] :where [?b :name ?n] (not (old ?a))]", [], [("Ada",), ("Bo",)]),
        ("[:find ?b :in $ ?a [?b ...] :where [?b :name] (not (old ?b))]", [(1,)], [(1,), (2,)]),
    ],
)
def test_inputs_without_an_entity_match_nothing(
    query: str, with_one: list[Any], with_both: list[Any]
) -> None:
    conn = connect(schema={**MAILS, ":age": {}})
    conn.transact([{":db/id": 1, ":name": "Ada", ":mail": "ada"}, {":db/id": 2, ":name": "Bo"}])
    query = query[:-1] + " :rules [(old ?p) [?p :age]]]"
    inputs = (":mail", "bo"), [(":mail", "ada"), (":mail", "bo"), (":mail", "cy"), ":an/ident"]
    live = conn.subscribe(query, *inputs)
    assert conn.db().q(query, *inputs) == live.rows() == with_one
    assert isinstance(why(query, conn.db(), *inputs, row=(-1,) * len(with_both[0])), Refusal)
    conn.transact([[":db/add", 2, ":mail", "bo"]])
    assert conn.db().q(query, *inputs) == live.rows() == with_both
    for row in with_both:
        assert isinstance(why(query, conn.db(), *inputs, row=row), Proof)
    conn.transact([[":db/retract", 2, ":mail"]])
    assert live.rows() == with_one


@pytest.mark.parametrize("definitions", [1, 2])
def test_constants_of_calls_of_rules_are_found_like_those_of_patterns(definitions: int) -> None:
    rule = "[(named ?p ?n) [?p :name ?n]] " * definitions
    conn = connect(schema={**MAILS, ":age": {}})
    conn.transact([{":db/id": 1, ":name": "Ada", ":mail": "ada"}])
    for clauses, expected in (
        ('(named [:mail "ada"] ?n) [(identity [:mail "ada"]) ?x]', [("Ada", (Keyword("mail"), "ada"))]),
        ('[_ :name ?n] [(ground 1) ?x] (not (named [:mail "no"] ?n))', [("Ada", 1)]),
        ("[_ :name ?n] [(ground 1) ?x] (not (named 5.0 ?n))", [("Ada", 1)]),
    ):
        query = f"[:find ?n ?x :where {clauses} :rules {rule}]"
        assert conn.db().q(query) == conn.subscribe(query).rows() == expected
    with pytest.raises(CompileError, match="expected a lookup ref"):
        conn.db().q(f"[:find ?n :where (named [:mail] ?n) :rules {rule}]")


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("[(missing? $b ?e :age)]", "error: expected a database as the source $b"),
        ("[(get-else $b ?e :age 3) ?x]", "error: expected a database as the source $b"),
        ("[(get-some $b ?e :age) ?x]", "error: expected a database as the source $b"),
        (
            "($b young ?e)",
            "rules:1:25: error: expected a database as the source $, got the collection of tuples $b",
        ),
    ],
)
def test_functions_of_a_source_read_a_database(conn: Connection, clause: str, message: str) -> None:
    query, rules = f"[:find ?e :in $ $b % :where [?e :age] {clause}]", "[[(young ?e) [(missing? $ ?e :age)]]]"
    for ask in (conn.db().q, conn.subscribe):
        with pytest.raises(CompileError, match=re.escape(message)):
            ask(query, [(1, 2)], rules)


def test_the_package_offers_the_databases() -> None:
    assert dbsp.datomic.connect is connect
    assert "datomic" in dir(dbsp)
