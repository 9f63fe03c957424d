"""The function that Spark calls with every micro-batch of a pipeline.

    batch n --> changes --> step, durable with the label n --> every sink, with the tick --> return

Spark acknowledges the batch when the function returns, and repeats the batch otherwise. A batch
whose label is already durable is not applied again: its deltas are read from the journal and
written to the sinks that lack them. So every change is applied once, and every tick arrives at
every sink once.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dbsp.data.zset import ZSet
from dbsp.durable.atomic_files import read_json, write_atomically
from dbsp.errors import CheckpointError, DbspError, SchemaError, expect_present
from dbsp.operators.ports.spark_sink import SparkSink
from dbsp.operators.ports.spark_source import SparkSource
from dbsp.runtime.run import Run
from dbsp.runtime.tick_result import TickResult
from dbsp.spark.cut import Cut, Tables, read_ticks, ticks_bytes
from dbsp.spark.metrics import SparkTick, numbers, publish
from dbsp.spark.spark_types import arrow_types
from dbsp.spark.tagged_union import divide
from dbsp.spark.targets import Opening, Target

_REMEMBERED = 1_000
"""The number of latest ticks whose metrics are kept."""


@dataclass
class BoundSink:
    """A sink of a pipeline with the target of its deltas."""

    operator: SparkSink
    struct: Any
    target: Target
    since: int = 0
    """The tick whose view is the sink's first delta; 0 if the sink has all deltas of the run."""


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
    ) -> None:
        """`folder` stores the pipeline's data besides the state of the run; None stores nothing.

        Raises CheckpointError or SchemaError if the sources differ from those stored in the folder.
        """
        self.run = run
        self.sources = dict(sources)
        self.sinks = list(sinks)
        self.ticks: deque[SparkTick] = deque(maxlen=_REMEMBERED)
        self._cut = cut
        self._folder = folder
        self._sync = sync
        self.publishing = True
        """Whether the metrics of a micro-batch are added to the progress of Spark's query."""
        self._busy = threading.Lock()
        self._closed = False
        self._latest_tick_delivered = False
        self._last = (-1, 0, 1)  # so that batch 0 is the next
        """The batch of the latest tick, its part of the batch, and the number of parts."""
        if run.log is not None and run.log.label is not None:
            label = run.log.label
            self._last = (label["batch"], label["part"], label["parts"])
        self._known = self._pipeline(described)
        self._open()

    # --- stored data -----------------------------------------------------------------------------

    def _pipeline(self, described: Mapping[str, Any]) -> dict[str, Any]:
        """Return the stored description of the pipeline; compare it with the current one first."""
        path = None if self._folder is None else self._folder / "pipeline.json"
        if path is None or not path.exists():
            return {"id": str(uuid.uuid4()), "query": None, "sources": dict(described), "sinks": {}}
        known: dict[str, Any] = read_json(path)
        for name in {**known["sources"], **described}:
            before, now = known["sources"].get(name), described.get(name)
            if before != now:
                raise SchemaError(
                    f"expected the source of the checkpoint, {before or 'none'}, got {now or 'none'};"
                    " restore the source, or choose another checkpointLocation",
                    where=f"source '{name}' of the checkpoint {self._folder}",
                    code="checkpoint-other-program",
                )
        return known

    def _remember(self) -> None:
        if self._folder is not None:
            content = json.dumps(self._known, indent=1).encode()
            write_atomically(self._folder / "pipeline.json", content, self._sync)

    def _open(self) -> None:
        known = self._known["sinks"]
        for sink in self.sinks:
            name = sink.operator.relation
            new = name not in known
            sink.since = known.setdefault(name, self.run.tick)
            opening = Opening(
                owner=f"{self._known['id']}/{name}",
                struct=sink.struct,
                replaces=sink.operator.encoding == "view",
                new=new,
                sync=self._sync,
            )
            try:
                sink.target.open(opening)
            except DbspError as error:
                error.where = error.where or sink.operator.where
                raise
        self._remember()

    # --- batches ---------------------------------------------------------------------------------

    def __call__(self, frame: Any, batch: int) -> None:
        """Apply a micro-batch once, and return when every sink has its deltas."""
        with self._busy:
            if self._closed:
                raise CheckpointError(
                    f"the pipeline has ended; micro-batch {batch} was not applied", code="run-closed"
                )
            try:
                query = self._check_query(frame)
                ticks = self._apply(frame, batch)
                if ticks and self.publishing:
                    publish(frame, query, numbers(ticks))
            except Exception:
                self._release()
                raise
            except BaseException as error:
                # Unchanged, SystemExit would end the thread that has to answer Spark, and Spark
                # would wait.
                self._release()
                raise RuntimeError(f"{type(error).__name__}: {error}") from error

    def _check_query(self, frame: Any) -> str:
        """Return the id of the query; it must be the query that the stored state belongs to."""
        query: str = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if self._known["query"] is None:
            self._known["query"] = query
            self._remember()
        elif self._known["query"] != query:
            raise CheckpointError(
                f"expected Spark's checkpoint of query {self._known['query']}, which the state in"
                f" {self._folder} belongs to, got that of query {query}",
                code="checkpoint-other-query",
            )
        return query

    def _apply(self, frame: Any, batch: int) -> list[SparkTick]:
        """Apply the parts of a micro-batch that are not applied yet; return their ticks."""
        if not self._latest_tick_delivered:
            self._deliver_latest_tick()
        last, part, parts = self._last
        if batch < last or (batch == last and part == parts - 1):
            return []
        if batch > last + 1:
            raise CheckpointError(
                f"expected batch {last + 1}, the next one after the circuit's state, got batch {batch}"
                " from Spark; the state lacks the batches between them, so choose another"
                " checkpointLocation",
                code="checkpoint-other-query",
            )
        started = time.perf_counter()
        if batch == last:
            ticks = read_ticks(self._batch_file(batch))
        else:
            part = -1
            ticks = self._cut.ticks(divide(frame.toArrow(), list(self.sources)))
            if len(ticks) > 1:
                self._keep_ticks(batch, ticks)
        applied = []
        for number in range(part + 1, len(ticks)):
            applied.append(self._tick(ticks[number], batch, number, len(ticks), started))
            started = time.perf_counter()
        if len(ticks) > 1 and self._folder is not None:
            self._batch_file(batch).unlink(missing_ok=True)
        return applied

    def _tick(self, tables: Tables, batch: int, part: int, parts: int, started: float) -> SparkTick:
        fetched = time.perf_counter()
        changes = {name: self.sources[name].change(table) for name, table in tables.items()}
        label = {"batch": batch, "part": part, "parts": parts}
        result = self.run.step(changes, label=label)
        self._last = (batch, part, parts)
        stepped = time.perf_counter()
        self._emit(
            {sink.operator.relation: result[sink.operator.relation] for sink in self.sinks}, result.number
        )
        rows_in = sum(table.num_rows for table in tables.values())
        seconds = (fetched - started, stepped - fetched, time.perf_counter() - stepped)
        return self._count(result, batch, rows_in, seconds)

    def _count(
        self, result: TickResult, batch: int, rows_in: int, seconds: tuple[float, float, float]
    ) -> SparkTick:
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
        self.ticks.append(tick)
        return tick

    def once(self, tables: Tables) -> None:
        """Apply tables in one tick, without Spark's streaming."""
        self._deliver_latest_tick()
        self._tick(tables, 0, 0, 1, time.perf_counter())

    # --- parts of a batch ------------------------------------------------------------------------

    def _batch_file(self, batch: int) -> Path:
        return expect_present(self._folder, "the folder of a started driver") / f"batch-{batch}.arrow"

    def _keep_ticks(self, batch: int, ticks: list[Tables]) -> None:
        """Write the ticks of a batch: when Spark repeats it, the rows may have another order."""
        if self._folder is not None:
            write_atomically(self._batch_file(batch), ticks_bytes(ticks), self._sync)

    # --- sinks -----------------------------------------------------------------------------------

    def _deliver_latest_tick(self) -> None:
        """Write the latest tick of the previous process to the sinks that lack it."""
        tick = self.run.tick
        result = None if self.run.log is None else self.run.log.result
        deltas: dict[str, ZSet] = {}
        for sink in self.sinks:
            name = sink.operator.relation
            if tick == 0 or sink.target.has(tick):
                continue
            if sink.since == tick or sink.operator.encoding == "view":
                deltas[name] = self.run.view(name)
            elif result is not None:
                deltas[name] = result[name]
            # Otherwise only a snapshot exists. It is written when the next tick begins, so the
            # deltas of this tick were delivered.
        self._emit(deltas, tick, complete=True)
        _, part, parts = self._last
        if self._folder is not None and part == parts - 1:
            for path in self._folder.glob("batch-*.arrow"):
                path.unlink()  # its last tick is durable; the process ended before removing the file
        self._latest_tick_delivered = True

    def _emit(self, deltas: Mapping[str, ZSet], tick: int, complete: bool = False) -> None:
        """Write the deltas of a tick to their sinks; skip empty deltas except `complete` views."""
        for sink in self.sinks:
            operator = sink.operator
            name = operator.relation
            delta = deltas.get(name)
            if delta is None or (not delta and not (complete and operator.encoding == "view")):
                continue
            try:
                table = operator.table(delta, partial(self.run.view, name), arrow_types(sink.struct))
                sink.target.write(table, tick)
            except DbspError as error:
                error.where = error.where or operator.where
                raise

    # --- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Release the checkpoint; wait for a running batch first."""
        with self._busy:
            self._release()

    def _release(self) -> None:
        self._closed = True
        if self.run.log is not None:
            self.run.log.close()

    @property
    def closed(self) -> bool:
        return self._closed
