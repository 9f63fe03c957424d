"""The changes of live queries over facts arrive at targets of Spark, each once."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DecimalType, LongType, StringType, StructType, TimestampType

import dbsp
from benchmarks.fake_spark import FakeSession, Received
from dbsp.datomic import Connection, connect
from dbsp.errors import DbspError
from dbsp.spark.live_sink import LiveSink
from dbsp.spark.targets import FolderTarget
from tests.spark.lives import ticks
from tests.spark.support import Arrivals

SCHEMA = {
    ":name": {":db/valueType": ":db.type/string", ":db/unique": ":db.unique/identity"},
    ":age": {":db/valueType": ":db.type/long"},
}
ADULTS = "[:find ?n ?a :in $ ?least :where [?e :name ?n] [?e :age ?a] [(>= ?a ?least)]]"
NAMES = "[:find ?n :where [_ :name ?n]]"


def born(conn: Connection, name: str, age: int) -> int:
    return conn.transact([{":name": name, ":age": age}]).t


def kill(sink: LiveSink) -> None:
    """End as the process ends: the record is not written, and the lock is free."""
    sink._checkpoint.release()


def follow(conn: Connection, folder: Path, **named: Any) -> LiveSink:
    named = {"target": folder / "out", "checkpoint": folder / "checkpoint"} | named
    return dbsp.spark.subscribe(conn, ADULTS, 18, **named)


def expected(conn: Connection, since: int) -> dict[int, list[tuple[Any, ...]]]:
    """Return the deltas that a sink must have, by tick, with their weights."""
    found = {}
    rows = dbsp.datomic.q(ADULTS, conn.db().as_of(since), 18)
    if rows:
        found[since] = sorted((*row, 1) for row in rows)
    for delta in conn.subscribe(ADULTS, 18, since=since).deltas():
        found[delta.t] = sorted((*row, weight) for row, weight in delta.rows)
    return found


def test_each_transaction_is_a_tick(tmp_path: Path) -> None:
    conn = connect(tmp_path / "db", schema=SCHEMA)
    first = born(conn, "Ada", 36)
    with follow(conn, tmp_path) as sink:
        assert (sink.t, ticks(tmp_path / "out")) == (first, {first: [("Ada", 36, 1)]})
        second = born(conn, "Eva", 17)
        third = born(conn, "Eva", 18)
        fourth = born(conn, "Ada", 37)
        assert sink.t == fourth
    assert ticks(tmp_path / "out") == {
        first: [("Ada", 36, 1)],
        third: [("Eva", 18, 1)],
        fourth: [("Ada", 36, -1), ("Ada", 37, 1)],
    }
    assert second not in ticks(tmp_path / "out")
    table = pq.ParquetFile(next((tmp_path / "out").glob("*.parquet"))).read()
    assert table.column_names == ["n", "a", "weight", "tick"]
    # Closed: it follows no more. The next start delivers what it missed.
    born(conn, "Ida", 20)
    assert max(ticks(tmp_path / "out")) == fourth
    follow(conn, tmp_path).close()
    assert ticks(tmp_path / "out") == expected(conn, first)


def test_since_replays_the_history(tmp_path: Path) -> None:
    conn = connect(tmp_path / "db", schema=SCHEMA)
    ts = [born(conn, "Ada", age) for age in (36, 37, 38)]
    follow(conn, tmp_path, since=ts[0]).close()
    assert ticks(tmp_path / "out") == expected(conn, ts[0])
    assert len(ticks(tmp_path / "out")) == 3
    # Without a checkpoint, from the empty database on.
    dbsp.spark.subscribe(conn, ADULTS, 18, target=tmp_path / "all", since=0).close()
    assert ticks(tmp_path / "all") == expected(conn, 0)


# --- exactly once ---------------------------------------------------------------------------------


class Kill(BaseException):
    """The end of the process."""


WRITE = FolderTarget.write


def before_writing(self: FolderTarget, table: Any, tick: int) -> None:
    raise Kill


def after_writing(self: FolderTarget, table: Any, tick: int) -> None:
    WRITE(self, table, tick)
    raise Kill


@pytest.mark.parametrize("write", [before_writing, after_writing])
@pytest.mark.parametrize("at", range(4))
def test_a_kill_around_each_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[..., None], at: int
) -> None:
    """The write number `at` ends the process; the transaction is committed."""
    conn = connect(tmp_path / "db", schema=SCHEMA)
    first = born(conn, "Ada", 36)
    with monkeypatch.context() as patched:
        if at == 0:
            patched.setattr(FolderTarget, "write", write)
            with pytest.raises(Kill):
                follow(conn, tmp_path)
        else:
            sink = follow(conn, tmp_path)
            for age in range(at - 1):
                born(conn, "Eva", 20 + age)
            patched.setattr(FolderTarget, "write", write)
            with pytest.raises(Kill):
                born(conn, "Eva", 50)
            kill(sink)
    assert (first + at in ticks(tmp_path / "out")) == (write is after_writing)
    conn = connect(tmp_path / "db")
    born(conn, "Ida", 60)
    with follow(conn, tmp_path):
        born(conn, "Ida", 61)
    assert ticks(tmp_path / "out") == expected(conn, first)


def test_a_kill_before_and_after_the_target_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conn = connect(tmp_path / "db", schema=SCHEMA)
    first = born(conn, "Ada", 36)
    opened = FolderTarget.open

    def killed(self: FolderTarget, opening: Any) -> None:
        if after:
            opened(self, opening)
        raise Kill

    for after in (False, True):
        with monkeypatch.context() as patched, pytest.raises(Kill):
            patched.setattr(FolderTarget, "open", killed)
            follow(conn, tmp_path)
        born(conn, "Eva", 20 + after)
    follow(conn, tmp_path).close()
    assert ticks(tmp_path / "out") == expected(conn, first)


def test_kills_at_random(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transactions, kills, closes and transactions of another process, in a random order."""
    chance = random.Random(7)
    schema = connect(tmp_path / "db", schema=SCHEMA)
    start = schema.db().basis_t
    schema.close()
    kinds: Counter[str] = Counter()
    seen = Received()
    function = {"target": seen, "session": FakeSession(), "checkpoint": tmp_path / "function"}
    for _ in range(25):
        conn = connect(tmp_path / "db")
        sink, other_sink = follow(conn, tmp_path), follow(conn, tmp_path, **function)
        for _ in range(chance.randrange(4)):
            born(conn, chance.choice("abc"), chance.randrange(15, 22))
        other = connect(tmp_path / "db")
        born(other, chance.choice("abc"), chance.randrange(15, 22))
        end = chance.choice(["close", "kill", "kill in a write", "deliver and kill"])
        kinds[end] += 1
        if end == "close":
            sink.close()
        elif end == "kill in a write":
            with monkeypatch.context() as patched:
                patched.setattr(FolderTarget, "write", chance.choice([before_writing, after_writing]))
                try:
                    sink.deliver()
                except Kill:
                    kinds["killed"] += 1
        elif end == "deliver and kill":
            sink.deliver()
        kill(sink)
        kill(other_sink)
    assert len(kinds) == 5
    conn = connect(tmp_path / "db")
    follow(conn, tmp_path).close()
    follow(conn, tmp_path, **function).close()
    assert ticks(tmp_path / "out") == seen.ticks == expected(conn, start)


