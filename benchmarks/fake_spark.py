"""Drive a pipeline without a JVM: Spark's frames are tables, and its micro-batches are calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
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


class FakeSettings(dict[str, str]):
    """The settings of a session."""

    set = dict.__setitem__


class FakeSession:
    """A session for folders and functions; a DataFrame is its Arrow table."""

    sparkContext = FakeContext()
    conf = FakeSettings()

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


def driver_of(pipeline: dbsp.spark.Pipeline, folder: Path | None) -> Driver:
    """Return the driver of a pipeline over fake frames; the state is in `folder`."""
    parts = pipeline._parts
    sources = parts.source_operators()
    return parts.driver(FakeSession(), sources, dict.fromkeys(sources, PAIRS), folder)
