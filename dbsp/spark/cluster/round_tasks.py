"""Rounds of a segment that waits: one stage each.

A job has a fixed number of stages, and nobody knows the number of rounds before. So a round task
passes on what it gets if the segment does not wait: it has ended, or has not started.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from dbsp.lazy_dataclass import dataclass
from dbsp.spark.cluster.messages import WAITING, Message
from dbsp.spark.cluster.segment_tasks import LevelTask
from dbsp.spark.cluster.suspended_ticks import Suspension, waiting_run


@dataclass(frozen=True)
class RoundTask(LevelTask):
    """Takes the answers of a round, and steps the segment until the next round or the end."""

    suspensions: Mapping[int, Suspension] = field(default_factory=dict)
    """By shard the ticks that wait since the job before."""

    def _stepped(self, shard: int, own: Sequence[Message]) -> Sequence[Message]:
        began = time.perf_counter()
        waits = [message for message in own if message.input == WAITING]
        before = Suspension.decoded(waits[0].content) if waits else self.suspensions.get(shard)
        if before is None:
            return own
        place, segment = self._place(shard)
        query, version = self.query, self.versions[shard]
        run = waiting_run(place, segment, version, before.files, query.folder, query.memory_limit)
        opening = before.opening_seconds + time.perf_counter() - began
        received = self._received(shard, [message for message in own if message.input != WAITING])
        step = run.resume(received)
        return self._done(shard, run, step, received, replace(before, opening_seconds=opening), began)