def test_a_failed_delivery_is_repeated(tmp_path: Path) -> None:
    conn = connect(tmp_path / "db", schema=SCHEMA)
    seen = Received()
    sink = follow(conn, tmp_path, target=seen, session=FakeSession())
    seen.fails = True
    with pytest.raises(DbspError, match="the disk is full"):
        born(conn, "Ada", 36)
    assert conn.db().entid((":name", "Ada")) is not None
    with pytest.raises(DbspError, match=r"sink 'Received'.*the disk is full"):
        sink.deliver()
    seen.fails = False
    born(conn, "Ada", 37)
    assert seen.ticks == {2: [("Ada", 36, 1)], 3: [("Ada", 36, -1), ("Ada", 37, 1)]}
    seen.fails = True
    with pytest.raises(DbspError, match="the disk is full"):
        born(conn, "Ada", 38)
    sink.close()
    seen.fails = False
    with follow(conn, tmp_path, target=seen, session=FakeSession()):
        assert seen.ticks[4] == [("Ada", 37, -1), ("Ada", 38, 1)]


def test_a_function_may_transact(tmp_path: Path) -> None:
    conn = connect(schema=SCHEMA | {":seen": {":db/valueType": ":db.type/long"}})
    received: list[int] = []

    def note(table: Any, tick: int) -> None:
        received.append(tick)
        if tick < 5:
            born(conn, f"child of {tick}", 20)

    sink = follow(conn, tmp_path, target=note, session=FakeSession())
    born(conn, "Ada", 36)
    assert received == [2, 3, 4, 5]
    sink.close()


