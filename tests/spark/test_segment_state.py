"""The versions of segments: journals, images, and the runs that a process keeps. Needs no JVM."""

from __future__ import annotations

import gc
import random
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbsp import CheckpointError, Circuit, col
from dbsp.operators.stages.segments import Segment, segments_of
from dbsp.runtime.run import Run
from dbsp.shards.row_messages import written_rows
from dbsp.shards.segment_run import SegmentRun
from dbsp.spark.cluster import segment_state, spared_imports
from dbsp.spark.cluster.segment_state import (
    Place,
    Version,
    forget_runs,
    keep,
    next_version,
    opened,
    read_journal,
)
from dbsp.spark.cluster.shared_folder import SharedFolder
from dbsp.spark.cluster.spared_imports import spare_imports

PLACE = Place("query", 0, 0, 1)


@pytest.fixture(params=["local", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SharedFolder]:
    forget_runs()
    yield SharedFolder(str(tmp_path) if request.param == "local" else f"memory://{uuid.uuid4().hex}")
    forget_runs()


def segment() -> Segment:
    circuit = Circuit("totals")
    rows = circuit.input("rows", k=int, n=int)
    circuit.output("totals", rows.group_by("k").agg(n=col("n").sum()))
    (only,) = segments_of(circuit.circuit("distributed"))
    return only


class Shard:
    """A segment of one shard, tick after tick, as tasks run it."""

    def __init__(self, folder: SharedFolder, image_from: int = 1 << 24) -> None:
        self.folder = folder
        self.image_from = image_from
        self.segment = segment()
        self.memory_limit: int | None = None
        self.version = Version()
        self.expected = Run(self.segment.graph)
        self._front = Run(self.segment.graph)

    def messages(self, rows: dict[tuple[int, int], int]) -> dict[str, list[bytes]]:
        staged, _ = self._front.net({"rows": rows})
        schema = self._front.inputs["rows"]
        return {name: list(written_rows(b, schema, self._front.interner)) for name, b in staged.items()}

    def attempt(self, rows: dict[tuple[int, int], int]) -> tuple[Version, Any]:
        """Run an attempt of the next tick; its version does not count yet."""
        received = self.messages(rows)
        run = opened(PLACE, self.segment, self.version, self.folder, self.memory_limit)
        _, result = run.step(received)
        name = uuid.uuid4().hex
        version = next_version(PLACE, self.version, name, received, run, self.folder, self.image_from)
        keep(PLACE, version, self.segment, run)
        return version, result["totals"].to_dict()

    def tick(self, rows: dict[tuple[int, int], int]) -> None:
        expected = self.expected.step({"rows": rows})["totals"].to_dict()
        self.version, found = self.attempt(rows)
        assert found == expected

    def view(self) -> dict[Any, int]:
        run = opened(PLACE, self.segment, self.version, self.folder, self.memory_limit)
        return run.run.view("totals").to_dict()

    def check(self) -> None:
        """Compare the view of the files."""
        forget_runs()
        assert self.view() == self.expected.view("totals").to_dict()


def rows_of(draw: random.Random) -> dict[tuple[int, int], int]:
    return {(draw.randrange(5), draw.randrange(9)): draw.choice([1, 1, 2]) for _ in range(draw.randrange(4))}


@pytest.mark.parametrize("image_from", [0, 300, 2000, 1 << 24])
def test_an_image_and_a_journal_are_the_state(folder: SharedFolder, image_from: int) -> None:
    draw, shard = random.Random(image_from), Shard(folder, image_from)
    for _ in range(25):
        shard.tick(rows_of(draw))
        if draw.random() < 0.3:
            shard.check()
    shard.check()
    assert bool(shard.version.image) == (image_from < 1 << 24)


def test_a_kept_run_is_used_only_for_its_own_version(folder: SharedFolder) -> None:
    shard = Shard(folder)
    shard.tick({(1, 5): 1})
    first = opened(PLACE, shard.segment, shard.version, folder)
    keep(PLACE, shard.version, shard.segment, first)
    assert opened(PLACE, shard.segment, shard.version, folder) is first
    assert opened(PLACE, shard.segment, shard.version, folder) is not first  # it was taken
    keep(PLACE, replace(shard.version, journal=("another attempt",)), shard.segment, first)
    assert opened(PLACE, shard.segment, shard.version, folder) is not first
    keep(PLACE, shard.version, shard.segment, first)
    other = replace(shard.segment)
    assert opened(PLACE, other, shard.version, folder) is not first  # functions of another start


def test_an_attempt_that_does_not_count_leaves_nothing(folder: SharedFolder) -> None:
    """A worker that has run a newer attempt starts again from the version that counts."""
    draw, shard = random.Random(2), Shard(folder, 500)
    for _ in range(20):
        if draw.random() < 0.5:
            shard.attempt(rows_of(draw))
        shard.tick(rows_of(draw))
    shard.check()


def test_a_worker_with_an_older_version(folder: SharedFolder) -> None:
    draw, shard = random.Random(3), Shard(folder, 500)
    shard.tick({(1, 1): 1})
    stale, version = opened(PLACE, shard.segment, shard.version, folder), shard.version
    for _ in range(5):
        shard.tick(rows_of(draw))
    forget_runs()
    keep(PLACE, version, shard.segment, stale)
    shard.tick({(1, 2): 1})
    shard.check()


def test_a_repeated_attempt_returns_the_same(folder: SharedFolder) -> None:
    shard = Shard(folder)
    shard.tick({(1, 1): 1, (2, 2): 1})
    results = [shard.attempt({(1, 3): 1, (2, 2): -1})[1] for _ in range(3)]
    assert results[0] == results[1] == results[2] == {(1, 1): -1, (1, 4): 1, (2, 2): -1}


def test_images_cost_at_most_as_much_as_journals(folder: SharedFolder, monkeypatch: Any) -> None:
    images: list[int] = []
    write = segment_state._written_image

    def counted(*arguments: Any) -> int:
        images.append(write(*arguments))
        return images[-1]

    monkeypatch.setattr(segment_state, "_written_image", counted)
    shard, journal = Shard(folder, 1000), 0
    for tick in range(60):
        rows = {(tick * 40 + number, 1): 1 for number in range(40)}
        journal += sum(map(len, shard.messages(rows).get("rows", ())))
        shard.tick(rows)
    assert 2 <= len(images) <= 20
    assert sum(images[:-1]) <= 2 * journal
    shard.check()


def test_ticks_without_messages_do_not_lengthen_a_version(folder: SharedFolder) -> None:
    shard = Shard(folder)
    for _ in range(3):
        for _ in range(100):
            shard.tick({})
        shard.tick({(1, 1): 1})
    assert [entry for entry in shard.version.journal if isinstance(entry, int)] == [100] * 3
    assert len(shard.version.journal) == 6
    shard.check()


def test_many_small_ticks_do_not_make_a_long_journal(folder: SharedFolder) -> None:
    shard, longest = Shard(folder), 0
    for tick in range(80):
        shard.tick({(tick % 7, 1): 1})
        longest = max(longest, len(shard.version.journal))
    assert longest <= 33
    shard.check()


def test_a_process_drops_what_no_task_can_use(folder: SharedFolder, monkeypatch: Any) -> None:
    part = segment()
    runs = {shard: SegmentRun(part.graph, shard, 4) for shard in range(4)}
    places = {shard: Place("query", 0, shard, 4) for shard in range(4)}
    other = Place("other", 0, 0, 1)
    keep(other, Version(), part, SegmentRun(part.graph, 0, 1))
    for shard, ticks in {0: 1, 1: 3, 2: 4, 3: 20}.items():
        for _ in range(ticks):
            runs[shard].step({})
        keep(places[shard], Version(), part, runs[shard])
    assert set(segment_state._KEPT) == {other, places[2], places[3]}
    now = segment_state.time.monotonic()
    monkeypatch.setattr(segment_state.time, "monotonic", lambda: now + 700)
    keep(places[3], Version(), part, runs[3])
    assert set(segment_state._KEPT) == {places[3]}


def test_damaged_journals(tmp_path: Path) -> None:
    shard = Shard(SharedFolder(str(tmp_path)))
    shard.tick({(1, 1): 1})
    shard.tick({(2, 1): 1})
    first, second = map(str, shard.version.journal)
    path = tmp_path / first
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[-3] ^= 1
    for damaged in (b"", content[:-1], content + b"x", bytes(flipped), (tmp_path / second).read_bytes()):
        path.write_bytes(damaged)
        forget_runs()
        with pytest.raises(CheckpointError, match=f"cannot read .*{path.name}") as error:
            shard.view()
        assert error.value.code == "checkpoint-unreadable"
    path.unlink()
    with pytest.raises(CheckpointError, match="the file is missing"):
        read_journal(shard.folder, PLACE, first)
    path.write_bytes(content)
    shard.check()


def test_a_missing_or_damaged_image(tmp_path: Path) -> None:
    shard = Shard(SharedFolder(str(tmp_path)), 0)
    shard.tick({(1, 1): 1})
    assert shard.version.image is not None
    (tmp_path / shard.version.image).rename(tmp_path / "elsewhere")
    forget_runs()
    with pytest.raises(CheckpointError, match=r"cannot read .*\.image") as error:
        shard.view()
    assert error.value.code == "checkpoint-unreadable"


def test_a_stale_process_reads_only_the_ticks_that_it_has_missed(
    folder: SharedFolder, monkeypatch: Any
) -> None:
    shard, reads = Shard(folder), []

    def noted(folder: SharedFolder, place: Place, file: str) -> Any:
        reads.append(file)
        return read_journal(folder, place, file)

    monkeypatch.setattr(segment_state, "read_journal", noted)
    for first, later in (({(1, 1): 1}, {}), ({}, {}), ({}, {(3, 1): 1})):
        shard.tick(first)
        stale, version = opened(PLACE, shard.segment, shard.version, folder), shard.version
        forget_runs()
        for rows in (later, {(2, 2): 1}, {}):
            shard.tick(rows)
        keep(PLACE, version, shard.segment, stale)
        reads.clear()
        assert shard.view() == shard.expected.view("totals").to_dict()
        missed = [entry for entry in shard.version.journal if entry not in version.journal]
        assert reads == [entry for entry in missed if isinstance(entry, str)]
        forget_runs()


def test_a_new_image_replaces_what_is_kept(folder: SharedFolder) -> None:
    shard = Shard(folder)
    shard.tick({(1, 1): 1})
    mine, version = opened(PLACE, shard.segment, shard.version, folder), shard.version
    shard.image_from = 0
    shard.tick({(2, 1): 1})
    assert shard.version.image is not None
    forget_runs()
    keep(PLACE, version, shard.segment, mine)
    assert opened(PLACE, shard.segment, shard.version, folder) is not mine


def test_imports_are_frozen_without_the_runs_that_are_kept(tmp_path: Path, monkeypatch: Any) -> None:
    shard = Shard(SharedFolder(str(tmp_path)))
    shard.tick({(1, 1): 1})

    def keep_again() -> SegmentRun:
        run = opened(PLACE, shard.segment, shard.version, shard.folder)
        keep(PLACE, shard.version, shard.segment, run)
        return run

    monkeypatch.setattr(spared_imports, "_spared", None)
    monkeypatch.delitem(sys.modules, "dbsp.kernels.code_loader", raising=False)
    others = gc.get_freeze_count()
    spare_imports(forget_runs)
    frozen = gc.get_freeze_count()
    assert frozen > max(others, 10_000)
    run = keep_again()
    spare_imports(forget_runs)  # nothing is new
    assert keep_again() is run
    monkeypatch.setitem(sys.modules, "dbsp.kernels.code_loader", sys)  # as after the load of compiled kernels
    more: list[list[int]] = [[] for _ in range(1_000)]
    spare_imports(forget_runs)
    assert gc.get_freeze_count() >= frozen + len(more)
    assert keep_again() is not run


def test_state_beyond_the_memory_limit_is_in_files(folder: SharedFolder) -> None:
    draw, shard = random.Random(7), Shard(folder, 3000)
    shard.memory_limit = 4096
    for tick in range(20):
        shard.tick({(tick * 40 + number, draw.randrange(9)): 1 for number in range(40)})
        if tick % 6 == 5:
            shard.check()
    run = opened(PLACE, shard.segment, shard.version, folder, 4096)
    sizes = [(part.file is not None, part.nbytes) for trace in run.run.scope.traces for part in trace.runs]
    assert any(filed for filed, _ in sizes)
    assert sum(size for filed, size in sizes if not filed) < 4096 < sum(size for _, size in sizes)
    assert shard.version.image is not None and shard.version.journal
    keep(PLACE, shard.version, shard.segment, run)
    assert opened(PLACE, shard.segment, shard.version, folder, 8192) is not run
