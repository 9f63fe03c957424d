"""The format "dbsp": read recorded deltas and views, and write changes for a run, each once."""

from __future__ import annotations

import datetime as dt
import decimal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dbsp
from dbsp import Schema, ZSet
from dbsp.durable import DeltaLog, Inbox
from tests.spark.support import CLOSURE, Arrivals, Delta, uncommit

DELTAS: list[Delta] = [
    {(1, "a"): 1, (2, None): 2},
    {},
    {(1, "a"): -1, (3, "ä"): 1},
    {(2, None): -1},
    {(2, None): -1, (4, "b"): 3},
]
SCHEMA = Schema.of(x=int, s=str | None)


@pytest.fixture(scope="module")
def registered(spark: Any) -> Any:
    dbsp.spark.register(spark)
    return spark


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> DeltaLog:
    log = DeltaLog(tmp_path_factory.mktemp("recorded") / "log")
    for tick, delta in enumerate(DELTAS, 1):
        log.append(tick, {"out": ZSet(delta, SCHEMA), "other": ZSet({(tick,): 1}, {"n": int})})
    return log


def reader(spark: Any, log: DeltaLog, stream: bool = False, **options: Any) -> Any:
    source = (spark.readStream if stream else spark.read).format("dbsp").option("path", str(log.folder))
    return source.option("output", "out").options(**options)


def by_tick(table: pa.Table) -> dict[int, Delta]:
    """Return the deltas by tick of a table whose last columns are a weight and the tick."""
    found: dict[int, Delta] = {}
    for *row, weight, tick in zip(*(column.to_pylist() for column in table.columns), strict=True):
        delta = found.setdefault(tick, {})
        assert tuple(row) not in delta
        delta[tuple(row)] = weight
    return found


def expected(first: int = 1, last: int = 5) -> dict[int, Delta]:
    return {n: delta for n, delta in enumerate(DELTAS, 1) if delta and first <= n <= last}


class Batches:
    """Records the rows of a stream, micro-batch by micro-batch."""

    def __init__(self) -> None:
        self.seen: list[dict[int, Delta]] = []

    def __call__(self, frame: Any, batch: int) -> None:
        self.seen.append(by_tick(frame.toArrow()))

    def ticks(self) -> dict[int, Delta]:
        ticks: dict[int, Delta] = {}
        for batch in self.seen:
            assert not ticks.keys() & batch.keys()
            ticks |= batch
        return ticks


def play(frame: Any, checkpoint: Path) -> Batches:
    batches = Batches()
    query = frame.writeStream.foreachBatch(batches).option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()
    return batches


def test_views_and_deltas_of_the_past(registered: Any, recorded: DeltaLog) -> None:
    frame = reader(registered, recorded).load()
    assert frame.schema.simpleString() == "struct<x:bigint,s:string,weight:bigint,tick:bigint>"
    assert [field.nullable for field in frame.schema] == [False, True, False, False]
    assert by_tick(frame.toArrow()) == {5: {(3, "ä"): 1, (4, "b"): 3}}
    assert by_tick(reader(registered, recorded, asOf=3).load().toArrow()) == {3: {(2, None): 2, (3, "ä"): 1}}
    rows = reader(registered, recorded, rows="true").load()
    assert rows.columns == ["x", "s"]
    assert sorted(rows.toArrow().column("x").to_pylist()) == [3, 4, 4, 4]
    deltas = reader(registered, recorded, deltas="true", startTick=2, asOf=4).load()
    assert by_tick(deltas.toArrow()) == expected(2, 4)
    renamed = reader(registered, recorded, deltas="true").schema("tick int, weight short, x int").load()
    assert set(renamed.toArrow().column("tick").to_pylist()) == set(expected())


def test_a_stream_of_deltas(registered: Any, recorded: DeltaLog, tmp_path: Path) -> None:
    whole = play(reader(registered, recorded, stream=True).load(), tmp_path / "whole")
    assert (whole.ticks(), len(whole.seen)) == (expected(), 1)
    two = play(reader(registered, recorded, True, startTick=2, maxTicksPerBatch=2).load(), tmp_path / "two")
    assert two.seen == [expected(2, 3), expected(4, 5)]


