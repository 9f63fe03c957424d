"""Checkpoints of sharded runs: a tick counts on all shards or on none."""

from __future__ import annotations

import contextlib
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from dbsp import CheckpointError
from dbsp.durable.commit_record import COMMITS
from dbsp.durable.manifest import CURRENT, PREVIOUS, read_manifest
from dbsp.durable.snapshot_writer import SnapshotWriter
from dbsp.durable.step_memory import signature
from dbsp.errors import CheckpointWarning
from dbsp.shards import shard_folder
from dbsp.shards.shard_folder import ShardFolder
from tests.crashes import Ended, ends_after
from tests.shards.durable_shards import DurableShards, changes_of, distributed_words, expected, words
from tests.shards.thread_link import Fault

GRAPH = distributed_words()
VIEWS = expected(14)


def opened(folder: Path, shards: int = 2, **options: Any) -> DurableShards:
    return DurableShards(GRAPH, shards, folder, sync=False, **{"background": False, **options})


def stepped(folder: Path, ticks: int, shards: int = 2, **options: Any) -> DurableShards:
    run = opened(folder, shards, **options)
    for tick in range(run.tick + 1, ticks + 1):
        run.step(changes_of(tick))
    return run


def closed(run: DurableShards) -> DurableShards:
    run.close()
    return run


def manifest_ticks(folder: Path) -> list[list[int]]:
    """By shard, the ticks of its current and its previous snapshot."""
    found = []
    for shard in sorted(folder.glob("shard-*")):
        manifests = [read_manifest(shard / file) for file in (CURRENT, PREVIOUS)]
        found.append([manifest.tick for manifest in manifests if manifest is not None])
    return found


def test_the_views_are_those_of_one_process() -> None:
    assert VIEWS[9]["counts"]
    assert VIEWS[9]["before"]


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_a_run_continues_where_it_was_closed(tmp_path: Path, shards: int) -> None:
    for ticks in (3, 4, 9, 14):
        run = closed(stepped(tmp_path, ticks, shards, snapshot_every=4))
        assert run.views() == VIEWS[ticks]
        again = closed(opened(tmp_path, shards))
        assert (again.tick, again.views()) == (ticks, VIEWS[ticks])
        assert again.repeated == list(range(ticks - (ticks - 1) % 4 if ticks > 4 else 1, ticks + 1))


def test_all_shards_write_snapshots_of_the_same_ticks(tmp_path: Path) -> None:
    run = stepped(tmp_path, 10, snapshot_every=4)
    assert manifest_ticks(tmp_path) == [[8, 4]] * 2
    run.snapshot()
    assert manifest_ticks(tmp_path) == [[10, 8]] * 2
    closed(run)
    again = closed(opened(tmp_path))
    assert (again.repeated, again.views()) == ([], VIEWS[10])


def test_snapshots_by_the_size_of_a_journal(tmp_path: Path) -> None:
    closed(stepped(tmp_path, 14, snapshot_every="4 KB"))
    ticks = manifest_ticks(tmp_path)
    assert ticks[0] == ticks[1]
    assert 4 < ticks[0][0] < 14


def test_snapshots_in_the_background(tmp_path: Path) -> None:
    run = opened(tmp_path, background=True, snapshot_every=3)
    for tick in range(1, 15):
        run.step(changes_of(tick))
        run.wait()
    closed(run)
    assert [len(ticks) for ticks in manifest_ticks(tmp_path)] == [2, 2]
    again = closed(opened(tmp_path, background=True))
    assert again.views() == VIEWS[14]
    assert 0 < len(again.repeated) < 9


@pytest.mark.parametrize("call", [1, 2])
def test_a_tick_that_a_shard_cannot_complete_counts_nowhere(tmp_path: Path, call: int) -> None:
    run = stepped(tmp_path, 5)
    run.links[1].fault = call  # at the exchange, or when the shard has recorded the tick
    for _ in range(2):
        with pytest.raises(Fault):
            run.step(changes_of(9))
        assert (run.tick, run.views()) == (5, VIEWS[5])
    run.links[1].fault = 0
    run.step(changes_of(6))
    assert run.views() == VIEWS[6]
    run.close()
    assert closed(opened(tmp_path)).views() == VIEWS[6]


