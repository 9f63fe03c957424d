"""What Spark's executors run in a tick: tasks that step segments.

A task is called with the Arrow batches of one partition (`mapInArrow`). It returns the error of a
program as a message, which the driver raises; all else that fails is Spark's to report and retry.
"""

from __future__ import annotations

import pickle
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache

import pyarrow as pa

import dbsp
from dbsp.circuit.graph import Graph
from dbsp.errors import DbspError, SetupError
from dbsp.operators.stages.segments import Segment, segments_of
from dbsp.runtime.tick_result import TickResult
from dbsp.shards.segment_run import SegmentRun
from dbsp.spark.cluster.messages import DRIVER, START, Message, failure, messages_in, report
from dbsp.spark.cluster.part_sink import PartSink
from dbsp.spark.cluster.segment_state import (
    HeldRows,
    Place,
    Version,
    forget_runs,
    keep,
    next_version,
    opened,
)
from dbsp.spark.cluster.shared_folder import SharedFolder
from dbsp.spark.cluster.spared_imports import spare_imports

_CIRCUITS = 32
"""The circuits that a process keeps."""


@dataclass(frozen=True)
class ClusterQuery:
    """What every task of a query knows."""

    id: str
    graph: bytes
    """The distributed circuit, pickled."""
    shards: int
    folder: SharedFolder
    image_from: int
    """The least bytes of a journal that an image replaces."""
    version: str
    """The version of dbsp and of Python in the driver."""
    memory_limit: int | None = None
    """The bytes of memory for the state of a segment of a shard; None without a limit."""

    def checked_graph(self) -> Graph:
        """Return the circuit, at the begin of a task.

        Raises SetupError if this process has another version of dbsp.
        """
        spare_imports(forget_runs)
        if self.version != versions():
            raise SetupError(
                f"the driver runs {self.version}, an executor {versions()}; install the same versions on the "
                "driver and on all executors, or ship them with --archives"
            )
        return _graph(self.graph)

    def segments(self) -> list[Segment]:
        """Return the segments of the circuit, by level."""
        self.checked_graph()
        return _segments(self.graph)


def versions() -> str:
    """Return the versions that the driver and the executors must share."""
    return f"dbsp {dbsp.__version__} on Python {sys.version_info.major}.{sys.version_info.minor}"


def shard_of_task() -> int:
    """Return the number of the partition of this task, which is that of its shard."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "a task runs in a partition"
    return int(context.partitionId())


@lru_cache(maxsize=_CIRCUITS)
def _graph(data: bytes) -> Graph:
    graph: Graph = pickle.loads(data)
    return graph


@lru_cache(maxsize=_CIRCUITS)
def _segments(data: bytes) -> list[Segment]:
    return segments_of(_graph(data))


@dataclass(frozen=True)
class SegmentTask:
    """Steps one segment on the shard of its partition."""

    query: ClusterQuery
    level: int
    tick: int
    """The number of the tick."""
    versions: Mapping[int, Version]
    """By shard the version from which the tick starts."""
    sinks: Sequence[PartSink]
    """The sinks of the outputs of the segment."""
    held: Mapping[int, Sequence[HeldRows]]
    """By shard what the tick before has sent for this one."""
    name: str = "segment"
    """Its name for people."""

    @property
    def __name__(self) -> str:  # Spark shows it
        return self.name

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        shard = shard_of_task()
        received: dict[str, list[bytes]] = {}
        failed = False
        for message in messages_in(batches):
            assert message.shard == shard, f"a message for shard {message.shard} came to shard {shard}"
            if message.level == self.level:
                received.setdefault(message.input, []).append(message.content)
            elif message.level != START:
                failed = failed or (message.level == DRIVER and message.input != "report")
                yield message.batch()
        if failed:
            return  # the tick will not count
        try:
            for message in self._stepped(shard, received):
                yield message.batch()
        except DbspError as error:
            yield failure(shard, self.level, error).batch()

    def _stepped(self, shard: int, received: dict[str, list[bytes]]) -> Iterator[Message]:
        began = time.perf_counter()
        query, before = self.query, self.versions[shard]
        place = Place(query.id, self.level, shard, query.shards)
        segment = query.segments()[self.level]
        run = opened(place, segment, before, query.folder, query.memory_limit)
        for rows_held in self.held.get(shard, ()):
            received.setdefault(rows_held.input, []).append(rows_held.read(query.folder))
        opening = time.perf_counter() - began
        sent, result = run.step(received)
        name = uuid.uuid4().hex
        parts = {
            sink.name: file
            for sink in self.sinks
            if (file := self._written(sink, run, result, shard, name)) is not None
        }
        version = next_version(place, before, name, received, run, query.folder, query.image_from)
        held = []
        for rows in sent:
            crossing = segment.sends[rows.exchange]
            for level in crossing.readers:
                yield Message(rows.shard, level, crossing.name, rows.message)
            for level in crossing.next_readers:
                there = Place(query.id, level, rows.shard, query.shards)
                held.append(HeldRows.written(query.folder, there, crossing.held_name, rows.message))
        facts = {
            "level": self.level,
            "shard": shard,
            "version": asdict(version),
            "parts": parts,
            "held": [asdict(rows_held) for rows_held in held],
            "rows_out": {name: len(delta) for name, delta in result.items() if delta},
            "absent": result.absent,
            "present": result.present,
            "sent_bytes": sum(len(rows.message) for rows in sent if rows.shard != shard),
            "received_bytes": sum(len(message) for messages in received.values() for message in messages),
            "state_rows": run.run.state_rows,
            "state_bytes": run.run.state_bytes,
            "opening_seconds": opening,
            "seconds": time.perf_counter() - began,
        }
        keep(place, version, segment, run)
        yield report(shard, facts)

    def _written(
        self, sink: PartSink, run: SegmentRun, result: TickResult, shard: int, attempt: str
    ) -> str | None:
        output = sink.operator.relation
        try:
            return sink.write(result[output], lambda: run.run.view(output), self.tick, shard, attempt)
        except DbspError as error:
            error.where = error.where or f"sink '{sink.name}'"
            raise
