"""Transactions from tables: the same datoms as those of one map per row."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.datomic.table_transaction import prepare_columns
from dbsp.datomic.transaction import PreparedTransaction
from dbsp.errors import DbspError

from .set_facts import NOW, SetFacts
from .test_transactions import SCHEMA

INSTANT = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)


def database() -> SetFacts:
    facts = SetFacts()
    facts.transact(SCHEMA)
    facts.transact(
        """[{:db/ident :person/height :db/valueType :db.type/double}
            {:db/ident :person/since :db/valueType :db.type/instant}
            {:db/ident :person/page :db/valueType :db.type/uri}
            {:db/ident :person/active :db/valueType :db.type/boolean}]"""
    )
    facts.transact([{":db/id": 1, ":person/email": "a", ":person/ssn": 1, ":person/age": 30}])
    return facts


def from_columns(facts: SetFacts, columns: Any, **named: Any) -> PreparedTransaction:
    return prepare_columns(facts, columns, now=NOW + facts.basis_t * dt.timedelta(seconds=1), **named)


def same(columns: Any, forms: list[Any], **named: Any) -> None:
    """Check that a table and its rows as maps are the same transaction."""
    facts = database()
    table, maps = from_columns(facts, columns, **named), facts.prepare(forms)
    assert table.datoms.tolist() == maps.datoms.tolist()
    assert table.next_entity == maps.next_entity
    assert table.schema is facts.schema


emails = st.sampled_from(["a", "b", "c", "d", None])


@given(st.lists(st.tuples(emails, st.none() | st.integers(0, 3), st.integers(0, 1)), max_size=5))
def test_agrees_with_maps(rows: list[tuple[Any, ...]]) -> None:
    names = (":person/email", ":person/age", ":person/boss")
    columns = {
        name: [row[at] or (None if at == 2 else row[at]) for row in rows] for at, name in enumerate(names)
    }
    maps = [
        {name: columns[name][row] for name in names if columns[name][row] is not None}
        for row in range(len(rows))
    ]
    facts = database()
    found: list[Any] = []
    for prepare in (lambda: from_columns(facts, columns), lambda: facts.prepare(maps)):
        try:
            prepared = prepare()
            found.append((prepared.datoms.tolist(), prepared.next_entity))
        except DbspError as error:
            found.append(error.code)
    assert found[0] == found[1]


FORMS = [
    {":person/email": "a", ":person/age": 1, ":person/height": 0.5, ":person/page": "x"},
    {":person/email": "b", ":person/age": 2, ":person/height": 1.5, ":person/page": "y"},
]
COLUMNS = {name: [form[name] for form in FORMS] for name in FORMS[0]}


@pytest.mark.parametrize(
    "table",
    [
        COLUMNS,
        {name: np.array(column) for name, column in COLUMNS.items()},
        {name: pa.array(column) for name, column in COLUMNS.items()},
        {name: pa.chunked_array([column[:1], column[1:]]) for name, column in COLUMNS.items()},
        {name: pd.Series(column) for name, column in COLUMNS.items()},
        {name: pl.Series(column) for name, column in COLUMNS.items()},
        pa.table(COLUMNS),
        pd.DataFrame(COLUMNS),
        pl.DataFrame(COLUMNS),
        pa.table(COLUMNS).set_column(0, ":person/email", pa.array(["a", "b"]).dictionary_encode()),
    ],
    ids=lambda table: type(table).__name__,
)
def test_forms_of_tables(table: Any) -> None:
    same(table, FORMS)


def test_missing_values_assert_nothing() -> None:
    columns = {
        ":person/name": pa.array(["x", None, "z"]),
        ":person/age": pd.Series([1, None, 3], dtype="Int64"),
        ":person/height": pd.Series([0.5, 1.5, float("nan")]),
        ":person/since": [INSTANT, None, None],
        ":person/active": [True, None, None],
    }
    same(
        columns,
        [
            {":person/name": "x", ":person/age": 1, ":person/height": 0.5}
            | {":person/since": INSTANT, ":person/active": True},
            {":person/height": 1.5},
            {":person/name": "z", ":person/age": 3},
        ],
    )


def test_tuples_may_hold_lookup_refs_and_idents() -> None:
    facts = database()
    facts.transact("""[{:db/ident :color/red :db/id 2}
                       {:db/ident :person/rank :db/valueType :db.type/tuple
                        :db/tupleTypes [:db.type/ref :db.type/long]}]""")
    ranks = [((":person/email", "a"), 1), None, (":color/red", 2), (7, None)]
    columns = {":person/age": [5] * 4, ":person/rank": ranks}
    maps = [{":person/age": 5, ":person/rank": rank} for rank in ranks]
    del maps[1][":person/rank"]
    assert from_columns(facts, columns).datoms.tolist() == facts.prepare(maps).datoms.tolist()


def test_entities_may_be_given() -> None:
    ages = [1, 2]
    for ids in (np.array([7, 8]), [7, 8], pa.array([7, 8])):
        same(
            {":person/age": ages},
            [{":db/id": e, ":person/age": age} for e, age in ((7, 1), (8, 2))],
            entities=ids,
        )
    same(
        {":person/age": ages, ":person/boss": [[":person/email", "a"], "t"]},
        [
            {":db/id": [":person/email", "a"], ":person/age": 1, ":person/boss": [":person/email", "a"]},
            {":db/id": "t", ":person/age": 2, ":person/boss": "t"},
        ],
        entities=[[":person/email", "a"], "t"],
    )


def test_a_key_finds_known_entities() -> None:
    facts = database()
    with pytest.raises(DbspError, match="cannot belong to entity"):
        from_columns(facts, {":person/ssn": [1, 2], ":person/age": [31, 20]})
    prepared = from_columns(facts, {":person/ssn": [1, 2], ":person/age": [31, 20]}, key=":person/ssn")
    assert facts.shown(prepared) == [
        (1, ":person/age", 30, False),
        (1, ":person/age", 31, True),
        (2, ":person/ssn", 2, True),
        (2, ":person/age", 20, True),
    ]


ERRORS: list[tuple[Any, dict[str, Any], str, str]] = [
    (
        5,
        {},
        "invalid-argument",
        "columns: expected a mapping from attributes to columns or a data frame, got 5",
    ),
    ({":person/age": 5}, {}, "invalid-argument", "expected a list or an array as a column, got the long 5"),
    (
        {"person/age": [5]},
        {},
        "invalid-argument",
        'expected an attribute such as ":person/name", got the string',
    ),
    (
        {":person/aeg": [5]},
        {},
        "unknown-attribute",
        "unknown attribute :person/aeg; did you mean :person/age?",
    ),
    (
        {":person/age": [5], ":person/name": []},
        {},
        "wrong-arity",
        "expected columns of one length, got :person/age: 1, :person/name: 0",
    ),
    (
        {":person/age": [5, "x"]},
        {},
        "wrong-type",
        'column :person/age, row 1: attribute :person/age expects a long, got the string "x"',
    ),
    (
        {":person/age": np.array([0.5])},
        {},
        "wrong-type",
        "row 0: attribute :person/age expects a long, got the double",
    ),
    (
        {":person/name": pa.array([1])},
        {},
        "wrong-type",
        "row 0: attribute :person/name expects a string, got the long",
    ),
    (
        {":person/age": [None, 2**63]},
        {},
        "value-out-of-range",
        "column :person/age, row 1: attribute :person/age: a long is from -2**63",
    ),
    (
        {":person/boss": [1, 1.5]},
        {},
        "unknown-entity",
        "column :person/boss, row 1: expected an entity: an id",
    ),
    ({":person/age": [1]}, {"entities": [None]}, "unknown-entity", "row 0: expected an entity: an id"),
    ({":person/age": [1]}, {"entities": np.array([0])}, "unknown-entity", "row 0: expected an entity: an id"),
    ({":person/age": [1, 2]}, {"entities": [5, 5]}, "transaction-conflict", "1 (row 0) and 2"),
    (
        {":person/age": [1]},
        {"key": ":person/age"},
        "invalid-argument",
        "key: expected a unique attribute, :person/age is",
    ),
    (
        {":person/age": [1]},
        {"key": ":person/ssn"},
        "invalid-argument",
        "key: expected one of the columns, got :person/ssn",
    ),
    (
        {":person/ssn": [1, None], ":person/age": [1, 2]},
        {"key": ":person/ssn"},
        "missing-value",
        "column :person/ssn, row 1: expected a value of the key, got None",
    ),
    (
        {":person/age": [1, None]},
        {},
        "invalid-tempid",
        "row 1: nothing is asserted about a new entity; give it a value",
    ),
]


@pytest.mark.parametrize(("columns", "named", "code", "text"), ERRORS)
def test_refused(columns: Any, named: dict[str, Any], code: str, text: str) -> None:
    facts = database()
    before = set(facts.facts)
    with pytest.raises(DbspError) as caught:
        from_columns(facts, columns, **named)
    assert text in caught.value.message
    assert caught.value.code == code
    assert before == facts.facts
