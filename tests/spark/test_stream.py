"""Pipelines: the deltas that Spark receives are those of the circuit."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from dbsp import Circuit, InputError, SchemaError, col, count
from tests.profiles import examples
from tests.spark.support import CLOSURE, Arrivals, Collected, finish, weights

_small = st.integers(-2, 2)
_rows = {
    "a": st.tuples(_small, _small),
    "b": st.tuples(_small, st.sampled_from(["", "ä", "b"])),
    "c": st.tuples(_small, st.none() | st.integers(-3, 3)),
}
_columns = {"a": "x long, y long", "b": "x long, s string", "c": "id long, v long"}
_encodings = {
    "a": st.sampled_from(["append", "weight", "operations"]),
    "b": st.sampled_from(["append", "weight", "operations"]),
    "c": st.sampled_from(["upsert", "operations"]),
}
_words = {1: ["I", "insert", "c", "update_postimage"], -1: ["D", "delete", "d", "update_preimage"]}


def three_kinds() -> Circuit:
    """Inputs of all three kinds, joins, an aggregate and a recursion."""
    circuit = Circuit("kinds")
    a = circuit.input("a", x=int, y=int)
    b = circuit.input("b", schema={"x": int, "s": str}, kind="set")
    c = circuit.input("c", schema={"id": int, "v": int | None}, key="id")
    circuit.output("joined", a.join(b, on="x").join(c.rename(x="id"), on="x"))
    circuit.output("sums", c.filter(col("v").is_null() == False).group_by("v").agg(n=count()))  # noqa: E712
    pairs = a.distinct()
    with circuit.fixpoint("closure") as scope:
        path = scope.variable("path", pairs.schema)
        step = path.join(pairs.rename(z="y", y="x"), on="y").select("x", "z").rename(y="z")
        scope.define(path, (pairs + step).distinct())
    circuit.output("path", scope.leave(path))
    return circuit


def change(name: str, encoding: str) -> st.SearchStrategy[tuple[Any, ...]]:
    """A row of a micro-batch together with its weight, weight column or operation."""
    rows = _rows[name]
    if encoding in ("append", "upsert"):
        return st.tuples(rows, st.just(1), st.none())
    if encoding == "weight":
        return st.tuples(rows, st.sampled_from([1, 2, -1, -2]), st.none())
    signed = st.sampled_from([1, -1]).flatmap(lambda w: st.tuples(st.just(w), st.sampled_from(_words[w])))
    return st.tuples(rows, signed).map(lambda drawn: (drawn[0], drawn[1][0], drawn[1][1]))


@settings(max_examples=examples(8))
@given(st.data())
def test_the_deltas_equal_those_of_the_circuit_without_spark(spark: Any, data: st.DataObject) -> None:
    encodings = {name: data.draw(strategy, label=name) for name, strategy in _encodings.items()}
    batch = st.fixed_dictionaries(
        {name: st.lists(change(name, encoding), max_size=5) for name, encoding in encodings.items()}
    )
    batches = data.draw(st.lists(batch, min_size=6, max_size=10))
    durable = data.draw(st.booleans(), label="with a checkpoint")

    direct = three_kinds().start()
    expected: dict[str, list[Any]] = {name: [] for name in direct.outputs}
    for changes in batches:
        for name, rows in changes.items():
            for row, weight, _ in rows:
                handle = direct.input(name)
                for _ in range(abs(weight)):
                    handle.insert([row]) if weight > 0 else handle.delete([row])
        result = direct.step()
        for name, delta in result.items():
            if delta:
                expected[name].append((result.number, delta.to_dict()))

    with tempfile.TemporaryDirectory() as folder:
        pipeline = dbsp.spark.stream(three_kinds())
        for name, encoding in encodings.items():
            further = {"weight": ", weight long", "operations": ", operation string"}.get(encoding, "")
            arrivals = Arrivals(Path(folder) / name, _columns[name] + further)
            for changes in batches:
                arrivals.put(
                    *(
                        (*row, weight) if encoding == "weight" else (*row, word) if word else row
                        for row, weight, word in changes[name]
                    )
                )
            pipeline.source(name, arrivals.frame(spark), encoding=encoding)
        sinks = {name: Collected() for name in expected}
        for name, sink in sinks.items():
            pipeline.sink(name, sink)
        if durable:
            pipeline.options(checkpointLocation=f"{folder}/checkpoint", snapshotEvery=3, sync="false")
            pipeline.option("memoryLimit", 256)
        finish(pipeline)
        assert {name: sink.ticks for name, sink in sinks.items()} == expected


def test_sources_and_sinks_are_nodes_of_the_circuit(spark: Any, tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path / "a", "x long, y long, weight long")
    pipeline = (
        dbsp.spark.stream(three_kinds())
        .source("a", arrivals.frame(spark), encoding="weight")
        .sink("path", tmp_path / "out", encoding="operations")
    )
    finish(pipeline)
    labels = {node.label for stage in ("query", "physical") for node in pipeline.circuit(stage).nodes}
    assert {"SparkSource a [weight]", "SparkSink path [operations]", "Input b", "Output sums"} <= labels
    assert not {"Input a", "Output path"} & labels


def test_a_folder_has_a_file_for_the_facts_and_every_tick(spark: Any, tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path / "in", "x long, y long")
    arrivals.put((2, 3))
    arrivals.put((2, 3))  # changes nothing
    arrivals.put((3, 4))
    out = tmp_path / "out"
    program = dbsp.compile(CLOSURE + "edge(1, 2).")
    finish(dbsp.spark.stream(program).source("edge", arrivals.frame(spark)).sink("path", out))
    assert sorted(path.name for path in out.glob("*.parquet")) == [
        f"tick-{tick:012d}.parquet" for tick in (1, 2, 4)
    ]
    rows = {tuple(row) for row in spark.read.parquet(str(out)).select("tick", "x", "y", "weight").collect()}
    assert rows == {(1, 1, 2, 1), (2, 2, 3, 1), (2, 1, 3, 1), (4, 3, 4, 1), (4, 2, 4, 1), (4, 1, 4, 1)}


def test_views_operations_and_tables(spark: Any, tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path / "in", "x long, y long, n int")
    arrivals.put((1, 2, 1), (2, 3, 1))
    arrivals.put((2, 3, -1))
    program = dbsp.compile(
        CLOSURE + ".decl twice(x: number)\n.output twice\ntwice(x) :- path(x, _).\n"
        ".decl ends(y: number)\n.output ends\nends(y) :- path(_, y).\n"
    )
    spark.sql("DROP TABLE IF EXISTS ends")
    finish(
        dbsp.spark.stream(program)
        .source("edge", arrivals.frame(spark), encoding="weight", column="n")
        .sink("path", tmp_path / "view", encoding="view")
        .sink("twice", tmp_path / "operations", encoding="operations", column="op")
        .sink("ends", "ends")
    )
    (view,) = (tmp_path / "view").glob("*.parquet")
    assert pq.read_table(view).to_pydict() == {"x": [1], "y": [2], "tick": [2]}
    operations = spark.read.parquet(str(tmp_path / "operations")).orderBy("tick", "x").collect()
    assert [tuple(row) for row in operations] == [(1, "insert", 1), (2, "insert", 1), (2, "delete", 2)]
    assert {tuple(row) for row in spark.table("ends").collect()} == {(2, 1, 1), (3, 1, 1), (3, -1, 2)}
    spark.sql("DROP TABLE ends")


def test_a_sink_of_one_circuit_is_the_source_of_another(spark: Any, tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path / "in", "x long, y long, weight long")
    arrivals.put((1, 2, 1), (2, 3, 1))
    arrivals.put((1, 2, -1), (3, 4, 1))
    out = tmp_path / "out"
    program = dbsp.compile(CLOSURE)
    finish(
        dbsp.spark.stream(program).source("edge", arrivals.frame(spark), encoding="weight").sink("path", out)
    )
    second = Circuit("sizes")
    path = second.input("path", x=int, y=int)
    second.output("sizes", path.group_by("x").agg(n=count(), total=col("y").sum()))
    sizes = Collected()
    follow = spark.readStream.schema("x long, y long, weight long, tick long").parquet(str(out)).drop("tick")
    finish(dbsp.spark.stream(second).source("path", follow, encoding="weight").sink("sizes", sizes))
    assert sizes.total() == {(2, 2, 7): 1, (3, 1, 4): 1}


@pytest.mark.parametrize(("options", "ticks"), [({"rowsPerTick": 2}, 3), ({"tickWindow": "1 minute"}, 4)])
def test_a_micro_batch_can_be_several_ticks(
    spark: Any, tmp_path: Path, options: dict[str, Any], ticks: int
) -> None:
    import datetime as dt

    arrivals = Arrivals(tmp_path / "in", "at timestamp, y long")
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    arrivals.put(*((start + dt.timedelta(seconds=s), y) for y, s in enumerate([5, 190, 59, 60, 130])))
    circuit = Circuit("minutes")
    circuit.output("out", circuit.input("event", at="timestamp", y=int))
    seen = Collected()
    pipeline = dbsp.spark.stream(circuit).source("event", arrivals.frame(spark), event_time="at")
    query = finish(pipeline.sink("out", seen).options(**options))
    assert [tick["batch"] for tick in dbsp.spark.ticks(query)] == [0] * ticks
    assert [number for number, _ in seen.ticks] == list(range(1, ticks + 1))
    observed = query.lastProgress["observedMetrics"][dbsp.spark.METRICS]
    assert observed["rows_in"] == 5
    if "tickWindow" in options:
        assert [sorted(row[1] for row in delta) for _, delta in seen.ticks] == [[0, 2], [3], [4], [1]]
    assert len(seen.total()) == 5


def test_progress_and_ticks_count_input_and_output_rows(spark: Any, tmp_path: Path) -> None:
    edges = Arrivals(tmp_path / "edge", "x long, y long, weight long")
    edges.put((1, 2, 1), (2, 3, 1), (8, 9, -1))
    colours = Arrivals(tmp_path / "colour", "x long, c string")
    colours.put((1, "red"))
    program = dbsp.compile(
        CLOSURE + ".decl colour(x: number, c: symbol)\n.input colour\n"
        '.decl red(x: number)\n.output red\nred(x) :- path(x, _), colour(x, "red").\n'
    )
    query = finish(
        dbsp.spark.stream(program)
        .source("edge", edges.frame(spark), encoding="weight")
        .source("colour", colours.frame(spark))
        .queryName("observed")
    )
    assert query.name == "observed"
    observed = query.lastProgress["observedMetrics"][dbsp.spark.METRICS].asDict()
    (tick,) = dbsp.spark.ticks(query)
    assert {name: tick[name] for name in ("tick", "batch", "rows_in", "rows_out", "absent", "present")} == {
        "tick": 1,
        "batch": 0,
        "rows_in": 4,
        "rows_out": 4,
        "absent": 1,
        "present": 0,
    }
    assert tick["state_rows"] > 0
    assert tick["state_bytes"] > 0
    assert all(tick[f"{name}_seconds"] > 0 for name in ("fetch", "step", "sink"))
    assert observed == {"rows_in": 4, "rows_in_edge": 3, "rows_in_colour": 1}
    assert dbsp.spark.error(query) is None
    with pytest.raises(InputError, match="expected a query that a pipeline of this process started, got"):
        dbsp.spark.error("another")
    with pytest.raises(InputError, match="expected a query that a pipeline of this process started, got"):
        dbsp.spark.ticks("another")


def test_batch_frames_run_in_one_tick(spark: Any, tmp_path: Path) -> None:
    program = dbsp.compile(CLOSURE)
    edges = spark.createDataFrame([(1, 2), (2, 3)], "x int, y int")
    assert {tuple(row) for row in dbsp.spark.run(program, {"edge": edges})["path"].collect()} == {
        (1, 2),
        (2, 3),
        (1, 3),
    }
    signed = spark.createDataFrame([(1, 2, 1), (2, 3, 1), (2, 3, -1)], "x int, y int, weight int")
    out = tmp_path / "out"
    views = dbsp.spark.stream(program).source("edge", signed, encoding="weight").sink("path", out).run()
    assert [tuple(row) for row in views["path"].collect()] == [(1, 2)]
    assert weights(pq.read_table(out).drop_columns(["tick"])) == {(1, 2): 1}


def test_a_run_can_be_fed_by_the_callers_queries(spark: Any, tmp_path: Path) -> None:
    run = dbsp.compile(CLOSURE).start()
    arrivals = Arrivals(tmp_path / "in", "x long, y long, op string")
    arrivals.put((1, 2, "I"), (2, 3, "I"))
    arrivals.put((2, 3, "D"))
    results: list[Any] = []
    settings: dict[str, Any] = {"encoding": "operations", "column": "op", "ordered": True}
    for sink in (
        dbsp.spark.feed(run, "edge", **settings),
        dbsp.spark.feed(run, "edge", **settings, on_tick=results.append),
    ):
        frame = arrivals.frame(spark)
        frame.writeStream.foreachBatch(sink).trigger(availableNow=True).start().awaitTermination()
    assert run.view("path").rows() == [(1, 2)]
    assert [result.number for result in results] == [3, 4]
    with pytest.raises(InputError, match="unknown input 'edgy'; did you mean 'edge'"):
        dbsp.spark.feed(run, "edgy")
    with pytest.raises(InputError, match="unknown output 'paths'; did you mean 'path'"):
        dbsp.spark.view_frame(spark, run, "paths")


def test_a_feed_does_not_apply_a_batch_again_after_a_restart(spark: Any, tmp_path: Path) -> None:
    circuit = Circuit("sum")
    circuit.output("out", circuit.input("in", x=int))
    arrivals = Arrivals(tmp_path / "in", "x long")
    arrivals.put((1,), (2,))
    for _ in range(2):
        run = circuit.start(checkpoint=tmp_path / "state")
        writer = arrivals.frame(spark).writeStream.foreachBatch(dbsp.spark.feed(run, "in"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        assert run.view("out").to_dict() == {(1,): 1, (2,): 1}
        assert run.log is not None
        run.log.close()
        (tmp_path / "checkpoint" / "commits" / "0").unlink()
        (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink(missing_ok=True)


def test_invalid_arguments_raise_before_the_start(spark: Any, tmp_path: Path) -> None:
    program = dbsp.compile(CLOSURE)
    frame = Arrivals(tmp_path / "in", "x long, y string, z long").frame(spark)
    good = frame.selectExpr("x", "z as y")

    def start(source: str = "edge", df: Any = good, sink: str = "path", **settings: Any) -> None:
        dbsp.spark.stream(program).source(source, df, **settings).sink(sink, print).start()

    with pytest.raises(InputError, match=r"unknown input 'edgy'; did you mean 'edge'.*unknown-input"):
        start(source="edgy")
    with pytest.raises(InputError, match=r"unknown output 'paths'; did you mean 'path'.*unknown-output"):
        start(sink="paths")
    with pytest.raises(SchemaError, match=r"source 'edge': expected the columns .*: unexpected 'z'; drop"):
        start(df=frame)
    with pytest.raises(SchemaError, match="missing 'weight'"):
        start(encoding="weight")
    with pytest.raises(SchemaError, match="'y': the relation expects int, got string in the DataFrame"):
        start(df=frame.drop("z"))
    with pytest.raises(InputError, match=r"unknown encoding 'weights'; .*; did you mean 'weight'"):
        start(encoding="weights")
    with pytest.raises(InputError, match="needs a key"):
        start(encoding="upsert")
    with pytest.raises(InputError, match="expected a streaming DataFrame, got a batch DataFrame"):
        start(df=spark.createDataFrame([(1, 2)], "x long, y long"))
    with pytest.raises(InputError, match=r"got a streaming DataFrame; use start\(\) \[spark-source\]"):
        dbsp.spark.run(program, {"edge": good})
    with pytest.raises(InputError, match="got list"):
        start(df=[(1, 2)])
    with pytest.raises(InputError, match="has no source"):
        dbsp.spark.stream(program).start()
    with pytest.raises(InputError, match=r"expected a compiled program or a Circuit, got 'a.dl'"):
        dbsp.spark.stream("a.dl")
    with pytest.raises(InputError, match="sink 'path' is defined twice; give the second one another name="):
        dbsp.spark.stream(program).sink("path", print).sink("path", "out/path")
    with pytest.raises(InputError, match="source 'edge' is defined twice"):
        dbsp.spark.stream(program).source("edge", good).source("edge", good)
    with pytest.raises(InputError, match=r"a sink expects a folder, .* got 3 \[spark-sink\]"):
        dbsp.spark.stream(program).source("edge", good).sink("path", 3).start()  # type: ignore[arg-type]
    assert not spark.streams.active


@pytest.mark.parametrize(
    ("options", "event_time", "message"),
    [
        ({"checkpointLocation": "s3://bucket/x"}, "", "renaming; got s3://bucket/x"),
        ({"tickWindow": "soon"}, "x", "expects a duration such as '30 seconds', .* got 'soon'"),
        ({"tickWindow": "1 day"}, "", r"needs a source with event_time=\.\.\. \[missing-option\]"),
        ({"tickWindow": "1 day"}, "z", r"event_time: unknown column 'z' in \(x, y\) \[unknown-column\]"),
        ({"rowsPerTick": "many"}, "", "'rowsPerTick' expects a number of rows, got 'many'"),
        ({"sync": "flase"}, "", "'sync' expects 'true' or 'false', got 'flase'"),
        (
            {"checkpointLocation": "checkpoint", "snapshotEvery": 0},
            "",
            "'snapshotEvery' expects ticks such as 1000, a time such as '30 s' or .*, got 0",
        ),
        ({"memoryLimit": "much"}, "", r"'memoryLimit' expects bytes, or an amount such as .*, got 'much'"),
    ],
)
def test_invalid_options(
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    event_time: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    frame = Arrivals(tmp_path / "in", "x long, y long").frame(spark)
    pipeline = dbsp.spark.stream(dbsp.compile(CLOSURE)).source("edge", frame, event_time=event_time)
    with pytest.raises((InputError, SchemaError), match=message):
        pipeline.options(**options).start()
