"""A pipeline as users write it: files of changed facts -> Spark -> circuit -> Parquet.

    facts/       files of changed facts arrive here; Structured Streaming reads one a micro-batch
    deltas/      a folder of Parquet files per view: the changed rows of every tick, with a weight
    checkpoint/  the log of Spark, and the state of the circuit

A line of a file is an insertion or deletion of one fact:

    {"relation": "calls", "op": "insert", "caller": "json.load", "callee": "json.loads"}

One file is one micro-batch, and a micro-batch is one tick: the deltas of all views belong to the
same facts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

import dbsp
from examples.stdlib_demo.extract import Row
from examples.stdlib_demo.recomputed import Rows

RELATIONS = {
    "module": ("name", "path"),
    "imports": ("importer", "imported"),
    "defers": ("importer", "imported"),
    "defines": ("function", "module"),
    "calls": ("caller", "callee"),
}
"""The columns of each relation."""
_COLUMNS = dict.fromkeys(column for columns in RELATIONS.values() for column in columns)
_SCHEMA = ", ".join(f"{name} string" for name in ("relation", "op", *_COLUMNS))


class FactPipeline:
    """A streaming query over the files in a folder; `deliver` adds a file."""

    def __init__(self, program: dbsp.Program, spark: Any, folder: Path, shards: int | None = None) -> None:
        self.program = program
        self.spark = spark
        self.folder = folder
        self.shards = shards
        (folder / "facts").mkdir(parents=True)

    def start(self) -> None:
        """Start the query, or continue from its checkpoint."""
        changes = (
            self.spark.readStream.schema(_SCHEMA)
            .option("maxFilesPerTrigger", 1)
            .json(str(self.folder / "facts"))
        )
        pipeline = dbsp.spark.stream(self.program)
        for relation, columns in RELATIONS.items():
            facts = changes.where(f"relation = '{relation}'").select("op", *columns)
            pipeline.source(relation, facts, encoding="operations", column="op")
        for view in self.views:
            pipeline.sink(view, self.folder / "deltas" / view)
        if self.shards is not None:
            pipeline.option("shards", self.shards)
        pipeline.option("checkpointLocation", self.folder / "checkpoint")
        self.query = pipeline.queryName("stdlib_demo").start()

    @property
    def views(self) -> list[str]:
        return list(self.program.outputs)

    def stop(self) -> None:
        self.query.stop()

    def write(self, name: str, changes: Mapping[str, Mapping[Row, int]]) -> None:
        """Write a file of changes under another name and rename it: Spark reads complete files."""
        draft = self.folder / "facts" / f".{name}"
        with draft.open("w", encoding="utf-8") as file:
            for relation, rows in changes.items():
                for row, weight in rows.items():
                    fact = {"relation": relation, "op": "insert" if weight > 0 else "delete"}
                    file.write(json.dumps(fact | dict(zip(RELATIONS[relation], row, strict=True))) + "\n")
        draft.rename(self.folder / "facts" / name)

    def wait(self) -> dict[str, Any]:
        """Wait until all files are processed; return the metrics of the latest tick.

        `batch_seconds` is the time of its whole micro-batch. Raises the error of the pipeline.
        """
        try:
            self.query.processAllAvailable()
        except Exception:
            if (error := dbsp.spark.error(self.query)) is not None:
                raise error from None
            raise
        batch = self.query.lastProgress["durationMs"]["triggerExecution"] / 1e3
        return dbsp.spark.ticks(self.query)[-1] | {"batch_seconds": batch}


class DeltaFolders:
    """The views as a reader of the deltas sees them: the sum of the weights of every row."""

    def __init__(self, folder: Path, views: list[str]) -> None:
        self.folder = folder
        self.views: dict[str, Counter[tuple[Any, ...]]] = {view: Counter() for view in views}
        self._latest = 0

    def read(self, tick: int) -> dict[str, Rows]:
        """Add the ticks up to this one that were not read yet; return the changes by view."""
        deltas: dict[str, Rows] = {}
        for view, rows in self.views.items():
            delta: Counter[tuple[Any, ...]] = Counter()
            files = ds.dataset(self.folder / view, format="parquet", partitioning="hive")
            if "weight" in files.schema.names:  # else no tick has changed the view
                new = (ds.field("tick") > self._latest) & (ds.field("tick") <= tick)
                columns = [name for name in files.schema.names if name not in ("weight", "tick")]
                table = files.to_table([*columns, "weight"], new).to_pydict()
                for *row, weight in zip(*table.values(), strict=True):
                    delta[tuple(row)] += weight
            deltas[view] = {row: weight for row, weight in delta.items() if weight}
            for row, weight in deltas[view].items():
                rows[row] += weight
                if not rows[row]:
                    del rows[row]
        self._latest = tick
        return {view: delta for view, delta in deltas.items() if delta}

    def read_with(self, spark: Any) -> dict[str, Rows]:
        """Return the views as Spark computes them from all files."""
        views: dict[str, Rows] = {}
        for view in self.views:
            if not any((self.folder / view).glob("tick*")):
                views[view] = {}
                continue
            deltas = spark.read.parquet(str(self.folder / view)).drop("tick")
            columns = [name for name in deltas.columns if name != "weight"]
            summed = deltas.groupBy(*columns).agg({"weight": "sum"}).where("`sum(weight)` <> 0")
            views[view] = {tuple(row): weight for *row, weight in summed.collect()}
        return views
