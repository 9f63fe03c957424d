"""Micro-batches of Spark as transactions of a database of facts."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import dbsp
from dbsp.datomic import Connection, connect, q
from dbsp.edn.edn_values import Keyword, Symbol
from dbsp.errors import DbspError
from tests.spark.support import Arrivals, uncommit

PERSON = {
    ":person/name": {":db/valueType": ":db.type/string", ":db/unique": ":db.unique/identity"},
    ":person/age": {":db/valueType": ":db.type/long"},
    ":person/height": {":db/valueType": ":db.type/double"},
    ":person/alias": {":db/valueType": ":db.type/string", ":db/cardinality": ":db.cardinality/many"},
    ":person/friend": {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"},
}
PEOPLE = "[:find ?n ?a :where [?p :person/name ?n] [?p :person/age ?a]]"
STREAMED = "[:find ?tx ?b :where [?tx :dbsp.spark/stream _] [?tx :dbsp.spark/batch ?b]]"


def run(frame: Any, conn: Connection, checkpoint: Path, **named: Any) -> Any:
    """Transact all rows that have arrived, and return the query."""
    writer = frame.writeStream.foreachBatch(dbsp.spark.feed_database(conn, **named))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def ages(conn: Connection) -> list[tuple[Any, ...]]:
    return list(q(PEOPLE, conn.db()))


@pytest.mark.spark
def test_maps(spark: SparkSession, tmp_path: Path) -> None:
    arrivals = Arrivals(
        tmp_path / "in", "`person/name` string, `person/age` long, `person/alias` array<string>"
    )
    conn = connect(tmp_path / "db", schema=PERSON)
    arrivals.put(("Ada", 36, ["Countess", "AAL"]), ("Eva", None, None))
    arrivals.put(("Eva", 17, []), ("Ada", 37, ["AAL"]))
    reports: list[Any] = []
    run(arrivals.frame(spark), conn, tmp_path / "checkpoint", on_report=reports.append)
    assert ages(conn) == [("Ada", 37), ("Eva", 17)]
    aliases = "[:find [?a ...] :where [_ :person/alias ?a]]"
    assert sorted(q(aliases, conn.db())) == ["AAL", "Countess"]
    # The first transaction is the schema of the database, the second one that of the stream.
    assert [report.t for report in reports] == [3, 4]
    assert q(STREAMED, conn.db()) == [(reports[0].tx, 0), (reports[1].tx, 1)]
    assert q(PEOPLE, conn.db().as_of(3)) == [("Ada", 36)]


@pytest.mark.spark
def test_datoms(spark: SparkSession, tmp_path: Path) -> None:
    columns = "e string, a string, v_string string, v_long long, v_double double, added boolean"
    arrivals = Arrivals(tmp_path / "in", columns)
    conn = connect(tmp_path / "db", schema=PERSON)
    arrivals.put(
        ("ada", ":person/name", "Ada", None, None, True),
        ("ada", ":person/age", None, 36, None, True),
        ("ada", ":person/height", None, None, 1.5, True),
        ("ada", ":person/friend", "eva", None, None, True),
        ("eva", ":person/name", "Eva", None, None, True),
        ("datomic.tx", ":db/doc", "the import", None, None, True),
    )
    run(arrivals.frame(spark), conn, tmp_path / "checkpoint", form="datoms")
    friends = "[:find ?a ?b ?h :where [?x :person/friend ?y] [?x :person/name ?a] [?y :person/name ?b]"
    assert q(friends + "[?x :person/height ?h]]", conn.db()) == [("Ada", "Eva", 1.5)]
    assert q('[:find ?b :where [?tx :db/doc "the import"] [?tx :dbsp.spark/batch ?b]]', conn.db()) == [(0,)]

    # Retractions name entities by their ids.
    ada, eva = (conn.db().entid((":person/name", name)) for name in ("Ada", "Eva"))
    numbers = Arrivals(tmp_path / "more", "e long, a string, v long, added boolean")
    numbers.put(
        (ada, ":person/age", 36, False), (ada, ":person/friend", eva, False), (eva, ":person/age", 17, True)
    )
    run(numbers.frame(spark), conn, tmp_path / "other", form="datoms")
    assert ages(conn) == [("Eva", 17)]
    assert q(friends + "[?x :person/height ?h]]", conn.db()) == []


# --- exactly once ---------------------------------------------------------------------------------


class Kill(BaseException):
    """The end of the process."""


@pytest.mark.spark
@pytest.mark.parametrize("point", ["before", "after", "acknowledged"])
def test_a_crash_at_each_point(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """The process ends before or after the transaction, or after Spark's function has returned."""
    arrivals = Arrivals(tmp_path / "in", "`person/name` string, `person/age` long")
    frame = arrivals.frame(spark)
    arrivals.put(("Ada", 36))
    with connect(tmp_path / "db", schema=PERSON) as conn:
        run(frame, conn, tmp_path / "checkpoint")
    arrivals.put(("Ada", 37), ("Eva", 1))

    transact = Connection.transact_prepared

    def killed(self: Connection, prepare: Any) -> Any:
        if point == "after":
            transact(self, prepare)
        raise Kill

    with connect(tmp_path / "db") as conn:
        if point == "acknowledged":
            run(frame, conn, tmp_path / "checkpoint")
            uncommit(tmp_path / "checkpoint")
        else:
            with monkeypatch.context() as patched, pytest.raises(StreamingQueryException, match="Kill"):
                patched.setattr(Connection, "transact_prepared", killed)
                run(frame, conn, tmp_path / "checkpoint")
    # Something else has changed the facts: a repeated micro-batch must not change them back.
    with connect(tmp_path / "db") as conn:
        if point != "before":
            assert ages(conn) == [("Ada", 37), ("Eva", 1)]
            conn.transact([{":person/name": "Eva", ":person/age": 2}])
        else:
            assert ages(conn) == [("Ada", 36)]
        before = conn.db().basis_t
        run(frame, conn, tmp_path / "checkpoint")
        assert conn.db().basis_t == before + (point == "before")
        assert ages(conn) == [("Ada", 37), ("Eva", 1 if point == "before" else 2)]
        arrivals.put(("Ida", 5))
        run(frame, conn, tmp_path / "checkpoint")
        assert ages(conn)[-1] == ("Ida", 5)
        assert [batch for _, batch in q(STREAMED, conn.db())] == [0, 1, 2]


