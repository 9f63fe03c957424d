"""Read a recording with Spark: a delta log, or the Parquet folder of a pipeline's sink.

Every tick is at most one Parquet file; its rows have a weight (or operation) and the tick number.
This module imports no kernels, because short-lived processes import it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from dbsp.diagnostics import did_you_mean
from dbsp.durable.atomic_files import read_json
from dbsp.durable.ledger import Ledger
from dbsp.errors import CheckpointError, InputError, SchemaError

if TYPE_CHECKING:
    from dbsp.data.zset import ZSet

TICK = "tick"
"""The column with the number of the tick."""

_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class TickFile:
    """The rows of one output in one tick."""

    tick: int
    path: str
    rows: int


class Recording(Protocol):
    """The recorded ticks of one output."""

    def columns(self) -> Any:
        """Return the Spark schema of the output's columns and, last, the weight or operation."""

    def ticks(self) -> list[int]:
        """Return the recorded ticks, ascending."""

    def files(self, ticks: Sequence[int]) -> list[TickFile]:
        """Return the files of those ticks; a tick without a change has no file."""

    def view(self, as_of: int | None) -> ZSet:
        """Return the view of the output after a tick, by default the latest one."""


class LogRecording:
    """An output of a delta log."""

    def __init__(self, folder: Path, output: str | None) -> None:
        self._ledger = Ledger(folder)
        self._output = output

    def _header(self) -> tuple[str, dict[str, Any], str]:
        """Return the output's name, its description in the log, and the weight column."""
        header = self._ledger.header()
        if header is None:
            raise InputError(
                f"{self._ledger.folder} has no recorded tick yet; set .schema(...), or wait for a tick",
                code="empty-recording",
            )
        outputs = header["outputs"]
        name = self._output
        if name is None and len(outputs) == 1:
            name = next(iter(outputs))
        if name is None or name not in outputs:
            expected = f"expected .option('output', ...) with one of {', '.join(outputs)}"
            got = "no such option" if name is None else f"'{name}'"
            hint = did_you_mean(name, outputs) if name is not None else None
            raise InputError(
                f"{self._ledger.folder}: {expected}, got {got}" + (f"; {hint}" if hint else ""),
                code="unknown-output",
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
                    "expected a column with an Arrow type, got objects without one; record the output with "
                    f"DeltaLog(folder, types={{'{name}': pyarrow.schema([('{column}', ...)])}})",
                    where=f"output '{name}', column '{column}'",
                    code="invalid-type",
                )
            # Timestamps are instants: relations store UTC.
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
    """The folder of a pipeline's sink: `tick-000000000012.parquet`, described by `_dbsp.json`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def columns(self) -> Any:
        from pyspark.sql.types import StructType

        path = self._folder / "_dbsp.json"
        description = read_json(path)
        if not isinstance(description, dict) or not {"schema", "view"} <= description.keys():
            raise CheckpointError(
                f"{path} is damaged: it lacks the columns of the folder; restore it from a copy",
                code="checkpoint-unreadable",
            )
        if description["view"]:
            raise InputError(
                f"{self._folder}: expected deltas, got a sink with encoding='view', which stores the latest "
                "view only; read it as Parquet, or use a sink with encoding='weight'",
                code="spark-sink",
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
                f"{self._folder}: expected weights, got a sink with encoding='operations', which has no "
                "views; read .option('deltas', 'true'), or use a sink with encoding='weight'",
                code="spark-sink",
            )
        schema, interner = schema_of(type(struct)(struct.fields[:-1])), Interner()
        total = ZSet.empty(schema, interner)
        for file in self.files([t for t in self.ticks() if as_of is None or t <= as_of]):
            table = pq.ParquetFile(file.path).read().drop_columns([TICK])
            total = total + ZSet.from_arrow(table, weight, schema, interner)
        return total


def recording(folder: Path, output: str | None) -> Recording:
    """Return the recording in a folder, which may be empty.

    Raises CheckpointError if the folder holds other files.
    """
    if (folder / "_dbsp.json").exists():
        return SinkRecording(folder)
    if folder.exists() and not (folder / "log.json").exists() and any(folder.glob("*.*")):
        raise CheckpointError(
            f"{folder}: expected a delta log or the folder of a sink, got other files",
            code="checkpoint-unreadable",
        )
    return LogRecording(folder, output)


def read_file(file: TickFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a tick in batches with that schema, which may include the tick column.

    Raises CheckpointError for a damaged file, SchemaError for a missing column or a wrong type.
    """
    try:
        with pq.ParquetFile(file.path) as source:
            for batch in source.iter_batches(_BATCH_ROWS):
                if TICK not in batch.schema.names:
                    tick = pa.repeat(pa.scalar(file.tick, pa.int64()), batch.num_rows)
                    batch = batch.append_column(TICK, tick)
                yield conformed(batch, schema)
    except (OSError, pa.ArrowInvalid) as error:
        raise CheckpointError(f"{file.path} cannot be read: {error}", code="checkpoint-unreadable") from None


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a batch that a schema names, cast to its types."""
    columns = []
    for field in schema:
        at = batch.schema.get_field_index(field.name)
        if at < 0:
            recorded = ", ".join(batch.schema.names)
            hint = did_you_mean(field.name, batch.schema.names)
            suggested = f"; {hint}" if hint else ""
            raise SchemaError(
                f"unknown column {field.name!r} in the recording ({recorded}){suggested}",
                code="unknown-column",
            )
        try:
            columns.append(batch.column(at).cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(f"column {field.name!r}: {error}", code="schema-mismatch") from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def view_batches(zset: ZSet, tick: int, schema: pa.Schema, weight: str | None) -> list[pa.RecordBatch]:
    """Return the rows of a view with weight and tick; without `weight`, rows repeated by weight."""
    import numpy as np

    from dbsp.data.frames import decode_table

    rows, weights = zset.batch.rows, zset.batch.weights
    if weight is None:
        if (weights < 0).any():
            raise InputError(
                "the view has rows with negative weight; remove the option 'rows' to read weights",
                code="invalid-weight",
            )
        rows = np.repeat(rows, weights, axis=0)
    table = decode_table(rows, zset.schema, zset.interner, {field.name: field.type for field in schema})
    if weight is not None:
        table = table.append_column(weight, pa.array(weights))
        table = table.append_column(TICK, pa.repeat(pa.scalar(tick, pa.int64()), len(weights)))
    return [conformed(batch, schema) for batch in table.to_batches(_BATCH_ROWS)]