def test_an_error_of_the_query_stops_the_sink(tmp_path: Path) -> None:
    conn = connect(schema=SCHEMA)
    query = "[:find ?x :where [?e :age ?a] [(inverse ?a) ?x]]"
    x_is_long = StructType().add("x", LongType())
    functions = {"inverse": lambda a: 60 // a}
    sink = dbsp.spark.subscribe(conn, query, target=tmp_path / "out", functions=functions, schema=x_is_long)
    born(conn, "Ada", 30)
    born(conn, "Eva", 0)
    with pytest.raises(DbspError, match="inverse"):
        sink.deliver()
    sink.close()
    assert ticks(tmp_path / "out") == {2: [(2, 1)]}


def test_encodings(tmp_path: Path) -> None:
    conn = connect(tmp_path / "db", schema=SCHEMA)
    born(conn, "Ada", 36)

    def start(encoding: str) -> LiveSink:
        places = {"target": tmp_path / encoding, "checkpoint": tmp_path / f"{encoding}.checkpoint"}
        return follow(conn, tmp_path, encoding=encoding, **places)

    sinks = [start("view"), start("operations")]
    with start("append") as append:
        born(conn, "Eva", 20)
        with pytest.raises(DbspError, match="the delta retracts 1 row, which encoding='append' cannot"):
            born(conn, "Ada", 37)
        append.close()
    for sink in sinks:
        sink.close()
    assert ticks(tmp_path / "append") == {2: [("Ada", 36)], 3: [("Eva", 20)]}
    # The error of one target did not keep the changes from the others.
    assert ticks(tmp_path / "operations") == {
        2: [("Ada", 36, "insert")],
        3: [("Eva", 20, "insert")],
        4: [("Ada", 36, "delete"), ("Ada", 37, "insert")],
    }
    assert ticks(tmp_path / "view") == {4: [("Ada", 37), ("Eva", 20)]}
    with start("view"):
        born(conn, "Eva", 17)
    assert ticks(tmp_path / "view") == {5: [("Ada", 37)]}


# --- refused --------------------------------------------------------------------------------------


def test_a_sink_that_does_not_fit_its_checkpoint(tmp_path: Path) -> None:
    conn = connect(tmp_path / "db", schema=SCHEMA)
    born(conn, "Ada", 36)
    with follow(conn, tmp_path), pytest.raises(DbspError, match="checkpoint is in use by"):
        follow(conn, tmp_path)

    def refused(text: str, code: str, conn: Connection = conn, **named: Any) -> None:
        with pytest.raises(DbspError, match=text) as caught:
            follow(conn, tmp_path, **named).close()
        assert caught.value.code == code
        assert str(caught.value).startswith("sink '")

    with pytest.raises(DbspError, match=r"expected the query of the checkpoint .*, 18\], got .*, 21\]"):
        dbsp.spark.subscribe(conn, ADULTS, 21, target=tmp_path / "out", checkpoint=tmp_path / "checkpoint")
    refused("expected the target of the checkpoint", "checkpoint-other-program", target=print, session=1)
    refused("expected the encoding of the checkpoint", "checkpoint-other-program", encoding="operations")
    refused(r"expected the columns of .*\(n string, a long, weight long\)", "schema-mismatch", column="w")
    refused("expected the ticks that the sink has had", "sink-incomplete", target=tmp_path / "other")
    refused("holds the output of another query", "checkpoint-other-query", checkpoint=tmp_path / "second")
    older = connect(schema=SCHEMA)
    refused("the sink has transaction 2, but the database ends at 1", "sink-incomplete", older)
    born(older, "Eva", 20)
    refused("the database has another transaction 2 than the sink", "checkpoint-other-query", older)
    for file in (tmp_path / "out").glob("tick-*"):
        file.unlink()
    refused("the folder .*out lacks tick 2, which it had", "sink-incomplete")


PULL = "[:find (pull ?e [*]) :where [?e :name]]"
TWICE = "[:find ?n ?n :where [_ :name ?n]]"


@pytest.mark.parametrize(
    ("query", "named", "text"),
    [
        (NAMES, {"encoding": "weights"}, "unknown encoding 'weights'"),
        (PULL, {}, "a pull expression returns maps, which a table cannot hold"),
        (TWICE, {}, "the query has two columns 'n'; name the columns with :keys"),
        ("[:find ?v :where [_ :doc ?v]]", {}, "the Spark type of column 'v' is unknown; give it, for"),
        ("[:find ?n :where [_ :name ?n] :limit 3]", {}, "so :limit and :offset have no meaning"),
        (NAMES, {"since": 7}, "since: expected a transaction of the database, which ends at 1, got 7"),
        (NAMES, {"target": 7}, "a sink expects a folder, the name of a table"),
        (NAMES, {"target": print}, "no session is active for the table or the function of the sink"),
        ("[:find ?tick :where [_ :age ?tick]]", {}, "the output has a column 'tick'"),
        ("[:find ?n :where [_ :nmae ?n]]", {}, "unknown attribute :nmae"),
        ("[:find ?e :where [?e :db/ident]]", {"since": 0}, "rows before the first transaction"),
    ],
)
def test_refused_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, named: dict[str, Any], text: str
) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", classmethod(lambda cls: None))
    conn = connect(schema=SCHEMA | {":doc": {}})
    with pytest.raises(DbspError, match=text):
        dbsp.spark.subscribe(conn, query, **{"target": tmp_path / "out", **named})
    with pytest.raises(DbspError, match=r"connection: expected a connection of dbsp.datomic.connect, got 7"):
        dbsp.spark.subscribe(7, query, target=tmp_path / "out")


