"""Read a recording with Spark: a delta log, or the Parquet folder of a pipeline's sink.

Every tick is at most one Parquet file; its rows have a weight (or operation) and the tick number.
This module imports no kernels, because short-lived processes import it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from dbsp.diagnostics import did_you_mean
from dbsp.durable.ledger import Ledger
from dbsp.durable.parquet_files import read_parquet
from dbsp.durable.sealed_files import Fingerprint, decoding, unreadable
from dbsp.errors import CheckpointError, InputError, SchemaError
from dbsp.lazy_dataclass import dataclass
from dbsp.spark.sink_files import description_of, read_tick, tick_path, ticks_in

if TYPE_CHECKING:
    from dbsp.data.zset import ZSet

TICK = "tick"
"""The column with the number of the tick."""

_BATCH_ROWS = 65_536
_BYTES_OF_ROW = 16
"""In the files of a sink, estimated."""


@dataclass(frozen=True, slots=True)
class TickFile:
    """The rows of one output in one tick."""

    tick: int
    path: str
    rows: int
    """The number of rows; for the folder of a sink an estimate."""
    seal: Fingerprint | str
    """The fingerprint of a file of a log, or the owner of a sink's folder."""

    def table(self) -> pa.Table:
        """Return the rows after verifying the file. Raises CheckpointError."""
        path = Path(self.path)
        if isinstance(self.seal, Fingerprint):
            return read_parquet(path, self.seal.read(path), self.rows)
        return read_tick(path, self.seal, self.tick)


class Recording(Protocol):
    """The recorded ticks of one output."""

    def columns(self) -> Any:
        """Return the Spark schema of the output's columns and, last, the weight or operation."""

    def ticks(self) -> list[int]:
        """Return the recorded ticks, ascending."""

    def ticks_after(self, after: int) -> list[int]:
        """Return the recorded ticks after a tick. Raises CheckpointError if one was removed."""

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

    def ticks_after(self, after: int) -> list[int]:
        return self._ledger.ticks_after(after)

    def files(self, ticks: Sequence[int]) -> list[TickFile]:
        if not ticks:
            return []
        entries = map(self._ledger.entry, ticks)
        name = self._header()[0]
        return [
            TickFile(entry.tick, str(entry.files[name]), entry.rows[name], entry.fingerprints[name])
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

    def _description(self) -> dict[str, Any]:
        file = description_of(self._folder)
        known = file.read()
        if known is None:
            raise unreadable(file.path, "the file is missing")
        with decoding(file.path):
            return {"owner": str(known["owner"]), "schema": known["schema"], "view": known["view"]}

    def columns(self) -> Any:
        from pyspark.sql.types import StructType

        description = self._description()
        if description["view"]:
            raise InputError(
                f"{self._folder}: expected deltas, got a sink with encoding='view', which stores the latest "
                "view only; read it as Parquet, or use a sink with encoding='weight'",
                code="spark-sink",
            )
        return StructType.fromJson(description["schema"])

    def ticks(self) -> list[int]:
        return ticks_in(self._folder)

    def ticks_after(self, after: int) -> list[int]:
        return [tick for tick in self.ticks() if tick > after]

    def files(self, ticks: Sequence[int]) -> list[TickFile]:
        owner = self._description()["owner"]
        paths = [(tick, tick_path(self._folder, tick)) for tick in ticks]
        return [TickFile(tick, str(path), _estimated_rows(path), owner) for tick, path in paths]

    def view(self, as_of: int | None) -> ZSet:
        from dbsp.data.arrow_types import without_zones
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
            table = file.table().drop_columns([TICK])
            total = total + ZSet.from_arrow(without_zones(table, schema), weight, schema, interner)
        return total


def recording(folder: Path, output: str | None) -> Recording:
    """Return the recording in a folder, which may be empty.

    Raises CheckpointError if the folder holds other files.
    """
    if description_of(folder).path.exists():
        return SinkRecording(folder)
    of_log = any((folder / name).exists() for name in ("log.json", "latest.json"))
    if folder.exists() and not of_log and any(folder.glob("*.*")):
        raise CheckpointError(
            f"{folder}: expected a delta log or the folder of a sink, got other files",
            code="checkpoint-unreadable",
        )
    return LogRecording(folder, output)


def read_file(file: TickFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a tick in batches with that schema, which may include the tick column.

    Raises CheckpointError for a damaged file, SchemaError for a missing column or a wrong type.
    """
    table = file.table()
    if TICK not in table.column_names:
        table = table.append_column(TICK, pa.repeat(pa.scalar(file.tick, pa.int64()), table.num_rows))
    for batch in table.to_batches(_BATCH_ROWS):
        yield conformed(batch, schema)


def _estimated_rows(path: Path) -> int:
    """Return about the number of rows in a file of a sink, which is not verified yet."""
    try:
        return path.stat().st_size // _BYTES_OF_ROW
    except OSError as error:
        raise unreadable(path, error.strerror or str(error)) from None


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
    from dbsp.data.frames import decode_table, repeated

    rows, weights = zset.batch.rows, zset.batch.weights
    if weight is None:
        if (weights < 0).any():
            raise InputError(
                "the view has rows with negative weight; remove the option 'rows' to read weights",
                code="invalid-weight",
            )
        rows = repeated(rows, weights)
    table = decode_table(rows, zset.schema, zset.interner, {field.name: field.type for field in schema})
    if weight is not None:
        table = table.append_column(weight, pa.array(weights))
        table = table.append_column(TICK, pa.repeat(pa.scalar(tick, pa.int64()), len(weights)))
    return [conformed(batch, schema) for batch in table.to_batches(_BATCH_ROWS)]
