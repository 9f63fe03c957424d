"""Which calls share a compiled query, and when a query is planned again."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from dbsp.datomic import Connection, connect, explain, q
from dbsp.datomic.compiled_query import CompiledQuery, QueryCache, query_cache
from dbsp.datomic.query import BoundQuery, bind_query
from dbsp.datomic.shared_values import SHARED_INTERNER
from dbsp.errors import CompileError, DbspError, InputError

SCHEMA: dict[str, Any] = {":value": {}, ":name": {}, ":next": {":db/valueType": ":db.type/ref"}}
LONG = "[:find ?e :in $ ?x :where [?e :value ?x]]"


@pytest.fixture
def conn() -> Connection:
    conn = connect(schema=SCHEMA)
    conn.transact(
        [
            {":db/id": 1, ":value": 1},
            {":db/id": 2, ":value": 1.0},
            {":db/id": 3, ":value": True},
            {":db/id": 4, ":value": "1", ":name": "Ada"},
        ]
    )
    return conn


def bound(cache: QueryCache, query: Any, *arguments: Any, **functions: Any) -> BoundQuery:
    return bind_query(query, arguments, functions, cache)


def shared(cache: QueryCache, query: Any, first: list[Any], second: list[Any]) -> bool:
    return bound(cache, query, *first).compiled is bound(cache, query, *second).compiled


# --- what is remembered ---------------------------------------------------------------------------


def test_a_query_is_compiled_for_the_kinds_of_its_arguments(conn: Connection) -> None:
    cache, db = QueryCache(SHARED_INTERNER), conn.db()
    assert shared(cache, LONG, [db, 1], [db, 2])
    assert not shared(cache, LONG, [db, 1], [db, 1.0])
    assert not shared(cache, LONG, [db, 1], [db, "1"])
    assert not shared(cache, LONG, [db, 1], [db, True])
    many = "[:find ?e :in $ [?x ...] :where [?e :value ?x]]"
    assert shared(cache, many, [db, [1]], [db, [2, 3]])
    assert not shared(cache, many, [db, [1]], [db, [1, "1"]])
    assert not shared(cache, many, [db, [1]], [db, []])
    tuples = "[:find ?e :in $ $2 :where [?e :value ?x] [$2 ?x]]"
    assert shared(cache, tuples, [db, [[1]]], [db, [[2], [3]]])
    assert not shared(cache, tuples, [db, [[1]]], [db, [["1"]]])


@pytest.mark.parametrize(("value", "entity"), [(1, 1), (1.0, 2), (True, 3), ("1", 4)])
@pytest.mark.parametrize("query", [LONG, "[:find ?e :in $ [?x ...] :where [?e :value ?x]]"])
def test_every_kind_gets_its_own_rows(conn: Connection, query: str, value: Any, entity: int) -> None:
    given = [value] if "..." in query else value
    for _ in range(2):
        assert q(query, conn.db(), given) == [(entity,)]


def test_a_query_is_compiled_for_a_schema(conn: Connection) -> None:
    cache = QueryCache(SHARED_INTERNER)
    past = conn.db()
    conn.transact([[":db/add", 1, ":value", 5]])
    assert shared(cache, LONG, [past, 1], [conn.db(), 1])
    assert not shared(cache, LONG, [past, 1], [conn.db().history(), 1])
    conn.transact([{":db/ident": ":more", ":db/valueType": ":db.type/long"}])
    assert not shared(cache, LONG, [past, 1], [conn.db(), 1])
    other = connect(schema={":value": {":db/valueType": ":db.type/long"}})
    assert not shared(cache, LONG, [past, 1], [other.db(), 1])
    assert not shared(cache, LONG, [past, 1], [[(1, ":value", 1)], 1])


def test_a_query_is_compiled_for_its_functions(conn: Connection) -> None:
    query = "[:find [?y ...] :in $ :where [_ :name ?x] [(my/f ?x) ?y]]"
    cache, db = QueryCache(SHARED_INTERNER), conn.db()

    def lower(text: str) -> str:
        return text.lower()

    def upper(text: str) -> str:
        return text.upper()

    first = bind_query(query, [db], {"my/f": lower}, cache)
    assert first.compiled is bind_query(query, [db], {"my/f": lower}, cache).compiled
    second = bind_query(query, [db], {"my/f": upper}, cache)
    assert (first.rows(), second.rows()) == ([("ada",)], [("ADA",)])
    variable = "[:find [?y ...] :in $ ?f :where [_ :name ?x] [(?f ?x) ?y]]"
    assert not shared(cache, variable, [db, lower], [db, upper])
    assert [q(variable, db, f) for f in (lower, upper, lower)] == [["ada"], ["ADA"], ["ada"]]


def test_a_query_is_compiled_for_arguments_of_aggregates(conn: Connection) -> None:
    query = "[:find (min ?n ?e) . :in $ ?n :where [?e :value]]"
    cache, db = QueryCache(SHARED_INTERNER), conn.db()
    assert not shared(cache, query, [db, 1], [db, 2])
    assert [q(query, db, n) for n in (1, 2, 1)] == [(1,), (1, 2), (1,)]


RULES = [
    "[[(r ?x) [?x :value 1]]]",
    "[[(r ?x) [?x :value 1.0]]]",
    "[[(r ?x) [?x :value true]]]",
    '[[(r ?x) [?x :value "1"]]]',
]


def test_rules_with_equal_constants_of_other_kinds_differ(conn: Connection) -> None:
    query = "[:find [?e ...] :in $ % :where (r ?e)]"
    assert [q(query, conn.db(), rules) for rules in RULES] == [[1], [2], [3], [4]]
    python = [[[["r", "?x"], ["?x", ":value", value]]] for value in (1, 1.0, True, "1")]
    assert [q(query, conn.db(), rules) for rules in python] == [[1], [2], [3], [4]]
    cache = QueryCache(SHARED_INTERNER)
    assert shared(cache, query, [conn.db(), RULES[0]], [conn.db(), str(RULES[0])])
    assert shared(cache, query, [conn.db(), python[0]], [conn.db(), [*python[0]]])


def test_python_queries_with_equal_constants_of_other_kinds_differ(conn: Connection) -> None:
    for value, entity in [(1, 1), (1.0, 2), (True, 3), ("1", 4)]:
        query = {":find": [["?e", "..."]], ":where": [["?e", ":value", value]]}
        assert q(query, conn.db()) == [entity]


def test_a_text_and_a_keyword_in_python_rules_differ() -> None:
    conn = connect(schema={":colour": {":db/valueType": ":db.type/keyword"}, ":text": {}})
    conn.transact([{":db/id": 1, ":colour": ":red"}, {":db/id": 2, ":text": ":red"}])
    query = "[:find [?e ...] :in $ % :where (r ?e)]"
    python = [[["r", "?x"], ["?x", ":colour", ":red"]]]
    assert q(query, conn.db(), python) == [1]
    assert q(query, conn.db(), '[[(r ?x) [?x :colour ":red"]]]') == []
    assert q(query, conn.db(), python) == [1]


def test_the_queries_used_last_are_remembered(conn: Connection) -> None:
    cache, db = QueryCache(SHARED_INTERNER), conn.db()
    with mock.patch("dbsp.datomic.compiled_query._REMEMBERED", 3):
        texts = [f"[:find ?e :where [?e :value {n}]]" for n in range(4)]
        first, second, _ = (bound(cache, text, db).compiled for text in texts[:3])
        assert bound(cache, texts[0], db).compiled is first
        bound(cache, texts[3], db)
        assert bound(cache, texts[0], db).compiled is first
        assert bound(cache, texts[1], db).compiled is not second


def test_a_wrong_query_is_not_remembered(conn: Connection) -> None:
    cache = QueryCache(SHARED_INTERNER)
    for _ in range(2):
        with pytest.raises(CompileError, match=r"\?y is not bound"):
            bound(cache, "[:find ?x :where [?x :value] [(< ?y 1)]]", conn.db())
    assert query_cache() is query_cache()


# --- collections of tuples ------------------------------------------------------------------------


def test_a_source_may_be_an_iterator_of_tuples_of_several_kinds(conn: Connection) -> None:
    query = "[:find ?e ?y :in $ $2 :where [?e :value ?x] [$2 ?x ?y]]"
    given = iter([("1", "text"), [1, "long"], (1.0, "double")])
    assert sorted(q(query, conn.db(), given)) == [(1, "long"), (2, "double"), (4, "text")]


@pytest.mark.parametrize("given", ["text", 3, None, {1: 2}])
def test_a_source_that_is_no_collection_is_refused(given: Any) -> None:
    with pytest.raises((InputError, CompileError), match="expected a database or a collection of tuples"):
        q("[:find ?x :in $ :where [$ ?x]]", given)


@pytest.mark.parametrize("given", [[1], [(1,), None], [{1}], [{1: 2}]])
def test_an_item_of_a_source_that_is_no_tuple_is_refused(given: Any) -> None:
    with pytest.raises(InputError, match="expected a collection of tuples for the source \\$") as caught:
        q("[:find ?x :in $ :where [$ ?x]]", given)
    assert caught.value.code == "invalid-argument"


MAIL = {":mail": {":db/valueType": ":db.type/string", ":db/unique": ":db.unique/identity"}}


@pytest.mark.parametrize(
    ("query", "value", "message"),
    [
        (
            "[:find ?p :in $ <?p> :where [?p :mail]]",
            (":mail", 5),
            "the value of ?p: attribute :mail expects a string, got the long 5 [wrong-type]",
        ),
        (
            "[:find ?p :in $ <[?p ...]> :where [?p :mail]]",
            [1, (":mial", "a")],
            "the value of ?p: unknown attribute :mial; did you mean :mail? [unknown-attribute]",
        ),
        (
            "[:find ?p :in $ <[[?x ?p]]> :where [?p :mail]]",
            [(1, 2**64)],
            "the value of ?p: expected an int from -2**63 to 2**63 - 1, got 18446744073709551616 "
            "[value-out-of-range]",
        ),
        (
            "[:find ?x :in $ <?x>]",
            bytearray(b"x"),
            "the value of ?x: bytearray(b'x') of type bytearray cannot be a value: it is not "
            "hashable [unsupported-value]",
        ),
        (
            "[:find ?x :in $ <$c> :where [$c ?x]]",
            [1],
            "expected a collection of tuples for the source $c, got the item 1; write each item as a tuple "
            "or a list [invalid-argument]",
        ),
        (
            "[:find ?x :in $ <$c> :where [$c ?x]]",
            [(bytearray(b"x"),)],
            "an item of a tuple of $c: bytearray(b'x') of type bytearray cannot be a value: it is not "
            "hashable [unsupported-value]",
        ),
    ],
)
def test_errors_of_inputs_show_the_input(query: str, value: Any, message: str) -> None:
    """The input in angle brackets is marked with carets."""
    start, end = query.index("<"), query.index(">") - 1
    query = query.replace("<", "").replace(">", "")
    conn = connect(schema=MAIL)
    for ask in (conn.db().q, conn.subscribe):
        with pytest.raises(DbspError) as caught:
            ask(query, value)
        assert str(caught.value).split("\n") == [
            f"query:1:{start + 1}: error: {message}",
            f"    {query}",
            " " * (4 + start) + "^" * (end - start),
        ]


# --- plans ----------------------------------------------------------------------------------------

MANY = {":next": {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"}}
TRIANGLE = "[:find (count ?a) . :where [?a :next ?b] [?b :next ?c] [?c :next ?a]]"


def planned(compiled: CompiledQuery, calls: int, answer: Any) -> list[int]:
    """Return the numbers of the calls that start a new run."""
    found = []
    for number in range(1, calls + 1):
        run = compiled._run
        answer()
        if compiled._run is not run:
            found.append(number)
    return found


def test_a_query_is_planned_again_when_the_facts_have_grown() -> None:
    conn = connect(
        schema={":next": {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"}}
    )
    conn.transact([[":db/add", n, ":next", n % 3 + 1] for n in range(1, 4)])
    cache = QueryCache(SHARED_INTERNER)

    def answer() -> Any:
        return bound(cache, TRIANGLE, conn.db()).rows()

    compiled = bound(cache, TRIANGLE, conn.db()).compiled
    assert planned(compiled, 8, answer) == [1]
    assert answer() == [(3,)]
    conn.transact([[":db/add", n, ":next", n + 1] for n in range(10, 1500)])
    # Call 10 does not count; the next look at the counts is at call 16.
    assert planned(compiled, 7, answer) == [7]
    assert answer() == [(3,)]
    assert planned(compiled, 20, answer) == []


def test_the_counts_decide_how_a_cycle_is_joined() -> None:
    sparse, dense = connect(schema=MANY), connect(schema=MANY)
    sparse.transact([[":db/add", n, ":next", n % 2000 + 1] for n in range(1, 2001)])
    dense.transact([[":db/add", n, ":next", m] for n in range(1, 60) for m in range(1, 60)])
    assert "two-way joins, as requested" in explain(TRIANGLE, sparse.db())
    assert "a multi-way join, as requested" in explain(TRIANGLE, dense.db())
    assert (q(TRIANGLE, sparse.db()), q(TRIANGLE, dense.db())) == (None, 59)


def test_an_interrupted_plan_is_made_by_the_next_call(conn: Connection) -> None:
    cache = QueryCache(SHARED_INTERNER)
    one = bound(cache, "[:find [?e ...] :where [?e :name]]", conn.db())
    for _ in range(2):
        with (
            mock.patch.object(CompiledQuery, "_plan", side_effect=KeyboardInterrupt),
            pytest.raises(KeyboardInterrupt),
        ):
            one.rows()
    assert one.rows() == [(4,)]
    assert one.rows() == [(4,)]
