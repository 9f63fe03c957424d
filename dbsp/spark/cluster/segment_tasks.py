"""What Spark's executors run in a tick: tasks that step segments.

A task is called with the Arrow batches of one partition (`mapInArrow`). It returns the error of a
program as a message, which the driver raises; all else that fails is Spark's to report and retry.

A segment that waits is stepped by several stages: `SegmentTask` begins its tick, and each
`dbsp.spark.cluster.round_tasks.RoundTask` does a round. Between them each shard has a message to
itself, the suspension. The stages of later segments pass on what they get while there is one.
"""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace

import pyarrow as pa

from dbsp.errors import DbspError
from dbsp.kernels.thread_count import use_by_default
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.stages.segments import Segment
from dbsp.runtime.tick_result import TickResult
from dbsp.shards.segment_run import SegmentRun, SegmentStep
from dbsp.spark.cluster.cluster_query import ClusterQuery, shard_of_task
from dbsp.spark.cluster.messages import START, WAITING, Message, failures, is_failure, messages_in, report
from dbsp.spark.cluster.part_sink import PartSink
from dbsp.spark.cluster.segment_state import HeldRows, Place, Version, keep, next_version, opened
from dbsp.spark.cluster.suspended_ticks import Suspension, rounds_folder, written_round

Received = dict[str, list[bytes]]


