"""A trace within a memory limit equals one without, wherever its runs are."""

from __future__ import annotations

import gc
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from benchmarks.faults import Injector
from dbsp.data.batch import Batch
from dbsp.errors import CheckpointError
from dbsp.state import recent_rows, run_writer, spill_folder
from dbsp.state.mapped_runs import write_run
from dbsp.state.memory_budget import MemoryBudget
from dbsp.state.sorted_run import RunMerge, SortedRun
from dbsp.state.spill_folder import SpillFolder, remove_spilled
from dbsp.state.streamed_merge import StreamedMerge
from dbsp.state.trace import Trace
from tests import reference
from tests.profiles import examples
from tests.reference import Z
from tests.state.test_trace import Owner, SmallStepsMachine, TraceMachine, batch_of, interval, model_of


class LimitedOwner(Owner):
    """A trace with a limit so small that nearly every run is in a file."""

    def __init__(self, width: int = 2, limit: int = 256, path: Path | None = None) -> None:
        super().__init__(width)
        self.budget = MemoryBudget(limit, SpillFolder(path))
        self.trace = Trace(width, self.journal, self.budget)

    def commit(self, fuel: int = 4096) -> None:
        self.budget.begin_tick()
        super().commit(fuel)
        self.budget.end_tick(0)


class LimitedMachine(TraceMachine):
    def __init__(self) -> None:
        super().__init__()
        self.owner = LimitedOwner()


class LimitedSmallStepsMachine(SmallStepsMachine):
    def __init__(self) -> None:
        super().__init__()
        self.owner = LimitedOwner()


LimitedMachine.TestCase.settings = settings(max_examples=examples(15), stateful_step_count=20, deadline=None)
TestLimitedMachine = LimitedMachine.TestCase
LimitedSmallStepsMachine.TestCase.settings = settings(
    max_examples=examples(25), stateful_step_count=30, deadline=None
)
TestLimitedSmallStepsMachine = LimitedSmallStepsMachine.TestCase


def run_of(zset: Z) -> SortedRun:
    batch = batch_of(zset)
    return SortedRun(batch.rows, batch.weights)


def files(owner: LimitedOwner) -> list[Path]:
    return sorted(path for path in owner.budget.folder.place.iterdir() if path.suffix == ".run")


def load(owner: LimitedOwner, ticks: int = 12, size: int = 1000) -> None:
    for i in range(ticks):
        owner.tick(interval(i * size, (i + 1) * size), 500)


# --- what is in memory ----------------------------------------------------------------------------


def test_memory_stays_within_the_limit_and_the_rest_is_in_files() -> None:
    limit = 100_000
    owner = LimitedOwner(limit=limit)
    for i in range(40):
        owner.tick(interval(i * 1000, (i + 1) * 1000), 32_000)
        assert owner.trace.nbytes <= limit * 5 // 8
    assert owner.trace.file_bytes >= 40_000 * 8 - limit
    assert owner.value == interval(0, 40_000)


def test_a_limit_that_is_not_reached_makes_no_folder(tmp_path: Path) -> None:
    owner = LimitedOwner(limit=10**9, path=tmp_path / "spill")
    load(owner)
    assert owner.trace.file_bytes == 0
    assert not (tmp_path / "spill").exists()


def test_a_tick_larger_than_the_limit_goes_to_files_before_it_ends() -> None:
    owner = LimitedOwner(limit=100_000)
    for i in range(10):
        owner.append(interval(i * 1000, (i + 1) * 1000, 2))
    assert owner.trace.nbytes < 100_000 < owner.trace.file_bytes
    assert owner.value == interval(0, 10_000, 2)
    owner.rollback()
    assert owner.value == {}
    gc.collect()
    assert files(owner) == []


def test_what_cannot_be_moved_is_not_counted_at_every_append() -> None:
    owner = LimitedOwner(limit=1_000_000)
    counted = 0

    def tables() -> int:
        nonlocal counted
        counted += 1
        return 2_000_000

    owner.budget = owner.trace._budget = MemoryBudget(1_000_000, SpillFolder(), others=tables)
    owner.budget.watch(owner.trace)
    for i in range(1000):
        owner.tick({(i, 0): 1})
    assert counted <= 2


# --- files ----------------------------------------------------------------------------------------


def test_files_disappear_with_their_runs(tmp_path: Path) -> None:
    owner = LimitedOwner(path=tmp_path / "spill")
    load(owner)
    kept = list(owner.trace.runs)
    assert {run.file.path for run in kept if run.file is not None} <= set(files(owner))
    owner.tick(interval(0, 12_000, -1), 10**6)
    assert owner.value == {}
    assert sum(len(run) for run in kept) == 12_000 == sum(int(run.weights.sum()) for run in kept)
    del kept
    owner.trace.release()
    gc.collect()
    assert files(owner) == []


