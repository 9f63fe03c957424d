"""What a run has recorded, as Spark reads it: a delta log, or the Parquet folder of a pipeline's sink.

Every tick is at most one file of Parquet; its rows come with a weight (or operation) and the tick's number.
Imports no kernels, for it is read in processes that live for a moment.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from dbsp.durable.ledger import Ledger
from dbsp.errors import CheckpointError, InputError, SchemaError

if TYPE_CHECKING:
    from dbsp.data.zset import ZSet

TICK = "tick"
"""The column with the number of the tick."""

_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class TickFile:
    """One tick's rows of one output."""

    tick: int
    path: str
    rows: int


class Recording(Protocol):
    """The recorded ticks of one output."""

    def columns(self) -> Any:
        """The Spark schema of the output's own columns and, last, the weight or operation."""

    def ticks(self) -> list[int]:
        """The recorded ticks, ascending."""

    def files(self, ticks: Sequence[int]) -> list[TickFile]:
        """The files of those ticks; a tick without change has none."""

    def view(self, as_of: int | None) -> ZSet:
        """What the output held after a tick, by default the latest one."""


class LogRecording:
    """An output of a delta log."""

    def __init__(self, folder: Path, output: str | None) -> None:
        self._ledger = Ledger(folder)
        self._output = output

    def _header(self) -> tuple[str, dict[str, Any], str]:
        """The output's name, what the log says of it, and the weight column."""
        header = self._ledger.header()
        if header is None:
            raise InputError(
                f"{self._ledger.folder} records nothing yet; give a schema, .schema(...), or wait for a tick"
            )
        outputs = header["outputs"]
        name = self._output
        if name is None and len(outputs) == 1:
            name = next(iter(outputs))
        if name is None or name not in outputs:
            not_found = "" if name is None else f", and not '{name}'"
            raise InputError(
                f"{self._ledger.folder} records {', '.join(outputs)}{not_found}; set .option('output', ...)"
            )
        return name, outputs[name], header["weight"]

    def columns(self) -> Any:
        from pyspark.sql.pandas.types import from_arrow_type
        from pyspark.sql.types import LongType, StructType

        name, description, weight = self._header()
        arrow = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(description["arrow"])))
        struct = StructType()
        for field, (column, type_) in zip(arrow, description["columns"], strict=True):
            if pa.types.is_null(field.type):
                raise SchemaError(
                    "it holds objects, and the log does not say of what type; record it with "
                    f"DeltaLog(folder, types={{'{name}': pyarrow.schema([('{column}', ...)])}})",
                    where=f"output '{name}', column '{column}'",
                )
            # As everywhere, an instant: what relations keep is UTC.
            struct.add(column, from_arrow_type(field.type, prefer_timestamp_ntz=False), type_.endswith("?"))
        return struct.add(weight, LongType(), False)

    def ticks(self) -> list[int]:
        return self._ledger.ticks()

    def files(self, ticks: Sequence[int]) -> list[TickFile]:
        if not ticks:
            return []
        entries = map(self._ledger.entry, ticks)
        name = self._header()[0]
        return [
            TickFile(entry.tick, str(entry.files[name]), entry.rows[name])
            for entry in entries
            if name in entry.files
        ]

    def view(self, as_of: int | None) -> ZSet:
        from dbsp.durable.delta_log import DeltaLog

        return DeltaLog(self._ledger.folder).view(self._header()[0], as_of)


class SinkRecording:
    """The Parquet folder of a pipeline's sink: `tick-000000000012.parquet`, described by `_dbsp.json`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def columns(self) -> Any:
        from pyspark.sql.types import StructType

        description = json.loads((self._folder / "_dbsp.json").read_bytes())
        if description["view"]:
            raise InputError(
                f"{self._folder} holds the latest view only, no deltas; read it as Parquet, or let the sink "
                "write weights"
            )
        return StructType.fromJson(description["schema"])

    def ticks(self) -> list[int]:
        return sorted(int(path.stem[5:]) for path in self._folder.glob("tick-*.parquet"))

    def files(self, ticks: Sequence[int]) -> list[TickFile]:
        paths = [(tick, self._folder / f"tick-{tick:012d}.parquet") for tick in ticks]
        return [TickFile(tick, str(path), pq.read_metadata(path).num_rows) for tick, path in paths]

    def view(self, as_of: int | None) -> ZSet:
        from dbsp.data.interner import Interner
        from dbsp.data.zset import ZSet
        from dbsp.spark.spark_types import schema_of

        struct = self.columns()
        weight = struct.names[-1]
        if struct[-1].dataType.simpleString() != "bigint":
            raise InputError(
                f"{self._folder} holds operations, which have no sum; read .option('deltas', 'true'), or let "
                "the sink write weights"
            )
        schema, interner = schema_of(type(struct)(struct.fields[:-1])), Interner()
        total = ZSet.empty(schema, interner)
        for file in self.files([t for t in self.ticks() if as_of is None or t <= as_of]):
            table = pq.ParquetFile(file.path).read().drop_columns([TICK])
            total = total + ZSet.from_arrow(table, weight, schema, interner)
        return total


def recording(folder: Path, output: str | None) -> Recording:
    """What is recorded in a folder, perhaps nothing as yet. Raises CheckpointError if it is not that."""
    if (folder / "_dbsp.json").exists():
        return SinkRecording(folder)
    if folder.exists() and not (folder / "log.json").exists() and any(folder.glob("*.*")):
        raise CheckpointError(f"{folder} is neither a delta log nor the folder of a sink")
    return LogRecording(folder, output)


def read_file(file: TickFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a tick in batches of exactly that schema, of which a column may be the tick.

    Raises CheckpointError for a damaged file, SchemaError naming a column that is not there or does not fit.
    """
    try:
        with pq.ParquetFile(file.path) as source:
            for batch in source.iter_batches(_BATCH_ROWS):
                if TICK not in batch.schema.names:
                    tick = pa.repeat(pa.scalar(file.tick, pa.int64()), batch.num_rows)
                    batch = batch.append_column(TICK, tick)
                yield conformed(batch, schema)
    except (OSError, pa.ArrowInvalid) as error:
        raise CheckpointError(f"{file.path} cannot be read: {error}") from None


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a batch that a schema names, as the types it gives."""
    columns = []
    for field in schema:
        at = batch.schema.get_field_index(field.name)
        if at < 0:
            raise SchemaError(
                f"there is no column {field.name!r} in what was recorded ({', '.join(batch.schema.names)})"
            )
        try:
            columns.append(batch.column(at).cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(f"column {field.name!r}: {error}") from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def view_batches(zset: ZSet, tick: int, schema: pa.Schema, weight: str | None) -> list[pa.RecordBatch]:
    """The rows of a view, each with its weight and the tick, or as often as its weight says without one."""
    import numpy as np

    from dbsp.data.frames import decode_table

    rows, weights = zset.batch.rows, zset.batch.weights
    if weight is None:
        if (weights < 0).any():
            raise InputError("rows of negative weight cannot be read as rows; leave out the option 'rows'")
        rows = np.repeat(rows, weights, axis=0)
    table = decode_table(rows, zset.schema, zset.interner, {field.name: field.type for field in schema})
    if weight is not None:
        table = table.append_column(weight, pa.array(weights))
        table = table.append_column(TICK, pa.repeat(pa.scalar(tick, pa.int64()), len(weights)))
    return [conformed(batch, schema) for batch in table.to_batches(_BATCH_ROWS)]
