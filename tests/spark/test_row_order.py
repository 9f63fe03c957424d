"""The order of the rows of a micro-batch: the files of Spark are not read in their order."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dbsp
from benchmarks.fake_spark import FakeFrame, driver_of
from dbsp import Circuit, InputError
from dbsp.spark.row_order import RowOrder, row_order
from tests.spark.support import CLOSURE, Collected, finish

EDGES = dbsp.compile(".decl e(x: number, y: number)\n.input e\n.output e")
ROWS = st.lists(st.tuples(st.integers(-3, 3), st.sampled_from(["a", "b", "c", None]), st.integers(0, 5)))


@given(ROWS)
def test_rows_are_sorted_by_all_columns_and_stay_in_order_otherwise(rows: list[Any]) -> None:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    table = pa.table(
        {
            "n": pa.array(columns[0], pa.int64()),
            "s": pa.array(columns[1], pa.string()),
            "x": pa.array(columns[2], pa.int64()),
        }
    )
    table = pa.concat_tables([table.slice(0, 2), table.slice(2)])  # in chunks
    expected = sorted(rows, key=lambda row: (row[1] is None, row[1] or "", row[0]))
    assert RowOrder(("s", "n")).sort(table).to_pylist() == [
        dict(zip("nsx", row, strict=True)) for row in expected
    ]
    assert RowOrder(("s", "n"), added=True).sort(table).column_names == ["x"]
    assert RowOrder().sort(table) is table


def test_a_sequence_is_sorted_before_it_is_cut_into_ticks() -> None:
    circuit = Circuit("keyed")
    circuit.output("out", circuit.input("in", x=int, y=int, key="x"))
    tables: list[Any] = []

    def seen(table: Any, tick: int) -> None:
        tables.append(table.to_pylist())

    pipeline = dbsp.spark.stream(circuit).source("in", encoding="upsert", sequence_by="y")
    pipeline.sink("out", seen).option("rowsPerTick", 1)
    source = pipeline._parts.source_operators()["in"]
    driver = driver_of(pipeline, None)
    driver._orders = {"in": row_order(source, FakeFrame())[1]}

    driver(FakeFrame((1, 30), (1, 10), (1, 20)), 0)
    assert driver.run.view("out").to_dict() == {(1, 30): 1}
    assert [[(row["y"], row["weight"]) for row in table] for table in tables] == [
        [(10, 1)],
        [(10, -1), (20, 1)],
        [(20, -1), (30, 1)],
    ]


@pytest.mark.parametrize(
    ("kind", "encoding", "matters"),
    [
        ("zset", "append", False),
        ("zset", "weight", False),
        ("zset", "operations", False),
        ("set", "append", False),
        ("set", "weight", True),
        ("set", "operations", True),
        ("key", "append", True),
        ("key", "upsert", True),
    ],
)
def test_when_the_order_matters(kind: str, encoding: str, matters: bool) -> None:
    columns = dbsp.Schema.of(x=int)
    key = (0,) if kind == "key" else ()
    source = dbsp.spark.SparkSource("r", columns, kind, key, encoding)
    assert source.order_matters is matters


def write(path: Path, rows: list[tuple[int, int, str]], time: int) -> None:
    """Write JSON or Parquet, by the name of the file."""
    if path.suffix == ".json":
        path.write_text("".join(f'{{"x": {x}, "y": {y}, "op": "{op}"}}\n' for x, y, op in rows))
    else:
        x, y, op = zip(*rows, strict=True)
        pq.write_table(pa.table({"x": x, "y": y, "op": op}), path)
    os.utime(path, (time, time))


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_the_newest_file_of_a_micro_batch_decides(spark: Any, tmp_path: Path, form: str) -> None:
    """Spark reads the largest file first."""
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder / f"b-monday.{form}", [(1, 2, "I"), (7, 1, "D"), (7, 1, "I")], 1_700_000_000)
    further = [(n, 0, "I") for n in range(100, 150)]
    write(folder / f"a-tuesday.{form}", [(1, 2, "D"), *further], 1_700_000_100)
    rows = spark.readStream.schema("x long, y long, op string").format(form).load(str(folder))
    operations, upserts = Collected(), Collected()
    finish(
        dbsp.spark.stream(EDGES)
        .source("e", rows.where("x < 200"), encoding="operations", column="op")
        .sink("e", operations)
    )
    assert operations.total() == {(7, 1): 1} | {(n, 0): 1 for n in range(100, 150)}
    # Two sources: their order survives the union, with equal times by path and position.
    write(folder / f"c.{form}", [(1, 5, "I"), (1, 6, "I")], 1_700_000_100)
    keyed = Circuit("keyed")
    keyed.output("out", keyed.input("in", x=int, y=int, key="x") + keyed.input("other", x=int, y=int))
    finish(
        dbsp.spark.stream(keyed)
        .source("in", rows.drop("op"), encoding="upsert")
        .source("other", rows.where("x = 7").drop("op"))
        .sink("out", upserts)
    )
    assert {row: n for row, n in upserts.total().items() if row[0] < 100} == {(1, 6): 1, (7, 1): 3}
    batch = spark.read.schema("x long, y long, op string").format(form).load(str(folder))
    pipeline = dbsp.spark.stream(keyed).source("in", batch.drop("op"), encoding="upsert")
    assert {tuple(row) for row in pipeline.run()["out"].where("x < 100").collect()} == {(1, 6), (7, 1)}


def test_an_unknown_order_is_refused_at_the_start(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    rate = spark.readStream.format("rate").load().selectExpr("value AS x", "value AS y", "'I' AS operation")
    lines = spark.readStream.schema("x long, y long, operation string").json(str(folder))
    table = spark.readStream.schema("x long, y long, operation string").parquet(str(folder))
    program = dbsp.compile(CLOSURE)

    def start(frame: Any, **settings: Any) -> None:
        pipeline = dbsp.spark.stream(program).source("edge", frame, encoding="operations", **settings)
        finish(pipeline)

    with pytest.raises(
        InputError, match=r"source 'edge': .* does not read files.*sequence_by=.*unknown-order"
    ):
        start(rate)
    with pytest.raises(InputError, match="shuffles the rows of its files"):
        start(lines.repartition(2))
    with pytest.raises(InputError, match="hides the files"):
        start(lines.union(lines))
    start(table.repartition(2))  # the position in the file is known
    start(lines.repartition(2), sequence_by="y")
    start(rate.where("x < 0"), ordered=True)
    assert not spark.streams.active


def test_a_feed_needs_an_order() -> None:
    run = EDGES.start()
    with pytest.raises(
        InputError, match="a feed cannot see where Spark reads the rows from; name the column"
    ):
        dbsp.spark.feed(run, "e", encoding="operations")
    dbsp.spark.feed(run, "e", encoding="operations", sequence_by="at")
    dbsp.spark.feed(run, "e", encoding="operations", ordered=True)
    dbsp.spark.feed(run, "e")
