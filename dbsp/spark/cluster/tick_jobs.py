"""The jobs of a tick on executors: one, unless a segment waits for more rounds than it has stages.

    segment 0 -> segment 1 -> round 1 -> round 2 -> segment 2 -> report
                              round 3 -> ... -> round 6 -> segment 2 -> report     the next job

Nobody knows the number of rounds before. The first job has as many round stages as the latest tick
needed. While rounds are left, later segments do nothing. Then the last stage writes what they and
the next round receive to files, and another job continues, with twice as many round stages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dbsp.errors import InvariantError
from dbsp.operators.stages.segments import Segment
from dbsp.shards.segment_link import RoundsDifferError
from dbsp.spark.cluster.cluster_query import ClusterQuery
from dbsp.spark.cluster.commits import ClusterCommit
from dbsp.spark.cluster.part_sink import PartSink
from dbsp.spark.cluster.round_tasks import RoundTask
from dbsp.spark.cluster.segment_names import segment_name
from dbsp.spark.cluster.segment_state import HeldRows
from dbsp.spark.cluster.segment_tasks import LevelTask, SegmentTask
from dbsp.spark.cluster.suspended_ticks import Suspension

LEAST_ROUNDS, MOST_ROUNDS = 2, 32
"""The number of round stages of a segment in a job."""


class TickJobs:
    """The state of a tick between its jobs: which segments have ended, and which one waits."""

    def __init__(
        self,
        query: ClusterQuery,
        segments: Sequence[Segment],
        sinks: Sequence[PartSink],
        commit: ClusterCommit,
        rounds: Mapping[int, int],
    ) -> None:
        """Begin the tick after a commit; `rounds` are those of the latest tick by level."""
        self.tick = commit.tick + 1
        self.reports: list[dict[str, Any]] = []
        """What the tasks have reported, by segment and shard."""
        self.dealt: Counter[str] = Counter()
        """By source the rows."""
        self._query = query
        self._segments = segments
        self._sinks = sinks
        self._commit = commit
        self._held: list[HeldRows] = list(commit.held)
        self._waiting: dict[int, dict[int, Suspension]] = {}
        """By level and shard."""
        self._stages = {level: min(max(count, LEAST_ROUNDS), MOST_ROUNDS) for level, count in rounds.items()}
        self._jobs: Counter[int] = Counter()
        """By level the jobs that have stepped the segment."""

    @property
    def ended(self) -> bool:
        """Whether all segments have ended."""
        return len({facts["level"] for facts in self.reports}) == len(self._segments)

    def rounds(self) -> dict[int, int]:
        """Return the rounds by level of the segments that wait."""
        return {facts["level"]: facts["rounds"] for facts in self.reports if "rounds" in facts}

    def stages(self) -> list[LevelTask]:
        """Return the tasks of the stages of the next job."""
        ended = {facts["level"] for facts in self.reports}
        tasks: list[LevelTask] = []
        for segment in self._segments:
            if segment.level not in ended:
                tasks += self._tasks(segment)
        if any(segment.waits for segment in self._segments):
            tasks[-1] = replace(tasks[-1], ends_job=True)
        return tasks

    def _tasks(self, segment: Segment) -> list[LevelTask]:
        level, shards = segment.level, self._query.shards
        held: dict[int, list[HeldRows]] = {}
        for rows in self._held:
            if rows.level == level:
                held.setdefault(rows.shard, []).append(rows)
        first = SegmentTask(
            self._query,
            level,
            self.tick,
            {shard: self._commit.version(level, shard) for shard in range(shards)},
            [sink for sink in self._sinks if sink.operator.relation in segment.outputs],
            held,
            segment_name(self._segments, level),
        )
        if not segment.waits or shards == 1:
            return [first]
        suspensions = self._waiting.get(level)
        done = min(each.round for each in suspensions.values()) if suspensions else 0
        rounds = [
            RoundTask(
                first.query,
                level,
                first.tick,
                first.versions,
                first.sinks,
                {},
                f"{first.name}, round {done + number + 1}",
            )
            for number in range(self._stages.get(level, LEAST_ROUNDS))
        ]
        if suspensions is None:
            return [first, *rounds]
        return [replace(rounds[0], held=held, suspensions=suspensions), *rounds[1:]]

    def take(self, found: Iterable[Mapping[str, Any]]) -> None:
        """Note the reports of a job. Raises RoundsDifferError if the shards decided differently."""
        waiting: dict[int, dict[int, Suspension]] = {}
        later, reports = [], []
        for facts in found:
            self.dealt.update(facts.get("dealt", {}))
            if "level" in facts:
                reports.append(dict(facts))
            elif "waiting" in facts:
                level, shard = facts["at"]
                suspension = Suspension(**{**facts["waiting"], "files": tuple(facts["waiting"]["files"])})
                waiting.setdefault(level, {})[shard] = suspension
            elif "later" in facts:
                later.append(HeldRows(**facts["later"]))
        stepped = {facts["level"] for facts in reports} | waiting.keys()
        if not stepped:
            raise InvariantError(
                f"expected a job that steps a segment, got none in tick {self.tick}; this is a defect of dbsp"
            )
        self._held = [rows for rows in self._held if rows.level not in stepped] + later
        self._waiting = waiting
        self._jobs.update(stepped)
        for level in waiting:
            self._stages[level] = min(2 * self._stages.get(level, LEAST_ROUNDS), MOST_ROUNDS)
        for facts in reports:
            if "rounds" in facts:
                facts["jobs"] = self._jobs[facts["level"]]
        self.reports += reports
        self._check_votes()

    def _check_votes(self) -> None:
        votes: dict[int, set[str]] = {}
        for facts in self.reports:
            if "digest" in facts:
                votes.setdefault(facts["level"], set()).add(facts["digest"])
        ended = any(len(digests) > 1 for digests in votes.values())
        if ended or any(len(shards) != self._query.shards for shards in self._waiting.values()):
            raise RoundsDifferError(
                f"the shards have seen different votes in tick {self.tick}, because one of them has computed "
                "a round again; the tick is rolled back and can be repeated"
            )
