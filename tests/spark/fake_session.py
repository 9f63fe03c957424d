"""A Spark session for runs on shards without a JVM: tasks are called in this process.

Each task runs as attempts. `Attempts` decides which of them are lost after they have written their
files, and which run twice, so that the readers of their messages read those of either.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from dbsp.spark.cluster import segment_tasks, view_tasks
from dbsp.spark.cluster.messages import START, Message
from dbsp.spark.cluster.segment_state import forget_runs

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_SHARD: list[int] = []


def shard_of_task() -> int:
    return _SHARD[-1]


def fake_tasks(monkeypatch: Any) -> None:
    """Let tasks ask the fake for their partition."""
    for module in (segment_tasks, view_tasks):
        monkeypatch.setattr(module, "shard_of_task", shard_of_task)


@dataclass
class Attempts:
    """What happens to the attempts of tasks."""

    draw: random.Random | None = None
    """None: every task runs once."""
    lost: int = 0
    doubled: int = 0
    forgotten: int = 0

    def of(self, task: Task, shard: int, batches: list[pa.RecordBatch]) -> list[list[pa.RecordBatch]]:
        """Return the results of one attempt, or of two; a reader reads one of them."""
        draw = self.draw
        if draw is None:
            return [_called(task, shard, batches)]
        if draw.random() < 0.2:
            forget_runs()
            self.forgotten += 1
        results = []
        if draw.random() < 0.25:
            self.lost += 1
            _called(task, shard, self._arrived(batches))
        for _ in range(1 + (draw.random() < 0.25)):
            results.append(_called(task, shard, self._arrived(batches)))
        self.doubled += len(results) > 1
        return results

    def _arrived(self, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Return the batches in the order in which a shuffle may bring them."""
        assert self.draw is not None
        return self.draw.sample(batches, len(batches))

    def read(self, results: list[list[pa.RecordBatch]]) -> list[pa.RecordBatch]:
        return results[0] if self.draw is None else self.draw.choice(results)


def _called(task: Task, shard: int, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    _SHARD.append(shard)
    try:
        return list(task(iter(batches)))
    finally:
        _SHARD.pop()


@dataclass
class FakeSession:
    """Makes frames of Arrow batches."""

    attempts: Attempts = field(default_factory=Attempts)

    def range(self, start: int, end: int, step: int, partitions: int) -> FakeFrame:
        return FakeFrame(self, [[[Message(n, START, "", b"").batch() for n in range(start, end, step)]]])

    def frame(self, *tables: pa.Table) -> FakeFrame:
        """Return a DataFrame with a partition of each table."""
        return FakeFrame(self, [[table.to_batches()] for table in tables])


@dataclass
class FakeFrame:
    """A DataFrame: by partition the results of the attempts that have made it."""

    session: FakeSession
    partitions: list[list[list[pa.RecordBatch]]]

    def selectExpr(self, *_: str) -> FakeFrame:
        return self

    def unionAll(self, other: FakeFrame) -> FakeFrame:
        return FakeFrame(self.session, self.partitions + other.partitions)

    def repartitionById(self, count: int, _: str) -> FakeFrame:
        """Return the rows by their shard; every shard reads one attempt of every partition."""
        parts: list[list[list[pa.RecordBatch]]] = []
        for shard in range(count):
            rows: list[pa.RecordBatch] = []
            for results in self.partitions:
                for batch in self.session.attempts.read(results):
                    chosen = batch.filter(pa.compute.equal(batch.column("shard"), shard))
                    rows += [chosen] if chosen.num_rows else []
            parts.append([rows])
        return FakeFrame(self.session, parts)

    def mapInArrow(self, task: Task, _: str) -> FakeFrame:
        attempts = self.session.attempts
        found = []
        for shard, results in enumerate(self.partitions):
            found.append(attempts.of(task, shard, attempts.read(results)))
        return FakeFrame(self.session, found)

    def toArrow(self) -> pa.Table:
        chosen = [self.session.attempts.read(results) for results in self.partitions]
        return pa.Table.from_batches([batch for batches in chosen for batch in batches])
