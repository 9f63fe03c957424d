"""The Spark format "dbsp": read recorded deltas and views, and write changes for a run.

    dbsp.spark.register(spark)
    source = spark.readStream.format("dbsp").option("path", log).option("output", "path")
    deltas = source.load()
    view = spark.read.format("dbsp").option("path", log).option("asOf", 12).load()
    changes.writeStream.format("dbsp").option("path", inbox).option("input", "edge").start()

Reading takes a delta log (`dbsp.durable.DeltaLog`) or the Parquet folder of a pipeline's sink.
Writing takes an inbox (`dbsp.durable.Inbox`). This module runs in processes that Spark starts, on
this machine or others, which share only the folder with the run.

| option             | for           | meaning                                                    |
|--------------------|---------------|------------------------------------------------------------|
| `path`             | all           | the folder                                                 |
| `output`           | reading       | the output; optional if only one is recorded               |
| `startTick`        | deltas        | first tick to read (default: the first recorded tick)      |
| `maxTicksPerBatch` | `readStream`  | maximum ticks per micro-batch (default: no limit)          |
| `asOf`             | `read`        | view after this tick, or deltas up to it (default: latest) |
| `deltas`           | `read`        | "true": read the deltas instead of the view                |
| `rows`             | `read`        | "true": the rows of a view, each repeated by its weight    |
| `input`            | `writeStream` | the input of the run that the rows change                  |
| `weightColumn`     | `writeStream` | column with signed weights (default: weight 1 for all)     |
| `writer`           | `writeStream` | query's name in the inbox (default: the input's name)      |

The DataFrame read has the output's columns, a weight (named as in the log) and the tick number,
`tick`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from dbsp.diagnostics import did_you_mean
from dbsp.durable.deliveries import Deliveries, StagedDelivery
from dbsp.errors import InputError, SchemaError
from dbsp.lazy_dataclass import dataclass
from dbsp.spark.recording import TICK, Recording, TickFile, read_file, recording, view_batches

_OPTIONS = (
    *("path", "output", "startTick", "maxTicksPerBatch", "asOf", "deltas", "rows"),
    *("input", "weightColumn", "writer"),
)
_IGNORED = ("checkpointlocation", "queryname")
"""The options of Spark itself."""
_TASK_ROWS = 250_000
"""The number of rows of deltas in one Spark task."""


def register(spark: Any) -> None:
    """Register the format "dbsp" with a Spark session.

    Parameters:
        spark: the SparkSession.

    Examples:
        >>> spark = dbsp.spark.session()
        >>> dbsp.spark.register(spark)
        >>> reader = spark.read.format("dbsp").option("path", "log").option("output", "path")
    """
    spark.dataSource.register(DbspSource)


class DbspSource(DataSource):  # type: ignore[misc]
    """The format "dbsp"; see the module for its options."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        for name in options:
            if name.lower() not in _IGNORED and name.lower() not in map(str.lower, _OPTIONS):
                hint = did_you_mean(name, _OPTIONS)
                raise InputError(
                    f"unknown option {name!r} of format('dbsp'); expected one of {', '.join(_OPTIONS)}"
                    + (f"; {hint}" if hint else ""),
                    code="unknown-option",
                )

    @classmethod
    def name(cls) -> str:
        return "dbsp"

    def schema(self) -> Any:
        """Return the schema. Raises InputError or SchemaError without a readable output."""
        from pyspark.sql.types import LongType, StructType

        columns = self._recording().columns()
        if self._flag("rows"):
            return StructType(columns.fields[:-1])
        if TICK in columns.names:
            raise SchemaError(
                f"the output has a column {TICK!r}, which names the tick here; rename it",
                code="duplicate-column",
            )
        return columns.add(TICK, LongType(), False)

    def reader(self, schema: Any) -> DataSourceReader:
        as_of, start = self._number("asOf"), self._number("startTick")
        if self._flag("deltas"):
            if self._flag("rows"):
                raise InputError(
                    "the option 'rows' is only for views; remove it to read deltas", code="invalid-option"
                )
            return _DeltaReader(self._recording(), schema, start, as_of)
        if start is not None:
            raise InputError(
                "the option 'startTick' is only for deltas; add .option('deltas', 'true')",
                code="invalid-option",
            )
        return _ViewReader(self._recording(), schema, as_of, self._flag("rows"))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        for name in ("rows", "asOf"):
            if name in self.options:
                raise InputError(
                    f"the option {name!r} is only for views; readStream reads deltas", code="invalid-option"
                )
        limit = self._number("maxTicksPerBatch")
        if limit == 0:
            raise InputError("maxTicksPerBatch expects a number from 1, got 0", code="invalid-option")
        return _DeltaStream(self._recording(), schema, self._number("startTick"), limit)

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:
        from dbsp.data.schema import suggestion
        from dbsp.spark.spark_types import schema_of

        name = self._required("input", "the input of the run that the rows change")
        weight = self.options.get("weightColumn", "")
        schema_of(schema)  # raises SchemaError for columns that a relation cannot hold
        if weight:
            if weight not in schema.names:
                raise SchemaError(
                    f"weightColumn: unknown column {weight!r} in ({', '.join(schema.names)})"
                    f"{suggestion(weight, schema.names)}",
                    code="unknown-column",
                )
            kind = schema[weight].dataType.simpleString()
            if kind not in ("tinyint", "smallint", "int", "bigint"):
                raise SchemaError(
                    f"weightColumn: expected an integer column, got {weight!r} of type {kind}",
                    code="wrong-type",
                )
        writer = self.options.get("writer", name)
        return _Writer(Deliveries(self._path(), writer, name, weight_column=weight))

    # --- options ----------------------------------------------------------------------------------

    def _recording(self) -> Recording:
        return recording(self._path(), self.options.get("output"))

    def _path(self) -> Path:
        text = self._required("path", "the folder").removeprefix("file://")
        if "://" in text:
            raise InputError(
                f"the option 'path' expects a folder on a mounted file system, got {text!r}",
                code="invalid-option",
            )
        return Path(text)

    def _required(self, name: str, meaning: str) -> str:
        value: str | None = self.options.get(name)
        if not value:
            raise InputError(f"format('dbsp') needs .option('{name}', ...): {meaning}", code="missing-option")
        return value

    def _number(self, name: str) -> int | None:
        text = self.options.get(name)
        if text is None:
            return None
        if not text.isdecimal():
            raise InputError(
                f"the option '{name}' expects a number of ticks, got {text!r}", code="invalid-option"
            )
        return int(text)

    def _flag(self, name: str) -> bool:
        text = self.options.get(name, "false").lower()
        if text not in ("true", "false"):
            raise InputError(
                f"the option '{name}' expects 'true' or 'false', got {text!r}", code="invalid-option"
            )
        return bool(text == "true")


