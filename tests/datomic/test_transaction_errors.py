"""Every error of a transaction: its code and its text. Nothing changes."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dbsp.datomic.entity_ranges import DB0, TX0
from dbsp.edn import Char, EdnList, Keyword, Symbol, Tagged
from dbsp.errors import DbspError

from .set_facts import SetFacts
from .test_transactions import SCHEMA

VALUES = """[
 {:db/ident :v/long    :db/valueType :db.type/long}    {:db/ident :v/double :db/valueType :db.type/double}
 {:db/ident :v/float   :db/valueType :db.type/float}   {:db/ident :v/bool   :db/valueType :db.type/boolean}
 {:db/ident :v/string  :db/valueType :db.type/string}  {:db/ident :v/kw     :db/valueType :db.type/keyword}
 {:db/ident :v/symbol  :db/valueType :db.type/symbol}  {:db/ident :v/ref    :db/valueType :db.type/ref}
 {:db/ident :v/instant :db/valueType :db.type/instant} {:db/ident :v/uuid   :db/valueType :db.type/uuid}
 {:db/ident :v/uri     :db/valueType :db.type/uri}     {:db/ident :v/bigint :db/valueType :db.type/bigint}
 {:db/ident :v/bigdec  :db/valueType :db.type/bigdec}  {:db/ident :v/bytes  :db/valueType :db.type/bytes}
 {:db/ident :v/any     :db/cardinality :db.cardinality/one}
 {:db/ident :v/pair    :db/valueType :db.type/tuple :db/tupleTypes [:db.type/long :db.type/string]}
 {:db/ident :v/longs   :db/valueType :db.type/tuple :db/tupleType :db.type/long}
 {:db/ident :v/refs    :db/valueType :db.type/tuple :db/tupleType :db.type/ref}]"""


@pytest.fixture(scope="module")
def db() -> SetFacts:
    facts = SetFacts()
    facts.transact(SCHEMA)
    facts.transact(
        """[{:db/id 1 :person/name "Ada" :person/email "ada" :person/ssn 5 :person/age 36
             :person/aliases ["a" "b"]}
            {:db/id 2 :person/name "Bob" :person/email "bob" :person/aliases ["a"]}
            {:db/id 3 :db/ident :color/red}]"""
    )
    facts.transact(
        """[{:db/ident :a :db/valueType :db.type/long} {:db/ident :b :db/valueType :db.type/long}
            {:db/ident :a+b :db/valueType :db.type/tuple :db/tupleAttrs [:a :b]}]"""
    )
    facts.transact([[":db/add", 4, ":a", 1]])
    return facts


def refused(facts: SetFacts, tx_data: Any) -> tuple[str | None, str]:
    """The code and the text of the error of a transaction, which changes nothing."""
    before = set(facts.facts), facts.schema, facts.next_entity, facts.next_schema_entity
    with pytest.raises(DbspError) as caught:
        facts.prepare(tx_data)
    assert before == (facts.facts, facts.schema, facts.next_entity, facts.next_schema_entity)
    return caught.value.code, caught.value.message


def failing(facts: SetFacts) -> None:
    raise ValueError("no")


def numbers(facts: SetFacts) -> Any:
    return 5


def itself(facts: SetFacts) -> Any:
    return [[itself]]


AGE = ":person/age"
EARLY = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)

CASES: list[tuple[Any, str, str]] = [
    # --- the data
    (5, "invalid-transaction", "expected a list of operations and maps, or EDN text, got the long 5"),
    (b"[]", "invalid-transaction", "expected a list of operations and maps, or EDN text, got the bytes"),
    ({":a": 1}, "invalid-transaction", "put the map into a list: [{...}]"),
    ([":db/add", 1, AGE, 3], "invalid-transaction", "put the operation into a list: [[...]]"),
    (
        [5],
        "invalid-transaction",
        "transaction[0]: 5: expected an operation such as [:db/add ...] or a map, got",
    ),
    ([[]], "invalid-transaction", "transaction[0]: []: expected an operation such as [:db/add ...] or a map"),
    ([["db/add", 1, AGE, 3]], "invalid-transaction", 'got the string "db/add"; the operations are :db/add,'),
    ([[":db/ad", 1, AGE, 3]], "invalid-transaction", 'got the string ":db/ad"; the operations are :db/add,'),
    ([[[":db/add"], 1]], "invalid-transaction", "expected an operation such as :db/add, got the vector"),
    (
        [[":db/add", 1, AGE]],
        "invalid-transaction",
        "expected [:db/add entity attribute value], got 3 elements",
    ),
    (
        [[":db/retract", 1]],
        "invalid-transaction",
        "expected [:db/retract entity attribute value] or [:db/retract entity attribute], got 2 elements",
    ),
    (
        [[":db/retractEntity", 1, 2]],
        "invalid-transaction",
        "expected [:db/retractEntity entity], got 3 elements",
    ),
    (
        [[":db/cas", 1, AGE, 3]],
        "invalid-transaction",
        "expected [:db/cas entity attribute old-value new-value], got 4 elements",
    ),
    (
        [[":db.fn/call", 3]],
        "invalid-transaction",
        "expected [:db.fn/call function argument ...] with a callable",
    ),
    (
        [[":db.fn/call"]],
        "invalid-transaction",
        "expected [:db.fn/call function argument ...] with a callable",
    ),
    # --- attributes
    (
        [{":person/nmae": "x"}],
        "unknown-attribute",
        'transaction[0]: {:person/nmae "x"}: unknown attribute :person/nmae; did you mean :person/name?',
    ),
    ([[":db/add", 1, ":q", 1]], "unknown-attribute", "unknown attribute :q; define it by a transaction"),
    (
        [[":db/add", 1, "person/age", 1]],
        "invalid-transaction",
        'got the string "person/age"; write ":person/age"',
    ),
    (
        [[":db/add", 1, [AGE], 1]],
        "invalid-transaction",
        "expected an attribute such as :person/name, got the vector",
    ),
    ([[":db/add", 1, 7, 1]], "unknown-attribute", "entity 7 is not an attribute"),
    ([[":db/add", 1, ":not a name", 1]], "edn-token", "expected the name of a keyword"),
    ([[":db/add", 1, ":db/id", 1]], "unknown-attribute", "unknown attribute :db/id"),
    (
        [[":db/add", 1, ":color/red", 1]],
        "unknown-attribute",
        ":color/red is the ident of entity 3, which is not an attribute; a definition has a :db/valueType or",
    ),
    (
        [{":new": 1}, {":db/ident": ":new", ":db/valueType": ":db.type/long"}],
        "unknown-attribute",
        "transaction[0]: {:new 1}: attribute :new is defined in the same transaction; transact its",
    ),
    ([{":person/_": 1}], "unknown-attribute", "unknown attribute :person/_"),
    ([{":person/_age": 1}], "invalid-transaction", ":person/_age reverses :person/age, which is not a ref"),
    ([[":db/add", 1, ":person/_friend", 2]], "unknown-attribute", "unknown attribute :person/_friend"),
    # --- entities
    ([[":db/add", None, AGE, 1]], "unknown-entity", "a tempid, an ident or a lookup ref, got nil"),
    (
        [[":db/add", 0, AGE, 1]],
        "unknown-entity",
        "expected an entity: an id, a tempid, an ident or a lookup ref, got",
    ),
    ([[":db/add", True, AGE, 1]], "unknown-entity", "got the boolean true"),
    ([[":db/add", 1.0, AGE, 1]], "unknown-entity", "got the double 1.0"),
    ([[":db/add", {}, AGE, 1]], "unknown-entity", "got the map {}"),
    (
        [[":db/add", 2**64, AGE, 1]],
        "unknown-entity",
        "expected the id of an entity, from 1 to 2**42 - 1, got 18446",
    ),
    (
        [[":db/add", 1, ":person/boss", 2**64]],
        "unknown-entity",
        "expected the id of an entity, from 1 to 2**42 - 1",
    ),
    ([[":db/add", TX0 + 9, AGE, 1]], "unknown-entity", f"from 1 to 2**42 - 1, got {TX0 + 9}"),
    (
        [[":db/add", 1, ":person/boss", DB0 + 9999]],
        "unknown-entity",
        f"from 1 to 2**42 - 1, got {DB0 + 9999}",
    ),
    (
        [[":db/add", ":no", AGE, 1]],
        "unknown-entity",
        "[:db/add :no :person/age 1]: no entity has the ident :no",
    ),
    (
        [[":db/add", [":person/email", "no"], AGE, 1]],
        "unknown-entity",
        'no entity has the :person/email "no"; a lookup',
    ),
    (
        [[":db/add", [":person/name", "Ada"], AGE, 1]],
        "unknown-entity",
        '[:person/name "Ada"] needs a unique attribute,',
    ),
    (
        [[":db/add", [":person/email"], AGE, 1]],
        "unknown-entity",
        "expected a lookup ref [unique-attribute value], got",
    ),
    ([[":db/add", [1, 2], AGE, 1]], "unknown-entity", "expected a lookup ref [unique-attribute value], got"),
    ([[":db/add", [":q", 2], AGE, 1]], "unknown-attribute", "unknown attribute :q"),
    (
        [[":db/add", [":person/ssn", "x"], AGE, 1]],
        "wrong-type",
        "attribute :person/ssn expects a long, got the string",
    ),
    (
        [[":db/add", Tagged("db/id", 5), AGE, 1]],
        "unknown-entity",
        "expected #db/id [partition number], got #db/id 5",
    ),
    (
        [[":db/add", Tagged("x", (1, 2)), AGE, 1]],
        "unknown-entity",
        "expected #db/id [partition number], got #x [1 2]",
    ),
    (
        [[":db/add", Tagged("db/id", (Keyword("db.part/user"), 3)), AGE, 1]],
        "unknown-entity",
        "expected a negative number in #db/id, got 3",
    ),
    # --- tempids
    (
        [[":db/retract", "t", AGE, 3]],
        "invalid-tempid",
        'the tempid "t" is a new entity, and this operation needs a known one; use an id,',
    ),
    ([[":db/retractEntity", -1]], "invalid-tempid", "the tempid -1 is a new entity"),
    ([[":db/cas", "t", AGE, 1, 2]], "invalid-tempid", 'the tempid "t" is a new entity'),
    (
        [[":db/add", 1, ":person/friend", "t"]],
        "invalid-tempid",
        'nothing is asserted about the tempid "t"; give its entity a value of an attribute',
    ),
    ([{":db/id": "t"}], "invalid-tempid", 'nothing is asserted about the tempid "t"'),
    (
        [{":db/id": 1, ":person/address": {}}],
        "invalid-tempid",
        "nothing is asserted about a new entity; give it a value of an attribute",
    ),
    (
        [{":person/_friend": 1}],
        "invalid-tempid",
        "nothing is asserted about a new entity; give it a value",
    ),
    # --- nested maps
    (
        [{":db/id": 1, ":person/friend": [{":person/name": "x"}]}],
        "invalid-transaction",
        "the nested map of :person/friend would be an entity that nothing identifies; give it a :db/id",
    ),
    ([[":db/add", 1, ":person/friend", {":person/name": "x"}]], "unknown-entity", "got the map"),
    # --- conflicts
    (
        [[":db/add", 1, AGE, 1], [":db/add", [":person/email", "ada"], AGE, 2]],
        "transaction-conflict",
        'transaction[1]: [:db/add [:person/email "ada"] :person/age 2]: entity 1 gets two values of '
        ":person/age, which has cardinality one: 1 (transaction[0]) and 2",
    ),
    (
        [[":db/retract", 1, ":person/aliases", "a"], [":db/add", 1, ":person/aliases", "a"]],
        "transaction-conflict",
        'the transaction both asserts and retracts :person/aliases "a" of entity 1 (transaction[0])',
    ),
    (
        [[":db/add", 9, AGE, 1], [":db/retract", 9, AGE, 1]],
        "transaction-conflict",
        "both asserts and retracts",
    ),
    (
        [[":db/retractEntity", 1], [":db/add", 1, ":person/name", "Ada"]],
        "transaction-conflict",
        'both asserts and retracts :person/name "Ada" of entity 1 (transaction[0])',
    ),
    (
        [[":db/cas", 1, AGE, 36, 1], [":db/cas", 1, AGE, 36, 2]],
        "transaction-conflict",
        "1 (transaction[0]) and 2",
    ),
    (
        [[":db/add", 2, ":person/ssn", 5]],
        "unique-conflict",
        "the value 5 of the unique attribute :person/ssn cannot belong to entity 2: it belongs to entity 1",
    ),
    (
        [{":person/ssn": 5, ":person/name": "X"}],
        "unique-conflict",
        "cannot belong to entity 5: it belongs to entity 1",
    ),
    (
        [{":db/id": 8, ":person/email": "q"}, {":db/id": 9, ":person/email": "q"}],
        "unique-conflict",
        "cannot belong to entity 9: it belongs to entity 8 in transaction[0]",
    ),
    (
        [{":db/ident": ":color/red", ":db/id": 9}],
        "unique-conflict",
        "the value :color/red of the unique attribute",
    ),
    (
        [{":db/id": "t", ":person/email": "ada"}, {":db/id": "t", ":person/email": "bob"}],
        "upsert-conflict",
        'the entity is 1 by :person/email "ada", and 2 by :person/email "bob"',
    ),
    (
        [
            {":db/id": "t", ":person/email": "new", ":account/owner": 1},
            {":db/id": 8, ":person/email": "new"},
            {":db/id": 9, ":account/owner": 1},
        ],
        "upsert-conflict",
        'the entity is 8 by :person/email "new", and 9 by :account/owner 1',
    ),
    (
        [
            {":db/id": "t", ":person/email": "ada", ":account/owner": 5},
            {":db/id": "u", ":person/email": "bob", ":account/owner": 5},
        ],
        "upsert-conflict",
        'the entity is 1 by :person/email "ada", and 2 by :person/email "bob"; both have :account/owner 5',
    ),
    (
        [
            {":db/id": "t", ":person/email": "ada", ":account/owner": "v"},
            {":db/id": "u", ":person/email": "bob", ":account/owner": "v"},
            {":db/id": "v", ":person/name": "new"},
        ],
        "upsert-conflict",
        '2 by :person/email "bob"; both have :account/owner of a new entity',
    ),
    # --- cas
    (
        [[":db/cas", 1, AGE, 35, 37]],
        "cas-failed",
        "transaction[0]: [:db/cas 1 :person/age 35 37]: :db/cas expected the value 35 of :person/age of "
        "entity 1, got 36; read the value again and retry",
    ),
    (
        [[":db/cas", 1, AGE, None, 37]],
        "cas-failed",
        "expected the value nil of :person/age of entity 1, got 36",
    ),
    ([[":db/cas", 2, AGE, 3, 37]], "cas-failed", "expected the value 3 of :person/age of entity 2, got nil"),
    (
        [[":db/cas", 1, AGE, "x", 37]],
        "wrong-type",
        'attribute :person/age expects a long, got the string "x"',
    ),
    (
        [[":db/cas", 1, AGE, 36, None]],
        "invalid-transaction",
        "the new value of :db/cas is nil; use :db/retract",
    ),
    (
        [[":db/cas", 1, ":person/aliases", "a", "b"]],
        "invalid-transaction",
        ":person/aliases has cardinality many",
    ),
    # --- functions
    (
        [[failing]],
        "user-function",
        "transaction[0]: [failing]: the transaction function failing raised ValueError: no",
    ),
    (
        [[numbers]],
        "invalid-transaction",
        "the transaction function numbers must return a list of operations, got 5",
    ),
    ([[itself]], "invalid-transaction", "a function must not return a call of itself without end"),
    (
        [{":person/email": "x"}, [lambda db: [[":db/add", 1, AGE, 1], [":db/add", 1, AGE, "x"]]]],
        "wrong-type",
        'transaction[1][1]: [:db/add 1 :person/age "x"]: attribute :person/age expects a long',
    ),
    # --- composite tuples
    (
        [[":db/add", 4, ":a+b", [1, 2]]],
        "invalid-transaction",
        ":a+b is computed from [:a :b], which are [1 nil] after the transaction, and cannot be [1 2]; assert",
    ),
    *(
        (
            tx_data,
            "invalid-transaction",
            "[:a :b], the entity has none of them after the transaction, so it has no :a+b; assert",
        )
        for tx_data in (
            [[":db/add", 1, ":a+b", [None, None]]],
            [{":db/id": "new", ":a+b": [None, None]}],
            [[":db/add", 1, ":a+b", [1, 2]]],
            [[":db/retract", 4, ":a"], [":db/add", 4, ":a+b", [None, None]]],
        )
    ),
    # --- time
    (
        [{":db/id": "datomic.tx", ":db/txInstant": EARLY}],
        "invalid-instant",
        "the time 2000-01-01T00:00:00+00:00 is before that of the last transaction, 2026-01-01T00:00:03",
    ),
    ([{":db/id": 1, ":db/txInstant": EARLY}], "invalid-instant", 'assert it about "datomic.tx", not 1'),
    (
        [[":db/retract", TX0 + 1, ":db/txInstant"]],
        "invalid-instant",
        "the time of a transaction cannot be retracted",
    ),
    (
        [{":db/id": "datomic.tx", ":db/txInstant": EARLY.replace(year=year)} for year in (2040, 2041)],
        "transaction-conflict",
        "the transaction has two times",
    ),
    # --- schema
    (
        [[":db/retractEntity", ":person/age"]],
        "invalid-transaction",
        "belongs to the schema and cannot be retracted",
    ),
    (
        [[":db/retractEntity", TX0 + 1]],
        "invalid-transaction",
        "belongs to the log of transactions and cannot be",
    ),
    (
        [{":db/id": ":db/doc", ":db/doc": "x"}],
        "invalid-schema",
        ":db/doc belongs to the system and cannot be altered",
    ),
    ([{":db/ident": ":db/mine"}], "invalid-schema", "the namespace of :db/mine is reserved for the system"),
    (
        [{":db/ident": ":db.x/mine"}],
        "invalid-schema",
        "the namespace of :db.x/mine is reserved for the system",
    ),
    (
        [{":db/valueType": ":db.type/long"}],
        "invalid-schema",
        "the attribute has no name; give it a :db/ident",
    ),
    (
        [{":db/id": 1, ":db/ident": ":x", ":db/valueType": ":db.type/long"}],
        "invalid-schema",
        "entity 1 cannot become an attribute, because its id is given or it exists; define the",
    ),
    (
        [{":db/ident": ":x", ":db/valueType": ":db.type/lang"}],
        "unknown-entity",
        "no entity has the ident :db.type/lang",
    ),
    (
        [{":db/ident": ":x", ":db/valueType": ":db.unique/value"}],
        "invalid-schema",
        ":db/valueType expects a value type such as :db.type/string, got :db.unique/value",
    ),
    (
        [{":db/ident": ":x", ":db/cardinality": 1}],
        "invalid-schema",
        "expects :db.cardinality/one or :db.cardinality/many",
    ),
    (
        [{":db/ident": ":x", ":db/unique": 1}],
        "invalid-schema",
        "expects :db.unique/identity or :db.unique/value, got 1",
    ),
    (
        [{":db/ident": ":x", ":db/isComponent": True}],
        "invalid-schema",
        ":x is a component and needs :db/valueType :db",
    ),
    (
        [{":db/ident": ":x", ":db/valueType": ":db.type/tuple"}],
        "invalid-schema",
        "needs exactly one of :db/tupleAttrs, :db/tupleTypes and :db/tupleType, got none",
    ),
    (
        [{":db/ident": ":x", ":db/tupleType": ":db.type/long"}],
        "invalid-schema",
        ":x has :db/tupleType and needs :db/valueType :db.type/tuple",
    ),
    (
        [{":db/ident": ":x", ":db/valueType": ":db.type/tuple", ":db/tupleType": ":db.type/tuple"}],
        "invalid-schema",
        ":x: the elements of a tuple cannot have the type tuple",
    ),
    (
        [{":db/ident": ":x", ":db/valueType": ":db.type/tuple", ":db/tupleTypes": [":db.type/long", None]}],
        "invalid-schema",
        ":x: the elements of a tuple cannot have the type nil",
    ),
    (
        [{":db/ident": ":x", ":db/valueType": ":db.type/tuple", ":db/tupleAttrs": [":a", None]}],
        "invalid-schema",
        ":x is composed of nil, which is not an attribute",
    ),
    (
        [{":db/ident": ":x", ":db/valueType": ":db.type/tuple", ":db/tupleAttrs": [":a", ":zz"]}],
        "invalid-schema",
        ":x is composed of :zz, which is not an attribute",
    ),
    (
        [{":db/ident": ":x", ":db/valueType": ":db.type/tuple", ":db/tupleAttrs": [":a", ":person/aliases"]}],
        "invalid-schema",
        ":x is composed of :person/aliases, which must have cardinality one and not be a tuple",
    ),
    (
        [
            {
                ":db/ident": ":x",
                ":db/valueType": ":db.type/tuple",
                ":db/tupleAttrs": [":a", ":b"],
                ":db/cardinality": ":db.cardinality/many",
            }
        ],
        "invalid-schema",
        ":x is a composite tuple and needs cardinality one",
    ),
    (
        [{":db/id": AGE, ":db/valueType": ":db.type/string"}],
        "invalid-schema",
        "the value type of :person/age is long and cannot change to string; define another attribute",
    ),
    ([[":db/retract", AGE, ":db/valueType"]], "invalid-schema", "is long and cannot change to none"),
    (
        [[":db/retract", AGE, ":db/ident"]],
        "invalid-schema",
        "an attribute cannot be removed, and keeps its :db/ident",
    ),
    (
        [[":db/retract", ":a+b", ":db/tupleAttrs"]],
        "invalid-schema",
        "the parts of the tuple :a+b cannot change",
    ),
    (
        [{":db/id": ":a", ":db/ident": ":c"}],
        "invalid-schema",
        ":a is part of the composite tuple :a+b and keeps its name",
    ),
    (
        [{":db/id": ":a", ":db/cardinality": ":db.cardinality/many"}],
        "invalid-schema",
        ":a is part of the composite tuple :a+b and keeps cardinality one",
    ),
    (
        [{":db/id": ":person/aliases", ":db/cardinality": ":db.cardinality/one"}],
        "invalid-schema",
        ":person/aliases cannot get cardinality one: entity 1 has several values",
    ),
    (
        [{":db/id": ":person/aliases", ":db/unique": ":db.unique/value"}],
        "invalid-schema",
        ':person/aliases cannot become unique: entities 1 and 2 have the value "a"',
    ),
]


@pytest.mark.parametrize(("tx_data", "code", "text"), CASES)
def test_refused(db: SetFacts, tx_data: Any, code: str, text: str) -> None:
    found, message = refused(db, tx_data)
    assert text in message
    assert found == code


def test_retractions_of_composites_are_refused(db: SetFacts) -> None:
    for tx_data in ([[":db/retract", 4, ":a+b", [1, None]]], [[":db/retract", 4, ":a+b"]]):
        code, message = refused(db, tx_data)
        assert "the composite tuple :a+b is computed; retract the values of [:a :b]" in message
        assert code == "invalid-transaction"


# --- values ---------------------------------------------------------------------------------------

WRONG_VALUES: list[tuple[str, Any, str, str]] = [
    (":v/long", True, "wrong-type", "attribute :v/long expects a long, got the boolean true"),
    (":v/long", 1.0, "wrong-type", "attribute :v/long expects a long, got the double 1.0"),
    (":v/long", np.float64(1), "wrong-type", "attribute :v/long expects a long, got the double"),
    (":v/long", None, "wrong-type", "attribute :v/long expects a long, got nil"),
    (
        ":v/long",
        2**63,
        "value-out-of-range",
        "attribute :v/long: a long is from -2**63 to 2**63 - 1, got 92233",
    ),
    (":v/long", Char("a"), "wrong-type", "attribute :v/long expects a long, got the char \\a"),
    (":v/long", Fraction(1, 2), "wrong-type", "attribute :v/long expects a long, got the ratio 1/2"),
    (":v/long", object, "wrong-type", "attribute :v/long expects a long, got <class 'object'> of type type"),
    (":v/double", "1", "wrong-type", 'attribute :v/double expects a double, got the string "1"'),
    (":v/double", True, "wrong-type", "attribute :v/double expects a double, got the boolean true"),
    (":v/double", 2**53 + 1, "value-out-of-range", "the long 9007199254740993 is not exactly a double"),
    (":v/double", 10**400, "value-out-of-range", "is not exactly a double"),
    (":v/float", 1e39, "value-out-of-range", "a float is from -3.4e38 to 3.4e38, got 1e+39"),
    (":v/bool", 1, "wrong-type", "attribute :v/bool expects a boolean, got the long 1"),
    (":v/string", Keyword("a"), "wrong-type", "attribute :v/string expects a string, got the keyword :a"),
    (":v/string", b"a", "wrong-type", "attribute :v/string expects a string, got the bytes"),
    (":v/string", ["a"], "wrong-type", 'attribute :v/string expects a string, got the vector ["a"]'),
    (":v/string", {"a"}, "wrong-type", 'attribute :v/string expects a string, got the set #{"a"}'),
    (":v/kw", "a", "wrong-type", 'attribute :v/kw expects a keyword, got the string "a"'),
    (":v/symbol", "a", "wrong-type", 'attribute :v/symbol expects a symbol, got the string "a"'),
    (":v/instant", dt.date(2020, 1, 1), "wrong-type", "attribute :v/instant expects an instant, got"),
    (
        ":v/instant",
        dt.datetime(2020, 1, 1),
        "wrong-type",
        "attribute :v/instant: an instant has a time zone, got 2020-01-01T00:00:00; use tzinfo=datetime.UTC",
    ),
    (
        ":v/instant",
        pd.Timestamp(1_999, tz="UTC"),
        "value-out-of-range",
        "attribute :v/instant: an instant is in whole microseconds, got 1970-01-01T00:00:00.000001999+00:00",
    ),
    (":v/uuid", "a", "wrong-type", 'attribute :v/uuid expects a uuid, got the string "a"'),
    (":v/uri", 5, "wrong-type", "attribute :v/uri expects a uri, got the long 5"),
    (":v/bigint", 1.0, "wrong-type", "attribute :v/bigint expects a bigint, got the double 1.0"),
    (":v/bigdec", 1.0, "wrong-type", "attribute :v/bigdec expects a bigdec, got the double 1.0"),
    (":v/bigdec", Decimal("NaN"), "value-out-of-range", "a bigdec is finite, got NaN"),
    (":v/bytes", "a", "wrong-type", 'attribute :v/bytes expects a bytes, got the string "a"'),
    (":v/any", None, "wrong-type", "attribute :v/any expects a value, got nil"),
    (":v/any", {"a": 1}, "unsupported-value", "it is not hashable"),
    (":v/pair", 1, "wrong-type", "attribute :v/pair expects a tuple, got the long 1"),
    (":v/pair", [1], "wrong-type", "attribute :v/pair expects a tuple of 2 elements, got the vector [1]"),
    (":v/pair", [1, 2], "wrong-type", ":v/pair, element 1 of the tuple: expected a string, got the long 2"),
    (":v/pair", [2**63, "a"], "value-out-of-range", ":v/pair, element 0 of the tuple: a long is from"),
    (
        ":v/longs",
        [1],
        "wrong-type",
        "attribute :v/longs expects a tuple of 2 to 8 elements, got the vector [1]",
    ),
    (":v/longs", list(range(9)), "wrong-type", "attribute :v/longs expects a tuple of 2 to 8 elements"),
    (":v/refs", [1, "t"], "invalid-tempid", 'the tempid "t" is a new entity'),
    (":v/refs", [1, ":no"], "unknown-entity", "no entity has the ident :no"),
    (":v/ref", None, "unknown-entity", "a tempid, an ident or a lookup ref, got nil"),
]


@pytest.fixture(scope="module")
def values() -> SetFacts:
    facts = SetFacts()
    facts.transact(VALUES)
    return facts


@pytest.mark.parametrize(("name", "value", "code", "text"), WRONG_VALUES)
def test_wrong_values(values: SetFacts, name: str, value: Any, code: str, text: str) -> None:
    for tx_data in ([[":db/add", 1, name, value]], [{":db/id": 1, name: value}]):
        found, message = refused(values, tx_data)
        assert message.startswith("transaction[0]: ")
        assert text in message
        assert found == code


ZONE = dt.timezone(dt.timedelta(hours=2))
ID = uuid.uuid4()
ACCEPTED: list[tuple[str, Any, Any]] = [
    (":v/long", np.int8(5), 5),
    (":v/double", 3, 3.0),
    (":v/double", np.float32(0.5), 0.5),
    (":v/double", -0.0, 0.0),
    (":v/float", 0.1, 0.10000000149011612),
    (":v/bool", np.True_, True),
    (":v/string", np.str_("a"), "a"),
    (":v/string", ":a", ":a"),
    (":v/kw", ":a/b", Keyword("a/b")),
    (":v/symbol", Symbol("a"), Symbol("a")),
    (":v/instant", dt.datetime(2020, 1, 1, tzinfo=ZONE), dt.datetime(2019, 12, 31, 22, tzinfo=dt.UTC)),
    (":v/uuid", ID, ID),
    (":v/uri", Tagged("uri", "http://x.org"), "http://x.org"),
    (":v/uri", "http://x.org", "http://x.org"),
    (":v/bigint", 2**70, 2**70),
    (":v/bigdec", Decimal("1.5"), Decimal("1.5")),
    (":v/bigdec", 3, Decimal(3)),
    (":v/bytes", bytearray(b"a"), b"a"),
    (":v/any", [1, {2}], (1, frozenset({2}))),
    (":v/any", np.int64(4), 4),
    (":v/any", EdnList([1]), (1,)),
    (":v/pair", [5, None], (5, None)),
    (":v/longs", (1, 2, 3), (1, 2, 3)),
]


@pytest.mark.parametrize(("name", "value", "expected"), ACCEPTED)
def test_accepted_values(values: SetFacts, name: str, value: Any, expected: Any) -> None:
    ((_, _, stored, _),) = values.shown(values.prepare([{":db/id": 1, name: value}]))
    assert stored == expected
    assert type(stored) is type(expected) or isinstance(stored, EdnList)


# --- text -----------------------------------------------------------------------------------------

TEXTS = [
    (
        '[{:person/name "x"\n  :person/nmae "y"}]',
        """t.edn:2:3: error: unknown attribute :person/nmae; did you mean :person/name? [unknown-attribute]
      :person/nmae "y"}]
      ^^^^^^^^^^^^""",
    ),
    (
        '[[:db/add 1 :person/age\n   "x"]]',
        """t.edn:2:4: error: attribute :person/age expects a long, got the string "x" [wrong-type]
       "x"]]
       ^^^""",
    ),
    (
        "[[:db/add 1 :person/age 1]\n [:db/add 1 :person/age 2]]",
        """t.edn:2:2: error: entity 1 gets two values of :person/age, which has cardinality one: 1 \
