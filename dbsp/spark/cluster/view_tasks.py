"""Write the views of outputs as parts: for new sinks, and as the results of a batch.

The tasks open the segments at the versions of the latest commit, and step nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from dbsp.errors import DbspError
from dbsp.kernels.thread_count import use_by_default
from dbsp.lazy_dataclass import dataclass
from dbsp.spark.cluster.cluster_query import ClusterQuery, shard_of_task
from dbsp.spark.cluster.messages import Message, failure, messages_in, report
from dbsp.spark.cluster.part_sink import PartSink
from dbsp.spark.cluster.segment_state import Place, Version, keep, opened


@dataclass(frozen=True)
class ViewTask:
    """Writes the views that one shard has of outputs, as the delta of a tick."""

    query: ClusterQuery
    tick: int
    """The tick of the commit."""
    versions: Mapping[tuple[int, int], Version]
    """By level and shard the version after the tick."""
    sinks: Mapping[int, Sequence[PartSink]]
    """By level the sinks."""

    @property
    def __name__(self) -> str:  # Spark shows it
        return f"views after tick {self.tick}"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        use_by_default(1)  # Spark gives a core to each task
        for _ in messages_in(batches):
            pass
        shard = shard_of_task()
        for level, sinks in self.sinks.items():
            try:
                yield self._written(level, shard, sinks).batch()
            except DbspError as error:
                yield failure(shard, level, error).batch()

    def _written(self, level: int, shard: int, sinks: Sequence[PartSink]) -> Message:
        query, version = self.query, self.versions.get((level, shard), Version())
        place = Place(query.id, level, shard, query.shards)
        segment = query.segments()[level]
        run = opened(place, segment, version, query.folder, query.memory_limit)
        attempt, parts = uuid.uuid4().hex, {}
        for sink in sinks:
            view = run.run.view(sink.operator.relation)
            try:
                file = sink.write(view, lambda view=view: view, self.tick, shard, attempt)  # type: ignore[misc]
            except DbspError as error:
                error.where = error.where or f"sink '{sink.name}'"
                raise
            if file is not None:
                parts[sink.name] = file
        keep(place, version, segment, run)
        return report(shard, {"parts": parts})
