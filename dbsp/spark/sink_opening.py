"""Open the sinks of a pipeline, with what its record knows of them.

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
from collections.abc import Sequence
from typing import Any

from dbsp.errors import CheckpointError, SchemaError
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.ports.spark_sink import SparkSink
from dbsp.spark.pipeline_record import PipelineRecord, SinkRecord
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


def open_sink(sink: BoundSink, record: PipelineRecord, tick: int) -> None:
    """Open the target of a sink at a tick of the state, and add it to the record if it is new.

    Raises CheckpointError or SchemaError if the target does not have what the record says.
    """
    known = record.sinks.get(sink.name)
    opening = Opening(
        owner=f"{record.id}/{sink.name}",
        struct=sink.struct,
        replaces=sink.replaces,
        new=known is None,
        sync=record.sync,
    )
    if known is None:
        sink.target.open(opening)
        record.sinks[sink.name] = SinkRecord(
            output=sink.output,
            target=sink.target.kind,
            encoding=sink.operator.encoding,
            schema=sink.struct.jsonValue(),
            since=tick,
        )
        return
    _compare(sink, known)
    sink.target.open(opening)
    latest = sink.target.latest
    if latest > tick:
        raise CheckpointError(
            f"the sink has tick {latest}, but the state of the checkpoint ends at tick {tick}:"
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
        known.back_at = tick


def _compare(sink: BoundSink, known: SinkRecord) -> None:
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


def close_sinks(sinks: Sequence[BoundSink], record: PipelineRecord) -> None:
    """Record the latest tick of every sink, so that its removal is noticed."""
    before = {name: known.delivered for name, known in record.sinks.items()}
    for sink in sinks:
        known = record.sinks[sink.name]
        known.delivered = max(known.delivered, sink.target.latest)
    if before != {name: known.delivered for name, known in record.sinks.items()}:
        # A full disk must not hide the error that ends the pipeline. Without this record the
        # sinks are complete too; only the removal of their latest ticks is not noticed.
        with contextlib.suppress(OSError, CheckpointError):
            record.save()