def test_a_file_that_a_snapshot_has_taken_stays(tmp_path: Path) -> None:
    owner = LimitedOwner(path=tmp_path / "spill")
    load(owner)
    taken = tmp_path / "taken.run"
    run = owner.trace.runs[0]
    assert run.file is not None
    run.file.path.rename(taken)
    del run
    owner.trace.release()
    gc.collect()
    assert taken.exists()


@pytest.mark.parametrize("state", ["same", "other", "shorter", "gone"])
def test_a_run_that_a_snapshot_has_is_not_written_again(tmp_path: Path, state: str) -> None:
    owner = LimitedOwner(limit=10**6, path=tmp_path / "spill")
    owner.tick(interval(0, 5000, 2))
    (run,) = owner.trace.runs
    run.saved = write_run(tmp_path / "saved.run", run)
    if state == "other":  # its header has another checksum
        run.saved = replace(run.saved, digest="01" * 16)
    if state == "shorter":
        os.truncate(tmp_path / "saved.run", 9000)
    if state == "gone":
        (tmp_path / "saved.run").unlink()
    owner.budget.limit = 1000
    owner.budget.used = 10**6
    owner.budget.end_tick(0)
    assert run.file is not None
    assert (run.file.path.name == "saved.run") == (state == "same")
    assert owner.value == interval(0, 5000, 2)
    owner.trace.release()
    del run
    gc.collect()
    assert (tmp_path / "saved.run").exists() == (state != "gone")


def test_two_runs_of_one_folder_keep_their_files_apart(tmp_path: Path) -> None:
    first, second = LimitedOwner(path=tmp_path), LimitedOwner(path=tmp_path)
    load(first)
    remove_spilled(tmp_path)
    load(second)
    left = files(second)
    first.trace.release()
    del first
    gc.collect()
    assert files(second) == left
    assert second.value == interval(0, 12_000)


def test_a_temporary_folder_is_removed_with_its_owner_and_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spill_folder.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(spill_folder.tempfile, "tempdir", str(tmp_path))
    left = tmp_path / "dbsp-state-of-a-killed-process"
    left.mkdir()
    (left / "1.run").write_bytes(b"x")
    left.with_name(f"{left.name}.lock").touch()
    other = SpillFolder()
    other.new_path()
    assert not left.exists()
    owner = LimitedOwner()
    load(owner, ticks=2)
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2
    assert other.place.exists()
    del owner, other
    gc.collect()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_leaves_the_folder_of_its_parent() -> None:
    owner = LimitedOwner()
    load(owner, ticks=2)
    child = os.fork()
    if child == 0:
        owner.budget.folder._removed()  # as at the end of a process
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert len(files(owner)) > 0
    owner.budget.folder._removed()
    assert not owner.budget.folder.place.exists()


