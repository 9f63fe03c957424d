"""`read_database`: the rows of a query as a change."""

import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlalchemy

import dbsp
from dbsp import Circuit, DbspError, InputError
from dbsp.io import database_rows


@pytest.fixture
def database(tmp_path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.execute("create table sale (shop text, id integer, euro real)")
    connection.executemany(
        "insert into sale values (?, ?, ?)", [("a", 1, 1.5), ("b", 2, 2.5), ("c", 3, None)]
    )
    connection.commit()
    return connection


def step(source: Any, **columns: Any) -> Any:
    circuit = Circuit("t")
    circuit.output("o", circuit.input("a", **(columns or {"id": int, "shop": str, "euro": float | None})))
    return circuit.start().step({"a": source})["o"]


ROWS = [(1, "a", 1.5), (2, "b", 2.5), (3, "c", None)]


def test_connections(database: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_rows, "_FETCHED_ROWS", 2)
    query = "select * from sale"
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/shop.db")
    for connection in (database, engine):
        source = dbsp.read_database(query, connection)
        assert repr(source) == "<rows of 'select * from sale'>"
        assert step(source).rows() == ROWS
        assert step(source).rows() == ROWS  # the query runs again
    with engine.connect() as connection:
        assert step(dbsp.read_database(query, connection)).rows() == ROWS
        narrow = dbsp.read_database(query + " where id > ?", connection, parameters=[2])
        assert step(narrow).rows() == ROWS[2:]
    duck = duckdb.connect()
    duck.execute(
        "create table sale as select * from (values ('a', 1, 1.5::double), ('b', 2, 2.5)) t(shop, id, euro)"
    )
    assert step(dbsp.read_database(query, duck)).rows() == ROWS[:2]
    assert step(dbsp.read_database(query + " where id = ?", duck, parameters=[2])).rows() == ROWS[1:2]
    for connection in (duck, database):
        with pytest.raises(DbspError, match=r"relation 'a', query .* 1=0': .*; missing: 'shop', 'euro'"):
            step(dbsp.read_database("select id from sale where 1=0", connection))
    by_name = dbsp.read_database(query + " where id > :low", database, parameters={"low": 1})
    assert step(by_name).rows() == ROWS[1:]
    assert step(dbsp.read_database(query + " where id > 5", database)).rows() == []


def test_a_cursor_with_arrow_data_is_read_by_column(database: sqlite3.Connection) -> None:
    class Cursor:
        """A cursor as ADBC defines it."""

        def execute(self, query: str) -> None:
            self.query = query

        def fetch_record_batch(self) -> pa.RecordBatchReader:
            return pa.table({"id": [1, 2], "shop": [self.query, "b"], "euro": [1.5, None]}).to_reader()

        def close(self) -> None: ...

    class Connection:
        cursor = Cursor

    assert step(dbsp.read_database("q", Connection())).rows() == [(1, "q", 1.5), (2, "b", None)]


def test_errors_name_the_query_and_the_row(
    database: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_rows, "_FETCHED_ROWS", 2)
    for query, message in (
        ("select * from sal", r"OperationalError: no such table: sal \[database-error\]"),
        ("create table if not exists x (y)", r"expected a query with a result, got a statement without one"),
        ("select id, shop from sale", r"got \(id, shop\); missing: 'euro'"),
        ("select id, shop, 1 as shop, euro from sale", r"column 'shop' occurs twice"),
    ):
        with pytest.raises(DbspError, match=r"relation 'a', query .*: .*" + message):
            step(dbsp.read_database(query, database))
    engine = sqlalchemy.create_engine("sqlite://")
    with pytest.raises(InputError, match="expected a query with a result"):
        step(dbsp.read_database("create table t (x)", engine))
    with pytest.raises(
        InputError, match=r"query 'select .*': row 3, column 'euro': expected float, got None"
    ):
        step(dbsp.read_database("select * from sale", database), id=int, shop=str, euro=float)
    with pytest.raises(DbspError, match="query: expected the text of a query, got 5 of type int"):
        dbsp.read_database(5, database)  # type: ignore[arg-type]
    with pytest.raises(DbspError, match="connection: expected a connection to a database, got 5 of type int"):
        dbsp.read_database("select 1", 5)
