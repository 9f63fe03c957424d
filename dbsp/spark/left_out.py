"""Remember the rows of a sink that a pipeline runs without, and compute what it missed.

A pipeline can run without one of its sinks for a while. When it starts without the sink, it stores
the rows that the sink holds then: the view of the output. When the sink is back at tick n, its next
delta is

    view(n) - rows that it holds

under the number n. Two states are stored if it is unknown whether the latest tick arrived before
the process ended: the rows with that tick and the rows before it. The target knows its latest tick,
and so which state is true.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from dbsp.data.arrow_types import without_zones
from dbsp.data.zset import ZSet
from dbsp.durable.atomic_files import write_atomically
from dbsp.durable.sealed_files import unreadable
from dbsp.durable.table_files import read_tables, sealed_tables
from dbsp.errors import expect_present
from dbsp.operators.ports.spark_sink import SparkSink
from dbsp.runtime.run import Run
from dbsp.spark.pipeline_record import KnownRows, SinkRecord
from dbsp.spark.spark_types import arrow_types, as_struct, conform, schema_of

_WEIGHT = "__dbsp_weight"


class LeftOutSinks:
    """The sinks that a pipeline runs without, in the folder of its record."""

    def __init__(self, run: Run, folder: Path, sync: bool) -> None:
        self._run = run
        self._folder = folder
        self._sync = sync

    def leave(self, name: str, record: SinkRecord) -> None:
        """Store the rows of a sink before the first tick without it. O(v) for a view of v rows."""
        tick = self._run.tick
        if record.left_out and record.back_at < 0:
            return  # it was left out before
        record.back_at = -1
        if record.encoding == "view":
            record.left_out = [KnownRows(tick, "")]
            return
        view = self._run.view(record.output)
        if not record.left_out and record.delivered < tick:
            before = view - self._latest_delta(record)
            if before != view:
                record.left_out.append(self._stored(name, record, before, 0))
        if not record.left_out or record.left_out[-1].tick < tick:
            record.left_out.append(self._stored(name, record, view, tick))

    def _latest_delta(self, record: SinkRecord) -> ZSet:
        """Return the delta that the sink may lack if the process ended before its delivery."""
        if record.since == self._run.tick:
            return self._run.view(record.output)
        return latest_delta(self._run, record.output)

    def missed(self, record: SinkRecord, latest: int) -> ZSet:
        """Return the sum of the missed deltas of a sink whose latest tick is `latest`.

        Raises CheckpointError if the stored rows cannot be read.
        """
        state = record.left_out[0]
        for later in record.left_out[1:]:
            if later.tick <= latest:
                state = later
        struct = _columns(record)
        schema = schema_of(struct)
        now_table = without_zones(_table(record, self._run.view(record.output)), schema)
        now = ZSet.from_arrow(now_table, _WEIGHT, schema)
        held = ZSet.from_arrow(without_zones(self._read(state), schema), _WEIGHT, schema, now.interner)
        return now - held

    def forget(self, record: SinkRecord) -> list[Path]:
        """Note that a sink has everything; return the files to remove once that is durable."""
        files = [self._folder / state.file for state in record.left_out if state.file]
        record.left_out, record.back_at = [], -1
        return files

    def _stored(self, name: str, record: SinkRecord, rows: ZSet, tick: int) -> KnownRows:
        path = self._folder / f"left-out-{quote(name, safe='')}-{tick}.tables"
        file = sealed_tables(self._place_of(path), None, [_table(record, rows)])
        write_atomically(path, file.parts, self._sync)
        return KnownRows(tick, path.name, file.digest)

    def _read(self, state: KnownRows) -> Any:
        path = self._folder / state.file
        _, tables = read_tables(path, self._place_of(path), state.digest)
        if len(tables) != 1:
            raise unreadable(path, f"expected 1 table, got {len(tables)}")
        return tables[0]

    def _place_of(self, path: Path) -> str:
        log = expect_present(self._run.log, "the checkpoint of a run that continues")
        return f"{log.id}/{path.name}"


def latest_delta(run: Run, output: str) -> ZSet:
    """Return the delta of the latest tick of a run that continues from its checkpoint."""
    log = expect_present(run.log, "the checkpoint of a run that continues")
    return expect_present(log.result, "the result of the latest tick")[output]


def _columns(record: SinkRecord) -> Any:
    """Return the Spark schema of the output's columns."""
    from pyspark.sql.types import StructType

    struct = StructType.fromJson(record.schema)
    return struct if record.encoding == "view" else StructType(struct.fields[:-1])


def _table(record: SinkRecord, rows: ZSet) -> Any:
    """Return rows with their weights in the types of the sink, which may be narrower."""
    from pyspark.sql.types import LongType

    columns = _columns(record)
    table = SparkSink(record.output, None, "weight", _WEIGHT).table(
        rows, lambda: rows, arrow_types(as_struct(columns))
    )
    return conform(table, columns.add(_WEIGHT, LongType(), False))