# --- reading -------------------------------------------------------------------------------------


class _Files(InputPartition):  # type: ignore[misc]
    """The files of one task."""

    def __init__(self, files: tuple[TickFile, ...]) -> None:
        super().__init__(files)


def _tasks(files: Sequence[TickFile]) -> list[_Files]:
    """Group the files, in order, into tasks of many rows."""
    tasks: list[list[TickFile]] = []
    rows = _TASK_ROWS
    for file in files:
        if rows >= _TASK_ROWS:
            tasks.append([])
            rows = 0
        tasks[-1].append(file)
        rows += file.rows
    return [_Files(tuple(task)) for task in tasks]


def _arrow(struct: Any) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(struct, timezone="UTC")


@dataclass
class _DeltaReader(DataSourceReader):  # type: ignore[misc]
    """Reads the deltas of the ticks from `start` to `end` as a batch."""

    source: Recording
    struct: Any
    start: int | None
    end: int | None

    def partitions(self) -> list[_Files]:
        first, last = self.start or 1, self.end
        ticks = [t for t in self.source.ticks_after(first - 1) if last is None or t <= last]
        return _tasks(self.source.files(ticks)) or [_Files(())]

    def read(self, partition: _Files) -> Iterator[pa.RecordBatch]:
        schema = _arrow(self.struct)
        for file in partition.value:
            yield from read_file(file, schema)


@dataclass
class _ViewReader(DataSourceReader):  # type: ignore[misc]
    """Reads a view as a batch."""

    source: Recording
    struct: Any
    as_of: int | None
    plain: bool

    def partitions(self) -> list[InputPartition]:
        # Fix the tick here, so that a repeated task reads the same view.
        ticks = [t for t in self.source.ticks() if self.as_of is None or t <= self.as_of]
        # The view before the first tick that remains is stored.
        return [InputPartition(max(ticks, default=self.as_of or 0))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        weight = None if self.plain else self.source.columns().names[-1]
        view = self.source.view(partition.value)
        return iter(view_batches(view, partition.value, _arrow(self.struct), weight))


class _DeltaStream(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads the deltas as a stream; an offset is the latest tick read."""

    def __init__(self, source: Recording, struct: Any, start: int | None, limit: int | None) -> None:
        self._source = source
        self._struct = struct
        self._start = start
        self._limit = limit
        self._until: int | None = None

    def initialOffset(self) -> dict[str, int]:
        return {"tick": max((self._start or 1) - 1, 0)}

    def getDefaultReadLimit(self) -> Any:
        # Spark has no limit of ticks; ReadMaxFiles carries the number of ticks.
        return ReadAllAvailable() if self._limit is None else ReadMaxFiles(self._limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = max(self._source.ticks(), default=0)

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        after, until = start["tick"], self._until
        ticks = [t for t in self._source.ticks_after(after) if until is None or t <= until]
        if isinstance(limit, ReadMaxFiles):
            ticks = ticks[: limit.max_files]
        return {"tick": ticks[-1]} if ticks else start

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[_Files]:
        ticks = [t for t in self._source.ticks_after(start["tick"]) if t <= end["tick"]]
        return _tasks(self._source.files(ticks))

    def read(self, partition: _Files) -> Iterator[pa.RecordBatch]:
        schema = _arrow(self._struct)
        for file in partition.value:
            yield from read_file(file, schema)


# --- writing -------------------------------------------------------------------------------------


@dataclass
class _Message(WriterCommitMessage):  # type: ignore[misc]
    """The staged delivery of a task."""

    staged: StagedDelivery


class _Writer(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Publishes every micro-batch in an inbox once, by the writer's name and the batch id."""

    def __init__(self, side: Deliveries) -> None:
        self._side = side

    def write(self, iterator: Iterator[pa.RecordBatch]) -> _Message:
        return _Message(self._side.stage(iterator))

    def commit(self, messages: list[Any], batchId: int) -> None:
        self._side.publish([message.staged for message in messages if message is not None], batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:
        self._side.discard(message.staged for message in messages if message is not None)