def test_a_stream_continues_with_the_log(registered: Any, tmp_path: Path) -> None:
    log = DeltaLog(tmp_path / "log")
    frame = reader(registered, log, stream=True).schema("x long, s string, weight long, tick long").load()
    assert play(frame, tmp_path / "point").ticks() == {}
    for tick, delta in enumerate(DELTAS, 1):
        log.append(tick, {"out": ZSet(delta, SCHEMA)})
        if tick != 4:
            brought = play(frame, tmp_path / "point").ticks()
            assert brought == ({4: DELTAS[3]} if tick == 5 else {}) | expected(tick, tick)
    uncommit(tmp_path / "point")
    assert play(frame, tmp_path / "point").ticks() == expected(4, 5)


def test_a_log_that_has_removed_ticks(registered: Any, tmp_path: Path) -> None:
    log = DeltaLog(tmp_path / "log", retain=8)
    for tick in range(1, 25):
        log.append(tick, {"out": ZSet({(tick, "a"): 1}, SCHEMA)})
    first = log.ledger.first()
    assert first > 1
    behind = rf"has no tick \d+ any more: it begins with tick {first}, "
    with pytest.raises(Exception, match=behind):
        reader(registered, log, deltas="true").load().collect()
    with pytest.raises(Exception, match=behind):
        reader(registered, log, asOf=str(first - 2)).load().collect()
    rows = by_tick(reader(registered, log, deltas="true", startTick=str(first)).load().toArrow())
    assert list(rows) == list(range(first, 25))
    assert reader(registered, log, asOf=str(first - 1)).load().count() == first - 1
    stream = reader(registered, log, stream=True, startTick=str(first - 1)).load().writeStream
    options = {"checkpointLocation": str(tmp_path / "behind")}
    query = stream.foreachBatch(lambda frame, batch: None).options(**options).start()
    with pytest.raises(Exception, match=behind):
        query.processAllAvailable()
    query.stop()


def test_types(registered: Any, tmp_path: Path) -> None:
    schema = Schema.of(i=int, f=float, b=bool, y=bytes, d=dt.date, t=dt.datetime, o=object, m=object)
    row = (-1, 0.5, True, b"\0", dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12, 30), (1, (2, 3)), None)
    row = (*row[:-1], decimal.Decimal("1.50"))
    nested = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.int64()))])
    types = {"out": pa.schema([("o", nested), ("m", pa.decimal128(10, 2))])}
    log = DeltaLog(tmp_path / "log", types=types, weight_column="w")
    log.append(1, {"out": ZSet({row: 1}, schema)})
    frame = reader(registered, log).load()
    assert frame.schema.simpleString() == (
        "struct<i:bigint,f:double,b:boolean,y:binary,d:date,t:timestamp,o:struct<a:bigint,b:array<bigint>>,"
        "m:decimal(10,2),w:bigint,tick:bigint>"
    )
    for read in (frame, reader(registered, log, deltas="true").load()):
        (back,) = read.toArrow().to_pylist()
        assert back.pop("t") == row[5].replace(tzinfo=dt.UTC)  # type: ignore[union-attr]
        assert back.pop("o") == {"a": 1, "b": [2, 3]}
        assert tuple(back.values()) == (*row[:5], row[7], 1, 1)


def send(frame: Any, inbox: Path, checkpoint: Path, **options: Any) -> None:
    writer = frame.writeStream.format("dbsp").option("path", str(inbox)).options(**options)
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.start().awaitTermination()


def test_changes_for_a_run(registered: Any, tmp_path: Path) -> None:
    """Changes pass from Spark through an inbox into a run, and deltas through a log to Spark."""
    arrivals = Arrivals(tmp_path / "arrivals", "x long, y long, w int")
    batches = [[(1, 2, 1), (2, 3, 1)], [], [(3, 4, 1)], [(1, 2, -1), (4, 1, 1)]]
    inbox, whole = tmp_path / "inbox", dbsp.compile(CLOSURE).start()
    run, log = dbsp.compile(CLOSURE).start(checkpoint=tmp_path / "run"), DeltaLog(tmp_path / "log")

    def drain() -> int:
        return Inbox(inbox).drain(run, lambda result: log.append(result.number, result, run.log.label))  # type: ignore[union-attr]

    for batch in batches[:2]:
        arrivals.put(*batch)
    frame = arrivals.frame(registered)
    options = {"input": "edge", "weightColumn": "w"}
    send(frame, inbox, tmp_path / "point", **options)
    uncommit(tmp_path / "point")  # as if Spark had not noted the published batch
    for batch in batches[2:]:
        arrivals.put(*batch)
    send(frame, inbox, tmp_path / "point", **options)
    assert [delivery.batch for delivery in Inbox(inbox).waiting(run)] == [0, 1, 2, 3]
    assert len(list(inbox.glob("staged/edge/*"))) == 3  # the repeated batch left no file
    assert drain() == 3
    uncommit(tmp_path / "point")
    send(frame, inbox, tmp_path / "point", **options)
    assert drain() == 0
    results = [whole.step({"edge": {(x, y): w for x, y, w in batch}}) for batch in batches if batch]
    played = play(reader(registered, log, stream=True, output="path").load(), tmp_path / "back").ticks()
    assert played == {result.number: result["path"].to_dict() for result in results}
    assert run.log is not None
    run.log.close()