def test_a_tick_after_the_commit_record_is_removed(tmp_path: Path) -> None:
    run = stepped(tmp_path, 5)
    with (
        mock.patch.object(ShardFolder, "commit", side_effect=Ended),
        # As if the processes had ended: no shard removes what it has recorded.
        mock.patch("dbsp.durable.tick_journal.TickJournal.withdraw"),
        pytest.raises(Ended),
    ):
        run.step(changes_of(9))
    run.close()
    ahead = closed(opened(tmp_path))
    assert (ahead.tick, ahead.views()) == (5, VIEWS[5])
    run = stepped(tmp_path, 7)
    assert run.views() == VIEWS[7]
    run.close()
    assert closed(opened(tmp_path)).views() == VIEWS[7]


def test_only_one_shard_has_recorded_a_tick(tmp_path: Path) -> None:
    closed(stepped(tmp_path / "run", 5))
    for shard in range(2):
        folder = tmp_path / f"one {shard}"
        shutil.copytree(tmp_path / "run", folder)
        run = opened(folder)
        other = 1 - shard
        with (
            mock.patch.object(run.stores[other]._journal, "write", side_effect=Ended),
            mock.patch("dbsp.durable.tick_journal.TickJournal.withdraw"),
            pytest.raises(Ended),
        ):
            run.step(changes_of(9))
        run.close()
        run = stepped(folder, 6)
        assert run.views() == VIEWS[6]
        run.close()


def test_a_snapshot_is_never_of_a_tick_that_does_not_count(tmp_path: Path) -> None:
    run = stepped(tmp_path, 3, snapshot_every=1)
    with mock.patch.object(run.folder, "commit", side_effect=OSError), pytest.raises(OSError):
        run.step(changes_of(4))
    assert manifest_ticks(tmp_path) == [[3, 2]] * 2
    with mock.patch.object(run.folder, "commit", side_effect=OSError), pytest.raises(OSError):
        run.step(changes_of(4))
    assert manifest_ticks(tmp_path) == [[3, 2]] * 2
    run.close()