# --- merges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fuel", [1, 3, 64, 10**6])
@pytest.mark.parametrize("cancelled", [-1, 0, 30, 100, 300])
def test_a_streamed_merge_is_the_merge_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fuel: int, cancelled: int
) -> None:
    monkeypatch.setattr(run_writer, "PIECE", 100)
    older = run_of(interval(0, 300))
    heavy = {(500, 1): -(2**63)} if 0 <= cancelled < 300 else {}
    newer = run_of({**interval(0, cancelled, -1), **interval(400, 450 - cancelled // 10), **heavy})
    if cancelled == 300:
        newer = run_of(interval(0, 300, -1))
    streamed = StreamedMerge(0, older, newer, SpillFolder(tmp_path))
    whole = RunMerge(0, older, newer)
    while not streamed.advance(fuel):
        assert streamed.nbytes == 0
    whole.advance(10**6)
    result, expected = streamed.result(), whole.result()
    assert model_of(Batch(result.rows, result.weights)) == model_of(Batch(expected.rows, expected.weights))
    if cancelled == 300:
        assert list(tmp_path.iterdir()) == []
        return
    assert result.file is not None
    assert result.largest == result.file.largest == (2**63 - 1 if heavy else 1)
    assert bool(result.file.weights_at) == bool(heavy)
    assert result.file.path.stat().st_size == result.file.end
    if cancelled == 100:  # the hole of the cancelled rows is gone
        assert result.file.end == 4096 + result.size * 24
    del streamed, result
    gc.collect()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("weight", [1, 2])
def test_rows_are_forgotten_by_pieces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, weight: int) -> None:
    monkeypatch.setattr(recent_rows, "_PIECE", 100)
    limited, free = LimitedOwner(path=tmp_path), Owner()
    for owner in (limited, free):
        owner.tick(interval(0, 2000, weight))
        owner.tick({(i, i % 7): 1 for i in range(5000, 5040)})
        owner.trace.forget(0, 1500)
        assert owner.value == interval(1500, 2000, weight) | {(i, i % 7): 1 for i in range(5000, 5040)}
        owner.trace.forget(0, 4000)
        owner.trace.forget(0, 10**6)
    assert limited.value == free.value == {}
    gc.collect()
    assert files(limited) == []


def test_an_abandoned_merge_leaves_no_file(tmp_path: Path) -> None:
    run = run_of(interval(0, 300))
    merge = StreamedMerge(0, run, run, SpillFolder(tmp_path))
    merge.advance(10)
    assert len(list(tmp_path.iterdir())) == 1
    del merge
    gc.collect()
    assert list(tmp_path.iterdir()) == []


# --- faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_move_or_merge_is_repaired(tmp_path: Path, kind: type[BaseException]) -> None:
    owner = LimitedOwner(1, limit=20_000, path=tmp_path)
    trace, budget = owner.trace, owner.budget
    inserted = 0
    for at in range(400):
        rows = np.arange(inserted, inserted + 600).reshape(-1, 1)
        trace.append(rows, np.ones(len(rows), np.int64))
        trace.commit()
        inserted += 600

        def end() -> None:
            trace.maintain(700)
            budget.end_tick(0)

        injector = Injector(kind, at * 13 % 1500, None, opcodes=True)
        injector.call(end)
        trace.repair()
        assert trace.count == trace.past == len(trace.runs)
        for index, run in enumerate(trace.runs):
            assert tuple(trace.table[index]) == run.entry()
        if at % 21 == 0:
            assert len(trace.contents()) == inserted
    assert (trace.contents().rows[:, 0] == np.arange(inserted)).all()
    assert trace.file_bytes > 0
    trace.release()
    gc.collect()
    # An interrupt just after a file was made leaves it until the folder is removed.
    assert len(list(tmp_path.iterdir())) < 20


def test_a_full_disk_is_reported_once_per_tick_and_harms_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = LimitedOwner(path=tmp_path / "spill")
    load(owner, 3)
    spill, more = tmp_path / "spill", interval(5000, 5020)

    def refuse(folder: SpillFolder) -> Path:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(SpillFolder, "new_path", refuse)
        owner.append(interval(3000, 4000))
        with pytest.raises(CheckpointError, match=f"files in {spill}.*No space left on device") as raised:
            owner.append(interval(4000, 5000))
        assert raised.value.code == "checkpoint-write"
        assert "raise memory_limit=, and repeat the tick" in raised.value.message
        owner.rollback()
        assert owner.value == interval(0, 3000)
        owner.budget.used = 0  # as if the tick had started with more room
        owner.append(more)
        owner.trace.commit()
        owner.journal.clear()
        with pytest.raises(CheckpointError):  # a merge: the scope notes it for the next tick
            owner.trace.maintain(10**6)
        owner.trace.repair()
        owner.budget.used = 10_000
        owner.budget.end_tick(0)
        assert owner.value == {**interval(0, 3000), **more}
        with pytest.raises(CheckpointError, match="No space left on device"):
            owner.budget.begin_tick()
        owner.budget.begin_tick()
    load(owner, 6)
    assert owner.value == reference.add({**interval(0, 3000, 2), **more}, interval(3000, 6000))


def test_a_folder_that_is_gone_is_an_error_with_its_name(tmp_path: Path) -> None:
    owner = LimitedOwner(path=tmp_path / "spill")
    load(owner, 3)
    shutil.rmtree(tmp_path / "spill")
    assert owner.value == interval(0, 3000)
    with pytest.raises(CheckpointError, match="No such file or directory"):
        load(owner, 6)


def test_a_trace_of_the_runs_of_another_one_keeps_their_rows() -> None:
    """Its run table has the addresses of these rows, which the other trace moves to files."""
    owner, more = LimitedOwner(limit=150_000), LimitedOwner()
    owner.tick(interval(0, 3000))
    more.trace = Trace(2, more.journal, owner.budget)
    other = Trace.of_runs(2, owner.trace.runs, [])
    assert not owner.trace.file_bytes
    more.append(interval(0, 3000))
    more.append(interval(0, 3000))
    assert owner.trace.file_bytes
    assert [tuple(entry) for entry in other.table[: other.count]] == [run.entry() for run in other.runs]
    assert model_of(other.contents()) == interval(0, 3000)
