"""Transactions from tables with one row per fact: the same datoms as those of operations."""

from __future__ import annotations

import contextlib
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbsp.datomic import connect
from dbsp.datomic.table_transaction import prepare_datoms
from dbsp.errors import DbspError

from .set_facts import NOW, SetFacts

SCHEMA = """
    [{:db/ident :name :db/valueType :db.type/string :db/unique :db.unique/identity}
     {:db/ident :age :db/valueType :db.type/long}
     {:db/ident :friend :db/valueType :db.type/ref :db/cardinality :db.cardinality/many}]
"""
NAMES = [":name", ":age", ":friend"]

entities = st.sampled_from(["1", "2", "3", "x", "y"])
rows = st.lists(
    st.one_of(
        st.tuples(entities, st.just(":name"), st.sampled_from("abc"), st.booleans()),
        st.tuples(entities, st.just(":age"), st.integers(0, 2), st.booleans()),
        st.tuples(entities, st.just(":friend"), entities, st.booleans()),
    ),
    max_size=6,
)


def as_entity(text: str) -> Any:
    return int(text) if text.isdigit() else text


@given(rows, rows)
def test_agrees_with_operations(before: list[tuple[Any, ...]], given_: list[tuple[Any, ...]]) -> None:
    facts = SetFacts()
    facts.transact(SCHEMA)
    for e, a, v, _ in before:
        value = as_entity(v) if a == ":friend" else v
        with contextlib.suppress(DbspError):  # two entities with one name
            facts.transact([[":db/add", as_entity(e), a, value]])
    ids = [as_entity(e) for e, *_ in given_]
    # A column of Arrow has one type: ids in one column, tempids in the other case.
    if any(isinstance(each, str) for each in ids):
        ids = [each if isinstance(each, str) else f"t{each}" for each in ids]
    values: dict[str, list[Any]] = {"v_string": [], "v_long": []}
    operations: list[Any] = []
    for e, (_, a, v, added) in zip(ids, given_, strict=True):
        value = as_entity(v) if a == ":friend" else v
        values["v_string"].append(value if isinstance(value, str) else None)
        values["v_long"].append(value if isinstance(value, int) else None)
        operations.append([":db/add" if added else ":db/retract", e, a, value])
    columns = {
        "v_string": pa.chunked_array([pa.array(values["v_string"], pa.string())]),
        "v_long": pa.chunked_array([pa.array(values["v_long"], pa.int64())]),
    }
    type_ = pa.string() if any(isinstance(each, str) for each in ids) else pa.int64()

    def from_table() -> Any:
        return prepare_datoms(
            facts,
            pa.chunked_array([pa.array(ids, type_)]),
            pa.chunked_array([pa.array([a for _, a, _, _ in given_], pa.string())]),
            columns,
            pa.chunked_array([pa.array([added for *_, added in given_], pa.bool_())]),
            now=NOW,
        )

    found: list[Any] = []
    for prepare in (from_table, lambda: facts.prepare(operations)):
        try:
            prepared = prepare()
        except DbspError as error:
            found.append(error.code)
        else:
            # New entities may get their ids in another order, since the table is read by attribute.
            names: dict[int, list[str]] = {}
            for key, id_ in sorted(prepared.tempids.items()):
                names.setdefault(id_, []).append(key)
            attributes = facts.schema.by_id
            found.append(
                sorted(
                    (str(names.get(e, e)), a, str(names.get(v, v)) if attributes[a].is_ref else str(v), added)
                    for e, a, v, _, added in prepared.datoms.tolist()
                    if attributes[a].ident.text != "db/txInstant"
                )
            )
    assert found[0] == found[1]


def test_values_that_arrow_lacks() -> None:
    conn = connect(
        schema={
            ":tag": {":db/valueType": ":db.type/string", ":db/cardinality": ":db.cardinality/many"},
            ":pair": {":db/valueType": ":db.type/tuple", ":db/tupleType": ":db.type/long"},
            ":pairs": {
                ":db/valueType": ":db.type/tuple",
                ":db/tupleType": ":db.type/long",
                ":db/cardinality": ":db.cardinality/many",
            },
            ":uuid": {":db/valueType": ":db.type/uuid"},
            ":big": {":db/valueType": ":db.type/bigint"},
        }
    )
    id_ = uuid.UUID(int=3)
    conn.transact_table(
        {
            ":tag": pa.array([["a", "b", "a"], None, [], ["c"]]),
            ":pair": pa.array([{"x": 1, "y": 2}, {"x": 3, "y": None}, None, None]),
            ":pairs": pa.array([[[1, 2]], None, [[3, 4], [5, 6]], None]),
            ":uuid": pa.array([str(id_), None, None, None]),
            ":big": pa.array([Decimal(2**70), None, None, Decimal(5)]),
        },
        entities=[1, 2, 3, 4],
    )
    found: dict[tuple[int, str], list[Any]] = {}
    for e in (1, 2, 3, 4):
        for datom in conn.db().datoms(":eavt", e):
            found.setdefault((e, datom.a.text), []).append(datom.v)
    assert found == {
        (1, "tag"): ["a", "b"],
        (1, "pair"): [(1, 2)],
        (1, "pairs"): [(1, 2)],
        (1, "uuid"): [id_],
        (1, "big"): [2**70],
        (2, "pair"): [(3, None)],
        (3, "pairs"): [(3, 4), (5, 6)],
        (4, "tag"): ["c"],
        (4, "big"): [5],
    }


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (
            {":tag": pa.array([["a"], ["b", "c"], None]), ":n": pa.array(["1", "x", None])},
            'column :n, row 0: attribute :n expects a long, got the string "1"',
        ),
        (
            {":u": pa.array([None, "x", None])},
            "column :u, row 1: attribute :u expects a uuid, got the string",
        ),
        (
            {":tag": pa.array([[], [1], [2]])},
            "column :tag, row 1: attribute :tag expects a string, got the long 1",
        ),
        (
            {":big": pa.array([None, None, Decimal("1.5")])},
            "column :big, row 2: attribute :big expects a bigint",
        ),
    ],
)
def test_wrong_values_name_their_row(columns: Any, text: str) -> None:
    many = {":db/valueType": ":db.type/string", ":db/cardinality": ":db.cardinality/many"}
    conn = connect(
        schema={
            ":tag": many,
            ":n": {":db/valueType": ":db.type/long"},
            ":u": {":db/valueType": ":db.type/uuid"},
            ":big": {":db/valueType": ":db.type/bigint"},
        }
    )
    with pytest.raises(DbspError) as caught:
        conn.transact_table(columns, entities=np.array([1, 2, 3]))
    assert text in caught.value.message


def test_an_open_schema_gets_attributes() -> None:
    conn = connect(open_schema=True)
    conn.transact_table({":new/a": [1, 2], ":new/b": ["x", None]})
    assert [(d.a.text, d.v) for d in conn.db().datoms(":eavt", 1)] == [("new/a", 1), ("new/b", "x")]
    with pytest.raises(DbspError, match="unknown attribute :db/nothing"):
        conn.transact_table({":db/nothing": [1]})