def test_values_of_other_types(tmp_path: Path) -> None:
    types = ("instant", "keyword", "uuid", "boolean", "bigdec")
    conn = connect(schema={f":{name}": {":db/valueType": f":db.type/{name}"} for name in types})
    variables = " ".join(f"?{name}" for name in types)
    clauses = " ".join(f"[?e :{name} ?{name}]" for name in types)
    query = f"[:find {variables} (count ?e) :where {clauses}]"
    schema = StructType().add("instant", TimestampType()).add("keyword", StringType())
    schema = schema.add("uuid", "string").add("boolean", "boolean").add("bigdec", DecimalType(10, 2))
    with dbsp.spark.subscribe(conn, query, target=tmp_path / "out", schema=schema):
        instant, id_ = dt.datetime(2020, 1, 2, tzinfo=dt.UTC), uuid.UUID(int=5)
        conn.transact(
            [{":instant": instant, ":keyword": ":a/b", ":uuid": id_, ":boolean": True, ":bigdec": 3}]
        )
    (file,) = (tmp_path / "out").glob("*.parquet")
    (row,) = pq.ParquetFile(file).read().to_pylist()
    assert row == {
        "instant": instant,
        "keyword": ":a/b",
        "uuid": str(id_),
        "boolean": True,
        "bigdec": 3,
        "count_e": 1,
        "weight": 1,
        "tick": 2,
    }
    keywords = "[:find ?k :where [_ :keyword ?k]]"
    texts, longs = (StructType().add("k", type_) for type_ in (StringType(), LongType()))
    dbsp.spark.subscribe(conn, keywords, target=tmp_path / "texts", schema=texts).close()
    with pytest.raises(
        DbspError,
        match=r"column 'k': expected values for the Spark type bigint, got :a/b of type Keyword; give the",
    ):
        dbsp.spark.subscribe(conn, keywords, target=tmp_path / "longs", schema=longs)


# --- with Spark -----------------------------------------------------------------------------------


