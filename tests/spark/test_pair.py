"""SparkSource and SparkSink placed by hand, the circuit that shows them, and misspelt settings."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

import dbsp
from benchmarks.fake_spark import TWO, FakeFrame, driver_of
from dbsp import Circuit, InputError
from dbsp.spark import SparkSink, SparkSource, held_folders
from dbsp.spark.query_reports import cause_of
from dbsp.spark.sink_delivery import SinkDelivery
from tests.spark.lives import ticks
from tests.spark.support import CLOSURE, Arrivals, Collected, finish

COLUMNS = dbsp.Schema.of(x=int, y=int)


def by_hand(**sink: Any) -> Circuit:
    circuit = Circuit("hand")
    edge = circuit.add_source(SparkSource("edge", COLUMNS, encoding="weight", column="w", frame="edges"))
    SparkSink("out", encoding="operations", column="op", **sink)(edge)
    return circuit


def test_operators_placed_by_hand_keep_their_settings(tmp_path: Path) -> None:
    pipeline = dbsp.spark.stream(by_hand(target=f"{tmp_path}/out")).source("edge", FakeFrame())
    parts = pipeline._parts
    assert parts.source_operators()["edge"] == SparkSource(
        "edge", COLUMNS, encoding="weight", column="w", frame="edges"
    )
    driver = driver_of(pipeline, tmp_path / "checkpoint")
    (sink,) = driver._delivery.sinks
    assert (sink.operator.encoding, sink.operator.control) == ("operations", "op")
    assert sink.target.describe() == f"the folder {tmp_path}/out"
    driver.close()


def test_the_calls_of_a_pipeline_take_precedence(tmp_path: Path) -> None:
    circuit = by_hand(target=f"{tmp_path}/out")
    pipeline = dbsp.spark.stream(circuit).source("edge", FakeFrame(), column="n", key="x")
    source = pipeline._parts.source_operators()["edge"]
    assert (source.encoding, source.column, source.kind, source.key) == ("weight", "n", "key", (0,))
    pipeline.sink("out", tmp_path / "other", encoding="append", column="")
    driver = driver_of(pipeline, None)
    driver.sources["edge"] = SparkSource("edge", COLUMNS)
    driver(FakeFrame((1, 2)), 0)
    assert ticks(tmp_path / "other") == {1: [(1, 2)]}
    assert not (tmp_path / "out").exists()


def test_operators_need_a_frame_and_a_target() -> None:
    circuit = Circuit("hand")
    SparkSink("out")(circuit.add_source(SparkSource("edge", COLUMNS)))
    with pytest.raises(
        InputError, match=r"source 'edge': the SparkSource of the circuit has no DataFrame; add"
    ):
        dbsp.spark.stream(circuit)._parts.frames(None, streaming=True)
    with pytest.raises(
        InputError, match=r"sink 'out': the SparkSink of the circuit has no target; add .sink"
    ):
        driver_of(dbsp.spark.stream(circuit).source("edge", FakeFrame()), None)


def test_two_sinks_of_one_output_in_a_circuit(tmp_path: Path) -> None:
    circuit = Circuit("hand")
    edge = circuit.add_source(SparkSource("edge", COLUMNS))
    SparkSink("out", target=f"{tmp_path}/out")(edge)
    SparkSink("out", encoding="append", target=f"{tmp_path}/rows", sink_name="rows")(edge)
    driver = driver_of(dbsp.spark.stream(circuit).source("edge", FakeFrame()), None)
    driver(FakeFrame((1, 2)), 0)
    assert (ticks(tmp_path / "out"), ticks(tmp_path / "rows")) == ({1: [(1, 2, 1)]}, {1: [(1, 2)]})
    SparkSink("out", sink_name="rows")(edge)
    with pytest.raises(
        InputError, match="the circuit has two sinks 'rows'; give one of them another sink_name"
    ):
        dbsp.spark.stream(circuit).circuit()


@pytest.mark.parametrize("stage", ["query", "incremental", "physical"])
def test_the_circuit_of_a_pipeline_shows_the_pair(stage: str) -> None:
    pipeline = dbsp.spark.stream(dbsp.compile(CLOSURE)).source("edge", FakeFrame(), encoding="operations")
    pipeline.sink("path", print).sink("path", "out/path", encoding="append", name="rows")
    labels = [node.label for node in pipeline.circuit(stage).nodes]
    assert [label for label in labels if "put" in label or "Spark" in label] == [
        "SparkSource edge [operations]",
        "SparkSink path [weight]",
        "SparkSink rows [append] to out/path",
    ]
    drawing = dbsp.draw.to_dot(pipeline)
    assert "SparkSource edge" in drawing
    assert "SparkSink rows" in drawing


def test_the_running_circuit_does_not_depend_on_the_pair(tmp_path: Path) -> None:
    """So a sink can be added, and an encoding changed, after a snapshot of a hand-built circuit."""
    circuit = Circuit("hand")
    circuit.output("out", circuit.input("edge", x=int, y=int))
    for number, sinks in enumerate([[], ["out"], ["out", "further"]]):
        pipeline = dbsp.spark.stream(circuit).source("edge", FakeFrame()).option("snapshotEvery", 1)
        for name in sinks:
            pipeline.sink("out", tmp_path / name, name=name)
        driver = driver_of(pipeline, tmp_path / "checkpoint")
        driver(FakeFrame((number, 0)), number)
        driver.close()
    assert ticks(tmp_path / "out") == {1: [(0, 0, 1)], 2: [(1, 0, 1)], 3: [(2, 0, 1)]}
    assert ticks(tmp_path / "further") == {2: [(0, 0, 1), (1, 0, 1)], 3: [(2, 0, 1)]}


def test_a_start_waits_until_the_pipeline_before_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "checkpoint"
    before = driver_of(dbsp.spark.stream(TWO).source("e", FakeFrame()), folder)
    closing, proceed = threading.Event(), threading.Event()

    def slow(self: SinkDelivery) -> None:
        closing.set()
        proceed.wait(30)

    monkeypatch.setattr(SinkDelivery, "close", slow)
    query = SimpleNamespace(isActive=False, name="before")
    monkeypatch.setitem(held_folders._HOLDERS, str(folder), (before, query))
    ending = threading.Thread(target=before.close)
    ending.start()
    assert closing.wait(30)
    threading.Timer(0.2, proceed.set).start()
    held_folders.release(str(folder), str(tmp_path))
    driver_of(dbsp.spark.stream(TWO).source("e", FakeFrame()), folder).close()
    ending.join()


def test_misspelt_settings_are_refused_with_a_guess(tmp_path: Path) -> None:
    pipeline = dbsp.spark.stream(TWO)
    with pytest.raises(
        InputError, match=r"unknown option 'rowPerTick'; .*did you mean 'rowsPerTick'.*unknown-op"
    ):
        pipeline.option("rowPerTick", 5)
    with pytest.raises(
        InputError, match=r"unknown option 'checkpointDir'; expected one of checkpointLocation, "
    ):
        pipeline.options(checkpointDir="x")
    with pytest.raises(InputError, match=r"unknown option 3; expected one of"):
        pipeline.option(3, "x")  # type: ignore[arg-type]
    pipeline.option("CHECKPOINTLOCATION", "x")
    assert pipeline._parts.options == {"checkpointLocation": "x"}
    with pytest.raises(InputError, match=r"unknown output mode 'compleet'; .*did you mean 'complete'"):
        pipeline.outputMode("compleet")
    with pytest.raises(
        InputError, match=r"expected a program with one output, got a, b; name the output of each"
    ):
        pipeline.toTable("t")
    with pytest.raises(
        InputError, match=r"expected a program with one output, got a, b; .* \.sink\(output, folder"
    ):
        pipeline.start("out")
    circuit = Circuit("hand")
    SparkSink("out", sink_name="mine")(circuit.input("edge", x=int, y=int))
    circuit.output("other", circuit.input("further", x=int))
    with pytest.raises(
        InputError, match="the sink 'mine' of the circuit belongs to the output 'out', not to 'oth"
    ):
        dbsp.spark.stream(circuit).sink("other", "t", name="mine").circuit()
    with pytest.raises(InputError, match=r"unknown output 'outs'; did you mean 'out'"):
        dbsp.spark.stream(circuit).sink("outs", "t").circuit()
    delta = dbsp.spark.stream(TWO).source("e", FakeFrame()).sink("a", tmp_path / "a").format("delta")
    with pytest.raises(
        InputError, match=r"sink 'a': a folder of a sink has the format parquet, got format\('delt"
    ):
        driver_of(delta, None)


@pytest.mark.parametrize(
    ("mode", "rows"),
    [("append", {1: [(1, 1)]}), ("update", {1: [(1, 1, 1)]}), ("complete", {1: [(1, 1)]})],
)
def test_output_modes(tmp_path: Path, mode: str, rows: Any) -> None:
    pipeline = dbsp.spark.stream(TWO).source("e", FakeFrame()).outputMode(mode.upper())
    driver = driver_of(pipeline.sink("a", tmp_path / "a"), None)
    driver(FakeFrame((1, 1)), 0)
    assert ticks(tmp_path / "a") == rows


def test_append_refuses_retractions() -> None:
    delta = dbsp.ZSet({(1, 2): -1, (2, 2): 1}, COLUMNS)
    with pytest.raises(
        InputError, match=r"sink 'out': the delta retracts 1 row, which encoding='append' cannot"
    ):
        SparkSink("out", encoding="append").table(delta, lambda: delta)
    rows = dbsp.ZSet({(1, 2): 2}, COLUMNS)
    assert SparkSink("out", encoding="append").table(rows, lambda: rows).to_pylist() == [{"x": 1, "y": 2}] * 2


def test_named_frames_tables_and_jobs(spark: Any, tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path / "in", "x long, y long, w long")
    arrivals.put((1, 2, 1), (3, 4, 1))
    arrivals.frame(spark).createOrReplaceTempView("edges")
    spark.sql("DROP TABLE IF EXISTS hand_out")
    jobs: set[str] = set()

    def pipeline(**options: Any) -> dbsp.spark.Pipeline:
        return dbsp.spark.stream(by_hand(target="hand_out")).options(**options)

    query = finish(pipeline(checkpointLocation=tmp_path / "checkpoint"))
    assert dbsp.spark.error(query) is None
    assert {tuple(row) for row in spark.table("hand_out").collect()} == {
        (1, 2, "insert", 1),
        (3, 4, "insert", 1),
    }

    def described(frame: Any, tick: int) -> None:
        jobs.add(frame.sparkSession.sparkContext.getLocalProperty("spark.job.description"))

    finish(pipeline().sink("out", described))
    assert jobs == {"circuit 'hand': tick 1 to sink 'out'"}
    # A table that was removed is noticed, and so is a misspelt view.
    spark.sql("DROP TABLE hand_out")
    with pytest.raises(dbsp.CheckpointError, match=r"had in the table hand_out, but it was removed"):
        pipeline(checkpointLocation=tmp_path / "checkpoint").start()
    with pytest.raises(InputError, match="expected the name of a table or a temporary view, got 'edgs'"):
        dbsp.spark.stream(by_hand(target="t")).source("edge", "edgs").start()


def test_the_methods_of_spark_users(spark: Any, tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path / "in", "x long, y long")
    arrivals.put((1, 2), (2, 3))
    spark.sql("DROP TABLE IF EXISTS paths")
    program = dbsp.compile(CLOSURE)

    def pipeline() -> dbsp.spark.Pipeline:
        return (
            dbsp.spark.stream(program)
            .source("edge", arrivals.frame(spark))
            .outputMode("append")
            .format("json")
            .trigger(availableNow=True)
        )

    pipeline().toTable("paths").awaitTermination()
    assert {tuple(row)[:2] for row in spark.table("paths").collect()} == {(1, 2), (2, 3), (1, 3)}
    details = {row[0]: row[1] for row in spark.sql("DESCRIBE EXTENDED paths").collect()}
    assert details["Provider"].lower() == "json"
    spark.sql("DROP TABLE paths")
    pipeline().format("parquet").start(tmp_path / "out").awaitTermination()
    assert pq.read_table(tmp_path / "out").column_names == ["x", "y", "tick"]


def test_the_error_of_a_query_is_that_of_the_pipeline(spark: Any, tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path / "in", "x long, y long")
    arrivals.put((1, 2))

    def failing(frame: Any, tick: int) -> None:
        raise OSError("the disk is full")

    def ended(pipeline: dbsp.spark.Pipeline) -> Any:
        query = pipeline.trigger(availableNow=True).start()
        with pytest.raises(Exception, match="STREAM_FAILED"):
            query.awaitTermination()
        return dbsp.spark.error(query)

    program = dbsp.compile(CLOSURE)
    frame = arrivals.frame(spark)
    error = ended(dbsp.spark.stream(program).source("edge", frame).sink("path", failing))
    assert str(error) == (
        "sink 'path': failing(DataFrame, 1) raised OSError: the disk is full [user-function]"
    )
    broken = frame.selectExpr("x", "cast(raise_error('out of tea') as bigint) as y")
    error = ended(dbsp.spark.stream(program).source("edge", broken).sink("path", Collected()))
    assert isinstance(error, dbsp.errors.SparkError)
    assert str(error).startswith(
        "Spark could not compute the micro-batch: [USER_RAISED_EXCEPTION] out of tea"
    )
    assert error.code == "spark-query"


def test_causes_of_spark_errors() -> None:
    java = """An error occurred while calling o254.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:70)
Caused by: org.apache.spark.SparkException: [FAILED_READ_FILE] Encountered error while reading file a.json.
\tat org.apache.spark.rdd(RDD.scala:1)
Caused by: java.lang.RuntimeException: a.json is not a Parquet file
\t... 3 more"""
    assert cause_of(java) == (
        "[FAILED_READ_FILE] Encountered error while reading file a.json.; a.json is not a Parquet file"
    )
    python = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "etl.py", line 16, in bad
    def bad(x): raise ValueError("x is bad")
ValueError: x is bad
"""
    assert cause_of(python) == "ValueError: x is bad (etl.py:16)"
    assert cause_of("[STREAM_FAILED] no such topic\n\tat a.b(C.java)") == "[STREAM_FAILED] no such topic"
    assert cause_of("") == "no reason given"
