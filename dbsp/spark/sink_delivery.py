"""Deliver every tick of a run to every sink of a pipeline once.

The record of the pipeline and the target of a sink together show what a sink lacks when the
pipeline starts:

| the sink                               | receives at the start                                   |
|----------------------------------------|---------------------------------------------------------|
| is new                                 | the view, as the delta of the latest tick               |
| lacks the latest tick                  | the delta of the latest tick                            |
| was left out for some starts           | the sum of the missed deltas, as that of the latest tick|
| lost earlier ticks, as if removed      | nothing: the start is refused                           |
| has later ticks than the state         | nothing: the start is refused                           |
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dbsp.data.zset import ZSet
from dbsp.errors import CheckpointError, DbspError, SchemaError
from dbsp.operators.ports.spark_sink import SparkSink
from dbsp.runtime.run import Run
from dbsp.spark.job_names import JobNames
from dbsp.spark.left_out import LeftOutSinks, latest_delta
from dbsp.spark.pipeline_record import PipelineRecord, SinkRecord
from dbsp.spark.spark_types import arrow_types
from dbsp.spark.targets import Opening, Target


@dataclass
class BoundSink:
    """A sink of a pipeline with the target of its deltas."""

    name: str
    """The name of the sink, by default that of its output."""
    operator: SparkSink
    struct: Any
    target: Target

    @property
    def output(self) -> str:
        return self.operator.relation

    @property
    def replaces(self) -> bool:
        return self.operator.encoding == "view"

    @property
    def where(self) -> str:
        """The name of this sink in errors."""
        return f"sink '{self.name}'"


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
                self._open(sink)
            except DbspError as error:
                error.where = error.where or sink.where
                raise
        present = {sink.name for sink in self.sinks}
        if self._left_out is not None:
            for name, known in record.sinks.items():
                if name not in present:
                    self._left_out.leave(name, known)
        record.save()

    def _open(self, sink: BoundSink) -> None:
        known = self._record.sinks.get(sink.name)
        opening = Opening(
            owner=f"{self._record.id}/{sink.name}",
            struct=sink.struct,
            replaces=sink.replaces,
            new=known is None,
            sync=self._record.sync,
        )
        if known is None:
            sink.target.open(opening)
            self._record.sinks[sink.name] = SinkRecord(
                output=sink.output,
                target=sink.target.kind,
                encoding=sink.operator.encoding,
                schema=sink.struct.jsonValue(),
                since=self._run.tick,
            )
            return
        self._compare(sink, known)
        sink.target.open(opening)
        latest = sink.target.latest
        if latest > self._run.tick:
            raise CheckpointError(
                f"the sink has tick {latest}, but the state of the checkpoint ends at tick {self._run.tick}:"
                " the checkpoint is older than the sink; restore the newer checkpoint, or start with another"
                f" checkpointLocation and an empty {sink.target.kind}",
                code="sink-incomplete",
            )
        if latest < known.delivered and not sink.replaces:
            raise CheckpointError(
                f"{sink.target.describe()} lacks tick {known.delivered}, which it had: its data was removed;"
                " restore the data, or give the sink another name=... and an empty target, so that it begins"
                " with the current view",
                code="sink-incomplete",
            )
        if known.left_out:
            known.back_at = self._run.tick

    def _compare(self, sink: BoundSink, known: SinkRecord) -> None:
        """Raise an error unless a sink has the properties of its record."""
        for what, before, now in (
            ("output", known.output, sink.output),
            ("target", known.target, sink.target.kind),
            ("encoding", known.encoding, sink.operator.encoding),
        ):
            if before != now:
                raise CheckpointError(
                    f"expected the {what} of the checkpoint, {before}, got {now}; restore the {what}, or give"
                    " the sink another name=..., so that it begins with the current view",
                    code="checkpoint-other-program",
                )
        if known.schema != sink.struct.jsonValue():
            columns = type(sink.struct).fromJson(known.schema).simpleString()
            raise SchemaError(
                f"expected the columns of the checkpoint, {columns}, got {sink.struct.simpleString()};"
                " restore the columns, or give the sink another name=... and an empty target",
                code="schema-mismatch",
            )

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
        before = {name: known.delivered for name, known in self._record.sinks.items()}
        for sink in self.sinks:
            known = self._record.sinks[sink.name]
            known.delivered = max(known.delivered, sink.target.latest)
        if before != {name: known.delivered for name, known in self._record.sinks.items()}:
            # A full disk must not hide the error that ends the pipeline. Without this record the
            # sinks are complete too; only the removal of their latest ticks is not noticed.
            with contextlib.suppress(OSError):
                self._record.save()