(t.edn:1:2) and 2 [transaction-conflict]
     [:db/add 1 :person/age 2]]
     ^^^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    (
        "[[:db/add 4 :a+b [4 5]]]",
        """t.edn:1:18: error: :a+b is computed from [:a :b], which are [1 nil] after the transaction, and \
cannot be [4 5]; assert the values of those attributes [invalid-transaction]
    [[:db/add 4 :a+b [4 5]]]
                     ^^^^^""",
    ),
    (
        "[:db/add 1 :person/age 1]",
        """t.edn:1:1: error: expected a list of operations and maps, or EDN text, got the vector \
[:db/add 1 :person/age 1]; put the operation into a list: [[...]] [invalid-transaction]
    [:db/add 1 :person/age 1]
    ^^^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    (
        "[[:db/add 1 :person/age 1)",
        """t.edn:1:26: error: expected ], got ) [edn-bracket]
    [[:db/add 1 :person/age 1)
                             ^
    note: the open bracket is at t.edn:1:2""",
    ),
]


@pytest.mark.parametrize(
    "text",
    [
        '[:db/cas 1 :person/age <"36"> 36]',
        "[:db/cas 1 :person/age <1> 2]",
        "[:db/cas 1 :person/age 36 <nil>]",
        "[:db/cas 1 :person/age nil <nil>]",
        "[:db/cas 1 :person/age <nil> 2]",
        "[:db/cas 1 <nil> 1 2]",
        "[:db/cas 1 <nil> nil nil]",
        "[:db/cas <nil> :person/age 36 2]",
        "[:db/add 1 <nil> 1]",
        "[:db/add <nil> :person/age 1]",
        "[:db/add 1 :person/age <nil>]",
        "[:db/add 1 :person/boss <nil>]",
        "[:db/retract 1 <nil> 1]",
        "[:db/retract 1 :person/age <nil>]",
        "[:db/retractEntity <nil>]",
        "{:db/id 1 <nil> 2}",
        "{:person/age <nil>}",
        "[:db/cas 36 :person/age <1> 2]",
        '[:db/cas <"new"> :person/age 1 2]',
        '[:db/cas <[:person/email "zz"]> :person/age 1 2]',
        '[:db/cas 1 <:person/aliases> "a" "b"]',
        '[:db/cas 1 :person/boss <"new"> 2]',
        '[:db/retract <"new"> :person/age 1]',
        '[:db/retract <[:person/email "zz"]> :person/age]',
        "[:db/retract <[:person/email 5]> :person/age]",
        "[:db/retract <[:person/age 5]> :person/age]",
        "[:db/retract 4 <:a+b>]",
        "[:db/retract 1 :person/name <1>]",
        "[:db/retractEntity <:person/age>]",
        "[:db/add 5 :person/name <5>]",
        "{:person/age 5 :db/id 5 :person/name <5>}",
        '{:db/id 9 :person/name "ada" :person/email <"ada">}',
        "{:db/id 9 <:person/_email> 1}",
        '{:db/id 9 :person/friend <{:person/name "x"}>}',
    ],
)
def test_errors_of_text_show_the_part(db: SetFacts, text: str) -> None:
    """The part in angle brackets is marked with carets."""
    start, end = text.index("<"), text.index(">") - 1
    text = text.replace("<", "").replace(">", "")
    with pytest.raises(DbspError) as caught:
        db.prepare(f"[{text}]")
    assert str(caught.value).split("\n")[1:] == [f"    [{text}]", " " * (5 + start) + "^" * (end - start)]


@pytest.mark.parametrize("entity", [10**21, DB0 + 9999])
@pytest.mark.parametrize(
    "form",
    [
        "[:db/add {} :person/age 3]",
        "[:db/add 1 :person/boss {}]",
        "[:db/cas {} :person/age nil 2]",
        "{{:db/id {} :person/age 3}}",
        "{{:person/age 3 :person/_boss {}}}",
    ],
)
def test_errors_of_ids_show_the_id(db: SetFacts, form: str, entity: int) -> None:
    with pytest.raises(DbspError) as caught:
        db.prepare(f"[{form.format(entity)}]", file="t.edn")
    column = form.replace("{{", "{").index("{}") + 1
    assert str(caught.value).split("\n") == [
        f"t.edn:1:{column + 1}: error: expected the id of an entity, from 1 to 2**42 - 1, got {entity} "
        "[unknown-entity]",
        f"    [{form.format(entity)}]",
        " " * (column + 4) + "^" * len(str(entity)),
    ]


@pytest.mark.parametrize(
    "form", ["[:db/retract {} :person/age 3]", "[:db/retract {} :person/age]", "[:db/retractEntity {}]"]
)
def test_retractions_of_ids_of_more_than_64_bits(db: SetFacts, form: str) -> None:
    with pytest.raises(DbspError, match=r"expected the id of an entity, from 1 to") as caught:
        db.prepare(f"[{form.format(10**21)}]", file="t.edn")
    assert str(caught.value).startswith(f"t.edn:1:{form.index('{') + 2}: error: ")


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_errors_of_text_show_the_line(db: SetFacts, text: str, expected: str) -> None:
    with pytest.raises(DbspError) as caught:
        db.prepare(text, file="t.edn")
    assert str(caught.value) == expected


def test_the_exception_of_a_function_is_the_cause(db: SetFacts) -> None:
    with pytest.raises(DbspError) as caught:
        db.prepare([[failing]])
    assert isinstance(caught.value.__cause__, ValueError)


def test_reserved_names_are_refused_in_open_schemas() -> None:
    code, message = refused(SetFacts(open_schema=True), [{":db.x/y": 1}])
    assert "the namespace of :db.x/y is reserved for the system" in message
    assert code == "invalid-schema"
