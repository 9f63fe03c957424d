"""A distributed circuit that Spark runs: one tick is one job, whose stages are the segments.

    sources --deal--> shuffle --segment 0--> shuffle --segment 1--> ... --> reports to the driver

A segment that waits has a stage for each round, and may need more jobs
(`dbsp.spark.cluster.tick_jobs`).

The rows of sources, of exchanges and of outputs never pass the driver. The driver gets one report
per segment and shard, and publishes the *commit* of the tick: the attempts that count. So a tick is
all or nothing: what attempts have written counts when the commit names it, and never before.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa

from dbsp.circuit.graph import Graph
from dbsp.data.schema import Schema
from dbsp.durable.step_memory import signature
from dbsp.errors import CheckpointError, CircuitError, cause_text
from dbsp.operators.stages.segments import segments_of
from dbsp.runtime.run import Run
from dbsp.shards.dealing import Dealer, DistributedPorts
from dbsp.shards.row_messages import written_rows
from dbsp.shards.segment_link import RoundsDifferError
from dbsp.spark.cluster.cluster_query import ClusterQuery, versions
from dbsp.spark.cluster.commits import ClusterCommit, Commits, open_state
from dbsp.spark.cluster.deal_tasks import DealtFrame, DealtUnion, dealt_rows
from dbsp.spark.cluster.messages import COLUMNS, START, Message, facts_in, messages_in
from dbsp.spark.cluster.part_sink import PartSink, tick_folder
from dbsp.spark.cluster.segment_names import segment_name
from dbsp.spark.cluster.segment_state import HeldRows, Version
from dbsp.spark.cluster.shared_folder import SharedFolder
from dbsp.spark.cluster.suspended_ticks import ROUNDS
from dbsp.spark.cluster.tick_jobs import TickJobs
from dbsp.spark.cluster.view_tasks import ViewTask

IMAGE_FROM = 16 << 20
_REPETITIONS = 3
"""How often a tick is computed before its error counts, if its shards decide differently."""
_SHOWN = ("shard", "sent_bytes", "received_bytes", "state_rows", "state_bytes", "opening_seconds", "seconds")
_WAITED = ("rounds", "jobs")


class ClusterRun:
    """The run of a distributed circuit on the executors of a session."""

    def __init__(
        self,
        session: Any,
        graph: Graph,
        shards: int,
        folder: SharedFolder,
        sinks: Sequence[PartSink] = (),
        *,
        query: str | None = None,
        image_from: int = IMAGE_FROM,
        memory_limit: int | None = None,
    ) -> None:
        """Continue from the state in the folder, which the driver and all executors share.

        `memory_limit` are the bytes of memory for the state of all shards; each segment of each
        shard has an equal part.

        Raises CircuitError if the circuit cannot run in segments, CheckpointError if the folder has
        another query or number of shards.
        """
        self._session = session
        self.graph = graph
        self.shards = shards
        self.segments = segments_of(graph)
        self._ports = DistributedPorts.of(graph, lambda port: port.view())
        self._levels = {name: segment.level for segment in self.segments for name in segment.inputs}
        self._waits = any(segment.waits for segment in self.segments)
        self._sinks = list(sinks)
        shipped = _pickled(graph)
        id_ = open_state(folder, signature(graph) if query is None else query, graph.name, shards)
        part = None if memory_limit is None else max(1, memory_limit // (shards * len(self.segments)))
        self._query = ClusterQuery(id_, shipped, shards, folder, image_from, versions(), part)
        self._commits = Commits(folder, id_)
        self.commit = self._commits.latest()
        """The latest tick that counts."""
        self._known = True
        """Whether `commit` is certain to be the latest tick that counts."""
        self._parts_published = self._cleaned = False
        self.reports: list[dict[str, Any]] = []
        """What the tasks of the latest tick have reported, by segment and shard."""
        self.dealt: Counter[str] = Counter()
        """By source the rows of the latest tick."""
        self._rounds: dict[int, int] = {}
        """By level the rounds of the latest tick, of the segments that wait."""
        self._publish_parts()

    @property
    def query(self) -> ClusterQuery:
        """What every task of the query knows."""
        return self._query

    @property
    def outputs(self) -> dict[str, Schema]:
        """The columns of the outputs."""
        return {name: port.columns for name, port in self._ports.outputs.items()}

    def segment_facts(self) -> list[dict[str, Any]]:
        """Return what each segment of each shard did in the latest tick."""
        found = []
        for facts in sorted(self.reports, key=lambda each: (each["level"], each["shard"])):
            shown = {"segment": segment_name(self.segments, facts["level"])}
            shown |= {name: facts[name] for name in (*_SHOWN, *_WAITED) if name in facts}
            found.append({**shown, "rows_out": sum(facts["rows_out"].values())})
        return found

    @property
    def tick(self) -> int:
        """The number of committed ticks."""
        return self.commit.tick

    def add_sinks(self, sinks: Sequence[PartSink]) -> None:
        """Let the next ticks write these sinks too; complete their parts of the latest tick."""
        self._sinks += sinks
        self._publish_parts()

    def step(
        self,
        frames: Sequence[DealtFrame | DealtUnion],
        *,
        facts: Mapping[str, Any] | None = None,
        label: Any = None,
    ) -> list[dict[str, Any]]:
        """Apply the rows of the frames, and changes that the driver has, as one tick.

        Returns the reports of the tasks. When it raises, the tick counts if `commit` says so; then
        its parts become visible before the next tick, or at the next start.
        """
        if not self._known:
            raise CheckpointError(
                f"the run does not know whether tick {self.commit.tick + 1} was committed, because "
                f"{self._query.folder.location} could not be read; open the state again",
                code="run-closed",
            )
        if not self._parts_published:
            self._publish_parts()
        for repetition in range(_REPETITIONS):
            try:
                jobs = self._computed(frames, facts)
                break
            except RoundsDifferError:
                if repetition == _REPETITIONS - 1:
                    raise
        self._commit(jobs.tick, label, jobs.reports)
        self.reports, self.dealt = jobs.reports, jobs.dealt
        self._rounds.update(jobs.rounds())
        return jobs.reports

    def _computed(
        self, frames: Sequence[DealtFrame | DealtUnion], facts: Mapping[str, Any] | None
    ) -> TickJobs:
        """Run the jobs of a tick, whose results do not count yet."""
        jobs = TickJobs(self._query, self.segments, self._sinks, self.commit, self._rounds)
        rows = self._dealt(frames, facts)
        while True:
            plan = self._plan(jobs, rows)
            jobs.take(facts_in(messages_in(plan.toArrow().to_batches())))
            if jobs.ended:
                return jobs
            rows = self._started()

    def write_views(self, sinks: Sequence[PartSink]) -> set[str]:
        """Write the views after the latest tick to sinks, as the parts of that tick.

        Returns the names of the sinks that have parts; a sink of deltas has none of an empty view.
        """
        by_level: dict[int, list[PartSink]] = {}
        for segment in self.segments:
            if chosen := [sink for sink in sinks if sink.operator.relation in segment.outputs]:
                by_level[segment.level] = chosen
        task = ViewTask(self._query, self.tick, self.commit.versions, by_level)
        rows = self._started().repartitionById(self.shards, "shard").mapInArrow(task, COLUMNS)
        reports = facts_in(messages_in(rows.toArrow().to_batches()))
        for sink in sinks:
            sink.folder.remove(tick_folder(self.tick))  # an ended process may have written it
            sink.publish(
                self.tick, [facts["parts"][sink.name] for facts in reports if sink.name in facts["parts"]]
            )
        return {name for facts in reports for name in facts["parts"]}

    def _plan(self, jobs: TickJobs, rows: Any) -> Any:
        """Return the DataFrame whose computation is a job, and whose rows are for the driver."""
        for task in jobs.stages():
            rows = rows.repartitionById(self.shards, "shard").mapInArrow(task, COLUMNS)
        return rows

    def _dealt(self, frames: Sequence[DealtFrame | DealtUnion], facts: Mapping[str, Any] | None) -> Any:
        """Return the DataFrame of the rows that a tick begins with."""
        dealt = [self._started(), *(dealt_rows(self._query, self._levels, frame) for frame in frames)]
        if facts:
            dealt.append(self._frame_of(self._messages(facts)))
        return reduce(lambda one, other: one.unionAll(other), dealt)

    # --- the rows of a tick -----------------------------------------------------------------------

    def _started(self) -> Any:
        """Return a frame with a row for each shard, so that every shard has a partition."""
        return self._session.range(0, self.shards, 1, 1).selectExpr(
            "cast(id AS int) AS shard", f"{START} AS level", "'' AS input", "binary('') AS content"
        )

    def _messages(self, facts: Mapping[str, Any]) -> Iterator[Message]:
        front = Run(self.graph)
        staged, _ = front.net(facts)
        dealer = Dealer(self._ports.inputs, self.shards, front.interner)
        for shard, parts in enumerate(dealer.deal(staged)):
            for name, batch in parts.items():
                for rows in written_rows(batch, front.inputs[name], front.interner):
                    yield Message(shard, self._levels[name], name, rows)

    def _frame_of(self, messages: Iterator[Message]) -> Any:
        table = pa.Table.from_batches([message.batch() for message in messages])
        return self._session.createDataFrame(table, COLUMNS)

    # --- the commit -------------------------------------------------------------------------------

    def _commit(self, tick: int, label: Any, reports: Sequence[Mapping[str, Any]]) -> None:
        found = {(facts["level"], facts["shard"]): _version(facts) for facts in reports}
        expected = [(segment.level, shard) for segment in self.segments for shard in range(self.shards)]
        got = sorted((facts["level"], facts["shard"]) for facts in reports)
        assert got == expected, f"expected a report of each of {expected}, got {got}"
        parts: dict[str, list[str]] = {sink.name: [] for sink in self._sinks}
        for facts in reports:
            for sink, file in facts["parts"].items():
                parts[sink].append(file)
        for sink in self._sinks:
            output = sink.operator.relation
            if sink.replaces and not any(facts["rows_out"].get(output) for facts in reports):
                parts[sink.name] = []  # the view is as before
        for sink in self._sinks:
            sink.check_written(tick, parts[sink.name])
        held = [HeldRows(**rows) for facts in reports for rows in facts["held"]]
        before = self.commit
        self._publish(ClusterCommit(tick, label, found, parts, held))
        self._publish_parts()
        with contextlib.suppress(CheckpointError):  # the next image removes the rest
            self._remove_unnamed(before)

    def _publish(self, commit: ClusterCommit) -> None:
        try:
            self._commits.publish(commit)
        except BaseException:
            self._known = False
            latest = self._commits.latest()
            self._known = True
            if (latest.tick, latest.versions) != (commit.tick, commit.versions):
                raise
            # It was published all the same.
        self.commit, self._parts_published = commit, False

    def _publish_parts(self) -> None:
        """Make the parts of the latest tick visible, also those of an ended process."""
        self._parts_published = False
        for sink in self._sinks:
            sink.publish(self.commit.tick, self.commit.parts.get(sink.name, ()))
        self._parts_published = True

    def _remove_unnamed(self, before: ClusterCommit) -> None:
        """Remove the files that the latest commit does not need, and in the first tick of a run all
        that attempts of earlier processes have left.
        """
        folder = self._query.folder
        if self._cleaned:
            for rows in before.held:
                folder.remove(rows.file)
        else:
            held = {rows.file for rows in self.commit.held}
            for name in folder.names("held"):
                if f"held/{name}" not in held:
                    folder.remove(f"held/{name}")
        if self._waits or not self._cleaned:
            for name in folder.names(ROUNDS):
                if int(name) <= self.commit.tick:
                    folder.remove(f"{ROUNDS}/{name}")
        for (level, shard), version in self.commit.versions.items():
            if self._cleaned and version.image == before.version(level, shard).image:
                continue
            place = f"state/{level}-{shard}"
            kept = {version.image, *version.journal}
            for name in folder.names(place):
                if f"{place}/{name}" not in kept:
                    folder.remove(f"{place}/{name}")
        self._cleaned = True


def _version(facts: Mapping[str, Any]) -> Version:
    known = facts["version"]
    return Version(**{**known, "journal": tuple(known["journal"])})


def _pickled(graph: Graph) -> bytes:
    from pyspark import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(graph)
    except Exception as error:  # whatever the objects of the user raise
        raise CircuitError(
            f"a function or value of the circuit cannot be sent to executors ({cause_text(error)}); define "
            "it at the top level of a module that the executors can import",
            code="not-picklable",
        ) from None
    return data
