"""Spark's format "dbsp": recorded deltas and views as DataFrames, and changes for a run out of one.

    dbsp.spark.register(spark)
    spark.readStream.format("dbsp").option("path", log).option("output", "path").load()  # deltas
    spark.read.format("dbsp").option("path", log).option("asOf", 12).load()              # a view
    frame.writeStream.format("dbsp").option("path", inbox).option("input", "edge")...    # changes for a run

Reading takes a delta log (`dbsp.durable.DeltaLog`) or the Parquet folder of a pipeline's sink; writing, an
inbox (`dbsp.durable.Inbox`). Everything here runs in processes that Spark starts, on this machine or others,
which share nothing with the run but the folder.

| option             | for            | meaning                                                              |
|--------------------|----------------|----------------------------------------------------------------------|
| `path`             | all            | the folder                                                           |
| `output`           | reading        | which output; not needed where there is one only                     |
| `startTick`        | deltas         | the first tick to be read (default: the first that is recorded)      |
| `maxTicksPerBatch` | `readStream`   | ticks of a micro-batch at most (default: all there are)              |
| `asOf`             | `read`         | the view after this tick, the deltas up to it (default: the latest)  |
| `deltas`           | `read`         | "true": the deltas and not the view                                  |
| `rows`             | `read`         | "true": a view's rows alone, each as often as its weight says        |
| `input`            | `writeStream`  | the input of the run that the rows change                            |
| `weightColumn`     | `writeStream`  | the column with signed weights (default: every row counts once)      |
| `writer`           | `writeStream`  | the query's name in the inbox (default: the input's name)            |

What is read has the output's columns, a weight (as the log names it) and `tick`, the number of the tick.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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

from dbsp.durable.deliveries import Deliveries, StagedDelivery
from dbsp.errors import InputError, SchemaError
from dbsp.spark.recording import TICK, Recording, TickFile, read_file, recording, view_batches

_TASK_ROWS = 250_000
"""Rows of deltas that are worth a task of their own."""


def register(spark: Any) -> None:
    """Make the format "dbsp" known to a Spark session."""
    spark.dataSource.register(DbspSource)


class DbspSource(DataSource):  # type: ignore[misc]
    """The format "dbsp"; see the module for its options."""

    @classmethod
    def name(cls) -> str:
        return "dbsp"

    def schema(self) -> Any:
        """Raises InputError or SchemaError if the folder holds nothing that can be read."""
        from pyspark.sql.types import LongType, StructType

        columns = self._recording().columns()
        if self._flag("rows"):
            return StructType(columns.fields[:-1])
        if TICK in columns.names:
            raise SchemaError(f"the output has a column {TICK!r} itself; rename it")
        return columns.add(TICK, LongType(), False)

    def reader(self, schema: Any) -> DataSourceReader:
        as_of, start = self._number("asOf"), self._number("startTick")
        if self._flag("deltas"):
            if self._flag("rows"):
                raise InputError("deltas have weights; leave out the option 'rows'")
            return _DeltaReader(self._recording(), schema, start, as_of)
        if start is not None:
            raise InputError("a view has no startTick; set the option 'deltas' to read the deltas")
        return _ViewReader(self._recording(), schema, as_of, self._flag("rows"))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        for name in ("rows", "asOf"):
            if name in self.options:
                raise InputError(f"the option {name!r} is for a view; a stream is of deltas")
        limit = self._number("maxTicksPerBatch")
        if limit == 0:
            raise InputError("maxTicksPerBatch is at least 1")
        return _DeltaStream(self._recording(), schema, self._number("startTick"), limit)

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:
        from dbsp.spark.spark_types import schema_of

        name = self._required("input", "the input of the run that the rows change")
        weight = self.options.get("weightColumn", "")
        schema_of(schema)  # raises for columns that no relation holds
        if weight:
            if weight not in schema.names:
                raise SchemaError(f"there is no weight column {weight!r} in ({', '.join(schema.names)})")
            kind = schema[weight].dataType.simpleString()
            if kind not in ("tinyint", "smallint", "int", "bigint"):
                raise SchemaError(f"the weight column {weight!r} is {kind}, no integer")
        writer = self.options.get("writer", name)
        return _Writer(Deliveries(self._path(), writer, name, weight_column=weight))

    # --- options ----------------------------------------------------------------------------------

    def _recording(self) -> Recording:
        return recording(self._path(), self.options.get("output"))

    def _path(self) -> Path:
        text = self._required("path", "the folder").removeprefix("file://")
        if "://" in text:
            raise InputError(f"path is a folder of a file system that is mounted here, not {text!r}")
        return Path(text)

    def _required(self, name: str, meaning: str) -> str:
        value: str | None = self.options.get(name)
        if not value:
            raise InputError(f"format('dbsp') needs .option('{name}', ...): {meaning}")
        return value

    def _number(self, name: str) -> int | None:
        text = self.options.get(name)
        if text is None:
            return None
        if not text.isdecimal():
            raise InputError(f"the option '{name}' is a number of ticks, not {text!r}")
        return int(text)

    def _flag(self, name: str) -> bool:
        text = self.options.get(name, "false").lower()
        if text not in ("true", "false"):
            raise InputError(f"the option '{name}' is 'true' or 'false', not {text!r}")
        return bool(text == "true")


# --- reading -----------------------------------------------------------------------------------------


class _Files(InputPartition):  # type: ignore[misc]
    """The files of one task."""

    def __init__(self, files: tuple[TickFile, ...]) -> None:
        super().__init__(files)


def _tasks(files: Sequence[TickFile]) -> list[_Files]:
    """The files in their order, cut into tasks of many rows."""
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
    """The deltas of the ticks from `start` to `end` as a batch."""

    source: Recording
    struct: Any
    start: int | None
    end: int | None

    def partitions(self) -> list[_Files]:
        first, last = self.start or 0, self.end
        ticks = [t for t in self.source.ticks() if t >= first and (last is None or t <= last)]
        return _tasks(self.source.files(ticks)) or [_Files(())]

    def read(self, partition: _Files) -> Iterator[pa.RecordBatch]:
        schema = _arrow(self.struct)
        for file in partition.value:
            yield from read_file(file, schema)


@dataclass
class _ViewReader(DataSourceReader):  # type: ignore[misc]
    """A view as a batch."""

    source: Recording
    struct: Any
    as_of: int | None
    plain: bool

    def partitions(self) -> list[InputPartition]:
        # The tick is fixed here, so that a task which is run again reads the same view.
        ticks = [t for t in self.source.ticks() if self.as_of is None or t <= self.as_of]
        return [InputPartition(max(ticks, default=0))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        weight = None if self.plain else self.source.columns().names[-1]
        view = self.source.view(partition.value)
        return iter(view_batches(view, partition.value, _arrow(self.struct), weight))


class _DeltaStream(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """The deltas as a stream; an offset is the latest tick that has been read."""

    def __init__(self, source: Recording, struct: Any, start: int | None, limit: int | None) -> None:
        self._source = source
        self._struct = struct
        self._start = start
        self._limit = limit
        self._until: int | None = None

    def initialOffset(self) -> dict[str, int]:
        return {"tick": max((self._start or 1) - 1, 0)}

    def getDefaultReadLimit(self) -> Any:
        # Spark knows limits of its own making only; the files of a tick are one set.
        return ReadAllAvailable() if self._limit is None else ReadMaxFiles(self._limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = max(self._source.ticks(), default=0)

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        after, until = start["tick"], self._until
        ticks = [t for t in self._source.ticks() if t > after and (until is None or t <= until)]
        if isinstance(limit, ReadMaxFiles):
            ticks = ticks[: limit.max_files]
        return {"tick": ticks[-1]} if ticks else start

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[_Files]:
        ticks = [t for t in self._source.ticks() if start["tick"] < t <= end["tick"]]
        return _tasks(self._source.files(ticks))

    def read(self, partition: _Files) -> Iterator[pa.RecordBatch]:
        schema = _arrow(self._struct)
        for file in partition.value:
            yield from read_file(file, schema)


# --- writing -----------------------------------------------------------------------------------------


@dataclass
class _Message(WriterCommitMessage):  # type: ignore[misc]
    """What a task has staged."""

    staged: StagedDelivery


class _Writer(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Publishes every micro-batch in an inbox, once: told by the writer's name and the batch id."""

    def __init__(self, side: Deliveries) -> None:
        self._side = side

    def write(self, iterator: Iterator[pa.RecordBatch]) -> _Message:
        return _Message(self._side.stage(iterator))

    def commit(self, messages: list[Any], batchId: int) -> None:
        self._side.publish([message.staged for message in messages if message is not None], batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:
        self._side.discard(message.staged for message in messages if message is not None)
