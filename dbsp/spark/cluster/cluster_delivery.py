"""Deliver every tick of a run on a cluster to every sink once; no row passes the driver.

The executors have written the parts of a tick when it is committed. A sink that is new receives the
views of a job over the state. A sink that was left out while ticks were committed is refused,
unless its rows are whole views: the deltas that it missed are not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dbsp.errors import CheckpointError, DbspError
from dbsp.spark.cluster.cluster_run import ClusterRun
from dbsp.spark.cluster.part_target import ClusterSink, PartTarget
from dbsp.spark.job_names import JobNames
from dbsp.spark.pipeline_record import KnownRows, PipelineRecord, SinkRecord
from dbsp.spark.sink_opening import close_sinks, open_sink


class ClusterDelivery:
    """The sinks of a pipeline on a cluster, and the record of what they have."""

    def __init__(
        self, session: Any, run: ClusterRun, sinks: Sequence[ClusterSink], record: PipelineRecord
    ) -> None:
        """Open the targets of all sinks, and complete the parts of the latest tick.

        Raises CheckpointError or SchemaError if a target does not have what the record says.
        """
        self.sinks = list(sinks)
        self._session = session
        self._run = run
        self._record = record
        self._viewed: list[ClusterSink] = []
        """The sinks that receive views before the next tick."""
        record.save()  # its id is the owner of the targets
        for sink in self.sinks:
            try:
                open_sink(sink, record, run.tick)
                if self._needs_view(sink, record.sinks[sink.name]):
                    self._viewed.append(sink)
            except DbspError as error:
                error.where = error.where or sink.where
                raise
        for name in record.sinks.keys() - {sink.name for sink in self.sinks}:
            self._leave(record.sinks[name])
        record.save()
        run.add_sinks([sink.part for sink in self.sinks])
        for sink in self.sinks:
            if isinstance(sink.target, PartTarget) and run.commit.parts.get(sink.name):
                sink.target.latest = run.tick

    def _leave(self, known: SinkRecord) -> None:
        if not known.left_out:
            known.left_out = [KnownRows(self._run.tick, "")]

    def _needs_view(self, sink: ClusterSink, known: SinkRecord) -> bool:
        tick = self._run.tick
        missed = bool(known.left_out) and known.left_out[0].tick < tick
        if missed and not sink.replaces:
            raise CheckpointError(
                f"the query ran without the sink from tick {known.left_out[0].tick + 1} to {tick}, and these "
                "deltas are not kept on a cluster; give the sink another name=... and an empty target, so "
                "that it begins with the current view",
                code="sink-incomplete",
            )
        return tick > 0 and sink.target.latest < tick and (missed or known.since == tick)

    def deliver_latest_tick(self, jobs: JobNames) -> None:
        """Write to every sink what it lacks of the ticks of previous processes."""
        tick = self._run.tick
        written: set[str] = set()
        if self._viewed:
            with jobs.of(f"views after tick {tick}"):
                written = self._run.write_views([sink.part for sink in self._viewed])
        for sink in self.sinks:
            if sink.name in written or self._run.commit.parts.get(sink.name):
                self._write(sink, tick, jobs)
        self._viewed = []
        back = [known for sink in self.sinks if (known := self._record.sinks[sink.name]).left_out]
        for known in back:
            known.left_out, known.back_at = [], -1
        if back:
            self._record.save()

    def emit(self, jobs: JobNames) -> None:
        """Write the parts of the tick that was committed; skip empty ones."""
        for sink in self.sinks:
            if self._run.commit.parts.get(sink.name):
                self._write(sink, self._run.tick, jobs)

    def _write(self, sink: ClusterSink, tick: int, jobs: JobNames) -> None:
        if sink.target.latest >= tick:
            return
        try:
            with jobs.of(f"tick {tick} to {sink.where}"):
                sink.target.write(sink.frame(self._session, tick), tick)
        except DbspError as error:
            error.where = sink.where
            raise
        if not isinstance(sink.target, PartTarget):
            sink.part.remove_ticks(tick)

    def close(self) -> None:
        """Record the latest tick of every sink, so that its removal is noticed."""
        close_sinks(self.sinks, self._record)
