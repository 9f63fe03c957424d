"""Deliver every tick of a run in this process to every sink of a pipeline once.

`dbsp.spark.sink_opening` shows what a sink lacks when the pipeline starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from dbsp.data.zset import ZSet
from dbsp.errors import DbspError
from dbsp.runtime.run import Run
from dbsp.spark.job_names import JobNames
from dbsp.spark.left_out import LeftOutSinks, latest_delta
from dbsp.spark.pipeline_record import PipelineRecord, SinkRecord
from dbsp.spark.sink_opening import BoundSink, close_sinks, open_sink
from dbsp.spark.spark_types import arrow_types


class SinkDelivery:
    """The sinks of a pipeline, and the record of what they have."""

    def __init__(self, run: Run, sinks: Sequence[BoundSink], record: PipelineRecord) -> None:
        """Open the targets of all sinks; remember the sinks that the pipeline runs without.

        Raises CheckpointError or SchemaError if a target does not have what the record says.
        """
        self.sinks = list(sinks)
        self._run = run
        self._record = record
        folder = record.folder
        self._left_out = None if folder is None else LeftOutSinks(run, folder, record.sync)
        record.save()  # its id is the owner of the targets
        for sink in self.sinks:
            try:
                open_sink(sink, record, run.tick)
            except DbspError as error:
                error.where = error.where or sink.where
                raise
        present = {sink.name for sink in self.sinks}
        if self._left_out is not None:
            for name, known in record.sinks.items():
                if name not in present:
                    self._left_out.leave(name, known)
        record.save()

    # --- delivering ------------------------------------------------------------------------------

    def deliver_latest_tick(self, jobs: JobNames) -> None:
        """Write to every sink what it lacks of the ticks of previous processes."""
        for sink in self.sinks:
            tick = self._run.tick
            if tick and not (sink.target.latest >= tick):
                missing = self._missing(sink, self._record.sinks[sink.name])
                self._write(sink, missing, tick, jobs, complete=True)
        back = [known for sink in self.sinks if (known := self._record.sinks[sink.name]).left_out]
        if self._left_out is not None and back:
            files = [file for known in back for file in self._left_out.forget(known)]
            self._record.save()
            for file in files:
                file.unlink(missing_ok=True)

    def _missing(self, sink: BoundSink, known: SinkRecord) -> ZSet:
        if known.since == self._run.tick or sink.replaces:
            return self._run.view(sink.output)
        if known.left_out and self._left_out is not None:
            return self._left_out.missed(known, sink.target.latest)
        return latest_delta(self._run, sink.output)

    def emit(self, deltas: Mapping[str, ZSet], tick: int, jobs: JobNames) -> None:
        """Write the deltas of a tick to their sinks; skip empty deltas."""
        for sink in self.sinks:
            self._write(sink, deltas[sink.output], tick, jobs)

    def _write(self, sink: BoundSink, delta: ZSet, tick: int, jobs: JobNames, complete: bool = False) -> None:
        """Write a delta to a sink unless it is empty; `complete` writes empty views too."""
        if not delta and not (complete and sink.replaces):
            return
        try:
            view = partial(self._run.view, sink.output)
            table = sink.operator.table(delta, view, arrow_types(sink.struct))
            with jobs.of(f"tick {tick} to {sink.where}"):
                sink.target.write(table, tick)
        except DbspError as error:
            error.where = sink.where
            raise

    def close(self) -> None:
        """Record the latest tick of every sink, so that its removal is noticed."""
        close_sinks(self.sinks, self._record)
