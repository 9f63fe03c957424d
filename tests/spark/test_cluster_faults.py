"""Runs on shards lose and double nothing when attempts and files fail. Needs no JVM."""

from __future__ import annotations

import io
import random
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dbsp import CheckpointError
from dbsp.circuit.graph import Graph
from dbsp.operators.ports.spark_source import SparkSource
from dbsp.spark.cluster.cluster_run import ClusterRun
from dbsp.spark.cluster.deal_tasks import DealtFrame
from dbsp.spark.cluster.part_sink import PartSink
from dbsp.spark.cluster.segment_state import forget_runs
from dbsp.spark.cluster.shared_folder import SharedFolder
from dbsp.spark.spark_types import arrow_types, struct_of
from tests.harness import deltas_of
from tests.spark.fake_session import Attempts, FakeSession, fake_tasks
from tests.spark.faulty_files import Faults, FaultyFolder
from tests.spark.test_cluster_run import Changes, Compared, changes_of, delayed, shop

PLACES = ["local", "memory"]
Deltas = dict[str, dict[tuple[Any, ...], int]]


@pytest.fixture(autouse=True)
def _tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tasks(monkeypatch)


class Life(Compared):
    """A run on shards with tasks of this process, beside a run of one process."""

    def __init__(
        self, graph: Graph, shards: int, place: str, folder: Path, image_from: int = 3000, draw: Any = None
    ) -> None:
        self.faults = Faults()
        self.location = str(folder) if place == "local" else f"memory://{uuid.uuid4().hex}"
        self.session = FakeSession(Attempts(draw))
        super().__init__(self.session, graph, shards, folder, image_from)
        self.expected: list[Deltas] = []

    def started(self) -> ClusterRun:
        self.sinks = [
            PartSink(sink.name, sink.operator, sink.types, self.part(f"out/{sink.name}"))
            for sink in self.sinks
        ]
        state = self.part("state")
        return ClusterRun(
            self.session, self.graph, self.shards, state, self.sinks, image_from=self.image_from
        )

    def part(self, name: str) -> SharedFolder:
        return FaultyFolder(f"{self.location}/{name}", self.faults)

    def frame(self, name: str, rows: Mapping[tuple[Any, ...], int]) -> DealtFrame:
        schema = self.one.inputs[name]
        source = SparkSource(name, schema, self.one.input_ports[name].kind, encoding="weight")
        types = dict(arrow_types(struct_of(schema, None).add("weight", "long")))
        columns = zip(*((*row, weight) for row, weight in rows.items()), strict=True)
        table = pa.table(
            {
                name: pa.array(list(cells), type_)
                for (name, type_), cells in zip(types.items(), columns, strict=True)
            }
        )
        half = table.num_rows // 2
        return DealtFrame(source, self.session.frame(table.slice(0, half), table.slice(half)))

    def expect(self, changes: Changes) -> None:
        self.expected.append(deltas_of(self.one.step(changes)))

    def apply(self, changes: Changes) -> None:
        self.many.step([self.frame(name, rows) for name, rows in changes.items()])

    def check(self) -> None:
        """Compare the rows that readers see in every tick."""
        assert self.many.tick == len(self.expected)
        found: list[Deltas] = [{} for _ in self.expected]
        for sink in self.sinks:
            folder = SharedFolder(sink.folder.location)
            for name in folder.names(""):
                if name == "_dbsp":
                    continue
                for file in folder.names(name):
                    content = folder.read(f"{name}/{file}")
                    assert content is not None
                    delta = found[int(name.removeprefix("tick=")) - 1].setdefault(sink.name, {})
                    for row in pq.ParquetFile(io.BytesIO(content)).read().to_pylist():
                        weight = row.pop("weight")
                        delta[tuple(row.values())] = delta.get(tuple(row.values()), 0) + weight
        assert found == self.expected


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("seed", [1, 2])
def test_attempts_that_are_lost_repeated_or_run_twice(place: str, seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    life = Life(shop().circuit("physical"), 3, place, tmp_path, 1500, draw)
    for tick in range(12):
        changes = changes_of(draw, tick)
        life.expect(changes)
        life.apply(changes)
        if draw.random() < 0.2:
            life.many = life.started()
    life.check()
    attempts = life.session.attempts
    assert attempts.lost and attempts.doubled and attempts.forgotten
    assert any(version.image for version in life.many.commit.versions.values())


def test_attempts_of_a_circuit_that_holds_rows_for_the_next_tick(tmp_path: Path) -> None:
    draw = random.Random(5)
    life = Life(delayed().circuit("physical"), 2, "local", tmp_path, 800, draw)
    for _ in range(15):
        rows = {(draw.randrange(4), draw.randrange(40)): draw.choice([1, 1, -1]) for _ in range(3)}
        changes = {"rows": rows} if draw.random() < 0.7 else {}
        life.expect(changes)
        life.apply(changes)
    life.check()
    held = {f"held/{path.name}" for path in (tmp_path / "state/held").iterdir()}
    assert {rows.file for rows in life.many.commit.held} <= held


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_a_file_system_that_fails_at_every_call(place: str, after: bool, tmp_path: Path) -> None:
    """Each tick fails at the next call, and is repeated by the same run or by the next process."""
    draw = random.Random(11)
    life = Life(shop().circuit("physical"), 2, place, tmp_path, 1500)
    failures, counted = 0, 0
    for call in range(1, 36):
        changes = changes_of(draw, call)
        life.expect(changes)
        before = life.many.tick
        life.faults.arm(call, after)
        try:
            life.apply(changes)
        except (CheckpointError, OSError) as error:
            assert f"call {call}" in str(error)
            failures += 1
            life.faults.disarm()
            if draw.random() < 0.5:
                forget_runs()
                life.many = life.started()
            if life.many.tick == before:
                life.apply(changes)
            else:
                counted += 1
        life.faults.disarm()
        assert life.many.tick == before + 1
    life.apply({})
    life.expect({})
    life.check()
    assert failures > 15 and counted > 0


def test_a_start_that_fails_at_every_call(tmp_path: Path) -> None:
    draw = random.Random(3)
    life, failed = Life(shop().circuit("physical"), 2, "local", tmp_path), 0
    for call in range(1, 16):
        changes = changes_of(draw, call)
        life.expect(changes)
        life.apply(changes)
        life.faults.arm(call, call % 2 == 0)
        try:
            life.many = life.started()
        except CheckpointError as error:
            assert error.code == "checkpoint-write"
            failed += 1
            life.faults.disarm()
            life.many = life.started()
        life.faults.disarm()
    assert failed > 4
    life.check()


def test_a_slow_file_system(tmp_path: Path) -> None:
    draw = random.Random(4)
    life = Life(shop().circuit("physical"), 2, "memory", tmp_path)
    life.faults.seconds = 0.005
    for tick in range(3):
        changes = changes_of(draw, tick)
        life.expect(changes)
        life.apply(changes)
    life.check()


def test_an_attempt_that_ends_after_its_tick_was_published(tmp_path: Path) -> None:
    """A late attempt writes its part while, and after, the driver publishes: no reader sees it."""
    draw = random.Random(6)
    life = Life(shop().circuit("physical"), 2, "local", tmp_path)
    out = tmp_path / "out" / "totals"
    for tick in range(1, 5):
        changes = changes_of(draw, 0)
        life.expect(changes)
        rename = SharedFolder.rename

        def late(self: SharedFolder, name: str, to: str, tick: int = tick, rename: Any = rename) -> None:
            if to == f"tick={tick}":
                self.write(f"_dbsp/tick={tick}/0-late.parquet", b"of another attempt")
            rename(self, name, to)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SharedFolder, "rename", late)
            life.apply(changes)
        SharedFolder(str(out)).write(f"_dbsp/tick={tick}/0-later.parquet", b"of another attempt")
        if tick % 2:
            life.many = life.started()
        life.check()
    assert not list(out.glob("tick=*/*late*"))
    assert len(list((out / "_dbsp").glob("tick=*"))) <= 1


