"""Shards that step a circuit segment by segment, without links between them.

Each segment of each shard has a run, an image of its state, and a journal of the messages that the
ticks since then have received. `forget` drops a run; the next tick makes it again from the image
and the journal, as another process would. Runs that wait in a round are lost at random, too: the
messages and the answers of the rounds so far make them again.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from dbsp import Run
from dbsp.circuit.graph import Graph
from dbsp.data.batch import Batch
from dbsp.data.value_hashes import ValueHashes
from dbsp.errors import expect_present
from dbsp.operators.ports.input import DealtInput
from dbsp.operators.stages.passes.distribute import distribute
from dbsp.operators.stages.segments import Segment, segments_of
from dbsp.runtime.tick_result import TickResult
from dbsp.shards.row_messages import written_rows
from dbsp.shards.segment_run import SegmentRun, SegmentStep
from tests.reference import Z, add
from tests.shards.compared_shards import Change, ComparedShards

Messages = dict[str, list[bytes]]
"""By input of a segment."""


class SegmentShards:
    """A run of a distributed circuit, segment by segment, on a number of shards."""

    whole = False
    """Whether equal rows of an output are on one shard."""

    def __init__(self, graph: Graph, shards: int, arrival: random.Random) -> None:
        self._front = Run(graph)
        self._arrival = arrival
        self.shards = shards
        self.segments = segments_of(graph)
        self._dealt = {
            node.operator.relation: node.operator.dealt
            for node in graph.nodes
            if isinstance(node.operator, DealtInput)
        }
        places = [(segment.level, shard) for segment in self.segments for shard in range(shards)]
        self._journals: dict[tuple[int, int], list[Messages]] = {place: [] for place in places}
        self._runs: dict[tuple[int, int], SegmentRun] = {}
        self._images: dict[tuple[int, int], Path] = {}
        self._folder = TemporaryDirectory()
        self._held: dict[tuple[int, int], Messages] = {}
        """By segment and shard what the latest tick has sent for the next one."""
        self.absent: dict[str, int] = {}
        self.present: dict[str, int] = {}
        self.tick = 0
        self.lost = 0
        """The runs that were lost while they waited."""
        self.rounds = 0
        """The rounds of the latest tick."""

    def step(self, changes: Change | None = None) -> dict[str, Z]:
        """Apply the changes as one tick; return the deltas that are not empty."""
        staged, _ = self._front.net(changes or {})
        try:
            results, received, held = self._stepped(staged)
        except BaseException:
            for place, run in list(self._runs.items()):
                run.abandon()
                if run.tick > self.tick:  # its segment has ended
                    self.forget(place)
            raise
        self.tick += 1
        self._held = held
        for place, messages in received.items():
            self._journals[place].append(messages)
        self.absent, self.present = {}, {}
        for result in results:
            for total, counted in ((self.absent, result.absent), (self.present, result.present)):
                for name, count in counted.items():
                    if not name.startswith("#"):
                        total[name] = total.get(name, 0) + count
        names = {name for result in results for name in result}
        deltas = {}
        for name in names:
            parts = [r[name].to_dict() for r in results if name in r]
            deltas[name] = add(*parts)
            assert not self.whole or sum(map(len, parts)) == len(deltas[name]), parts
        return {name: delta for name, delta in deltas.items() if delta}

    def views(self) -> dict[str, Z]:
        found = {}
        for segment in self.segments:
            runs = [self._run(segment, shard).run for shard in range(self.shards)]
            for name in segment.outputs:
                found[name] = add(*(run.view(name).to_dict() for run in runs))
        return found

    def runs_of(self, output: str) -> list[SegmentRun]:
        """Return the runs by shard of the segment that has an output."""
        segment = next(segment for segment in self.segments if output in segment.outputs)
        return [self._run(segment, shard) for shard in range(self.shards)]

    def forget(self, place: tuple[int, int] | None = None) -> None:
        """Drop the run of one segment of one shard, or all."""
        for each in [place] if place is not None else list(self._runs):
            run = self._runs.pop(each, None)
            if run is not None:
                run.abandon()

    def _stepped(
        self, staged: Mapping[str, Batch]
    ) -> tuple[list[TickResult], dict[tuple[int, int], Messages], dict[tuple[int, int], Messages]]:
        """Return the results, and what the segments have received in the tick, and for the next."""
        received = {place: copy.deepcopy(self._held.get(place, {})) for place in self._journals}
        held: dict[tuple[int, int], Messages] = {place: {} for place in self._journals}
        for name, parts in self._deal(staged).items():
            level = next(segment.level for segment in self.segments if name in segment.inputs)
            for shard, message in parts:
                received[level, shard].setdefault(name, []).append(message)
        results = []
        self.rounds = 0
        for segment in self.segments:
            for shard in range(self.shards):
                for arrived in received[segment.level, shard].values():
                    self._arrival.shuffle(arrived)
            steps = self._waited(segment, received) if segment.waits else self._at_once(segment, received)
            results += [expect_present(step.result, "the result of a tick") for step in steps]
            for rows in (rows for step in steps for rows in step.sent):
                crossing = segment.sends[rows.exchange]
                for level in crossing.readers:
                    received[level, rows.shard].setdefault(crossing.name, []).append(rows.message)
                for level in crossing.next_readers:
                    held[level, rows.shard].setdefault(crossing.held_name, []).append(rows.message)
        return results, received, held

    def _at_once(self, segment: Segment, received: Mapping[tuple[int, int], Messages]) -> list[SegmentStep]:
        steps = []
        for shard in range(self.shards):
            steps.append(SegmentStep(*self._run(segment, shard).step(received[segment.level, shard])))
        return steps

    def _waited(self, segment: Segment, received: dict[tuple[int, int], Messages]) -> list[SegmentStep]:
        """Step a segment that waits, round by round; keep what its shards receive."""
        level, shards = segment.level, range(self.shards)
        steps = [self._run(segment, shard).begin(received[level, shard]) for shard in shards]
        history: list[list[Messages]] = [[] for _ in shards]
        while any(step.result is None for step in steps):
            assert all(step.result is None for step in steps), "the shards wait in different rounds"
            answers: list[Messages] = [{} for _ in shards]
            for rows in (rows for step in steps for rows in step.sent):
                answers[rows.shard].setdefault(rows.exchange, []).append(rows.message)
            self.rounds += 1
            for shard in shards:
                for arrived in answers[shard].values():
                    self._arrival.shuffle(arrived)
                if self._arrival.random() < 0.1:
                    self.lost += 1
                    self.forget((level, shard))
                    run = self._run(segment, shard)
                    steps[shard] = run.begin(received[level, shard], [*history[shard], answers[shard]])
                else:
                    steps[shard] = self._runs[level, shard].resume(answers[shard])
                history[shard].append(answers[shard])
        assert len({self._runs[level, shard].digest for shard in shards}) == 1
        for shard in shards:
            received[level, shard] = dict(self._runs[level, shard].received)  # type: ignore[arg-type]
        return steps

    def _deal(self, staged: Mapping[str, Batch]) -> dict[str, list[tuple[int, bytes]]]:
        interner = self._front.interner
        dealt: dict[str, list[tuple[int, bytes]]] = {}
        for name, batch in staged.items():
            schema = self._front.inputs[name]
            parts = ValueHashes(interner).split(batch, self._dealt[name], schema.types, self.shards)
            dealt[name] = [
                (shard, message)
                for shard, part in enumerate(parts)
                if part
                for message in written_rows(part, schema, interner)
            ]
        return dealt

    def _run(self, segment: Segment, shard: int) -> SegmentRun:
        place = segment.level, shard
        if place not in self._runs:
            made = SegmentRun(segment.graph, shard, self.shards, self._images.get(place))
            for messages in self._journals[place]:
                made.step(messages)
            self._runs[place] = made
        return self._runs[place]

    def forget_some(self, draw: random.Random) -> None:
        """Drop each run with some probability, and write an image of its state before with some."""
        for place, run in list(self._runs.items()):
            if draw.random() < 0.1:
                image = self._images[place] = Path(mkdtemp(dir=self._folder.name))
                run.write(image)
                self._journals[place].clear()
            if draw.random() < 0.2:
                self.forget(place)


class ComparedSegments(ComparedShards):
    """A run of a physical circuit, and its segments on shards, whose runs are lost at random."""

    def __init__(
        self,
        physical: Graph,
        shards: int,
        seed: int = 0,
        whole_outputs: bool = False,
        scopes: str = "gather",
    ) -> None:
        self.one = Run(physical)
        self._draw = random.Random(seed)
        self.graph = distribute(
            physical, scopes=scopes, inner_exchanges=False, checked=True, whole_outputs=whole_outputs
        )
        self.many: Any = SegmentShards(self.graph, shards, self._draw)
        self.many.whole = whole_outputs

    def tick(self, changes: Change) -> None:
        self.many.forget_some(self._draw)
        super().tick(changes)