@pytest.mark.spark
def test_micro_batches_in_and_deltas_out(spark: SparkSession, tmp_path: Path) -> None:
    """A stream of entities, and its live query in a table and in a folder that Spark reads."""
    arrivals = Arrivals(tmp_path / "in", "name string, age long")
    conn = connect(tmp_path / "db", schema=SCHEMA)
    seen: dict[int, list[Any]] = {}

    def show(frame: Any, tick: int) -> None:
        seen[tick] = sorted(map(tuple, frame.collect()))

    places = [tmp_path / "out", "adults", show]

    def run() -> None:
        sinks = [
            follow(conn, tmp_path, target=place, checkpoint=tmp_path / f"checkpoint {number}", session=spark)
            for number, place in enumerate(places)
        ]
        writer = arrivals.frame(spark).writeStream.foreachBatch(dbsp.spark.feed_database(conn))
        writer = writer.option("checkpointLocation", str(tmp_path / "spark"))
        writer.trigger(availableNow=True).start().awaitTermination()
        for sink in sinks:
            sink.close()

    arrivals.put(("Ada", 36), ("Eva", 17))
    arrivals.put(("Eva", 18))
    run()
    arrivals.put(("Ada", 37))
    run()
    # Transactions 1 and 2 are the schemas.
    deltas = {3: [("Ada", 36, 1)], 4: [("Eva", 18, 1)], 5: [("Ada", 36, -1), ("Ada", 37, 1)]}
    assert ticks(tmp_path / "out") == deltas
    assert seen == deltas
    rows = spark.table("adults").orderBy("tick", "weight").collect()
    spark.sql("DROP TABLE adults")
    assert [tuple(row) for row in rows] == [
        (*row, tick) for tick, changed in deltas.items() for row in changed
    ]
    dbsp.spark.register(spark)
    view = spark.read.format("dbsp").load(str(tmp_path / "out"))
    assert sorted((row.n, row.a) for row in view.collect()) == [("Ada", 37), ("Eva", 18)]


@pytest.mark.spark
def test_frames_of_queries_and_datoms(spark: SparkSession) -> None:
    conn = connect(schema=SCHEMA | {":at": {":db/valueType": ":db.type/instant"}})
    at = dt.datetime(2020, 1, 2, 3, tzinfo=dt.UTC)
    conn.transact([{":name": "Ada", ":age": 36, ":at": at}, {":name": "Eva", ":age": 17}])
    conn.transact([{":name": "Ada", ":age": 37}])
    query = "[:find ?n ?a :in $ ?least :where [?e :name ?n] [?e :age ?a] [(>= ?a ?least)] :order-by ?a]"
    frame = dbsp.spark.query_frame(spark, query, conn.db(), 0)
    assert [tuple(row) for row in frame.collect()] == [("Eva", 17), ("Ada", 37)]
    assert frame.schema.simpleString() == "struct<n:string,a:bigint>"
    typed = dbsp.spark.query_frame(
        spark, "[:find ?n ?at :where [?e :name ?n] [?e :at ?at]]", conn.db(), schema="at timestamp"
    )
    assert typed.selectExpr("n", "unix_seconds(at) AS s").collect() == [("Ada", int(at.timestamp()))]
    assert dbsp.spark.query_frame(spark, query, conn.db(), 99).count() == 0

    # The datoms of a history, into another database.
    history = conn.db().history()
    datoms = [datom for name in (":name", ":age", ":at") for datom in history.datoms(":aevt", name)]
    frame = dbsp.spark.datoms_frame(spark, datoms)
    assert frame.where("a = ':age' AND v_long = 36").select("added").orderBy("added").collect() == [
        (False,),
        (True,),
    ]
    copy = connect(schema=SCHEMA | {":at": {":db/valueType": ":db.type/instant"}})
    now = [datom for name in (":name", ":age", ":at") for datom in conn.db().datoms(":aevt", name)]
    feed = dbsp.spark.feed_database(copy, form="datoms")
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", "the copy")
    try:
        feed(dbsp.spark.datoms_frame(spark, now), 0)
    finally:
        spark.sparkContext.setLocalProperty("sql.streaming.queryId", None)  # type: ignore[arg-type]
    for name in (":name", ":age", ":at"):
        pairs = [[(d.e, d.v) for d in each.db().datoms(":aevt", name)] for each in (conn, copy)]
        assert pairs[0] == pairs[1]


def test_refused_datoms() -> None:
    conn = connect(schema={":pair": {":db/valueType": ":db.type/tuple", ":db/tupleType": ":db.type/long"}})
    report = conn.transact([{":db/id": 1, ":pair": (1, 2)}])
    session = FakeSession()
    with pytest.raises(DbspError, match=r"the value \(1, 2\) of :pair of entity 1 has no column in Spark"):
        dbsp.spark.datoms_frame(session, report.tx_data)
    for wrong in (conn.db(), [(1, ":pair", 2)], 7):
        with pytest.raises(DbspError, match="datoms: expected datoms such as"):
            dbsp.spark.datoms_frame(session, wrong)