def test_parts_that_could_not_be_published_appear_before_the_next_tick(tmp_path: Path) -> None:
    draw = random.Random(8)
    life = Life(shop().circuit("physical"), 2, "local", tmp_path)
    changes = changes_of(draw, 0)
    life.expect(changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PartSink, "publish", _fail)
        with pytest.raises(CheckpointError, match="no space"):
            life.apply(changes)
    assert life.many.tick == 1
    life.expect({})
    life.apply({})
    life.check()


def _fail(*_: Any) -> None:
    raise CheckpointError("no space", code="checkpoint-write")


def test_a_run_that_was_taken_for_dead_cannot_commit(tmp_path: Path) -> None:
    draw = random.Random(9)
    life = Life(shop().circuit("physical"), 2, "local", tmp_path)
    first = changes_of(draw, 0)
    life.expect(first)
    life.apply(first)
    earlier, life.many = life.many, life.started()
    second = changes_of(draw, 1)
    frames = [life.frame(name, rows) for name, rows in second.items()]
    with pytest.raises(CheckpointError, match=r"another run has opened the state in .*; stop one") as error:
        earlier.step(frames)
    assert error.value.code == "checkpoint-in-use"
    life.expect(second)
    life.apply(second)
    life.check()


def test_a_commit_whose_outcome_is_unknown_ends_the_run(tmp_path: Path) -> None:
    life = Life(shop().circuit("physical"), 2, "local", tmp_path)
    changes = changes_of(random.Random(1), 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dbsp.spark.cluster.commits.Commits.publish", _fail)
        patch.setattr("dbsp.spark.cluster.commits.Commits.latest", _fail)
        with pytest.raises(CheckpointError, match="no space"):
            life.apply(changes)
    with pytest.raises(CheckpointError, match="does not know whether tick 1 was committed") as error:
        life.apply(changes)
    assert error.value.code == "run-closed"
    life.many = life.started()
    life.expect(changes)
    life.apply(changes)
    life.check()


def test_several_queries_in_one_worker_process(tmp_path: Path) -> None:
    draw = random.Random(10)
    lives = [
        Life(shop().circuit("physical"), 1 + number % 3, "local", tmp_path / str(number))
        for number in range(6)
    ]
    for tick in range(4):
        for life in lives:
            changes = changes_of(draw, tick)
            life.expect(changes)
            life.apply(changes)
    for life in lives:
        life.check()


def test_files_of_attempts_that_do_not_count_are_removed(tmp_path: Path) -> None:
    draw = random.Random(12)
    life = Life(shop().circuit("physical"), 2, "local", tmp_path, 1500, draw)
    for tick in range(8):
        changes = changes_of(draw, tick)
        life.expect(changes)
        life.apply(changes)
    assert life.session.attempts.lost + life.session.attempts.doubled
    life.session.attempts.draw = None
    life.many = life.started()
    life.expect({})
    life.apply({})
    versions = life.many.commit.versions
    named = {name for version in versions.values() for name in (version.image, *version.journal)}
    found = {f"state/{path.parent.name}/{path.name}" for path in (tmp_path / "state/state").glob("*/*")}
    assert found == {name for name in named if isinstance(name, str)}
    assert len(list((tmp_path / "state/commits").iterdir())) == 2
    life.check()
