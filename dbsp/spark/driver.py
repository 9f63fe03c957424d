"""The function that Spark calls with every micro-batch of a pipeline.

    batch n --> changes --> step, durable with the label n --> every sink, with the tick --> return

Spark acknowledges the batch when the function returns, and repeats the batch otherwise. A batch
whose label is already durable is not applied again: its deltas are read from the journal and
written to the sinks that lack them. So every change is applied once, and every tick arrives at
every sink once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from dbsp.durable.atomic_files import write_atomically
from dbsp.errors import CheckpointError, expect_present, shorten
from dbsp.operators.ports.spark_source import SparkSource
from dbsp.runtime.run import Run
from dbsp.runtime.tick_result import TickResult
from dbsp.spark.cut import Cut, Tables, read_ticks, sealed_ticks
from dbsp.spark.job_names import JobNames
from dbsp.spark.pipeline_record import PipelineRecord
from dbsp.spark.query_reports import QueryReport, SparkTick
from dbsp.spark.row_order import RowOrder
from dbsp.spark.session_kinds import streaming_query
from dbsp.spark.sink_delivery import SinkDelivery
from dbsp.spark.sink_opening import BoundSink
from dbsp.spark.tagged_union import divide


class Driver:
    """Applies Spark's micro-batches to a run and writes the deltas to the sinks."""

    def __init__(
        self,
        run: Run,
        sources: Mapping[str, SparkSource],
        sinks: Sequence[BoundSink],
        cut: Cut,
        folder: Path | None,
        described: Mapping[str, Any],
        sync: bool = True,
        orders: Mapping[str, RowOrder] | None = None,
    ) -> None:
        """`folder` stores the pipeline's data besides the state of the run; None stores nothing.

        `orders` are the orders of the rows, by source. Raises CheckpointError or SchemaError if the
        sources or sinks differ from those stored in the folder.
        """
        self.run = run
        self.sources = dict(sources)
        self.report = QueryReport()
        self.query: str | None = None
        """The id of Spark's query; None to ask the classic session of a micro-batch."""
        self.jobs = JobNames(run.graph.name)
        self._orders = dict(orders or {})
        self._cut = cut
        self._folder = folder
        self._sync = sync
        self._busy = threading.Lock()
        self._closed = False
        self._latest_tick_delivered = False
        self._last = (-1, 0, 1)  # so that batch 0 is the next
        """The batch of the latest tick, its part of the batch, and the number of parts."""
        if run.log is not None and run.log.label is not None:
            label = run.log.label
            if not isinstance(label, dict) or label.keys() != {"batch", "part", "parts"}:
                raise CheckpointError(
                    f"the latest tick of the state in {folder} has the label {shorten(label)}, so "
                    "another program than a Spark pipeline has stepped the circuit; choose another "
                    "checkpointLocation",
                    code="checkpoint-other-query",
                )
            self._last = (label["batch"], label["part"], label["parts"])
        checkpoint = "" if run.log is None else run.log.id
        applied = self._last[0] >= 0
        self._record = PipelineRecord(folder, described, sync, checkpoint, applied)
        self._delivery = SinkDelivery(run, sinks, self._record)

    # --- batches ---------------------------------------------------------------------------------

    def __call__(self, frame: Any, batch: int) -> None:
        """Apply a micro-batch once, and return when every sink has its deltas."""
        with self._busy:
            if self._closed:
                raise CheckpointError(
                    f"the pipeline has ended; micro-batch {batch} was not applied", code="run-closed"
                )
            try:
                self._record.check_query(streaming_query(frame) if self.query is None else self.query)
                self._apply(frame, batch)
            except BaseException as error:
                self.report.error = error
                self._release()
                if isinstance(error, Exception):
                    raise
                # Unchanged, SystemExit would end the thread that has to answer Spark, and Spark
                # would wait.
                raise RuntimeError(f"{type(error).__name__}: {error}") from error

    def _apply(self, frame: Any, batch: int) -> None:
        """Apply the parts of a micro-batch that are not applied yet."""
        if not self._latest_tick_delivered:
            self._deliver_latest_tick()
        last, part, parts = self._last
        if batch < last or (batch == last and part == parts - 1):
            return
        if batch > last + 1:
            raise CheckpointError(
                f"expected batch {last + 1}, the next one after the circuit's state, got batch {batch}"
                " from Spark; the state lacks the batches between them, so choose another"
                " checkpointLocation",
                code="checkpoint-other-query",
            )
        started = time.perf_counter()
        if batch == last:
            path = self._batch_file(batch)
            ticks = read_ticks(path, self._place_of(path))
        else:
            part = -1
            ticks = self._cut.ticks(self._fetch(frame, batch))
            if len(ticks) > 1:
                self._keep_ticks(batch, ticks)
        for number in range(part + 1, len(ticks)):
            self._tick(ticks[number], batch, number, len(ticks), started)
            started = time.perf_counter()
        if len(ticks) > 1 and self._folder is not None:
            self._batch_file(batch).unlink(missing_ok=True)

    def _fetch(self, frame: Any, batch: int) -> Tables:
        """Return the rows of a micro-batch by source, in the order of their changes."""
        with self.jobs.of(f"rows of micro-batch {batch}"):
            tables = divide(frame.toArrow(), list(self.sources))
        return {name: self._in_order(name, table) for name, table in tables.items()}

    def _tick(self, tables: Tables, batch: int, part: int, parts: int, started: float) -> None:
        fetched = time.perf_counter()
        changes = {name: self.sources[name].change(table) for name, table in tables.items()}
        label = {"batch": batch, "part": part, "parts": parts}
        result = self.run.step(changes, label=label)
        self._last = (batch, part, parts)
        stepped = time.perf_counter()
        self._delivery.emit(result, result.number, self.jobs)
        rows_in = sum(table.num_rows for table in tables.values())
        seconds = (fetched - started, stepped - fetched, time.perf_counter() - stepped)
        self._count(result, batch, rows_in, seconds)

    def _count(
        self, result: TickResult, batch: int, rows_in: int, seconds: tuple[float, float, float]
    ) -> None:
        tick = SparkTick(
            tick=result.number,
            batch=batch,
            rows_in=rows_in,
            rows_out=sum(map(len, result.values())),
            absent=sum(result.absent.values()),
            present=sum(result.present.values()),
            state_rows=self.run.state_rows,
            state_bytes=self.run.state_bytes,
            fetch_seconds=seconds[0],
            step_seconds=seconds[1],
            sink_seconds=seconds[2],
        )
        self.report.ticks.append(tick)

    def once(self, frames: Mapping[str, Any]) -> None:
        """Apply batch DataFrames in one tick, without Spark's streaming."""
        self._deliver_latest_tick()
        tables = {}
        for name, frame in frames.items():
            with self.jobs.of(f"rows of source '{name}'"):
                tables[name] = self._in_order(name, frame.toArrow())
        self._tick(tables, 0, 0, 1, time.perf_counter())

    def _in_order(self, name: str, table: pa.Table) -> pa.Table:
        return self._orders[name].sort(table) if name in self._orders else table

    # --- parts of a batch ------------------------------------------------------------------------

    def _batch_file(self, batch: int) -> Path:
        return expect_present(self._folder, "the folder of a started driver") / f"batch-{batch}.tables"

    def _place_of(self, path: Path) -> str:
        log = expect_present(self.run.log, "the checkpoint of a started driver")
        return f"{log.id}/{path.name}"

    def _keep_ticks(self, batch: int, ticks: list[Tables]) -> None:
        """Write the ticks of a batch: when Spark repeats it, the rows may have another order."""
        if self._folder is not None:
            path = self._batch_file(batch)
            write_atomically(path, sealed_ticks(self._place_of(path), ticks).parts, self._sync)

    # --- sinks -----------------------------------------------------------------------------------

    def _deliver_latest_tick(self) -> None:
        """Write the ticks of previous processes to the sinks that lack them."""
        self._delivery.deliver_latest_tick(self.jobs)
        _, part, parts = self._last
        if self._folder is not None and part == parts - 1:
            for path in self._folder.glob("batch-*.tables"):
                path.unlink()  # its last tick is durable; the process ended before removing the file
        self._latest_tick_delivered = True

    # --- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Release the checkpoint; wait for a running batch first."""
        with self._busy:
            self._release()

    def _release(self) -> None:
        self._closed = True
        if self.run.log is not None:
            self._delivery.close()
            self.run.log.close()

    @property
    def closed(self) -> bool:
        return self._closed
