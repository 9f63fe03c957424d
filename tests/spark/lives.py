"""Lives of a pipeline without a JVM: Spark's frames are tables, and its batches are calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import LongType, StructType

import dbsp
from dbsp.spark.driver import Driver

PAIRS = StructType().add("x", LongType()).add("y", LongType())
TWO = dbsp.compile(
    ".decl e(x: number, y: number)\n.input e\n"
    ".decl a(x: number, y: number)\n.output a\na(x, y) :- e(x, y).\n"
    ".decl b(x: number, y: number)\n.output b\nb(x, y) :- e(x, y).\n"
)


class FakeContext:
    def getLocalProperty(self, name: str) -> str:
        return "the id of the query"


class FakeSession:
    """A session for folders and functions; a DataFrame is its Arrow table."""

    sparkContext = FakeContext()

    def createDataFrame(self, table: pa.Table, struct: Any) -> pa.Table:
        return table


class FakeFrame:
    isStreaming = True
    sparkSession = FakeSession()

    def __init__(self, *rows: tuple[Any, ...], schema: Any = PAIRS) -> None:
        self.rows = rows
        self.schema = schema
        self.columns = schema.names

    def toArrow(self) -> pa.Table:
        columns = [pa.array([row[i] for row in self.rows], pa.int64()) for i in range(len(self.columns))]
        return pa.table(columns, names=self.columns)


def driver_of(pipeline: dbsp.spark.Pipeline, folder: Path | None) -> Driver:
    """Return the driver of a pipeline over fake frames; the state is in `folder`."""
    parts = pipeline._parts
    sources = parts.source_operators()
    return parts.driver(FakeSession(), sources, dict.fromkeys(sources, PAIRS), folder)


class Life:
    """A driver of the program TWO, from its start to its end."""

    def __init__(self, root: Path, sinks: Mapping[str, Any] | Sequence[str], **settings: Any) -> None:
        pipeline = dbsp.spark.stream(TWO).source("e", FakeFrame()).option("sync", "false")
        every = settings.pop("every", None)
        if every is not None:
            pipeline.option("snapshotEvery", every)
        for name in sinks:
            target = sinks[name] if isinstance(sinks, Mapping) else root / name
            pipeline.sink(name[0], target, name=name, **settings)
        self.driver = driver_of(pipeline, root / "checkpoint")

    def batches(self, *numbers: int) -> Life:
        """Apply micro-batches; number n inserts the row (n, n)."""
        for number in numbers:
            self.driver(FakeFrame((number, number)), number)
        return self

    def close(self) -> None:
        self.driver.close()

    def kill(self) -> None:
        """End as the process ends: only its lock is released."""
        if self.driver.run.log is not None:
            self.driver.run.log.close()


def live(root: Path, sinks: Any, *numbers: int, **settings: Any) -> None:
    """Start, apply micro-batches, and end in order."""
    life = Life(root, sinks, **settings)
    try:
        life.batches(*numbers)
    finally:
        life.close()


def ticks(folder: Path) -> dict[int, list[tuple[int, ...]]]:
    """Return the rows of a folder by tick, with their weights."""
    found = {}
    for path in sorted(folder.glob("tick-*.parquet")):
        table = pq.ParquetFile(path).read().drop_columns(["tick"])
        found[int(path.stem[5:])] = sorted(zip(*(c.to_pylist() for c in table.columns), strict=True))
    return found


class Received:
    """A function of a sink: the rows of its ticks; it fails while `fails` is set."""

    def __init__(self) -> None:
        self.ticks: dict[int, list[tuple[int, ...]]] = {}
        self.fails = False

    def __call__(self, table: pa.Table, tick: int) -> None:
        if self.fails:
            raise OSError("the disk is full")
        assert tick not in self.ticks, f"tick {tick} arrives twice"
        self.ticks[tick] = sorted(zip(*(c.to_pylist() for c in table.columns), strict=True))
