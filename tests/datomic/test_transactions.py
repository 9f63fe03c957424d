"""The forms of transactions, one test per rule."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pytest

from dbsp.datomic.datom import Datom
from dbsp.datomic.entity_ranges import TX0
from dbsp.edn import Keyword, Symbol, Tagged
from dbsp.errors import DbspError

from .set_facts import NOW, SetFacts

SCHEMA = """[
 {:db/ident :person/name    :db/valueType :db.type/string}
 {:db/ident :person/email   :db/valueType :db.type/string  :db/unique :db.unique/identity}
 {:db/ident :person/ssn     :db/valueType :db.type/long    :db/unique :db.unique/value}
 {:db/ident :person/age     :db/valueType :db.type/long}
 {:db/ident :person/aliases :db/valueType :db.type/string  :db/cardinality :db.cardinality/many}
 {:db/ident :person/friend  :db/valueType :db.type/ref     :db/cardinality :db.cardinality/many}
 {:db/ident :person/boss    :db/valueType :db.type/ref}
 {:db/ident :person/address :db/valueType :db.type/ref     :db/isComponent true}
 {:db/ident :person/color   :db/valueType :db.type/ref}
 {:db/ident :address/city   :db/valueType :db.type/string}
 {:db/ident :address/rooms  :db/valueType :db.type/ref     :db/isComponent true
  :db/cardinality :db.cardinality/many}
 {:db/ident :room/name      :db/valueType :db.type/string}
 {:db/ident :account/owner  :db/valueType :db.type/ref     :db/unique :db.unique/identity}
 {:db/ident :account/name   :db/valueType :db.type/string}]"""


@pytest.fixture
def db() -> SetFacts:
    facts = SetFacts()
    facts.transact(SCHEMA)
    return facts


def added(db: SetFacts, tx_data: Any) -> list[tuple[Any, ...]]:
    return [row[:3] for row in db.shown(db.transact(tx_data)) if row[3]]


def removed(db: SetFacts, tx_data: Any) -> list[tuple[Any, ...]]:
    return [row[:3] for row in db.shown(db.transact(tx_data)) if not row[3]]


# --- operations -----------------------------------------------------------------------------------


def test_an_addition_replaces_a_value_of_cardinality_one(db: SetFacts) -> None:
    db.transact([[":db/add", 1, ":person/age", 36]])
    prepared = db.transact([[":db/add", 1, ":person/age", 37]])
    assert db.shown(prepared) == [(1, ":person/age", 36, False), (1, ":person/age", 37, True)]


def test_a_replaced_value_may_be_retracted_too(db: SetFacts) -> None:
    db.transact([[":db/add", 1, ":person/age", 36], [":db/add", 2, ":person/age", 20]])
    prepared = db.transact(
        [
            [":db/retract", 1, ":person/age", 36],
            [":db/add", 1, ":person/age", 37],
            [":db/retract", 2, ":person/age"],
        ]
    )
    assert db.shown(prepared) == [
        (1, ":person/age", 36, False),
        (1, ":person/age", 37, True),
        (2, ":person/age", 20, False),
    ]


def test_an_addition_joins_the_values_of_cardinality_many(db: SetFacts) -> None:
    db.transact([[":db/add", 1, ":person/aliases", "a"]])
    assert added(db, [[":db/add", 1, ":person/aliases", "b"]]) == [(1, ":person/aliases", "b")]
    assert db.value(1, ":person/aliases") == ["a", "b"]


def test_known_and_unknown_facts_change_nothing(db: SetFacts) -> None:
    db.transact([[":db/add", 1, ":person/age", 36]])
    prepared = db.transact(
        [
            [":db/add", 1, ":person/age", 36],
            [":db/retract", 1, ":person/name", "Ada"],
            [":db/retract", 9, ":person/name"],
            [":db/retractEntity", 9],
        ]
    )
    assert db.shown(prepared) == []
    assert prepared.datoms[:, 0].tolist() == [prepared.tx]


def test_equal_operations_are_one(db: SetFacts) -> None:
    assert added(db, [[":db/add", 1, ":person/age", 36]] * 3) == [(1, ":person/age", 36)]


def test_retractions(db: SetFacts) -> None:
    db.transact([{":db/id": 1, ":person/aliases": ["a", "b", "c"], ":person/age": 36}])
    assert removed(db, [[":db/retract", 1, ":person/aliases", "b"]]) == [(1, ":person/aliases", "b")]
    assert removed(db, [[":db/retract", 1, ":person/aliases"]]) == [
        (1, ":person/aliases", "a"),
        (1, ":person/aliases", "c"),
    ]
    assert removed(db, [[":db/retract", 1, ":person/age", 35]]) == []


@pytest.mark.parametrize("name", [":db/retractEntity", ":db.fn/retractEntity", Keyword("db/retractEntity")])
def test_an_entity_is_retracted_with_its_components_and_references(db: SetFacts, name: Any) -> None:
    tempids = db.transact(
        [
            {
                ":db/id": "ada",
                ":person/name": "Ada",
                ":person/friend": ["ada", "bob"],
                ":person/address": {
                    ":db/id": "home",
                    ":address/city": "London",
                    ":address/rooms": [{":db/id": "r1", ":room/name": "hall"}, {":room/name": "attic"}],
                },
            },
            {":db/id": "bob", ":person/name": "Bob", ":person/friend": "ada", ":person/boss": "r1"},
        ]
    ).tempids
    db.transact([[name, tempids["ada"]]])
    left = {(e, str(db.schema.by_id[a])) for e, a, _ in db.facts if e < TX0}
    assert left == {(tempids["bob"], ":person/name")}


def test_components_in_a_cycle_are_retracted_once(db: SetFacts) -> None:
    db.transact([[":db/add", 1, ":address/rooms", 2], [":db/add", 2, ":address/rooms", 1]])
    assert len(removed(db, [[":db/retractEntity", 1]])) == 2


@pytest.mark.parametrize("name", [":db/cas", ":db.fn/cas"])
def test_compare_and_set(db: SetFacts, name: str) -> None:
    db.transact([[name, 1, ":person/age", None, 36]])
    prepared = db.transact([[name, 1, ":person/age", 36, 37]])
    assert db.shown(prepared) == [(1, ":person/age", 36, False), (1, ":person/age", 37, True)]
    db.transact([[name, 1, ":person/boss", None, "b"], [":db/add", "b", ":person/email", "b"]])
    db.transact([[name, 1, ":person/boss", [":person/email", "b"], 7]])
    assert db.value(1, ":person/boss") == 7


def test_compare_and_set_of_the_same_value_changes_nothing(db: SetFacts) -> None:
    db.transact([[":db/add", 1, ":person/age", 36]])
    assert db.shown(db.transact([[":db/cas", 1, ":person/age", 36, 36]])) == []


def test_compare_and_set_finds_the_entities_in_tuples(db: SetFacts) -> None:
    db.transact("""[{:db/ident :person/rank :db/valueType :db.type/tuple
                     :db/tupleTypes [:db.type/ref :db.type/long]}
                    {:db/id 1 :person/email "ada@x.org"} {:db/ident :color/red :db/id 2}]""")
    red, ada = [":color/red", 1], [[":person/email", "ada@x.org"], 2]
    assert added(db, [[":db/cas", 1, ":person/rank", None, red]]) == [(1, ":person/rank", (2, 1))]
    assert added(db, [[":db/cas", 1, ":person/rank", red, ada]]) == [(1, ":person/rank", (1, 2))]


def test_functions_return_operations(db: SetFacts) -> None:
    def birthday(facts: SetFacts, entity: int) -> list[Any]:
        return [[":db/add", entity, ":person/age", facts.value(entity, ":person/age") + 1]]

    def all_birthdays(facts: SetFacts, *entities: int) -> list[Any]:
        return [[birthday, entity] for entity in entities]

    db.transact([[":db/add", 1, ":person/age", 36], [":db/add", 2, ":person/age", 20]])
    db.transact([[":db.fn/call", birthday, 1]])
    db.transact([[all_birthdays, 1, 2], (lambda facts: None,)])
    assert (db.value(1, ":person/age"), db.value(2, ":person/age")) == (38, 21)


def test_datoms_are_operations(db: SetFacts) -> None:
    name = Keyword("person/name")
    db.transact([Datom(1, name, "Ada", 0, True), Datom(2, name, "Bob", 0, True)])
    db.transact([Datom(1, name, "Ada", 0, False)])
    assert (db.value(1, ":person/name"), db.value(2, ":person/name")) == (None, "Bob")


# --- map forms ------------------------------------------------------------------------------------


@pytest.mark.parametrize("many", [["a", "b"], ("a", "b"), {"a", "b"}, frozenset("ab"), np.array(["a", "b"])])
def test_collections_are_the_values_of_cardinality_many(db: SetFacts, many: Any) -> None:
    db.transact([{":db/id": 1, ":person/aliases": many}])
    assert db.value(1, ":person/aliases") == ["a", "b"]


def test_nested_maps_are_entities(db: SetFacts) -> None:
    rows = added(
        db,
        """[{:person/name "Ada"
             :person/address {:address/city "London" :address/rooms [{:room/name "hall"}]}
             :person/friend [{:person/email "bob"} {:db/id "c" :person/name "Cem"}]}]""",
    )
    assert rows == [
        (1, ":person/name", "Ada"),
        (1, ":person/friend", 4),
        (1, ":person/friend", 5),
        (1, ":person/address", 2),
        (2, ":address/city", "London"),
        (2, ":address/rooms", 3),
        (3, ":room/name", "hall"),
        (4, ":person/email", "bob"),
        (5, ":person/name", "Cem"),
    ]


def test_a_nested_map_may_be_a_known_entity(db: SetFacts) -> None:
    db.transact([{":person/email": "bob"}])
    assert added(db, [{":db/id": 7, ":person/boss": {":person/email": "bob", ":person/age": 3}}]) == [
        (1, ":person/age", 3),
        (7, ":person/boss", 1),
    ]


def test_reverse_attributes(db: SetFacts) -> None:
    db.transact([{":person/email": "x"}, {":person/email": "y"}])
    rows = added(
        db,
        [
            {
                ":person/name": "Ada",
                ":person/_friend": [[":person/email", "x"], "new", {":person/name": "Bob"}],
                ":person/_boss": [":person/email", "y"],
            },
            {":db/id": "new", ":person/name": "Cem"},
        ],
    )
    assert [row for row in rows if "name" not in row[1]] == [
        (1, ":person/friend", 3),
        (2, ":person/boss", 3),
        (4, ":person/friend", 3),
        (5, ":person/friend", 3),
    ]


def test_a_list_of_two_is_a_lookup_ref_only_after_a_unique_attribute(db: SetFacts) -> None:
    db.transact([{":person/email": "x"}, {":db/ident": ":color/red"}, {":db/ident": ":color/blue"}])
    db.transact([{":db/id": 9, ":person/friend": [":color/red", ":color/blue"]}])
    assert db.value(9, ":person/friend") == [2, 3]
    db.transact([{":db/id": 8, ":person/friend": [":person/email", "x"]}])
    assert db.value(8, ":person/friend") == [1]


# --- entities -------------------------------------------------------------------------------------


def test_tempids_are_new_entities(db: SetFacts) -> None:
    prepared = db.transact(
        [
            {":db/id": "ada", ":person/name": "Ada", ":person/boss": -1},
            [":db/add", -1, ":person/name", "Bob"],
            [":db/add", Tagged("db/id", (Keyword("db.part/user"), -1)), ":person/age", 50],
            [":db/add", Tagged("db/id", (Keyword("db.part/user"),)), ":person/name", "Cem"],
        ]
    )
    assert prepared.tempids == {"ada": 1, -1: 2}
    assert db.value(2, ":person/age") == 50
    assert db.value(3, ":person/name") == "Cem"
    assert prepared.next_entity == 4


def test_given_ids_are_never_given_again(db: SetFacts) -> None:
    prepared = db.transact(
        [{":db/id": "a", ":person/name": "A"}, {":db/id": 10, ":person/name": "B", ":person/boss": 20}]
    )
    assert prepared.tempids == {"a": 21}
    assert db.transact([{":db/id": "b", ":person/name": "B"}]).tempids == {"b": 22}


@pytest.mark.parametrize("name", ["datomic.tx", "datascript.tx", ":db/current-tx", Keyword("db/current-tx")])
def test_the_transaction_is_an_entity(db: SetFacts, name: Any) -> None:
    prepared = db.transact([{":db/id": name, ":db/doc": "import"}, [":db/add", 1, ":person/boss", name]])
    assert prepared.tx == TX0 + 2
    assert prepared.tempids == {name: prepared.tx}
    assert db.shown(prepared) == [(1, ":person/boss", TX0 + 2, True), (TX0 + 2, ":db/doc", "import", True)]
    assert db.shown(db.transact([[":db/add", TX0 + 2, ":db/doc", "other"]]))[1][2:] == ("other", True)


def test_lookup_refs_and_idents_are_entities_everywhere(db: SetFacts) -> None:
    db.transact([{":person/email": "x", ":person/ssn": 5}, {":db/ident": ":color/red"}])
    db.transact(
        """[[:db/add [:person/email "x"] :person/color :color/red]
            {:db/id [:person/ssn 5] :person/boss [:person/email "x"]}
            [:db/add :color/red :db/doc "warm"]
            {:db/id 30 :account/owner [:person/email "x"]}]"""
    )
    assert (db.value(1, ":person/color"), db.value(1, ":person/boss")) == (2, 1)
    assert db.value(2, ":db/doc") == "warm"
    db.transact([{":db/id": [":account/owner", [":person/email", "x"]], ":account/name": "main"}])
    assert db.value(30, ":account/name") == "main"
    db.transact([[":db/retract", [":person/ssn", 5], ":person/color", ":color/red"]])
    assert db.value(1, ":person/color") is None


def test_lookup_refs_tell_values_of_different_types_apart() -> None:
    db = SetFacts()
    db.transact("""[{:db/ident :key :db/unique :db.unique/value}
                    {:db/ident :note :db/cardinality :db.cardinality/one}]""")
    keys = [1, 1.0, True, (1, 0.0), (True, 0.0)]
    db.transact([{":db/id": 1 + at, ":key": key} for at, key in enumerate(keys)])
    notes = added(db, [[":db/add", [":key", key], ":note", at] for at, key in enumerate(keys)])
    assert notes == [(1 + at, ":note", at) for at in range(len(keys))]


def test_numbers_of_numpy_and_objects_with_an_index_are_ids(db: SetFacts) -> None:
    class Entity:
        def __index__(self) -> int:
            return 4

    db.transact([[":db/add", np.int32(3), ":person/boss", Entity()]])
    assert db.value(3, ":person/boss") == 4


# --- upserts --------------------------------------------------------------------------------------


def test_a_tempid_with_a_known_identity_is_the_known_entity(db: SetFacts) -> None:
    db.transact([{":person/email": "x", ":person/age": 1}])
    prepared = db.transact([{":db/id": "t", ":person/email": "x", ":person/age": 2}])
    assert db.shown(prepared) == [(1, ":person/age", 1, False), (1, ":person/age", 2, True)]
    assert prepared.tempids == {"t": 1}
    assert prepared.next_entity == 2


def test_tempids_with_one_identity_are_one_entity(db: SetFacts) -> None:
    prepared = db.transact(
        [
            {":db/id": "a", ":person/email": "x", ":person/age": 1},
            {":db/id": "b", ":person/email": "x", ":person/name": "X"},
            {":db/id": 40, ":person/email": "y"},
            {":db/id": "c", ":person/email": "y", ":person/name": "Y"},
        ]
    )
    assert prepared.tempids == {"a": 41, "b": 41, "c": 40}


def test_upserts_follow_references(db: SetFacts) -> None:
    db.transact([{":db/id": 5, ":account/owner": {":person/email": "x"}, ":account/name": "old"}])
    owner = db.value(5, ":account/owner")
    prepared = db.transact(
        [
            {":db/id": "account", ":account/owner": "who", ":account/name": "new"},
            {":db/id": "who", ":person/email": "x"},
            {":db/id": "k1", ":account/owner": "n1", ":account/name": "k"},
            {":db/id": "n1", ":person/email": "n"},
            {":db/id": "k2", ":account/owner": "n2"},
            {":db/id": "n2", ":person/email": "n"},
        ]
    )
    ids = prepared.tempids
    assert (ids["account"], ids["who"]) == (5, owner)
    assert ids["k1"] == ids["k2"] and ids["n1"] == ids["n2"]
    assert db.value(5, ":account/name") == "new"


def test_a_unique_value_may_move(db: SetFacts) -> None:
    db.transact([{":db/id": 1, ":person/ssn": 5}])
    db.transact([[":db/retract", 1, ":person/ssn", 5], [":db/add", 2, ":person/ssn", 5]])
    assert (db.value(1, ":person/ssn"), db.value(2, ":person/ssn")) == (None, 5)
    db.transact([[":db/add", 2, ":person/ssn", 6], [":db/add", 3, ":person/ssn", 5]])
    assert (db.value(2, ":person/ssn"), db.value(3, ":person/ssn")) == (6, 5)


# --- time -----------------------------------------------------------------------------------------


def test_time_is_that_of_the_clock_and_never_decreases(db: SetFacts) -> None:
    assert db.prepare([]).instant == NOW + dt.timedelta(seconds=db.basis_t)
    assert db.prepare([], now=NOW - dt.timedelta(days=1)).instant == NOW


def test_time_may_be_given(db: SetFacts) -> None:
    later = dt.datetime(2030, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    prepared = db.transact([{":db/id": "datomic.tx", ":db/txInstant": later}])
    assert prepared.instant == later
    assert len(prepared.datoms) == 1
    assert db.prepare([]).instant == later


# --- tuples ---------------------------------------------------------------------------------------

TUPLES = """[
 {:db/ident :x :db/valueType :db.type/long}
 {:db/ident :y :db/valueType :db.type/ref}
 {:db/ident :x+y :db/valueType :db.type/tuple :db/tupleAttrs [:x :y] :db/unique :db.unique/identity}
 {:db/ident :point :db/valueType :db.type/tuple :db/tupleTypes [:db.type/long :db.type/string]}
 {:db/ident :path :db/valueType :db.type/tuple :db/tupleType :db.type/ref
  :db/cardinality :db.cardinality/many}
 {:db/ident :name :db/valueType :db.type/string}]"""


def test_composite_tuples_follow_their_attributes() -> None:
    db = SetFacts()
    db.transact(TUPLES)
    assert added(db, [{":db/id": 1, ":x": 5}]) == [(1, ":x", 5), (1, ":x+y", (5, None))]
    assert added(db, [{":db/id": 1, ":y": 7}]) == [(1, ":y", 7), (1, ":x+y", (5, 7))]
    assert added(db, [{":x+y": [5, 7], ":name": "known"}]) == [(1, ":name", "known")]
    assert removed(db, [[":db/retract", 1, ":x"], [":db/retract", 1, ":y"]]) == [
        (1, ":x", 5),
        (1, ":y", 7),
        (1, ":x+y", (5, 7)),
    ]


def test_a_composite_of_known_facts_is_computed_when_one_is_asserted_again() -> None:
    db = SetFacts()
    db.transact(
        [{":db/ident": ":a", ":db/valueType": ":db.type/long"}, {":db/ident": ":b", ":db/index": True}]
    )
    db.transact([{":db/id": 1, ":a": 1, ":b": 2}])
    db.transact([{":db/ident": ":a+b", ":db/valueType": ":db.type/tuple", ":db/tupleAttrs": [":a", ":b"]}])
    assert added(db, [[":db/add", 1, ":a", 1]]) == [(1, ":a+b", (1, 2))]


def test_tuples_are_values() -> None:
    db = SetFacts()
    db.transact(TUPLES)
    db.transact([{":db/ident": ":here"}])
    db.transact([{":db/id": 5, ":point": [3, "x"], ":path": [[1, 2], [":here", 4, None]]}])
    assert db.value(5, ":point") == (3, "x")
    db.transact([{":db/id": 6, ":path": [1, 2]}])
    assert db.value(6, ":path") == [(1, 2)]
    assert set(map(len, db.value(5, ":path"))) == {2, 3}


# --- open schemas ---------------------------------------------------------------------------------


def test_an_open_schema_gets_attributes_by_use() -> None:
    db = SetFacts(open_schema=True)
    prepared = db.transact([{":name": "Ada", ":born": 1815}])
    assert prepared.schema.attribute(":born").value_type is None
    rows = added(db, [{":db/id": 1, ":name": (1, "x"), ":born": Symbol("x")}])
    assert rows == [(1, ":name", (1, "x")), (1, ":born", Symbol("x"))]
    assert db.shown(db.transact([[":db/retract", 1, ":unknown", 3], [":db/retract", 1, ":unknown"]])) == []
    assert Keyword("unknown") not in db.schema.by_ident


def test_an_error_changes_nothing(db: SetFacts) -> None:
    db.transact([{":db/id": 1, ":person/name": "Ada"}])
    before = set(db.facts), db.schema, db.next_entity, db.next_schema_entity, db.basis_t
    with pytest.raises(DbspError):
        db.prepare([{":person/name": "Bob"}, {":db/ident": ":new"}, [":db/add", 1, ":person/age", "x"]])
    assert before == (db.facts, db.schema, db.next_entity, db.next_schema_entity, db.basis_t)
