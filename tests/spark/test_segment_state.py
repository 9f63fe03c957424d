"""What a worker process keeps of a segment, and what it reads again."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dbsp import Circuit
from dbsp.operators.stages.segments import Segment, segments_of
from dbsp.runtime.run import Run
from dbsp.shards.segment_run import SegmentRun, written_rows
from dbsp.spark.cluster import segment_state, spared_imports
from dbsp.spark.cluster.segment_state import Place, Version, keep, next_version, opened
from dbsp.spark.cluster.shared_folder import SharedFolder
from dbsp.spark.cluster.spared_imports import spare_imports

PLACE = Place("query", 0, 0, 1)


@dataclass(frozen=True)
class Counting(SharedFolder):
    """A shared folder that notes the files that are read."""

    reads: list[str] = field(default_factory=list)

    def read(self, name: str) -> bytes | None:
        self.reads.append(name)
        return super().read(name)


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    segment_state.forget_query("query")
    yield
    segment_state.forget_query("query")


def copying() -> Segment:
    circuit = Circuit("copy")
    circuit.output("out", circuit.input("row", x=int).distinct())
    (segment,) = segments_of(circuit.circuit("distributed"))
    return segment


def message(segment: Segment, x: int) -> bytes:
    front = Run(segment.graph)
    staged, _ = front.net({"row": [(x,)]})
    return written_rows(staged["row"], front.inputs["row"], front.interner)


def ticked(
    segment: Segment, folder: SharedFolder, before: Version, name: str, x: int | None, image_from: int
) -> tuple[Version, SegmentRun]:
    """Make a tick that inserts a row, or one without rows, from a version."""
    run = opened(PLACE, segment, before, folder)
    received = {} if x is None else {"row": [message(segment, x)]}
    run.step(received)
    return next_version(PLACE, before, name, received, run, folder, image_from), run


def rows_of(run: SegmentRun) -> list[tuple[int]]:
    return run.run.view("out").rows()


def test_a_stale_process_reads_only_the_ticks_that_it_has_missed(tmp_path: Path) -> None:
    segment, folder = copying(), Counting(str(tmp_path))
    first, mine = ticked(segment, folder, Version(), "a", 1, 1 << 20)
    second, _ = ticked(segment, folder, first, "b", 2, 1 << 20)
    third, _ = ticked(segment, folder, second, "c", None, 1 << 20)
    fourth, _ = ticked(segment, folder, third, "d", 4, 1 << 20)
    folder.reads.clear()
    keep(PLACE, first, mine)
    run = opened(PLACE, segment, fourth, folder)
    assert run is mine
    assert folder.reads == ["state/0-0/b.journal", "state/0-0/d.journal"]
    assert rows_of(run) == [(1,), (2,), (4,)]
    assert run.run.tick == 4
    assert rows_of(opened(PLACE, segment, fourth, folder)) == [(1,), (2,), (4,)]


def test_an_attempt_that_does_not_count_is_not_continued(tmp_path: Path) -> None:
    segment, folder = copying(), Counting(str(tmp_path))
    first, _ = ticked(segment, folder, Version(), "a", 1, 1 << 20)
    lost, late = ticked(segment, folder, first, "lost", 2, 1 << 20)
    counted, _ = ticked(segment, folder, first, "b", 2, 1 << 20)
    keep(PLACE, lost, late)
    folder.reads.clear()
    run = opened(PLACE, segment, counted, folder)
    assert run is not late
    assert folder.reads == ["state/0-0/a.journal", "state/0-0/b.journal"]
    assert rows_of(run) == [(1,), (2,)]
    ahead, later = ticked(segment, folder, counted, "c", 3, 1 << 20)
    keep(PLACE, ahead, later)  # its tick has failed
    assert rows_of(opened(PLACE, segment, counted, folder)) == [(1,), (2,)]


def test_a_new_image_replaces_what_is_kept(tmp_path: Path) -> None:
    segment, folder = copying(), Counting(str(tmp_path))
    first, mine = ticked(segment, folder, Version(), "a", 1, 1 << 20)
    second, _ = ticked(segment, folder, first, "b", 2, 0)
    assert (second.journal, second.image) == ((), "state/0-0/b.image")
    third, _ = ticked(segment, folder, second, "c", 3, 1 << 20)
    keep(PLACE, first, mine)
    run = opened(PLACE, segment, third, folder)
    assert run is not mine
    assert rows_of(run) == [(1,), (2,), (3,)]


def test_many_small_ticks_make_a_short_journal(tmp_path: Path) -> None:
    segment, folder = copying(), Counting(str(tmp_path))
    version, most = Version(), 0
    for tick in range(40):
        version, run = ticked(segment, folder, version, str(tick), tick, 10 * segment_state._LEAST)
        keep(PLACE, version, run)
        most = max(most, len(version.journal))
    assert most == 10
    assert rows_of(run) == [(tick,) for tick in range(40)]


def test_imports_are_frozen_without_the_runs_that_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment, folder = copying(), SharedFolder(str(tmp_path))
    first, run = ticked(segment, folder, Version(), "a", 1, 1 << 20)
    monkeypatch.setattr(spared_imports, "_spared", None)
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    try:
        spare_imports(segment_state.forget_all)
        frozen = gc.get_freeze_count()
        assert frozen > 10_000
        keep(PLACE, first, run)
        spare_imports(segment_state.forget_all)  # nothing is new
        assert opened(PLACE, segment, first, folder) is run
        keep(PLACE, first, run)
        monkeypatch.setitem(sys.modules, "numba", sys)  # as after the load of compiled kernels
        more = [[] for _ in range(1_000)]
        spare_imports(segment_state.forget_all)
        assert gc.get_freeze_count() >= frozen + len(more)
        assert opened(PLACE, segment, first, folder) is not run
    finally:
        gc.unfreeze()
