"""Sharded runs with a folder: processes that are killed, started again, and continue exactly."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from dbsp import CheckpointError, CircuitError, ShardError
from dbsp.shards import group_start
from dbsp.shards.shard_folder import ShardFolder
from dbsp.shards.sharded_run import ShardedRun
from tests.harness import deltas_of, views
from tests.shards.durable_shards import changes_of, distributed_words, expected, words
from tests.shards.process_ends import expect_end
from tests.shards.shop_circuit import CHANGES, ENDS, shop

GRAPH = distributed_words()
VIEWS = expected(12)


def opened(folder: Path, shards: int = 2, **options: Any) -> ShardedRun:
    return ShardedRun(GRAPH, shards, folder=ShardFolder(folder, sync=False, **options))


def pids(run: ShardedRun) -> list[int]:
    return [stats.process for stats in run.stats()]


def kill(process: int) -> None:
    """Kill a process and wait until it has ended; the coordinator has not noticed yet."""
    os.kill(process, signal.SIGKILL)
    expect_end([process])


def test_a_run_continues_where_it_was_closed(tmp_path: Path) -> None:
    one = words().start()
    for tick in range(1, 13):
        if tick % 4 == 1:
            run = opened(tmp_path, snapshot_every=3)
            assert (run.tick, views(run)) == (tick - 1, VIEWS[tick - 1])
        found, result = run.step(changes_of(tick), label={"batch": tick}), one.step(changes_of(tick))
        assert (deltas_of(found), found.number) == (deltas_of(result), tick)
        if tick % 4 == 0:
            run.close()
    run = opened(tmp_path)
    assert views(run) == VIEWS[12]
    assert run.log is not None
    assert run.log.label == {"batch": 12}
    assert run.log.result is not None
    assert (run.log.result.number, deltas_of(run.log.result)) == (12, deltas_of(result))
    run.close()


def test_a_killed_shard_is_started_again(tmp_path: Path) -> None:
    with opened(tmp_path, snapshot_every=4) as run:
        for tick in range(1, 10):
            run.step(changes_of(tick))
            if tick in (3, 7):  # noticed by the next tick
                kill(pids(run)[tick % 2])
        kill(pids(run)[0])
        assert views(run) == VIEWS[9]
    with opened(tmp_path) as run:
        assert (run.tick, views(run)) == (9, VIEWS[9])


@pytest.mark.parametrize("shard", [0, 1])
def test_a_shard_that_ends_between_the_commit_record_and_the_decision(tmp_path: Path, shard: int) -> None:
    with opened(tmp_path) as run:
        run.step(changes_of(1))
        processes = pids(run)
        genuine = ShardFolder.commit

        def commit(self: ShardFolder, tick: int, attempt: int = 0) -> None:
            genuine(self, tick, attempt)
            kill(processes[shard])

        with mock.patch.object(ShardFolder, "commit", commit):
            result = run.step(changes_of(2))
        assert result.number == 2
        assert (run.tick, views(run)) == (2, VIEWS[2])
        run.step(changes_of(3))
        assert views(run) == VIEWS[3]


def test_a_shard_that_ends_before_the_commit_record(tmp_path: Path) -> None:
    with opened(tmp_path) as run:
        run.step(changes_of(1))
        processes = pids(run)

        def commit(self: ShardFolder, tick: int, attempt: int = 0) -> None:
            kill(processes[0])
            raise CheckpointError("the disk is full", code="checkpoint-write")

        with (
            mock.patch.object(ShardFolder, "commit", commit),
            pytest.raises(CheckpointError, match="the disk is full"),
        ):
            run.step(changes_of(9))
        assert (run.tick, views(run)) == (1, VIEWS[1])
        run.step(changes_of(2))
        assert views(run) == VIEWS[2]


def test_an_error_of_a_shard_undoes_a_durable_tick(tmp_path: Path) -> None:
    graph = shop().circuit("distributed")
    one = shop().start()
    with ShardedRun(graph, 2, folder=ShardFolder(tmp_path, sync=False)) as run:
        for changes in CHANGES:
            one.step(changes)
            run.step(changes)
            with pytest.raises(Exception, match="thirteen"):
                run.step({"visit": [(13,)], "sale": [(1000, "lost")]})
        assert views(run) == views(one)
    with ShardedRun(graph, 2, folder=ShardFolder(tmp_path, sync=False)) as run:
        assert (run.tick, views(run)) == (len(CHANGES), views(one))


def test_a_tick_that_always_ends_a_shard_is_given_up(tmp_path: Path) -> None:
    graph = shop().circuit("distributed")
    with ShardedRun(graph, 2, folder=ShardFolder(tmp_path, sync=False)) as run:
        run.step(CHANGES[0])
        before = views(run)
        message = r"ended during tick 2 \(killed by SIGKILL\); the next call starts the shards again from"
        with pytest.raises(ShardError, match=message + r".*\[shard-lost\]"):
            run.step({"visit": [(ENDS,)]})
        assert (run.tick, views(run)) == (1, before)
        run.step(CHANGES[1])
        assert run.tick == 2


def test_a_shard_that_ends_while_it_starts(tmp_path: Path) -> None:
    """One that ends while the shards start again is started once more."""
    run = opened(tmp_path)
    run.step(changes_of(1))
    kill(pids(run)[0])
    genuine = group_start.ShardGroup
    calls = []

    def start(*args: Any) -> Any:
        group = genuine(*args)
        calls.append(group)
        if len(calls) < 3:
            group.kill()
            raise ShardError("the process of shard 0 of 2 ended at its start", code="shard-lost")
        return group

    with mock.patch.object(group_start, "ShardGroup", start):
        run.step(changes_of(2))
    assert (len(calls), views(run)) == (3, VIEWS[2])
    run.close()


def test_snapshots_of_all_shards_now(tmp_path: Path) -> None:
    with opened(tmp_path) as run:
        run.step(changes_of(1))
        run.snapshot()
        run.step(changes_of(2))
        assert run.log is not None
        run.log.snapshot()
        run.log.close()
        with pytest.raises(ShardError, match="closed run"):
            run.step(changes_of(3))
    with opened(tmp_path) as run:
        assert views(run) == VIEWS[2]
    with ShardedRun(GRAPH, 1) as run, pytest.raises(CircuitError, match=r"\[no-checkpoint\]"):
        run.snapshot()


def test_compacted_state_is_durable(tmp_path: Path) -> None:
    with opened(tmp_path) as run:
        for tick in range(1, 7):
            run.step(changes_of(tick))
        assert run.compact().rows > 0
        run.step(changes_of(7))
    folders = (tmp_path / f"shard-{shard}" / "manifest.json" for shard in range(2))
    assert [json.loads(path.read_text())["tick"] for path in folders] == [6, 6]
    with opened(tmp_path) as run:
        assert views(run) == VIEWS[7]


def test_wrong_folders_end_the_start(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with pytest.raises(CheckpointError, match=r"\[checkpoint-other-shards\]"):
        opened(tmp_path, 3)
    with pytest.raises(CheckpointError, match=r"\[checkpoint-other-program\]"):
        ShardedRun(GRAPH, 2, folder=ShardFolder(tmp_path), query="another")
    with opened(tmp_path) as run:
        with pytest.raises(CheckpointError, match=r"\[checkpoint-in-use\]"):
            opened(tmp_path)
        run.step(changes_of(1))
        run.step(changes_of(2))
    (tmp_path / "shard-1" / "journal" / "1.ticks").write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match=r"1\.ticks.*\[checkpoint-unreadable\]"):
        opened(tmp_path)


_COORDINATOR = """
import sys
from pathlib import Path
from tests.shards.durable_shards import changes_of, distributed_words
from dbsp.shards.shard_folder import ShardFolder
from dbsp.shards.sharded_run import ShardedRun

run = ShardedRun(distributed_words(), 2, folder=ShardFolder(sys.argv[1], sync=False, snapshot_every=3))
for tick in range(run.tick + 1, 10_000):
    run.step(changes_of(tick))
    print(tick, flush=True)
"""


def test_a_killed_coordinator(tmp_path: Path) -> None:
    generator, seen = random.Random(1), 0
    for _ in range(3):
        coordinator = subprocess.Popen(
            [sys.executable, "-c", _COORDINATOR, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert coordinator.stdout is not None
        wanted = seen + generator.randrange(1, 8)
        while seen < wanted:
            seen = int(coordinator.stdout.readline())
        time.sleep(generator.random() / 200)
        coordinator.kill()
        seen = max([seen, *map(int, coordinator.stdout.read().split())])
        coordinator.wait()
        with opened(tmp_path) as run:
            assert seen <= run.tick <= seen + 1
            seen = run.tick
            assert views(run) == expected(seen)[seen]
