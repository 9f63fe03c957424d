"""The errors of the Spark package that need no Spark session."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructType

import dbsp
from dbsp import Circuit, DbspError, ZSet
from dbsp.data.schema import Schema
from dbsp.durable import DeltaLog
from dbsp.spark.cut import Cut
from dbsp.spark.driver import Driver
from dbsp.spark.format import DbspSource
from dbsp.spark.local_session import pyspark_or_advice
from dbsp.spark.recording import LogRecording, TickFile, conformed, read_file, view_batches
from dbsp.spark.spark_types import check_fits, struct_of
from dbsp.spark.targets import FolderTarget, Opening

RECORDS = ".type Pair = [x: number, y: number]\n.decl r(p: Pair)\n.input r\n.output r\n"
LONGS = StructType().add("x", LongType(), False)


def circuit() -> Circuit:
    built = Circuit("copy")
    built.output("out", built.input("in", x=int))
    return built


def record_schema() -> Schema:
    return dbsp.compile(RECORDS).start().outputs["r"]


def event_times(times: pa.Array) -> object:
    return Cut(window=60, times={"r": "at"}).ticks({"r": pa.table({"at": times})})


def late_batch() -> None:
    driver = Driver(circuit().start(), {}, [], Cut(), None, {})
    driver.close()
    driver(None, 3)


def opened(path: Path, struct: StructType) -> None:
    FolderTarget(path).open(Opening("query/out", struct, replaces=False, new=True, sync=False))


def reopened(path: Path) -> None:
    opened(path, LONGS)
    opened(path, StructType().add("x", StringType(), False))


def occupied(path: Path) -> None:
    (path / "file").touch()
    opened(path / "file", LONGS)


def recorded_objects(path: Path) -> None:
    built = Circuit("objects")
    built.output("out", built.input("in", x=object))
    run, log = built.start(), DeltaLog(path)
    result = run.step({"in": [((1, 2),)]})
    log.append(1, result)
    LogRecording(path, None).columns()


def recorded_pair(path: Path) -> None:
    built = Circuit("pair")
    source = built.input("in", x=int)
    built.output("left", source)
    built.output("right", source)
    DeltaLog(path).append(1, built.start().step({"in": [(1,)]}))
    LogRecording(path, None).columns()


def damaged(path: Path) -> None:
    (path / "1.parquet").write_bytes(b"nonsense")
    list(read_file(TickFile(1, str(path / "1.parquet"), 1, "owner"), pa.schema({"x": pa.int64()})))


def unreadable_sink(path: Path) -> None:
    (path / "_dbsp.json").write_text("[]")
    DbspSource({"path": str(path)}).schema()


BATCH = pa.RecordBatch.from_arrays([pa.array(["a"])], ["x"])
NEGATIVE = ZSet({(1,): -1}, Schema.of(x=int))


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            lambda path: event_times(pa.array([1])),
            "expected a timestamp or date column, got 'at' of type int64",
        ),
        (
            lambda path: event_times(pa.array([None], pa.timestamp("us"))),
            "the event time 'at' is null in 1 row [missing-value]",
        ),
        (lambda path: late_batch(), "the pipeline has ended; micro-batch 3 was not applied [run-closed]"),
        (
            lambda path: opened(path, StructType().add("tick", LongType(), False)),
            "the output has a column 'tick', which a sink adds itself",
        ),
        (reopened, "got struct<x:string>; choose another folder [schema-mismatch]"),
        (occupied, "cannot be used: "),
        (recorded_objects, "expected a column with an Arrow type, got objects without one"),
        (
            recorded_pair,
            "expected .option('output', ...) with one of left, right, got no such option [unknown-output]",
        ),
        (damaged, "1.parquet: it has no checksum"),
        (
            lambda path: conformed(BATCH, pa.schema({"xs": pa.string()})),
            "unknown column 'xs' in the recording (x)",
        ),
        (lambda path: conformed(BATCH, pa.schema({"x": pa.int64()})), "column 'x': "),
        (
            lambda path: view_batches(NEGATIVE, 1, pa.schema({"x": pa.int64()}), None),
            "the view has rows with negative weight; remove the option 'rows' to read weights",
        ),
        (
            lambda path: check_fits(StructType().add("p", LongType()), record_schema()),
            "column 'p' of the relation has the record type Pair, which a DataFrame cannot hold",
        ),
        (
            lambda path: struct_of(record_schema()),
            "column 'p' has the record type Pair, which Spark cannot hold",
        ),
        (
            lambda path: DbspSource({"path": str(path), "asOf": "1"}).streamReader(None),
            "the option 'asOf' is only for views; readStream reads deltas [invalid-option]",
        ),
        (
            lambda path: DbspSource({"path": str(path), "maxTicksPerBatch": "0"}).streamReader(None),
            "maxTicksPerBatch expects a number from 1, got 0 [invalid-option]",
        ),
        (
            lambda path: DbspSource({"path": str(path), "maxTickPerBatch": "1"}),
            "unknown option 'maxTickPerBatch' of format('dbsp'); expected one of path, output, startTick, "
            "maxTicksPerBatch, asOf, deltas, rows, input, weightColumn, writer; "
            "did you mean 'maxTicksPerBatch'?",
        ),
        (
            unreadable_sink,
            "_dbsp.json: expected a JSON object, got list; restore the folder from a copy",
        ),
    ],
)
def test_errors(tmp_path: Path, action: Callable[[Path], object], message: str) -> None:
    with pytest.raises(DbspError) as caught:
        action(tmp_path)
    assert message in str(caught.value)
    assert str(caught.value).endswith("]")


def test_without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(dbsp.SetupError, match=r"pyspark is not installed: pip install .* \[setup\]"):
        pyspark_or_advice()


def test_a_recording_with_a_column_named_tick(tmp_path: Path) -> None:
    built = Circuit("ticks")
    built.output("out", built.input("in", tick=int))
    run, log = built.start(), DeltaLog(tmp_path)
    log.append(1, run.step({"in": np.array([[1]])}))
    with pytest.raises(dbsp.SchemaError, match=r"a column 'tick', which names the tick here; rename"):
        DbspSource({"path": str(tmp_path)}).schema()


def test_a_wrapper_of_another_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from dbsp.spark.java import _wrapped

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("os.getuid", lambda: 4711)
    with pytest.raises(dbsp.SetupError, match=r"belongs to another user; remove it, or set TMPDIR \[setup\]"):
        _wrapped(tmp_path)
