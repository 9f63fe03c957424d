"""Pull expressions of queries: one-shot, and live while the pulled facts change."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp.datomic import connect, q
from dbsp.datomic.pull import pull
from dbsp.edn.edn_values import Keyword
from dbsp.errors import CompileError, InputError
from tests.profiles import examples

from .listed_facts import ListedFacts
from .test_entity_access import connected
from .test_random_pulls import ATTRIBUTES, Fact, graphs, patterns, written

QUERY = "[:find ?e (pull ?e pattern) :in $ pattern :where [?e :links _]]"
NAME = Keyword("name")


def frozen(value: Any) -> Any:
    """A hashable form of a result; the order of the keys of a dict does not matter."""
    if isinstance(value, dict):
        return frozenset((key, frozen(each)) for key, each in value.items())
    return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value


def counted(rows: Iterable[Any]) -> Counter[Any]:
    return Counter(map(frozen, rows))


@settings(max_examples=examples(25))
@given(st.lists(graphs(), min_size=2, max_size=4), patterns)
def test_live_pulls_follow_the_facts(steps: list[list[Fact]], pattern: list[Any]) -> None:
    conn, data = connected(steps[0]), written(pattern)
    live = conn.subscribe(QUERY, data)
    total = counted(live.rows())
    for before, after in itertools.pairwise(steps):
        conn.transact([[":db/retract", *fact] for fact in before if fact not in after])
        conn.transact([[":db/add", *fact] for fact in after if fact not in before])
        for delta in live.deltas():
            for row, weight in delta.rows:
                total[frozen(row)] += weight
        facts = ListedFacts(ATTRIBUTES, after)
        entities = {entity for entity, name, _ in after if name == ":links"}
        expected = counted((entity, pull(facts, data, entity)) for entity in entities)
        assert counted(q(QUERY, conn.db(), data)) == expected
        assert counted(live.rows()) == expected
        assert +total == expected and min(total.values(), default=0) >= 0


def test_patterns_are_parts_of_queries() -> None:
    conn = connected([(1, ":name", "a"), (2, ":name", "b"), (1, ":links", 2), (1, ":tags", 3)])
    db = conn.db()
    assert q("[:find (pull ?e [:name {:links [:name]}]) . :where [?e :tags 3]]", db) == {
        NAME: "a",
        Keyword("links"): [{NAME: "b"}],
    }
    text = "[:find [(pull ?e [[:name :xform shout :as :loud]]) ...] :where [?e :name]]"
    found = q(text, db, functions={"shout": str.upper})
    assert counted(found) == counted([{Keyword("loud"): "A"}, {Keyword("loud"): "B"}])
    data = [":find", ["pull", "?e", [":name", {":_links": [":db/id"]}]], ".", ":where", ["?e", ":name", "b"]]
    assert q(data, db) == {NAME: "b", Keyword("_links"): [{Keyword("db/id"): 1}]}


def test_pulls_read_their_own_database() -> None:
    first = connected([(1, ":name", "a")]).db()
    second = connected([(1, ":name", "b")]).db()
    text = "[:find (pull $2 ?e [:name]) . :in $ $2 :where [?e :name]]"
    assert q(text, first, second) == {NAME: "b"}


@pytest.mark.parametrize(
    "text, message",
    [
        ("[:find (pull ?e [:nme]) :where [?e :name]]", "query:1:18: error: unknown attribute :nme"),
        (
            "[:find (pull ?e [{:name []}]) :where [?e :name]]",
            "query:1:25: error: expected a part of a pattern",
        ),
        (
            [":find", ["pull", "?e", [{":name": ["*"]}]], ":where", ["?e", ":name"]],
            "query[1]:1:12: error: attribute :name has",
        ),
        ('[:find (pull ?e [:nme]) :where [?e :name "nobody"]]', "unknown attribute :nme"),
    ],
)
def test_a_wrong_pattern_is_an_error_of_the_query(text: Any, message: str) -> None:
    conn = connected([(1, ":name", "a")])
    for ask in (conn.db().q, conn.subscribe):
        with pytest.raises(CompileError, match=re.escape(message)):
            ask(text)


def test_only_a_database_at_one_time_can_be_pulled_from() -> None:
    db = connected([(1, ":name", "a")]).db()
    text = "[:find (pull $2 ?e [:name]) :in $ $2 :where [?e :name]]"
    with pytest.raises(InputError, match=r"query:1:8: expected a database to pull from as the source \$2"):
        q(text, db, [(1, 2)])
    with pytest.raises(InputError, match=r"expected a database at one time to pull from as the source \$2"):
        q(text, db, db.history())


@pytest.mark.parametrize("live", [False, True])
def test_inputs_that_are_pulled_are_entities(live: bool) -> None:
    conn = connect(schema={":name": {":db/unique": ":db.unique/value"}})
    conn.transact([{":db/id": 1, ":name": "a", ":db/ident": ":one"}, {":db/id": 2, ":name": "b"}])
    text = "[:find [(pull ?e [:db/id :name]) ...] :in $ [?e ...]]"
    names = [Keyword("one"), (":name", "b"), (":name", "c")]
    found = conn.subscribe(text, names).result() if live else q(text, conn.db(), names)
    one, two = ({Keyword("db/id"): at, NAME: name} for at, name in ((1, "a"), (2, "b")))
    assert counted(found) == counted([one, two])


def test_live_pulls_follow_lookup_refs_and_idents() -> None:
    conn = connect(schema={":name": {":db/unique": ":db.unique/value"}, ":kind": {}})
    conn.transact([{":db/id": 1, ":name": "a"}, {":db/id": 2, ":kind": Keyword("red")}])
    looked_up = conn.subscribe("[:find (pull ?e [:db/id]) . :in $ ?e]", (":name", "b"))
    named = conn.subscribe("[:find (pull ?k [:name]) . :where [_ :kind ?k]]")
    assert (looked_up.result(), named.result()) == (None, None)
    conn.transact([{":db/id": 1, ":name": "b", ":db/ident": ":red"}])
    assert (looked_up.result(), named.result()) == ({Keyword("db/id"): 1}, {NAME: "b"})


@pytest.mark.parametrize("value", ["a", 1.5, True, 2**70, ("a", "b", "c")])
def test_values_that_are_not_entities_cannot_be_pulled(value: Any) -> None:
    conn = connect(schema={":name": {}})
    conn.transact([{":name": value}])
    for ask in (conn.db().q, conn.subscribe):
        with pytest.raises(InputError, match=r"query:1:8: the value of \?n: expected the id of an entity"):
            ask("[:find (pull ?n [*]) :where [_ :name ?n]]")


def test_live_rows_have_the_order_of_an_answer() -> None:
    conn = connect(schema={":name": {}, ":age": {}})
    conn.transact([{":db/id": 1, ":name": "a", ":age": 1}, {":db/id": 2, ":name": "b", ":age": 1}])
    queries = (
        "[:find (pull ?e [:name]) ?e :where [?e :age]]",
        "[:find (pull ?e [:name]) ?age :where [?e :age ?age] :order-by ?age :desc :limit 2]",
        "[:find (pull ?e [:name]) . :where [?e :age]]",
    )
    lives = [conn.subscribe(query) for query in queries]
    for tx_data in ([{":db/id": 3, ":age": 1}], [[":db/add", 1, ":name", "z"]], [[":db/retract", 2, ":age"]]):
        conn.transact(tx_data)
        assert [live.result() for live in lives] == [conn.db().q(query) for query in queries]


def test_a_changed_schema_changes_pulled_values() -> None:
    conn = connect(schema={":name": {}, ":part": {":db/valueType": ":db.type/ref"}})
    conn.transact([{":db/id": 1, ":name": "a", ":part": 2}, {":db/id": 2, ":name": "b"}])
    live = conn.subscribe('[:find (pull ?e [:part]) . :where [?e :name "a"]]')
    assert live.result() == {Keyword("part"): {Keyword("db/id"): 2}}
    conn.transact([{":db/id": ":part", ":db/isComponent": True}])
    assert live.result() == {Keyword("part"): {Keyword("db/id"): 2, NAME: "b"}}
    assert len(live.deltas()) == 1


def test_values_that_python_takes_as_equal_are_different_rows() -> None:
    conn = connect(schema={":name": {}, ":many": {":db/cardinality": ":db.cardinality/many"}})
    conn.transact([[":db/add", 1, ":name", "a"], *([":db/add", 1, ":many", v] for v in (1, True, 1.0))])
    live = conn.subscribe("[:find ?x (pull ?e [:name]) :where [?e :many ?x]]")
    assert sorted(type(row[0]).__name__ for row in live.rows()) == ["bool", "float", "int"]
    conn.transact([[":db/retract", 1, ":many", True]])
    ((_, [((lost, _), weight)]),) = live.deltas()
    assert (lost is True, weight) == (True, -1)
    assert sorted(type(row[0]).__name__ for row in live.rows()) == ["float", "int"]


def test_a_pulled_value_that_changes_its_type_only() -> None:
    conn = connect(schema={":name": {}, ":any": {}})
    conn.transact([{":db/id": 1, ":name": "a", ":any": 1}])
    live = conn.subscribe("[:find ?e (pull ?e [:any]) :where [?e :name]]")
    conn.transact([[":db/add", 1, ":any", True]])
    ((_, rows),) = live.deltas()
    assert repr(rows) == "[((1, {:any: 1}), -1), ((1, {:any: True}), 1)]"
