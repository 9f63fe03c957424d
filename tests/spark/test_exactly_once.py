"""After any failure of a query, every change is applied once and every tick arrives once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dbsp
from dbsp import CheckpointError, Circuit, SchemaError
from dbsp.durable import Store
from dbsp.spark.targets import FolderTarget
from tests.spark.support import CLOSURE, Arrivals, Collected, failure, finish, uncommit

Build = Callable[[], dbsp.spark.Pipeline]

PAIRS = "x long, y long, weight long"


@pytest.fixture
def arrivals(tmp_path: Path) -> Arrivals:
    return Arrivals(tmp_path / "in", PAIRS)


def counting(spark: Any, arrivals: Arrivals, **options: Any) -> dbsp.spark.Pipeline:
    """Return a circuit in which applying a change twice changes the result."""
    circuit = Circuit("counts")
    circuit.output("out", circuit.input("in", x=int, y=int))
    pipeline = dbsp.spark.stream(circuit).source("in", arrivals.frame(spark), encoding="weight")
    checkpoint = arrivals.folder.parent / "checkpoint"
    return pipeline.options(checkpointLocation=str(checkpoint), sync="false", **options)


@pytest.mark.parametrize("every", [1, 100])
def test_a_repeated_batch_is_neither_applied_nor_written_again(
    spark: Any, arrivals: Arrivals, tmp_path: Path, every: int
) -> None:
    out = tmp_path / "out"

    def build() -> dbsp.spark.Pipeline:
        return counting(spark, arrivals, snapshotEvery=every).sink("out", out)

    arrivals.put((1, 2, 1))
    arrivals.put((1, 2, 1), (3, 4, 1))
    finish(build())
    for _ in range(2):
        uncommit(tmp_path / "checkpoint")
        finish(build())
    arrivals.put((3, 4, -1))
    query = finish(build())
    assert [(tick["tick"], tick["batch"]) for tick in dbsp.spark.ticks(query)] == [(3, 2)]
    assert pq.read_table(out).sort_by([("tick", "ascending"), ("x", "ascending")]).to_pylist() == [
        {"x": 1, "y": 2, "weight": 1, "tick": 1},
        {"x": 1, "y": 2, "weight": 1, "tick": 2},
        {"x": 3, "y": 4, "weight": 1, "tick": 2},
        {"x": 3, "y": 4, "weight": -1, "tick": 3},
    ]


def test_a_sink_receives_missing_ticks_only(spark: Any, arrivals: Arrivals, tmp_path: Path) -> None:
    first, second = Collected(), Collected()
    program = dbsp.compile(CLOSURE + ".decl ends(y: number)\n.output ends\nends(y) :- path(_, y).\n")

    def build() -> dbsp.spark.Pipeline:
        pipeline = dbsp.spark.stream(program).source("edge", arrivals.frame(spark), encoding="weight")
        return pipeline.sink("path", first).sink("ends", second).option("checkpointLocation", tmp_path / "cp")

    arrivals.put((1, 2, 1))
    arrivals.put((2, 3, 1))
    second.fails_at = 2
    text = failure(build())
    assert "sink 'ends'" in text
    assert "Collected object" in text
    assert "raised OSError: the disk is full" in text
    assert "(DataFrame, 2)" in text
    text = failure(build())  # the disk is still full
    second.fails_at = 0
    finish(build())
    assert first.ticks == [(1, {(1, 2): 1}), (2, {(1, 3): 1, (2, 3): 1})]
    assert second.ticks == [(1, {(2,): 1}), (2, {(3,): 1})]


def test_a_crash_between_the_durable_tick_and_its_file(
    spark: Any, arrivals: Arrivals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build() -> dbsp.spark.Pipeline:
        return counting(spark, arrivals).sink("out", tmp_path / "out")

    arrivals.put((1, 2, 1))
    with monkeypatch.context() as patched:
        patched.setattr(
            FolderTarget, "write", lambda self, table, tick: (_ for _ in ()).throw(SystemExit("killed"))
        )
        assert "killed" in failure(build())
    assert not list((tmp_path / "out").glob("*.parquet"))
    arrivals.put((1, 2, 1))
    finish(build())
    assert pq.read_table(tmp_path / "out").to_pydict() == {
        "x": [1, 1],
        "y": [2, 2],
        "weight": [1, 1],
        "tick": [1, 2],
    }


def test_a_view_that_became_empty_before_a_crash_is_empty_afterwards(
    spark: Any, arrivals: Arrivals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build() -> dbsp.spark.Pipeline:
        return counting(spark, arrivals).sink("out", tmp_path / "out", encoding="view")

    arrivals.put((1, 2, 1))
    finish(build())
    arrivals.put((1, 2, -1))
    with monkeypatch.context() as patched:
        patched.setattr(
            FolderTarget, "write", lambda self, table, tick: (_ for _ in ()).throw(SystemExit("killed"))
        )
        failure(build())
    finish(build())
    assert pq.read_table(tmp_path / "out").num_rows == 0


@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_batch_of_several_ticks_continues_in_the_middle(
    spark: Any, arrivals: Arrivals, tmp_path: Path, fails_at: int
) -> None:
    seen = Collected()

    def build() -> dbsp.spark.Pipeline:
        return counting(spark, arrivals, rowsPerTick=2).sink("out", seen)

    arrivals.put((1, 1, 1), (2, 2, 1), (3, 3, 1), (4, 4, 1), (5, 5, 1))
    seen.fails_at = fails_at
    failure(build())
    seen.fails_at = 0
    finish(build())
    arrivals.put((1, 1, -1))
    finish(build())
    assert seen.ticks == [
        (1, {(1, 1): 1, (2, 2): 1}),
        (2, {(3, 3): 1, (4, 4): 1}),
        (3, {(5, 5): 1}),
        (4, {(1, 1): -1}),
    ]
    assert not list((tmp_path / "checkpoint" / "dbsp").glob("batch-*"))


def test_facts_arrive_once(spark: Any, arrivals: Arrivals, tmp_path: Path) -> None:
    seen = Collected()
    program = dbsp.compile(CLOSURE + "edge(7, 8).")

    def build() -> dbsp.spark.Pipeline:
        pipeline = dbsp.spark.stream(program).source("edge", arrivals.frame(spark), encoding="weight")
        return pipeline.sink("path", seen).option("checkpointLocation", str(tmp_path / "cp"))

    arrivals.put((1, 2, 1))
    seen.fails_at = 1
    failure(build())
    seen.fails_at = 0
    finish(build())
    uncommit(tmp_path / "cp")
    finish(build())
    assert seen.ticks == [(1, {(7, 8): 1}), (2, {(1, 2): 1})]


def test_a_sink_added_later_receives_the_view_first(spark: Any, arrivals: Arrivals, tmp_path: Path) -> None:
    late = Collected()
    arrivals.put((1, 2, 1))
    arrivals.put((1, 2, 1), (3, 4, 1))
    finish(counting(spark, arrivals))
    arrivals.put((3, 4, -1))
    late.fails_at = 2
    failure(counting(spark, arrivals).sink("out", late))
    late.fails_at = 0
    finish(counting(spark, arrivals).sink("out", late))
    assert late.ticks == [(2, {(1, 2): 2, (3, 4): 1}), (3, {(3, 4): -1})]


def test_bad_rows_stop_the_query_and_change_nothing(spark: Any, tmp_path: Path) -> None:
    people = Arrivals(tmp_path / "people", "id long, name string, op string")
    other = Arrivals(tmp_path / "other", "x long")
    circuit = Circuit("people")
    person = circuit.input("person", schema={"id": int, "name": str}, key="id")
    circuit.output("out", person)
    circuit.output("copy", circuit.input("other", x=int))
    seen, copies = Collected(), Collected()

    def build() -> dbsp.spark.Pipeline:
        pipeline = dbsp.spark.stream(circuit).source(
            "person", people.frame(spark), encoding="operations", column="op"
        )
        pipeline.source("other", other.frame(spark)).sink("out", seen).sink("copy", copies)
        return pipeline.option("checkpointLocation", str(tmp_path / "cp"))

    people.put((1, "ann", "I"), (9, None, "D"))
    other.put((1,))
    query = finish(build())
    assert dbsp.spark.ticks(query)[0]["absent"] == 1  # the row that never existed
    other.put((2,))
    for row, message in (
        ((None, "bob", "I"), "source 'person': the key column 'id' is null in 1 row"),
        ((2, None, "I"), "relation 'person': column 'name': expected str, got None"),
        (
            (2, "bob", "upsert"),
            "source 'person': the operation column 'op': expected insert, delete,",
        ),
    ):
        people.put(row)
        for _ in range(2):  # Spark repeats the micro-batch
            assert message in failure(build())
        latest = max(people.folder.glob("*.parquet"))
        table = pq.read_table(latest)
        pq.write_table(table.slice(0, 0), latest)  # as if the producer had retracted it
        (latest.parent / f".{latest.name}.crc").unlink(missing_ok=True)
        people.put((3, "eve", "I"))
        other.put((3,))
        finish(build())
    total = {(1, "ann"): 1, (3, "eve"): 1}
    assert seen.total() == total
    assert copies.total() == {(1,): 1, (2,): 1, (3,): 3}


def test_files_with_changed_columns_stop_the_query(spark: Any, arrivals: Arrivals, tmp_path: Path) -> None:
    seen = Collected()
    arrivals.put((1, 2, 1))
    arrivals.put(("a", "b", 1), schema=pa.schema({"x": pa.string(), "y": pa.string(), "weight": pa.int64()}))
    assert "x" in failure(counting(spark, arrivals).sink("out", seen))
    assert seen.ticks == [(1, {(1, 2): 1})]


def test_a_changed_source_is_an_error(spark: Any, arrivals: Arrivals, tmp_path: Path) -> None:
    arrivals.put((1, 2, 1))
    finish(counting(spark, arrivals))
    frame = arrivals.frame(spark).selectExpr("int(x) as x", "y", "weight")
    with pytest.raises(SchemaError, match=r"source 'in' of the checkpoint .* expected .*x:bigint.*x:int"):
        circuit = Circuit("counts")
        circuit.output("out", circuit.input("in", x=int, y=int))
        pipeline = dbsp.spark.stream(circuit).source("in", frame, encoding="weight")
        pipeline.option("checkpointLocation", str(tmp_path / "checkpoint")).start()


def test_two_queries_cannot_share_a_checkpoint(spark: Any, arrivals: Arrivals, tmp_path: Path) -> None:
    arrivals.put((1, 2, 1))
    out = tmp_path / "out"
    query = counting(spark, arrivals).sink("out", out).queryName("holder").start()
    try:
        with pytest.raises(CheckpointError, match="is the checkpoint of query holder, which is running"):
            counting(spark, arrivals).start()
        query.processAllAvailable()
    finally:
        query.stop()
    store = Store(tmp_path / "checkpoint" / "dbsp" / "state") if wait_for_end(query) else None
    try:
        with pytest.raises(CheckpointError, match="in use by process"):
            counting(spark, arrivals).start()
    finally:
        assert store is not None
        store.close()
    arrivals.put((1, 2, 1))
    finish(counting(spark, arrivals).sink("out", out))
    assert pq.read_table(out).column("weight").to_pylist() == [1, 1]


def wait_for_end(query: Any) -> bool:
    """Wait until the pipeline has released the checkpoint."""
    for thread in threading.enumerate():
        if thread.name == "dbsp-spark":
            thread.join(30)
    return not query.isActive


def test_state_and_sparks_checkpoint_must_belong_to_one_query(
    spark: Any, arrivals: Arrivals, tmp_path: Path
) -> None:
    import shutil

    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out"
    arrivals.put((1, 2, 1))
    arrivals.put((1, 2, 1))
    finish(counting(spark, arrivals).sink("out", out))
    arrivals.put((1, 2, 1))
    shutil.copytree(checkpoint, tmp_path / "copy")
    shutil.rmtree(checkpoint / "dbsp")
    with pytest.raises(CheckpointError, match="holds the output of another query"):
        counting(spark, arrivals).sink("out", out).start()
    shutil.rmtree(checkpoint / "dbsp")
    text = failure(counting(spark, arrivals))
    assert "expected batch 0, the next one after the circuit's state, got batch 2" in text
    shutil.rmtree(checkpoint)
    (tmp_path / "copy" / "dbsp").rename(tmp_path / "dbsp")
    checkpoint.mkdir()
    (tmp_path / "dbsp").rename(checkpoint / "dbsp")
    assert "expected Spark's checkpoint of query" in failure(counting(spark, arrivals))


def test_data_of_another_program_is_not_overwritten(spark: Any, arrivals: Arrivals, tmp_path: Path) -> None:
    arrivals.put((1, 2, 1))
    out = tmp_path / "out"
    out.mkdir()
    pq.write_table(pa.table({"x": [1]}), out / "mine.parquet")
    with pytest.raises(CheckpointError, match="sink 'out': expected an empty folder, got Parquet files"):
        counting(spark, arrivals).sink("out", out).start()
    spark.createDataFrame([(1, 2, 1, 7)], "x long, y long, weight long, tick long").write.saveAsTable("taken")
    with pytest.raises(CheckpointError, match="sink 'out': table taken holds the ticks of another query"):
        counting(spark, arrivals).sink("out", "taken").start()
    spark.sql("DROP TABLE taken")
    finish(counting(spark, arrivals).sink("out", "free"))
    assert [tuple(row) for row in spark.table("free").collect()] == [(1, 2, 1, 1)]
    uncommit(tmp_path / "checkpoint")
    finish(counting(spark, arrivals).sink("out", "free"))
    assert spark.table("free").count() == 1
    spark.sql("DROP TABLE free")


def test_a_query_stopped_within_a_batch(spark: Any, arrivals: Arrivals, tmp_path: Path) -> None:
    seen, entered, proceed = Collected(), threading.Event(), threading.Event()

    def slow(frame: Any, tick: int) -> None:
        entered.set()
        proceed.wait(60)
        seen(frame, tick)

    arrivals.put((1, 2, 1))
    arrivals.put((1, 2, 1))
    query = counting(spark, arrivals).sink("out", slow).start()
    assert entered.wait(60)
    threading.Timer(0.3, proceed.set).start()
    query.stop()
    finish(counting(spark, arrivals).sink("out", slow))
    assert seen.ticks == [(1, {(1, 2): 1}), (2, {(1, 2): 1})]
