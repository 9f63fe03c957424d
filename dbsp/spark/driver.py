"""The function that Spark calls with every micro-batch of a pipeline.

    batch n --> changes --> step, durable with the label n --> every sink, told the tick --> return

Spark acknowledges the batch when the function returns, and comes with the same batch again when it did not.
A batch whose label is durable already is not applied again; what the tick did is known from the journal and
goes to those sinks that do not have it. So every change is applied once, and every tick arrives once.
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
"""Of so many latest ticks the numbers are kept."""


@dataclass
class BoundSink:
    """A sink of a pipeline with the place that its deltas go to."""

    operator: SparkSink
    struct: Any
    target: Target
    since: int = 0
    """The tick whose view is its first delta; 0 if its deltas began with those of the circuit."""


class Driver:
    """A run between Spark's micro-batches and its sinks."""

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
        """`folder` keeps what belongs to the pipeline besides the state of the run, if anything is kept.

        Raises CheckpointError or SchemaError if the sources are not those that the folder knows.
        """
        self.run = run
        self.sources = dict(sources)
        self.sinks = list(sinks)
        self.ticks: deque[SparkTick] = deque(maxlen=_REMEMBERED)
        self._cut = cut
        self._folder = folder
        self._sync = sync
        self.publishing = True
        """Whether the numbers of a micro-batch go into the progress of Spark's query."""
        self._busy = threading.Lock()
        self._closed = False
        self._settled = False
        self._last = (-1, 0, 1)  # so that batch 0 is the next
        """The batch of the latest tick, its number within it, and how many the batch has."""
        if run.log is not None and run.log.label is not None:
            label = run.log.label
            self._last = (label["batch"], label["part"], label["parts"])
        self._known = self._pipeline(described)
        self._open()

    # --- what is kept ------------------------------------------------------------------------------

    def _pipeline(self, described: Mapping[str, Any]) -> dict[str, Any]:
        """What is known of the pipeline from before, checked against what it is now."""
        path = None if self._folder is None else self._folder / "pipeline.json"
        if path is None or not path.exists():
            return {"id": str(uuid.uuid4()), "query": None, "sources": dict(described), "sinks": {}}
        known: dict[str, Any] = read_json(path)
        for name in {**known["sources"], **described}:
            before, now = known["sources"].get(name), described.get(name)
            if before != now:
                raise SchemaError(
                    f"it was {before or 'not there'} and is now {now or 'not there'};"
                    " go on with what it was, or begin anew with another checkpointLocation",
                    where=f"source '{name}' of the checkpoint {self._folder}",
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

    # --- batches -----------------------------------------------------------------------------------

    def __call__(self, frame: Any, batch: int) -> None:
        """Apply a micro-batch, once, and return when every sink has what it did."""
        with self._busy:
            if self._closed:
                raise CheckpointError("this pipeline has ended; what comes late is not applied")
            try:
                query = self._check_query(frame)
                ticks = self._apply(frame, batch)
                if ticks and self.publishing:
                    publish(frame, query, numbers(ticks))
            except Exception:
                self._let_go()
                raise
            except BaseException as error:
                # Raised as it is, sys.exit() would end the thread that has to answer Spark, which would wait.
                self._let_go()
                raise RuntimeError(f"{type(error).__name__}: {error}") from error

    def _check_query(self, frame: Any) -> str:
        """The id of the query. The circuit's state and Spark's checkpoint have to be those of one query."""
        query: str = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if self._known["query"] is None:
            self._known["query"] = query
            self._remember()
        elif self._known["query"] != query:
            raise CheckpointError(
                f"the circuit's state in {self._folder} goes with Spark's checkpoint of query"
                f" {self._known['query']}, not with that of {query}"
            )
        return query

    def _apply(self, frame: Any, batch: int) -> list[SparkTick]:
        """Apply what is not applied yet of a micro-batch; the ticks it took."""
        if not self._settled:
            self._settle()
        last, part, parts = self._last
        if batch < last or (batch == last and part == parts - 1):
            return []
        if batch > last + 1:
            raise CheckpointError(
                f"Spark goes on with batch {batch}, and the circuit's state ends with batch {last}:"
                " what is between is lost; begin anew with another checkpointLocation"
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
        """Apply tables that are all there is, without Spark's streaming: one tick."""
        self._settle()
        self._tick(tables, 0, 0, 1, time.perf_counter())

    # --- parts of a batch --------------------------------------------------------------------------

    def _batch_file(self, batch: int) -> Path:
        return expect_present(self._folder, "the folder of a started driver") / f"batch-{batch}.arrow"

    def _keep_ticks(self, batch: int, ticks: list[Tables]) -> None:
        """Write how a batch was cut: Spark may bring its rows in another order the next time."""
        if self._folder is not None:
            write_atomically(self._batch_file(batch), ticks_bytes(ticks), self._sync)

    # --- sinks -------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Hand the latest tick, which happened before the first batch of this process, to whom lacks it."""
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
            # Else a snapshot is all there is. It is made when the next tick begins, so this one has arrived.
        self._emit(deltas, tick, complete=True)
        _, part, parts = self._last
        if self._folder is not None and part == parts - 1:
            for path in self._folder.glob("batch-*.arrow"):
                path.unlink()  # its last tick is durable; the process ended before it was removed
        self._settled = True

    def _emit(self, deltas: Mapping[str, ZSet], tick: int, complete: bool = False) -> None:
        """Write the deltas of a tick to their sinks. Skips empty deltas, but not empty `complete` views."""
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

    # --- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the checkpoint, after the batch at work, if there is one."""
        with self._busy:
            self._let_go()

    def _let_go(self) -> None:
        self._closed = True
        if self.run.log is not None:
            self.run.log.close()

    @property
    def closed(self) -> bool:
        return self._closed