def points(operations: int) -> list[int]:
    """Return some of the points between operations, the first and the last one among them."""
    return sorted({*range(0, operations, -(-operations // 25)), operations - 1})


@pytest.mark.parametrize("snapshot_every", [2, 100])
def test_processes_that_end_at_any_point(tmp_path: Path, snapshot_every: int) -> None:
    base = tmp_path / "base"
    closed(stepped(base, 3, snapshot_every=snapshot_every))

    def end(count: int) -> int:
        """Let the processes end after some operations; return the number of them."""
        folder = tmp_path / f"{count}"
        shutil.copytree(base, folder)
        run = opened(folder, snapshot_every=snapshot_every)
        complete = 3
        with (
            ends_after(count) as done,
            mock.patch("dbsp.durable.tick_journal.TickJournal.withdraw"),
            contextlib.suppress(Ended),
        ):
            for tick in (4, 5, 6):
                run.step(changes_of(tick))
                complete = tick
        run.close()
        again = opened(folder, snapshot_every=snapshot_every)
        assert complete <= again.tick <= complete + 1
        assert again.views() == VIEWS[again.tick]
        for tick in range(again.tick + 1, 8):
            again.step(changes_of(tick))
        assert again.views() == VIEWS[7]
        again.close()
        return done()

    for count in points(end(10_000)):
        end(count)


def test_processes_that_end_at_any_point_of_the_start(tmp_path: Path) -> None:
    def end(count: int) -> int:
        folder = tmp_path / f"{count}"
        with contextlib.suppress(Ended), ends_after(count) as done:
            closed(opened(folder))
        run = stepped(folder, 2)
        assert run.views() == VIEWS[2]
        run.close()
        return done()

    for count in points(end(10_000)):
        end(count)


def test_processes_that_end_after_the_commit_record(tmp_path: Path) -> None:
    run = stepped(tmp_path, 5)
    genuine = run.folder.commit

    def commit(tick: int, attempt: int) -> None:
        genuine(tick, attempt)
        raise Ended

    with (
        mock.patch.object(run.folder, "commit", commit),
        mock.patch("dbsp.durable.tick_journal.TickJournal.withdraw"),
        pytest.raises(Ended),
    ):
        run.step(changes_of(6))
    run.close()
    again = closed(opened(tmp_path))
    assert (again.tick, again.views()) == (6, VIEWS[6])


# --- snapshots that some shards lack --------------------------------------------------------------


def failing(shard: int) -> Callable[..., Any]:
    """Return a `SnapshotWriter.write` that fails on one shard."""
    genuine = SnapshotWriter.write

    def write(self: SnapshotWriter, *args: Any) -> Any:
        if self.folder.name == f"shard-{shard}":
            raise CheckpointError("the disk is full", code="checkpoint-write")
        return genuine(self, *args)

    return write


def test_shards_continue_from_the_latest_common_snapshot(tmp_path: Path) -> None:
    run = stepped(tmp_path, 4, snapshot_every=4)
    with mock.patch.object(SnapshotWriter, "write", failing(1)):
        for _ in range(3):
            with pytest.raises(CheckpointError, match="the disk is full"):
                run.step(changes_of(5))
    assert manifest_ticks(tmp_path) == [[4, 0], [0]]
    assert run.views() == VIEWS[4]
    run.close()
    again = opened(tmp_path, snapshot_every=4)
    assert (again.repeated, again.views()) == ([1, 2, 3, 4], VIEWS[4])
    again.step(changes_of(5))
    assert manifest_ticks(tmp_path) == [[4, 0]] * 2
    again.close()
    assert closed(opened(tmp_path)).repeated == [5]


def test_a_common_snapshot_stays_until_a_later_one_is_common(tmp_path: Path) -> None:
    run = stepped(tmp_path, 5, snapshot_every=4, background=True)
    run.wait()
    run.step(changes_of(6))
    assert manifest_ticks(tmp_path) == [[4, 0]] * 2
    for tick in range(7, 13):  # every snapshot after that of tick 4 fails on one shard
        with mock.patch.object(SnapshotWriter, "write", failing(1)):
            _until_it_steps(run, tick)
            run.wait()
    ticks = manifest_ticks(tmp_path)
    assert ticks[0][0] > 8
    assert (ticks[0][1], ticks[1]) == (4, [4, 0])
    run.close()
    again = closed(opened(tmp_path))
    assert (again.repeated, again.views()) == (list(range(5, 13)), VIEWS[12])


def _until_it_steps(run: DurableShards, tick: int) -> None:
    for _ in range(3):
        try:
            run.step(changes_of(tick))
        except CheckpointError:
            continue
        return
    raise AssertionError(f"tick {tick} does not succeed")


def test_a_damaged_snapshot_is_replaced_on_all_shards(tmp_path: Path) -> None:
    closed(stepped(tmp_path, 10, snapshot_every=4))
    assert manifest_ticks(tmp_path) == [[8, 4]] * 2
    (tmp_path / "shard-1" / "small" / "8.runs").write_bytes(b"damaged")
    with pytest.warns(CheckpointWarning, match=r"8\.runs.*; nothing is lost.*tick 4"):
        again = opened(tmp_path, snapshot_every=4)
    assert (again.repeated, again.views()) == (list(range(5, 11)), VIEWS[10])
    again.step(changes_of(11))
    again.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert closed(opened(tmp_path)).views() == VIEWS[11]


def test_a_damaged_manifest_is_replaced_on_all_shards(tmp_path: Path) -> None:
    closed(stepped(tmp_path, 10, snapshot_every=4))
    (tmp_path / "shard-0" / CURRENT).write_bytes(b"{")
    again = closed(opened(tmp_path))
    assert (again.repeated, again.views()) == (list(range(5, 11)), VIEWS[10])


# --- damage ---------------------------------------------------------------------------------------


def test_damage_is_reported(tmp_path: Path) -> None:
    closed(stepped(tmp_path / "run", 5))
    ahead = tmp_path / "ahead"
    closed(stepped(ahead, 8))

    def remove(path: Path) -> None:
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    def from_ahead(name: str) -> Callable[[Path], None]:
        def replace(folder: Path) -> None:
            (folder / name).write_bytes((ahead / name).read_bytes())

        return replace

    def flip(folder: Path) -> None:
        content = bytearray((folder / COMMITS).read_bytes())
        content[5] ^= 1
        content[30] ^= 1
        (folder / COMMITS).write_bytes(content)

    damages: list[tuple[Callable[[Path], object], str]] = [
        (lambda folder: remove(folder / COMMITS), r"commits: the file is missing"),
        (flip, r"commits: its content does not match its checksum"),
        (from_ahead(COMMITS), r"commits: its content does not match its checksum"),
        (lambda folder: (folder / COMMITS).write_bytes(b""), r"commits: its content does not match"),
        (lambda folder: remove(folder / "shards.json"), r"shards\.json: the file is missing"),
        (lambda folder: remove(folder / "shard-1"), r"shard-1.manifest\.json: the file is missing"),
        (lambda folder: remove(folder / "shard-1" / "journal" / "1.ticks"), r"the file is missing"),
        (lambda folder: (folder / "shards.json").write_bytes(b"{}"), "expected the header of a sharded"),
    ]
    for number, (damage, message) in enumerate(damages):
        folder = tmp_path / f"{number}"
        shutil.copytree(tmp_path / "run", folder)
        damage(folder)
        with pytest.raises(CheckpointError, match=message + r"(?s:.*)\[checkpoint-unreadable\]"):
            opened(folder)


def test_an_earlier_commit_record_loses_no_ticks_silently(tmp_path: Path) -> None:
    run = stepped(tmp_path, 5)
    record = (tmp_path / COMMITS).read_bytes()
    for tick in (6, 7):
        run.step(changes_of(tick))
    run.close()
    (tmp_path / COMMITS).write_bytes(record)
    with pytest.raises(CheckpointError, match=r"it has ticks after tick 5.*checkpoint-unreadable"):
        opened(tmp_path)


def test_a_shard_behind_the_commit_record_is_damage(tmp_path: Path) -> None:
    run = stepped(tmp_path, 5)
    shutil.copytree(tmp_path / "shard-1", tmp_path / "copy")
    run.step(changes_of(6))
    run.close()
    shutil.rmtree(tmp_path / "shard-1")
    shutil.move(tmp_path / "copy", tmp_path / "shard-1")
    with pytest.raises(CheckpointError, match=r"tick 6 is missing.*checkpoint-unreadable"):
        opened(tmp_path)


def test_shards_of_another_folder_are_refused(tmp_path: Path) -> None:
    for name in ("one", "other"):
        closed(stepped(tmp_path / name, 3))
    shutil.rmtree(tmp_path / "one" / "shard-1")
    shutil.copytree(tmp_path / "other" / "shard-1", tmp_path / "one" / "shard-1")
    with pytest.raises(CheckpointError, match=r"shard-1 is the checkpoint of another query"):
        opened(tmp_path / "one")


# --- what a folder belongs to ---------------------------------------------------------------------


def test_another_number_of_shards_is_refused(tmp_path: Path) -> None:
    closed(stepped(tmp_path, 3))
    message = r"is the checkpoint of a run with 2 shards, got shards=3; start the run with shards=2"
    with pytest.raises(CheckpointError, match=message + r".*\[checkpoint-other-shards\]"):
        opened(tmp_path, 3)
    assert closed(opened(tmp_path)).tick == 3, "the folder was released"


def test_another_query_is_refused(tmp_path: Path) -> None:
    closed(stepped(tmp_path, 3))
    folder = ShardFolder(tmp_path)
    with pytest.raises(CheckpointError, match=r"the checkpoint of another query \('words'\)"):
        folder.expect("another", "another", 2)


def test_a_second_run_is_refused(tmp_path: Path) -> None:
    run = opened(tmp_path)
    with pytest.raises(CheckpointError, match=r"is in use by process \d+"):
        ShardFolder(tmp_path)
    run.close()


def test_a_shard_that_still_ends_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed(stepped(tmp_path, 3))
    monkeypatch.setattr(shard_folder, "PATIENCE", 0.1)
    folder = ShardFolder(tmp_path)
    owner = shard_folder._owned(tmp_path / "shard-1")
    with pytest.raises(CheckpointError, match="shard-1 is in use by process"):
        folder.starting_ticks()
    owner.release()
    assert folder.starting_ticks() == [0]
    folder.close()


def test_a_plain_run_does_not_open_a_folder_of_shards(tmp_path: Path) -> None:
    closed(stepped(tmp_path, 3))
    files = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(
        CheckpointError, match=r"is the checkpoint of a run with 2 shards; start the run with"
    ):
        words().start(checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match=r"shard-1 has one shard of the run in .*shards=2"):
        words().start(checkpoint=tmp_path / "shard-1")
    assert sorted(path.name for path in tmp_path.iterdir()) == files


def test_shards_do_not_open_the_folder_of_a_plain_run(tmp_path: Path) -> None:
    run = words().start(checkpoint=tmp_path)
    run.log.close()
    with pytest.raises(CheckpointError, match="is the checkpoint of a run without shards"):
        ShardFolder(tmp_path)
    words().start(checkpoint=tmp_path).log.close()


def test_a_shard_writes_no_snapshot_alone(tmp_path: Path) -> None:
    run = stepped(tmp_path, 1)
    run.runs[0].snapshot()
    run.runs[0].compact()
    assert manifest_ticks(tmp_path) == [[0], [0]]
    run.close()


def test_the_dealing_of_an_input_is_part_of_the_circuit() -> None:
    rows = next(node.operator for node in GRAPH.nodes)
    assert "dealt=(1,)" in repr(rows)
    other = distributed_words(dealt=(0,))
    assert signature(other) != signature(GRAPH)
