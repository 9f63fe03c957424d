"""What the start of a pipeline on shards checks, its options, its results and its reports."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import dbsp
from dbsp import Circuit, CircuitError, InputError, SetupError, col
from dbsp.spark.cluster import cluster_run, start_check
from dbsp.spark.cluster.cluster_run import ClusterRun
from dbsp.spark.cluster.segment_tasks import ClusterQuery
from tests.spark.support import CLOSURE, Arrivals, Collected, failure, finish
from tests.spark.test_stream import three_kinds


def closure(spark: Any) -> dbsp.spark.Pipeline:
    rows = spark.createDataFrame([(1, 2), (2, 3), (7, 7)], "x long, y long")
    return dbsp.spark.stream(dbsp.compile(CLOSURE + "edge(3, 4).")).source("edge", rows).option("shards", 2)


PATHS = {(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4), (7, 7)}


def test_results_are_read_from_parts(spark: Any, tmp_path: Path) -> None:
    calls = Collected()
    views = closure(spark).sink("path", calls).run()
    assert {tuple(row) for row in views["path"].collect()} == PATHS
    assert views["path"].columns == ["x", "y"]
    assert [tick for tick, _ in calls.ticks] == [1, 2] and calls.total() == dict.fromkeys(PATHS, 1)
    views = closure(spark).option("stateLocation", tmp_path / "runs").run()
    (run,) = (tmp_path / "runs").iterdir()
    assert [path.name for path in run.iterdir()] == ["views"]
    assert views["path"].inputFiles()[0].startswith(f"file://{run}/views/path/tick=2/")


def test_run_takes_shards_and_a_folder(spark: Any, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(1, 2), (2, 3)], "x long, y long")
    views = dbsp.spark.run(dbsp.compile(CLOSURE), {"edge": rows}, shards=3, folder=tmp_path)
    assert {tuple(row) for row in views["path"].collect()} == {(1, 2), (2, 3), (1, 3)}


def test_kinds_of_inputs_in_the_order_of_their_changes(spark: Any, tmp_path: Path) -> None:
    columns = {"a": "x long, y long", "b": "x long, s string, operation string", "c": "id long, v long"}
    ticks: list[dict[str, list[tuple[Any, ...]]]] = [
        {
            "a": [(1, 1), (1, 2)],
            "b": [(1, "b", "insert"), (1, "b", "delete"), (1, "ä", "insert"), (2, "b", "D")],
            "c": [(1, 5), (2, None), (1, 6)],
        },
        {"a": [(2, 1)], "b": [(1, "ä", "delete"), (1, "ä", "insert")], "c": [(2, 7), (2, 8)]},
    ]
    sinks = [{name: Collected() for name in ("joined", "sums", "path")} for _ in range(2)]
    for number, collected in enumerate(sinks):
        pipeline = dbsp.spark.stream(three_kinds())
        for name, ddl in columns.items():
            arrivals = Arrivals(tmp_path / f"{name}{number}", ddl)
            for changes in ticks:
                arrivals.put(*changes[name])
            encoding = {"b": "operations", "c": "upsert"}.get(name, "append")
            pipeline.source(name, arrivals.frame(spark), encoding=encoding)
        for name, sink in collected.items():
            pipeline.sink(name, sink)
        finish(pipeline.option("shards", 2) if number else pipeline)
    alone, on_shards = ({name: sink.ticks for name, sink in each.items()} for each in sinks)
    assert on_shards == alone and len(alone["path"]) == len(alone["sums"]) == 2


def test_ticks_report_segments_of_shards(spark: Any, tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path / "edge", "x long, y long")
    arrivals.put(*((n, n + 1) for n in range(20)))
    program = dbsp.compile(CLOSURE)
    query = finish(dbsp.spark.stream(program).source("edge", arrivals.frame(spark)).option("shards", 2))
    (tick,) = dbsp.spark.ticks(query)
    assert (tick["tick"], tick["batch"], tick["rows_in"], tick["rows_out"]) == (1, 0, 20, 210)
    segments = tick["segments"]
    last = max(facts["segment"] for facts in segments)
    assert last.startswith("segment 2 of 2: Fixpoint") and "Fixpoint" in last
    shards = [facts for facts in segments if facts["segment"] == last]
    assert [facts["shard"] for facts in shards] == [0, 1]
    assert sum(facts["rows_out"] for facts in shards) == 210
    received = [facts["received_bytes"] for facts in shards]
    assert tick["skew"] >= 2 * max(received) / sum(received) >= 1
    assert tick["state_rows"] == sum(facts["state_rows"] for facts in segments)


def test_an_error_of_the_program_keeps_its_place(spark: Any, tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path / "a", "x long")
    arrivals.put((1,))
    arrivals.put((0,))
    circuit = Circuit("division")
    circuit.output("b", circuit.input("a", x=int).map(y=10 // col("x")))
    pipeline = dbsp.spark.stream(circuit).source("a", arrivals.frame(spark)).option("shards", 2)
    pipeline.option("checkpointLocation", tmp_path / "checkpoint").sink("b", tmp_path / "b")
    assert "division by zero" in failure(pipeline)
    assert [path.name for path in (tmp_path / "b").glob("tick=*")] == ["tick=1"]
    weights = Arrivals(tmp_path / "w", "x long, y long, weight long")
    weights.put((1, 2, None))
    bad = dbsp.spark.stream(dbsp.compile(CLOSURE)).source("edge", weights.frame(spark), encoding="weight")
    assert "source 'edge': the weight column 'weight' is null in 1 row" in failure(bad.option("shards", 2))


def test_an_append_sink_refuses_retractions(spark: Any, tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path / "edge", "x long, y long, weight long")
    arrivals.put((1, 2, 1), (2, 3, 1))
    arrivals.put((1, 2, -1))
    pipeline = dbsp.spark.stream(dbsp.compile(CLOSURE))
    pipeline.source("edge", arrivals.frame(spark), encoding="weight").option("shards", 2)
    text = failure(pipeline.sink("path", tmp_path / "out", encoding="append"))
    assert "sink 'path': the delta retracts" in text
    assert {tuple(row)[:2] for row in spark.read.parquet(f"{tmp_path}/out").collect()} == {
        (1, 2),
        (1, 3),
        (2, 3),
    }


def test_shards_do_not_retract_what_others_insert(spark: Any, tmp_path: Path) -> None:
    circuit, calls = Circuit("projection"), Collected()
    circuit.output("b", circuit.input("a", x=int, y=int).select("y"))
    arrivals = Arrivals(tmp_path / "a", "x long, y long, weight long")
    arrivals.put(*((x, x % 2, 1) for x in range(8)))
    arrivals.put(*((x, x % 2, -1) for x in range(8)), *((x, x % 2, 1) for x in range(8, 16)))
    arrivals.put((20, 1, 1))
    pipeline = dbsp.spark.stream(circuit).source("a", arrivals.frame(spark), encoding="weight")
    finish(
        pipeline.sink("b", calls).sink("b", tmp_path / "b", name="f", encoding="append").option("shards", 3)
    )
    assert calls.ticks == [(1, {(0,): 4, (1,): 4}), (3, {(1,): 1})]
    assert sorted(tuple(row) for row in spark.read.parquet(f"{tmp_path}/b").collect()) == sorted(
        [(0, 1), (1, 1)] * 4 + [(1, 3)]
    )


@pytest.mark.parametrize("sync", [True, False])
def test_jobs_have_the_names_and_options_of_the_circuit(spark: Any, tmp_path: Path, sync: bool) -> None:
    described: list[str] = []
    queries: list[ClusterQuery] = []
    plans: list[str] = []
    arrivals = Arrivals(tmp_path / "edge", "x long, y long")
    arrivals.put((1, 2), (2, 3))

    def note(frame: Any, tick: int) -> None:
        described.append(spark.sparkContext.getLocalProperty("spark.job.description"))

    pipeline = dbsp.spark.stream(dbsp.compile(CLOSURE)).source("edge", arrivals.frame(spark))
    unchanged = ClusterRun._plan

    def planned(run: ClusterRun, *given: Any) -> Any:
        described.append(spark.sparkContext.getLocalProperty("spark.job.description"))
        rows = unchanged(run, *given)
        plans.append(rows._jdf.queryExecution().analyzed().toString())
        queries.append(run.query)
        return rows

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ClusterRun, "_plan", planned)
        pipeline.options(shards=2, memoryLimit="4K", checkpointLocation=tmp_path / "checkpoint")
        finish((pipeline if sync else pipeline.option("sync", False)).sink("path", note))
    assert [text.partition("': ")[2] for text in described] == [
        "tick 1 on 2 shards, micro-batch 0",
        "tick 1 to sink 'path'",
    ]
    (query,) = queries
    assert (query.memory_limit, query.folder.sync) == (1024, sync)  # two segments of two shards
    (plan,) = plans
    for name in ("deal edge(", "segment 1 of 2: Broadcast(", "segment 2 of 2: "):
        assert f"MapInArrow {name}" in plan, plan


# --- refusals at the start ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "code", "message"),
    [
        ("shards", 0, "invalid-option", "'shards' expects a number of shards, 1 or more, got 0"),
        ("shards", "two", "invalid-option", "'shards' expects a number of shards, 1 or more, got 'two'"),
        ("rowsPerTick", 5, "invalid-option", "'rowsPerTick' cannot be combined with 'shards': a micro-batch"),
        ("tickWindow", "1 day", "invalid-option", "'tickWindow' cannot be combined with 'shards'"),
        (
            "memoryLimit",
            "9%",
            "invalid-option",
            "'memoryLimit' expects bytes, or an amount such as '64G', for all",
        ),
        ("memoryLimit", "some", "invalid-option", "'memoryLimit' expects bytes, or an amount such as '8G'"),
        ("scopes", "all", "invalid-option", "'scopes' expects 'gather' or 'exchange', got 'all'"),
        ("snapshotEvery", 9, "invalid-option", "'snapshotEvery' expects bytes of journal such as '64 MB'"),
    ],
)
def test_options(spark: Any, name: str, value: Any, code: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        closure(spark).option(name, value).run()
    assert raised.value.code == code


@pytest.mark.parametrize(("name", "value"), [("stateLocation", "state"), ("scopes", "exchange")])
def test_options_that_need_shards(spark: Any, name: str, value: str) -> None:
    pipeline = closure(spark).option(name, value)
    del pipeline._parts.options["shards"]
    with pytest.raises(InputError, match=f"'{name}' needs the option 'shards'") as raised:
        pipeline.run()
    assert raised.value.code == "missing-option"


def test_executors_elsewhere_need_a_folder(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "master", "spark://host:7077")
    with pytest.raises(
        InputError, match=r"executors of spark://host:7077 need a folder that they share"
    ) as raised:
        closure(spark).run()
    assert raised.value.code == "missing-option"


def test_a_folder_of_this_process_is_not_shared(spark: Any) -> None:
    pipeline = closure(spark).option("stateLocation", "memory://state")  # the memory of each process
    with pytest.raises(
        dbsp.CheckpointError, match=r"share, got memory://state/run-\w+: a file of the driver"
    ) as raised:
        pipeline.run()
    assert raised.value.code == "folder-not-shared"


def test_another_version_on_executors(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_run, "versions", lambda: "dbsp 0.0.1 on Python 3.11")
    with pytest.raises(SetupError, match=r"the driver runs dbsp 0.0.1 on Python 3.11, an executor dbsp \d"):
        closure(spark).run()


def test_executors_without_the_package() -> None:
    error = start_check.without_package("...\nModuleNotFoundError: No module named 'dbsp'\n")
    assert error is not None and "the executors cannot import dbsp (No module named 'dbsp')" in error.message
    assert "ship it with --archives" in error.message
    assert start_check.without_package("No module named 'other'") is None


def test_a_function_that_cannot_travel(spark: Any) -> None:
    lock = threading.Lock()
    circuit = Circuit("locked")
    circuit.output("b", circuit.input("a", x=int).map(lambda x: (x, lock)[:1], {"x": int}))
    rows = spark.createDataFrame([(1,)], "x long")
    with pytest.raises(CircuitError, match="cannot be sent to executors") as raised:
        dbsp.spark.stream(circuit).source("a", rows).option("shards", 2).run()
    assert raised.value.code == "not-picklable"


def test_a_function_of_a_module_that_executors_lack(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_in_the_driver.py").write_text("def double(x):\n    return (2 * x,)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import only_in_the_driver  # type: ignore[import-not-found]

    circuit = Circuit("doubled")
    circuit.output("b", circuit.input("a", x=int).map(only_in_the_driver.double, {"x": int}))
    rows = spark.createDataFrame([(1,)], "x long")
    with pytest.raises(
        CircuitError, match=r"cannot read the circuit \(ModuleNotFoundError.*addPyFile"
    ) as raised:
        dbsp.spark.stream(circuit).source("a", rows).option("shards", 2).run()
    assert raised.value.code == "not-picklable"
    sys.modules.pop("only_in_the_driver")
