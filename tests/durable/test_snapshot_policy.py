"""When snapshots are written: after ticks, seconds or bytes of journal, and on demand."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from dbsp import ArgumentError, CheckpointError, Circuit, CircuitError, DbspError, Run, col
from dbsp.durable import Store
from dbsp.durable.manifest import read_manifest
from dbsp.durable.snapshot_policy import SnapshotPolicy
from tests.harness import views


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        (7, SnapshotPolicy(ticks=7)),
        ("1000", SnapshotPolicy(ticks=1000)),
        ("20 ticks", SnapshotPolicy(ticks=20)),
        ("1 tick", SnapshotPolicy(ticks=1)),
        ("30 s", SnapshotPolicy(seconds=30)),
        ("0.5seconds", SnapshotPolicy(seconds=0.5)),
        ("5 min", SnapshotPolicy(seconds=300)),
        ("5 minutes", SnapshotPolicy(seconds=300)),
        ("2 h", SnapshotPolicy(seconds=7200)),
        ("1 day", SnapshotPolicy(seconds=86_400)),
        ("64 MB", SnapshotPolicy(size=64 * 2**20)),
        ("1.5kb", SnapshotPolicy(size=1536)),
        ("1 GB", SnapshotPolicy(size=2**30)),
        ("30 s, 64 MB, 10", SnapshotPolicy(10, 30, 64 * 2**20)),
        (["30 s", 10, "64 MB"], SnapshotPolicy(10, 30, 64 * 2**20)),
        (("2 min", "30 s"), SnapshotPolicy(seconds=30)),
        (SnapshotPolicy(3), SnapshotPolicy(3)),
    ],
)
def test_forms(every: Any, expected: SnapshotPolicy) -> None:
    assert SnapshotPolicy.of(every) == expected


@pytest.mark.parametrize("every", ["", "soon", "-1 s", "0 s", "0 MB", "0", "1.5", "3 parsecs", "30 s,"])
def test_a_wrong_text(every: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        SnapshotPolicy.of(every)
    assert str(caught.value).startswith(
        "snapshot_every expects ticks such as 1000, a time such as '30 s' or '5 min', or bytes of journal "
        "such as '64 MB', got "
    )


@pytest.mark.parametrize("every", [True, None, 2.5, [], {}, [True], b"30"])
def test_a_value_of_another_type(every: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="snapshot_every expects ticks"):
        Store(tmp_path / "new", snapshot_every=every)
    assert not (tmp_path / "new").exists()


def test_the_first_limit_counts() -> None:
    policy = SnapshotPolicy.of([10, "5 s", "1 KB"])
    assert not policy.due(9, 4.9, 1023)
    assert policy.due(10, 0, 0)
    assert policy.due(1, 5.0, 0)
    assert policy.due(1, 0, 1024)
    assert not policy.due(0, 99, 9999)  # nothing has changed


def circuit() -> Circuit:
    built = Circuit("ratio")
    a = built.input("a", s=str, x=int)
    built.output("out", a.map(s=col("s"), y=12 // col("x")))
    return built


def started(folder: Path, every: Any) -> Run:
    return circuit().start(checkpoint=Store(folder, snapshot_every=every, sync=False, background=False))


def ended(run: Run) -> None:
    assert run.log is not None
    run.log.close()


def snapshot_tick(folder: Path) -> int:
    manifest = read_manifest(folder / "manifest.json")
    assert manifest is not None
    return manifest.tick


def test_bytes_of_journal(tmp_path: Path) -> None:
    run = started(tmp_path, "10 KB")
    found = []
    for number in range(40):
        run.step({"a": [("x" * 1000, number + 1)]})
        found.append(snapshot_tick(tmp_path))
    ticks = sorted(set(found))
    assert len(ticks) >= 2
    # The string is written once, so the ticks are shorter than the row.
    sizes = [(tmp_path / "journal" / f"{tick + 1}.ticks").stat().st_size for tick in ticks[-2:-1]]
    assert all(10 * 1024 <= size < 11 * 1024 for size in sizes)
    ended(run)


def test_bytes_of_journal_count_after_reopening(tmp_path: Path) -> None:
    for number in range(60):
        run = started(tmp_path, "10 KB")
        run.step({"a": [("x", number + 1)]})
        ended(run)
    journal = sum(path.stat().st_size for path in (tmp_path / "journal").glob("*.ticks"))
    assert snapshot_tick(tmp_path) > 0
    assert journal < 2 * 11 * 1024


def test_seconds(tmp_path: Path) -> None:
    clock = time.monotonic()
    run = started(tmp_path, "30 s")
    with mock.patch.object(time, "monotonic", lambda: clock):
        run.step({"a": [("x", 1)]})
        clock += 29
        run.step({"a": [("x", 2)]})
        assert snapshot_tick(tmp_path) == 0
        clock += 2
        run.step({"a": [("x", 3)]})
        assert snapshot_tick(tmp_path) == 2
        clock += 29
        run.step({"a": [("x", 4)]})
        assert snapshot_tick(tmp_path) == 2
    ended(run)


def test_seconds_count_while_no_process_has_the_folder(tmp_path: Path) -> None:
    run = started(tmp_path, "30 s")
    run.step({"a": [("x", 1)]})
    ended(run)
    run = started(tmp_path, "30 s")
    run.step({"a": [("x", 2)]})
    assert snapshot_tick(tmp_path) == 0
    ended(run)
    now = time.time()
    with mock.patch.object(time, "time", lambda: now + 31):
        run = started(tmp_path, "30 s")
    run.step({"a": [("x", 3)]})
    assert snapshot_tick(tmp_path) == 2
    ended(run)


def test_a_snapshot_now(tmp_path: Path) -> None:
    run = started(tmp_path, 1000)
    run.step({"a": [("x", 1)]})
    run.snapshot()
    assert snapshot_tick(tmp_path) == 1
    run.snapshot()  # nothing is new
    ended(run)
    with pytest.raises(CircuitError) as caught:
        run.snapshot()
    assert str(caught.value) == (
        "this run has no checkpoint, so it cannot write a snapshot; start it with checkpoint=folder "
        "[no-checkpoint]"
    )


def test_no_snapshot_inside_a_tick(tmp_path: Path) -> None:
    def also_snapshots(row: Any) -> bool:
        run.snapshot()
        return True

    built = Circuit("inside")
    built.output("out", built.input("a", x=int).filter(also_snapshots))
    run = built.start(checkpoint=Store(tmp_path, sync=False))
    with pytest.raises(DbspError, match="snapshot was called inside a tick"):
        run.step({"a": [(1,)]})
    ended(run)


@pytest.mark.parametrize("every", [1, 1000])
def test_values_of_a_tick_that_was_rolled_back(tmp_path: Path, every: int) -> None:
    """The journal continues with these values, so no snapshot before it has them."""
    run = started(tmp_path, every)
    run.step({"a": [("one", 1)]})
    with pytest.raises(DbspError, match="division by zero"):
        run.step({"a": [("never", 0)]})
    run.snapshot()
    run.step({"a": [("two", 2)]})
    expected = views(run)
    ended(run)
    for _ in range(2):
        run = started(tmp_path, every)
        assert views(run) == expected
        run.snapshot()
        ended(run)


def test_refused_values_that_others_have_inside(tmp_path: Path) -> None:
    built = Circuit("objects")
    built.output("out", built.input("a", o=object))

    class Own:
        pass

    inner = (Own(),)
    run = built.start(checkpoint=Store(tmp_path, sync=False))
    for value in (inner, (inner, 1)):
        with pytest.raises(CheckpointError, match="does not store"):
            run.step({"a": [(value,)]})
        run.step({"a": [(1,)]})
        run.snapshot()
    ended(run)
    run = built.start(checkpoint=Store(tmp_path, sync=False))
    assert views(run) == {"out": {(1,): 2}}
    ended(run)
