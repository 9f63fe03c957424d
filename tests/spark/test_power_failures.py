"""With `sync`, a state on shards has every tick that was returned after a loss of power. No JVM."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbsp.spark.cluster import synced_files
from dbsp.spark.cluster.cluster_run import ClusterRun
from dbsp.spark.cluster.segment_state import forget_runs
from dbsp.spark.cluster.shared_folder import SharedFolder
from tests.spark.fake_session import fake_tasks
from tests.spark.lost_power import Disk
from tests.spark.test_cluster_faults import Life
from tests.spark.test_cluster_run import changes_of, delayed, shop


@pytest.fixture(autouse=True)
def _tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tasks(monkeypatch)
    monkeypatch.setattr(synced_files, "_DURABLE", set())


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    found = Disk(monkeypatch, tmp_path)
    yield found
    found.close()


class Synced(Life):
    """A run whose folders are synchronized, or not."""

    sync = True

    def part(self, name: str) -> SharedFolder:
        return SharedFolder(f"{self.location}/{name}", sync=self.sync)

    def lose_power(self, disk: Disk, before: Path, after: Path) -> ClusterRun:
        """Continue on what the disk has afterwards."""
        disk.lose_power(before, after)
        forget_runs()
        self.location = str(after / "deep" / "life")
        return self.started()


@pytest.mark.parametrize("image_from", [500, 1 << 20])
@pytest.mark.parametrize("circuit", [shop, delayed])
def test_ticks_survive_a_loss_of_power(circuit: object, image_from: int, tmp_path: Path, disk: Disk) -> None:
    assert callable(circuit)
    draw, place = random.Random(image_from), tmp_path / "0"
    place.mkdir()
    life = Synced(circuit().circuit("physical"), 2, "local", place / "deep" / "life", image_from)
    for tick in range(1, 13):
        if circuit is shop:
            changes = changes_of(draw, tick)
        else:
            changes = {"rows": {(draw.randrange(4), draw.randrange(40)): 1}}
        life.expect(changes)
        life.apply(changes)
        if tick % 4 == 0 or tick == 1:
            life.many = life.lose_power(disk, place, tmp_path / str(tick))
            place = tmp_path / str(tick)
            life.check()
    assert bool([v for v in life.many.commit.versions.values() if v.image]) == (image_from == 500)


def test_without_sync_nothing_waits_for_the_disk(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "0"
    place.mkdir()
    monkeypatch.setattr(Synced, "sync", False)
    life = Synced(shop().circuit("physical"), 2, "local", place / "deep" / "life", 500)
    for tick in range(4):
        life.apply(changes_of(random.Random(tick), tick))
    assert disk.calls == 0
    assert life.lose_power(disk, place, tmp_path / "1").tick == 0


def test_a_folder_that_was_removed_is_made_durable_again(tmp_path: Path, disk: Disk) -> None:
    folder = SharedFolder(str(tmp_path / "0" / "a"), sync=True)
    (tmp_path / "0").mkdir()
    for _ in range(2):
        folder.write("deep/file", b"x")
        disk.lose_power(tmp_path / "0", tmp_path / "1")
        assert (tmp_path / "1/a/deep/file").read_bytes() == b"x"
        SharedFolder(str(tmp_path)).remove("1")
        folder.remove("deep")
        SharedFolder(str(tmp_path)).remove("0/a")
        SharedFolder(str(tmp_path), sync=True).write("0/other", b"")


def test_the_cost_of_a_file_in_a_known_folder(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = SharedFolder(str(tmp_path.parent), sync=True).within(tmp_path.name)
    folder.write("state/0-0/first", b"")
    before = disk.calls
    folder.write("state/0-0/second", b"")
    assert disk.calls == before + 2  # the file, and its folder
    monkeypatch.setattr(synced_files, "_REMEMBERED", 3)
    for number in range(20):
        folder.write(f"new-{number}/file", b"")
        assert len(synced_files._DURABLE) <= 3


def test_a_folder_that_another_process_has_made(tmp_path: Path, disk: Disk) -> None:
    """It may not have synchronized the name of the folder yet."""
    (tmp_path / "0" / "state" / "0-0").mkdir(parents=True)
    folder = SharedFolder(str(tmp_path / "0"), sync=True)
    folder.write("state/0-0/first", b"x")
    disk.lose_power(tmp_path / "0", tmp_path / "1")
    assert (tmp_path / "1/state/0-0/first").read_bytes() == b"x"
