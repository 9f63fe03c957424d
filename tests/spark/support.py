"""Sources of one micro-batch per file, sinks in memory, and queries that run to their end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import dbsp
from dbsp.spark.spark_types import as_struct

CLOSURE = """
    .decl edge(x: number, y: number)
    .input edge
    .decl path(x: number, y: number)
    .output path
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
"""

Delta = dict[tuple[Any, ...], int]


class Arrivals:
    """A folder in which every file is a micro-batch, in the order of the calls of `put`."""

    def __init__(self, folder: Path, ddl: str) -> None:
        folder.mkdir()
        self.folder = folder
        self.ddl = ddl
        self._count = 0

    def put(self, *rows: tuple[Any, ...], schema: pa.Schema | None = None) -> None:
        """Add a micro-batch; without rows it is empty."""
        from pyspark.sql.pandas.types import to_arrow_schema

        if schema is None:
            schema = to_arrow_schema(as_struct(self.ddl), timezone="UTC")
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        draft = self.folder / ".draft"
        pq.write_table(pa.Table.from_arrays(arrays, schema=schema), draft)
        # The file source orders files by their modification time.
        os.utime(draft, (1_700_000_000 + self._count,) * 2)
        draft.rename(self.folder / f"{self._count:06d}.parquet")
        self._count += 1

    def frame(self, spark: Any) -> Any:
        reader = spark.readStream.schema(self.ddl).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.folder))


class Collected:
    """A sink that records its deltas with their ticks, in order."""

    def __init__(self) -> None:
        self.ticks: list[tuple[int, Delta]] = []
        self.fails_at = 0

    def __call__(self, frame: Any, tick: int) -> None:
        if tick == self.fails_at:
            raise OSError("the disk is full")
        self.ticks.append((tick, weights(frame.toArrow())))

    def total(self) -> Delta:
        """Return the sum of all deltas."""
        total: Delta = {}
        for _, delta in self.ticks:
            for row, weight in delta.items():
                total[row] = total.get(row, 0) + weight
        return {row: weight for row, weight in total.items() if weight}


def weights(table: pa.Table) -> Delta:
    """Return the Z-set of a table whose last column has the weights."""
    return {tuple(row[:-1]): row[-1] for row in zip(*(c.to_pylist() for c in table.columns), strict=True)}


def finish(pipeline: dbsp.spark.Pipeline) -> Any:
    """Start the query, wait until it has processed all rows, and return it."""
    query = pipeline.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def failure(pipeline: dbsp.spark.Pipeline) -> str:
    """Return the error of a query that must fail."""
    from pyspark.errors import StreamingQueryException

    query = pipeline.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except StreamingQueryException:
        return str(query.exception())
    raise AssertionError("expected the query to fail, but it succeeded")


def uncommit(checkpoint: Path) -> None:
    """Undo Spark's latest commit, as if the process had ended before writing it."""
    latest = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    (checkpoint / "commits" / str(latest)).unlink()
    (checkpoint / "commits" / f".{latest}.crc").unlink(missing_ok=True)