def test_the_folder_of_a_sink(registered: Any, tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path / "arrivals", "x long, y long")
    arrivals.put((1, 2), (2, 3))
    arrivals.put((3, 4))
    frame = arrivals.frame(registered)
    pipeline = dbsp.spark.stream(dbsp.compile(CLOSURE)).source("edge", frame)
    for encoding in ("weight", "operations", "view"):
        pipeline = dbsp.spark.stream(dbsp.compile(CLOSURE)).source("edge", frame)
        pipeline.sink("path", tmp_path / encoding, encoding=encoding)
        pipeline.option("checkpointLocation", str(tmp_path / f"point-{encoding}"))
        pipeline.trigger(availableNow=True).start().awaitTermination()
    source = registered.read.format("dbsp")
    first = {(1, 2): 1, (1, 3): 1, (2, 3): 1}
    second = {(1, 4): 1, (2, 4): 1, (3, 4): 1}
    deltas = source.option("deltas", "true").load(str(tmp_path / "weight"))
    assert by_tick(deltas.toArrow()) == {1: first, 2: second}
    source = registered.read.format("dbsp")
    assert by_tick(source.load(str(tmp_path / "weight")).toArrow()) == {2: first | second}
    assert by_tick(source.option("asOf", 1).load(str(tmp_path / "weight")).toArrow()) == {1: first}
    with pytest.raises(Exception, match="expected weights, got a sink with encoding='operations'"):
        registered.read.format("dbsp").load(str(tmp_path / "operations")).collect()
    with pytest.raises(Exception, match="expected deltas, got a sink with encoding='view'"):
        registered.read.format("dbsp").load(str(tmp_path / "view"))
    stream = registered.readStream.format("dbsp").load(str(tmp_path / "weight"))
    assert play(stream, tmp_path / "back").ticks() == {1: first, 2: second}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"output": "ou"},
            r"expected \.option\('output', \.\.\.\) with one of out, other, got 'ou'; did you mean 'out'\?",
        ),
        ({"asOf": "x"}, "the option 'asOf' expects a number of ticks, got 'x'"),
        ({"deltas": "maybe"}, "the option 'deltas' expects 'true' or 'false', got 'maybe'"),
        ({"startTick": "1"}, "the option 'startTick' is only for deltas"),
        ({"deltas": "true", "rows": "true"}, "the option 'rows' is only for views"),
        (
            {"path": "s3://bucket/log"},
            "the option 'path' expects a folder on a mounted file system",
        ),
        ({"path": __file__.rsplit("/", 1)[0]}, "expected a delta log or the folder of a sink, got other"),
        ({"path": "/nonexistent"}, r"has no recorded tick yet; set \.schema"),
    ],
)
def test_invalid_options_of_reading(
    registered: Any, recorded: DeltaLog, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        reader(registered, recorded, **options).load().collect()


def test_invalid_options_of_writing(registered: Any, tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path / "arrivals", "x long, y long, w double")
    arrivals.put((1, 2, 1.0))
    frame = arrivals.frame(registered)
    refused: list[tuple[dict[str, str], Any, str]] = [
        ({}, frame, r"needs \.option\('input', \.\.\.\)"),
        ({"input": "edge", "weightColumn": "v"}, frame, r"unknown column 'v' in \(x, y, w\)"),
        ({"input": "edge", "weightColumn": "w"}, frame, "expected an integer column, got 'w' of type double"),
        ({"input": "edge"}, frame.selectExpr("map(x, y) m"), "column 'm': relations have no maps"),
    ]
    for number, (options, refusing, message) in enumerate(refused):
        with pytest.raises(Exception, match=message):
            send(refusing, tmp_path / "inbox", tmp_path / f"point{number}", **options)


def test_the_format_needs_no_kernels() -> None:
    code = (
        "import sys, dbsp.spark.format; print([m for m in ('numba', 'dbsp.data.zset') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