@pytest.mark.spark
def test_two_streams_and_a_database_that_lacks_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path / "in", "`person/name` string, `person/age` long")
    conn = connect(schema=PERSON)
    for age in (1, 2):
        arrivals.put(("Ada", age))
    for name in ("one", "two"):
        run(arrivals.frame(spark), conn, tmp_path / name)
    assert sorted(batch for _, batch in q(STREAMED, conn.db())) == [0, 0, 1, 1]
    arrivals.put(("Ada", 3))
    older = connect(schema=PERSON)
    with pytest.raises(StreamingQueryException, match=r"the database lacks micro-batch 1 of Spark's query"):
        run(arrivals.frame(spark), older, tmp_path / "one")
    assert ages(older) == []


# --- wrong rows -----------------------------------------------------------------------------------


class FakeContext:
    def getLocalProperty(self, name: str) -> str | None:
        return "the id of the query"


class FakeFrame:
    """A micro-batch without a JVM."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.sparkSession = self
        self.sparkContext = FakeContext()

    def toArrow(self) -> pa.Table:
        return self.table


MAPS: list[tuple[dict[str, Any], str, str]] = [
    (
        {"person/nmae": ["x"]},
        "unknown-attribute",
        "unknown attribute :person/nmae; did you mean :person/name?",
    ),
    (
        {"person/name": ["a", "b"], ":person/age": ["1", "x"]},
        "wrong-type",
        'column :person/age, row 0: attribute :person/age expects a long, got the string "1"',
    ),
    (
        {"person/alias": [["a"], [], None, ["b", None]], "person/age": [1, 2, 3, 4.5]},
        "wrong-type",
        "column :person/age, row 0: attribute :person/age expects a long, got the double 1.0",
    ),
    (
        {"person/friend": [[1], [2, 1 << 62]]},
        "unknown-entity",
        "row 1: expected the id of an entity",
    ),
    ({"db/id": [1, None], "person/age": [1, 2]}, "unknown-entity", "row 1: expected an entity"),
    (
        {"person/age": [1], ":person/age": [2]},
        "duplicate-column",
        "the DataFrame has two columns :person/age; drop one",
    ),
    ({"person/age": [1, None]}, "invalid-tempid", "row 1: nothing is asserted"),
    ({"person/name": ["a", "a"], "person/age": [1, 2]}, "transaction-conflict", ":person/age"),
]
DATOMS: list[tuple[dict[str, Any], str, str]] = [
    (
        {"e": [1], "a": [":person/age"], "value": [1]},
        "schema-mismatch",
        "expected the columns e, a, v (or several such as v_long and v_string) and, optionally, added and tx;"
        " got e, a, value",
    ),
    ({"e": [1], "b": [":person/age"], "v": [1]}, "schema-mismatch", "got e, b, v"),
    (
        {"e": [1], "a": [5], "v": [1]},
        "schema-mismatch",
        "column a: expected strings, got int64; cast the column",
    ),
    (
        {"e": [1], "a": [":person/age"], "v": [1], "added": ["x"]},
        "schema-mismatch",
        "column added: expected booleans, got string",
    ),
    (
        {"e": [1, 2], "a": [":person/age", ":person/aeg"], "v": [1, 1]},
        "unknown-attribute",
        "column a, row 1: unknown attribute :person/aeg; did you mean :person/age?",
    ),
    (
        {"e": [1, 2], "a": [":person/age", None], "v": [1, 1]},
        "missing-value",
        "column a, row 1: expected an attribute",
    ),
    (
        {"e": [1, None], "a": [":person/age"] * 2, "v": [1, 1]},
        "unknown-entity",
        "column e, row 1: expected an entity",
    ),
    (
        {"e": [1, 2], "a": [":person/age"] * 2, "v": [1, None]},
        "missing-value",
        "row 1: expected a value in v, got None",
    ),
    (
        {"e": [1, 2], "a": [":person/age"] * 2, "v_long": [1, 2], "v_string": [None, "x"]},
        "invalid-transaction",
        "row 1: expected a value in one of v_long, v_string, got values in v_long and v_string",
    ),
    (
        {"e": [1, 2], "a": [":person/age"] * 2, "v_long": [1, None], "v_string": [None, "x"]},
        "wrong-type",
        'column v_string, row 1: attribute :person/age expects a long, got the string "x"',
    ),
    (
        {"e": [1, 2], "a": [":person/age"] * 2, "v": [1, 2], "added": [True, None]},
        "missing-value",
        "column added, row 1: expected true or false, got None",
    ),
    (
        {"e": ["ada", "eva"], "a": [":person/age"] * 2, "v": [1, 2], "added": [True, False]},
        "invalid-tempid",
        'column e, row 1: the tempid "eva" is a new entity',
    ),
    (
        {"e": [1, 1], "a": [":person/age"] * 2, "v": [1, 2]},
        "transaction-conflict",
        ":person/age",
    ),
]


@pytest.mark.parametrize(
    ("form", "columns", "code", "text"),
    [("maps", *case) for case in MAPS] + [("datoms", *case) for case in DATOMS],
)
def test_a_wrong_row_changes_nothing(form: str, columns: dict[str, Any], code: str, text: str) -> None:
    conn = connect(schema=PERSON)
    feed = dbsp.spark.feed_database(conn, form=form)
    before = conn.db()
    with pytest.raises(DbspError) as caught:
        feed(FakeFrame(pa.table(columns)), 0)
    assert text in caught.value.message
    assert caught.value.code == code
    assert str(caught.value).startswith("micro-batch 0: ")
    assert conn.db() == before
    assert dbsp.spark.error("the id of the query") is caught.value
    # The same micro-batch is repeated when the rows are right.
    right = {"person/name": ["Ada"], "person/age": [36]}
    dbsp.spark.feed_database(conn)(FakeFrame(pa.table(right)), 0)
    assert ages(conn) == [("Ada", 36)]
    assert dbsp.spark.error("the id of the query") is None


@pytest.mark.spark
def test_the_error_of_a_query(spark: SparkSession, tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path / "in", "`person/name` string, `person/age` string")
    arrivals.put(("Ada", "old"))
    conn = connect(schema=PERSON)
    before = dbsp.spark.feed_database(conn) and conn.db()
    writer = arrivals.frame(spark).writeStream.foreachBatch(dbsp.spark.feed_database(conn))
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match="expects a long, got the string"):
        query.awaitTermination()
    error = dbsp.spark.error(query)
    assert error is not None
    assert error.where == "micro-batch 0"
    assert conn.db() == before


def test_refused_arguments(tmp_path: Path) -> None:
    with pytest.raises(
        DbspError, match=r"connection: expected a connection of dbsp.datomic.connect, got 'db'"
    ):
        dbsp.spark.feed_database("db")
    conn = connect(tmp_path / "db")
    with pytest.raises(DbspError, match=r"form= expects one of 'maps', 'datoms', got 'rows'"):
        dbsp.spark.feed_database(conn, form="rows")
    conn.close()
    with pytest.raises(DbspError, match="read_only"):
        dbsp.spark.feed_database(connect(tmp_path / "db", read_only=True))
    frame = FakeFrame(pa.table({"person/age": [1]}))
    frame.sparkContext.getLocalProperty = lambda name: None  # type: ignore[method-assign]
    with pytest.raises(DbspError, match=r"pass the function to writeStream.foreachBatch"):
        dbsp.spark.feed_database(connect())(frame, 0)


# --- values ---------------------------------------------------------------------------------------


def test_values_of_all_types() -> None:
    types = ("long", "double", "float", "boolean", "string", "keyword", "symbol", "instant", "uuid", "uri")
    types += ("bigint", "bigdec", "bytes", "ref")
    schema = {f":x/{name}": {":db/valueType": f":db.type/{name}"} for name in types}
    schema[":x/tuple"] = {
        ":db/valueType": ":db.type/tuple",
        ":db/tupleTypes": [":db.type/long", ":db.type/string"],
    }
    schema[":x/pairs"] = {
        ":db/valueType": ":db.type/tuple",
        ":db/tupleType": ":db.type/long",
        ":db/cardinality": ":db.cardinality/many",
    }
    conn = connect(schema=schema)
    instant = dt.datetime(2020, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
    id_ = uuid.UUID(int=7)
    given = {
        "x/long": pa.array([-1]),
        "x/double": pa.array([0.1]),
        "x/float": pa.array([0.5], pa.float32()),
        "x/boolean": pa.array([True]),
        "x/string": pa.array(["text"]),
        "x/keyword": pa.array([":color/red"]),
        "x/symbol": pa.array(["sym"]),
        "x/instant": pa.array([instant], pa.timestamp("us", "UTC")),
        "x/uuid": pa.array([str(id_)]),
        "x/uri": pa.array(["http://example.com"]),
        "x/bigint": pa.array([Decimal(10) ** 30], pa.decimal128(38, 0)),
        "x/bigdec": pa.array([Decimal("1.50")]),
        "x/bytes": pa.array([b"\x00\xff"]),
        "x/ref": pa.array([":db/ident"]),
        "x/tuple": pa.array([{"a": 1, "b": "x"}]),
        "x/pairs": pa.array([[[1, 2], [3, 4]]]),
    }
    dbsp.spark.feed_database(conn)(FakeFrame(pa.table({"db/id": pa.array([1]), **given})), 0)
    db = conn.db()
    found = {datom.a.name: datom.v for datom in db.datoms(":eavt", 1) if datom.a.name != "pairs"}
    assert found == {
        "long": -1,
        "double": 0.1,
        "float": 0.5,
        "boolean": True,
        "string": "text",
        "keyword": Keyword("color/red"),
        "symbol": Symbol("sym"),
        "instant": instant,
        "uuid": id_,
        "uri": "http://example.com",
        "bigint": 10**30,
        "bigdec": Decimal("1.50"),
        "bytes": b"\x00\xff",
        "ref": db.entid(":db/ident"),
        "tuple": (1, "x"),
    }
    assert sorted(datom.v for datom in db.datoms(":eavt", 1, ":x/pairs")) == [(1, 2), (3, 4)]
    # The same values in the columns of datoms.
    for name, column in given.items():
        if name == "x/pairs":
            continue
        other = connect(schema=schema)
        feed = dbsp.spark.feed_database(other, form="datoms")
        feed(FakeFrame(pa.table({"e": [1], "a": [f":{name}"], "v": column})), 0)
        (datom,) = other.db().datoms(":eavt", 1)
        assert datom.v == found[name[2:]]


def test_an_open_schema_gets_attributes() -> None:
    conn = connect(open_schema=True)
    feed = dbsp.spark.feed_database(conn, form="datoms")
    feed(FakeFrame(pa.table({"e": ["x", "x"], "a": [":new/a", ":new/b"], "v": [1, 2]})), 0)
    feed(FakeFrame(pa.table({"e": [1], "a": [":new/a"], "v": [3]})), 1)
    assert q("[:find ?a ?b :where [?e :new/a ?a] [?e :new/b ?b]]", conn.db()) == [(3, 2)]