@dataclass(frozen=True)
class LevelTask(ABC):
    """Steps one segment on the shard of its partition, until it waits or until its tick ends."""

    query: ClusterQuery
    level: int
    tick: int
    """The number of the tick."""
    versions: Mapping[int, Version]
    """By shard the version from which the tick starts."""
    sinks: Sequence[PartSink]
    """The sinks of the outputs of the segment."""
    held: Mapping[int, Sequence[HeldRows]]
    """By shard what the tick before, or the job before, has sent for this task."""
    name: str = "segment"
    """Its name for people."""
    ends_job: bool = False
    """Whether it is the last of a job; then what it does not use is for the next job."""

    @property
    def __name__(self) -> str:  # Spark shows it
        return self.name

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        use_by_default(1)  # Spark gives a core to each task
        shard = shard_of_task()
        own: list[Message] = []
        failed = blocked = False
        for message in messages_in(batches):
            assert message.shard == shard, f"a message for shard {message.shard} came to shard {shard}"
            if message.level == self.level:
                own.append(message)
            elif message.level != START:
                failed = failed or is_failure(message)
                blocked = blocked or 0 <= message.level < self.level
                yield self._sent(message).batch()
        if failed:
            return  # the tick will not count
        try:
            for message in own if blocked else self._stepped(shard, own):
                yield self._sent(message).batch()
        except DbspError as error:
            for message in failures(shard, self.query.shards, self.level, error):
                yield message.batch()

    def _sent(self, message: Message) -> Message:
        """Return a message for a later stage; at the end of a job, a report of where it is."""
        if not self.ends_job or message.level < 0:
            return message
        shard = message.shard
        if message.input == WAITING:
            facts = asdict(Suspension.decoded(message.content))
            return report(shard, {"waiting": facts, "at": [message.level, shard]})
        rows = HeldRows.written(
            self.query.folder, message.level, shard, message.input, message.content, rounds_folder(self.tick)
        )
        return report(shard, {"later": asdict(rows)})

    @abstractmethod
    def _stepped(self, shard: int, own: Sequence[Message]) -> Sequence[Message]:
        """Step the segment; return what it sends, and its report or its suspension."""

    # --- steps ------------------------------------------------------------------------------------

    def _place(self, shard: int) -> tuple[Place, Segment]:
        query = self.query
        return Place(query.id, self.level, shard, query.shards), query.segments()[self.level]

    def _received(self, shard: int, own: Sequence[Message]) -> Received:
        """Return the messages by input, with those of files."""
        received: Received = {}
        for message in own:
            received.setdefault(message.input, []).append(message.content)
        for rows in self.held.get(shard, ()):
            received.setdefault(rows.input, []).append(rows.read(self.query.folder))
        return received

    def _done(
        self,
        shard: int,
        run: SegmentRun,
        step: SegmentStep,
        received: Received,
        before: Suspension,
        began: float,
    ) -> list[Message]:
        """Return the messages after a step, in which the segment has `received` messages."""
        sent_bytes = sum(len(rows.message) for rows in step.sent if rows.shard != shard)
        so_far = replace(before, sent_bytes=before.sent_bytes + sent_bytes)
        if step.result is not None:
            return self._ended(shard, run, step, step.result, so_far, began)
        place, segment = self._place(shard)
        try:
            file = written_round(self.query.folder, place, self.tick, received)
        except BaseException:
            run.abandon()
            raise
        files = (*before.files, file)
        keep(place, self.versions[shard], segment, run, files)
        seconds = before.seconds + time.perf_counter() - began
        suspension = replace(so_far, files=files, seconds=seconds)
        return [
            *(Message(rows.shard, self.level, rows.exchange, rows.message) for rows in step.sent),
            Message(shard, self.level, WAITING, suspension.encoded()),
        ]

    def _ended(
        self,
        shard: int,
        run: SegmentRun,
        step: SegmentStep,
        result: TickResult,
        so_far: Suspension,
        began: float,
    ) -> list[Message]:
        """Make the tick durable; return what other segments receive, and the report."""
        query, (place, segment) = self.query, self._place(shard)
        name = uuid.uuid4().hex
        parts = {
            sink.name: file
            for sink in self.sinks
            if (file := self._written(sink, run, result, shard, name)) is not None
        }
        received, before = run.received, self.versions[shard]
        version = next_version(place, before, name, received, run, query.folder, query.image_from)
        messages, held = [], []
        for rows in step.sent:
            crossing = segment.sends[rows.exchange]
            for level in crossing.readers:
                messages.append(Message(rows.shard, level, crossing.name, rows.message))
            for level in crossing.next_readers:
                held.append(
                    HeldRows.written(query.folder, level, rows.shard, crossing.held_name, rows.message)
                )
        facts = {
            "level": self.level,
            "shard": shard,
            "version": asdict(version),
            "parts": parts,
            "held": [asdict(rows_held) for rows_held in held],
            "rows_out": {name: len(delta) for name, delta in result.items() if delta},
            "absent": result.absent,
            "present": result.present,
            "sent_bytes": so_far.sent_bytes,
            "received_bytes": sum(len(message) for messages in received.values() for message in messages),
            "state_rows": run.run.state_rows,
            "state_bytes": run.run.state_bytes,
            "opening_seconds": so_far.opening_seconds,
            "seconds": so_far.seconds + time.perf_counter() - began,
        }
        if segment.waits:
            facts |= {"rounds": run.rounds, "digest": run.digest}
        keep(place, version, segment, run)
        return [*messages, report(shard, facts)]

    def _written(
        self, sink: PartSink, run: SegmentRun, result: TickResult, shard: int, attempt: str
    ) -> str | None:
        output = sink.operator.relation
        try:
            return sink.write(result[output], lambda: run.run.view(output), self.tick, shard, attempt)
        except DbspError as error:
            error.where = error.where or f"sink '{sink.name}'"
            raise


@dataclass(frozen=True)
class SegmentTask(LevelTask):
    """Begins the tick of a segment."""

    def _stepped(self, shard: int, own: Sequence[Message]) -> Sequence[Message]:
        began = time.perf_counter()
        place, segment = self._place(shard)
        query = self.query
        run = opened(place, segment, self.versions[shard], query.folder, query.memory_limit)
        received = self._received(shard, own)
        opening = time.perf_counter() - began
        step = run.begin(received) if segment.waits else SegmentStep(*run.step(received))
        return self._done(shard, run, step, received, Suspension((), 0, opening, 0.0), began)
