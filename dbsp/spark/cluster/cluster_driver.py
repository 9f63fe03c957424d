"""The function that Spark calls with every micro-batch of a pipeline on a cluster.

    batch n --> one job --> the commit of a tick with the label n --> every sink --> return

The driver sees no row: executors read the sources, step the shards, and write the parts of the
sinks. Spark repeats a batch that was not acknowledged. If its label is committed, the batch is not
applied again; its parts are published, and delivered to the tables and functions that lack them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from dbsp.errors import CheckpointError, shorten
from dbsp.operators.ports.spark_source import SparkSource
from dbsp.spark.cluster.cluster_delivery import ClusterDelivery
from dbsp.spark.cluster.cluster_run import ClusterRun
from dbsp.spark.cluster.deal_tasks import DealtFrame, DealtUnion
from dbsp.spark.job_names import JobNames
from dbsp.spark.pipeline_record import PipelineRecord
from dbsp.spark.query_reports import QueryReport, SparkTick
from dbsp.spark.row_order import RowOrder
from dbsp.spark.session_kinds import streaming_query


class ClusterDriver:
    """Applies Spark's micro-batches to a run on a cluster."""

    def __init__(
        self,
        run: ClusterRun,
        sources: Mapping[str, SparkSource],
        orders: Mapping[str, RowOrder],
        delivery: ClusterDelivery,
        record: PipelineRecord,
        jobs: JobNames,
    ) -> None:
        """Raises CheckpointError if something else than a pipeline has stepped the state."""
        self.run = run
        self.report = QueryReport()
        self.query: str | None = None
        """The id of Spark's query; None to ask the classic session of a micro-batch."""
        self.jobs = jobs
        self._sources = dict(sources)
        self._orders = dict(orders)
        self._delivery = delivery
        self._record = record
        self._busy = threading.Lock()
        self._closed = False
        self._latest_tick_delivered = False
        self._last = last_batch(run)

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
        if not self._latest_tick_delivered:
            self._delivery.deliver_latest_tick(self.jobs)
            self._latest_tick_delivered = True
        if batch <= self._last:
            return
        if batch > self._last + 1:
            raise CheckpointError(
                f"expected batch {self._last + 1}, the next one after the circuit's state, got batch {batch}"
                " from Spark; the state lacks the batches between them, so choose another"
                " checkpointLocation",
                code="checkpoint-other-query",
            )
        self._tick([DealtUnion(list(self._sources.values()), frame, self._orders)], batch)

    def once(self, frames: Mapping[str, Any]) -> None:
        """Apply batch DataFrames in one tick, without Spark's streaming."""
        self._delivery.deliver_latest_tick(self.jobs)
        dealt = [
            DealtFrame(self._sources[name], frame, self._orders.get(name, RowOrder()))
            for name, frame in frames.items()
        ]
        self._tick(dealt, 0)

    def _tick(self, frames: Sequence[DealtFrame | DealtUnion], batch: int) -> None:
        started = time.perf_counter()
        run = self.run
        with self.jobs.of(f"tick {run.tick + 1} on {run.shards} shards, micro-batch {batch}"):
            reports = run.step(frames, label={"batch": batch})
        self._last = batch
        stepped = time.perf_counter()
        self._delivery.emit(self.jobs)
        self.report.ticks.append(
            SparkTick(
                tick=run.tick,
                batch=batch,
                rows_in=sum(run.dealt.values()),
                rows_out=sum(sum(facts["rows_out"].values()) for facts in reports),
                absent=_of_inputs(reports, "absent"),
                present=_of_inputs(reports, "present"),
                state_rows=sum(facts["state_rows"] for facts in reports),
                state_bytes=sum(facts["state_bytes"] for facts in reports),
                fetch_seconds=0.0,
                step_seconds=stepped - started,
                sink_seconds=time.perf_counter() - stepped,
                segments=tuple(run.segment_facts()),
            )
        )

    # --- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """End the pipeline; wait for a running batch first."""
        with self._busy:
            self._release()

    def _release(self) -> None:
        if not self._closed:
            self._closed = True
            self._delivery.close()

    @property
    def closed(self) -> bool:
        return self._closed


def last_batch(run: ClusterRun) -> int:
    """Return the micro-batch of the latest tick; -1 before the first. Raises CheckpointError."""
    label = run.commit.label
    if label is None:
        return -1
    if not isinstance(label, dict) or label.keys() != {"batch"}:
        raise CheckpointError(
            f"the latest tick of the state in {run.query.folder.location} has the label {shorten(label)}, so "
            "another program than a Spark pipeline has stepped the circuit; choose another "
            "checkpointLocation",
            code="checkpoint-other-query",
        )
    return int(label["batch"])


def _of_inputs(reports: Sequence[Mapping[str, Any]], what: str) -> int:
    return sum(count for facts in reports for name, count in facts[what].items() if not name.startswith("#"))
