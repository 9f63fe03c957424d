"""Pipelines on shards that start again: every change is applied once, every tick arrives once."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import dbsp
from dbsp import CheckpointError, SchemaError
from tests.spark.support import CLOSURE, Arrivals, Collected, Delta, failure, finish, uncommit

FACTS = CLOSURE + "edge(0, 1)."


@pytest.fixture
def arrivals(tmp_path: Path) -> Arrivals:
    found = Arrivals(tmp_path / "edge", "x long, y long, weight long")
    found.put((1, 2, 1), (2, 3, 1))
    found.put((3, 4, 1))
    return found


def closure(
    spark: Any,
    arrivals: Arrivals,
    checkpoint: Path,
    sinks: Mapping[str, Any],
    program: str = FACTS,
    **given: Any,
) -> dbsp.spark.Pipeline:
    pipeline = dbsp.spark.stream(dbsp.compile(program)).source(
        "edge", arrivals.frame(spark), encoding="weight"
    )
    for name, target in sinks.items():
        pipeline.sink("path", target, name=name, encoding="view" if name == "view" else "weight")
    return pipeline.options(checkpointLocation=str(checkpoint), **({"shards": 2} | given))


def in_parts(spark: Any, source: str) -> dict[int, Delta]:
    """Return the rows with weights of a folder or table, by tick."""
    frame = spark.read.parquet(source) if "/" in source else spark.table(source)
    found: dict[int, Delta] = {}
    for row in frame.collect():
        delta = found.setdefault(row.tick, {})
        assert (row.x, row.y) not in delta, "a row arrived twice"
        delta[row.x, row.y] = row.weight
    return found


def expected(*ticks: Mapping[tuple[int, int], int]) -> dict[int, Delta]:
    """Return the deltas of the program in one process, the facts in tick 1."""
    run = dbsp.compile(FACTS).start()
    deltas = {1: run.view("path").to_dict()}
    for number, changes in enumerate(ticks, 2):
        deltas[number] = run.step({"edge": changes})["path"].to_dict()
    return deltas


FIRST: Any = ({(1, 2): 1, (2, 3): 1}, {(3, 4): 1})
THIRD: Any = {(1, 2): -1}


def test_every_sink_has_every_tick_once_over_restarts(spark: Any, arrivals: Arrivals, tmp_path: Path) -> None:
    calls, checkpoint = Collected(), tmp_path / "checkpoint"
    sinks = {"folder": tmp_path / "out", "table": "on_shards", "call": calls, "view": tmp_path / "view"}
    finish(closure(spark, arrivals, checkpoint, sinks))
    deltas = expected(*FIRST)
    assert dict(calls.ticks) == deltas and len(calls.ticks) == 3

    uncommit(checkpoint)  # Spark repeats the latest micro-batch
    arrivals.put((1, 2, -1))
    late = {**sinks, "late": tmp_path / "late"}  # a new sink begins with the view
    finish(closure(spark, arrivals, checkpoint, late))
    deltas = expected(*FIRST, THIRD)
    assert dict(calls.ticks) == deltas and len(calls.ticks) == 4
    assert in_parts(spark, f"{tmp_path}/out") == deltas
    assert in_parts(spark, "on_shards") == deltas
    view: Delta = {}
    for number in (1, 2, 3):
        view |= deltas[number]
    assert in_parts(spark, f"{tmp_path}/late") == {3: view, 4: deltas[4]}
    rows = {(row.x, row.y, row.tick) for row in spark.read.parquet(f"{tmp_path}/view").collect()}
    assert rows == {(*row, 4) for row in view.keys() - deltas[4].keys()}
    spark.sql("DROP TABLE on_shards")


def test_a_sink_that_fails_receives_its_tick_later(spark: Any, arrivals: Arrivals, tmp_path: Path) -> None:
    calls, checkpoint = Collected(), tmp_path / "checkpoint"
    calls.fails_at = 2
    build = lambda: closure(spark, arrivals, checkpoint, {"call": calls, "folder": tmp_path / "out"})  # noqa: E731
    assert "sink 'call'" in failure(build()) and dict(calls.ticks) == {1: expected()[1]}
    calls.fails_at = 0
    shutil.rmtree(tmp_path / "out" / "tick=2", ignore_errors=True)
    finish(build())
    assert dict(calls.ticks) == expected(*FIRST) and len(calls.ticks) == 3


def test_a_left_out_sink_is_refused_unless_nothing_passed(
    spark: Any, arrivals: Arrivals, tmp_path: Path
) -> None:
    checkpoint, out, view = tmp_path / "checkpoint", tmp_path / "out", tmp_path / "view"
    finish(closure(spark, arrivals, checkpoint, {"folder": out, "view": view}))
    finish(closure(spark, arrivals, checkpoint, {}))
    finish(closure(spark, arrivals, checkpoint, {"folder": out}))  # nothing has happened meanwhile
    arrivals.put((1, 2, -1))
    finish(closure(spark, arrivals, checkpoint, {}))
    with pytest.raises(
        CheckpointError, match=r"ran without the sink from tick 4 to 4.*another name"
    ) as raised:
        finish(closure(spark, arrivals, checkpoint, {"folder": out}))
    assert (raised.value.code, raised.value.where) == ("sink-incomplete", "sink 'folder'")
    arrivals.put((5, 6, 1))
    finish(closure(spark, arrivals, checkpoint, {"view": view}))  # a view catches up
    rows = {(row.x, row.y) for row in spark.read.parquet(str(view)).collect()}
    assert rows == {(0, 1), (2, 3), (2, 4), (3, 4), (5, 6)}


def test_what_a_start_refuses(spark: Any, arrivals: Arrivals, tmp_path: Path) -> None:
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out"

    def refused(error: type[dbsp.DbspError], code: str, message: str, sinks: Any, **given: Any) -> None:
        with pytest.raises(error, match=message) as raised:
            closure(spark, arrivals, checkpoint, sinks, **given).start()
        assert raised.value.code == code

    finish(closure(spark, arrivals, checkpoint, {"folder": out}))
    divided = r"is divided over 2 shards, got 3; start with option\(\"shards\", 2\)"
    refused(CheckpointError, "checkpoint-other-shards", divided, {"folder": out}, shards=3)
    refused(CheckpointError, "checkpoint-other-program", "another query", {}, program=CLOSURE)
    elsewhere = {"other": out}
    refused(CheckpointError, "checkpoint-other-query", "holds the output of another query", elsewhere)
    (tmp_path / "full").mkdir()
    shutil.copytree(out / "tick=1", tmp_path / "full" / "tick=1")
    full = {"full": tmp_path / "full"}
    refused(CheckpointError, "checkpoint-not-empty", "expected an empty folder", full)
    alone = closure(spark, arrivals, checkpoint, {})
    del alone._parts.options["shards"]
    with pytest.raises(CheckpointError, match="state of a pipeline on shards") as raised:
        alone.start()
    assert raised.value.code == "checkpoint-other-shards"
    shutil.rmtree(out)
    refused(CheckpointError, "sink-incomplete", "it was removed", {"folder": out})
    record = checkpoint / "dbsp" / "pipeline.json"
    record.write_text(record.read_text().replace("bigint", "string"))
    refused(CheckpointError, "checkpoint-unreadable", "does not match its checksum", {"folder": out})
    record.unlink()
    refused(CheckpointError, "checkpoint-unreadable", r"pipeline.json.*the file is missing", {"folder": out})


def test_other_columns_and_a_state_of_one_process_are_refused(
    spark: Any, arrivals: Arrivals, tmp_path: Path
) -> None:
    finish(closure(spark, arrivals, tmp_path / "one", {}, shards=1))
    wider = Arrivals(tmp_path / "wider", "x int, y long, weight long")
    with pytest.raises(SchemaError, match="expected the source of the checkpoint") as raised:
        closure(spark, wider, tmp_path / "one", {}, shards=1).start()
    assert raised.value.where == f"source 'edge' of the checkpoint {tmp_path}/one/dbsp"
    alone = closure(spark, arrivals, tmp_path / "alone", {})
    del alone._parts.options["shards"]
    finish(alone)
    with pytest.raises(CheckpointError, match="has the state of a pipeline in one process"):
        closure(spark, arrivals, tmp_path / "alone", {}).start()


def test_a_running_query_holds_its_checkpoint(spark: Any, arrivals: Arrivals, tmp_path: Path) -> None:
    query = closure(spark, arrivals, tmp_path / "checkpoint", {}).start()
    try:
        with pytest.raises(CheckpointError, match=r"is the checkpoint of query .*, which is running"):
            closure(spark, arrivals, tmp_path / "checkpoint", {}).start()
    finally:
        query.stop()


def test_an_image_replaces_the_journal(spark: Any, arrivals: Arrivals, tmp_path: Path) -> None:
    checkpoint, calls = tmp_path / "checkpoint", Collected()
    for _ in range(2):
        finish(closure(spark, arrivals, checkpoint, {"call": calls}, snapshotEvery="1 KB", memoryLimit="9K"))
        arrivals.put(*((n, n + 1, 1) for n in range(10, 40)))
    assert list((checkpoint / "dbsp" / "state").glob("*/*.image"))
    finish(closure(spark, arrivals, checkpoint, {"call": calls}, snapshotEvery="1 KB"))
    run = dbsp.compile(FACTS).start()
    for changes in (*FIRST, *[{(n, n + 1): 1 for n in range(10, 40)}] * 2):
        run.step({"edge": changes})
    assert calls.total() == run.view("path").to_dict()


def test_a_new_sink_of_an_empty_view_begins_with_the_next_delta(spark: Any, tmp_path: Path) -> None:
    arrivals, calls = Arrivals(tmp_path / "edge", "x long, y long, weight long"), Collected()
    arrivals.put((1, 2, 1))
    arrivals.put((1, 2, -1))
    finish(closure(spark, arrivals, tmp_path / "checkpoint", {}, CLOSURE))
    arrivals.put((5, 6, 1))
    finish(closure(spark, arrivals, tmp_path / "checkpoint", {"call": calls}, CLOSURE))
    assert calls.ticks == [(3, {(5, 6): 1})]
