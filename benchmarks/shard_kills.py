"""Kill shards and the coordinator of a durable sharded run at random; check that ticks are exact.

A child process is the coordinator: it opens the folder, reports the views that it finds, and steps.
It reports each tick that `step` has returned, with a digest of its delta. The parent kills a shard
or the child with SIGKILL, after a random time. After the end of a shard the same child must report
the next tick without losing one; after its own end the next child must find all reported
ticks, and at most one more. Views and deltas must equal those of a run in one process.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dbsp
from dbsp import Circuit, Run
from dbsp.shards.shard_folder import ShardFolder
from dbsp.shards.sharded_run import ShardedRun

SHARD_KILLS = {"small": 10, "medium": 60, "large": 200}
"""By size the number of kills."""
SHARDS = 3
_PATIENCE = 120.0
"""Seconds in which a child must report the next tick."""


@dataclass
class ShardsKilled:
    """The outcome of a campaign."""

    shards: int = 0
    """How often a shard was killed."""
    coordinators: int = 0
    """How often the coordinator was killed."""
    ticks: int = 0
    ahead: int = 0
    """How often the next coordinator found a tick that `step` had not returned."""
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


def circuit() -> Circuit:
    """A join, an aggregate, a recursion and an input with a key, so that shards exchange rows."""
    built = Circuit("killed")
    edge = built.input("edge", x=int, y=int, kind="set")
    name = built.input("name", x=int, s=str, key=["x"])
    built.output("named", edge.join(name, on="x").group_by("s").agg(n=dbsp.count(), top=dbsp.col("y").max()))
    with built.fixpoint("reach") as scope:
        reach = scope.variable("reach", {"x": int, "y": int})
        longer = reach.map(x=dbsp.col("x"), z=dbsp.col("y")).join(
            edge.map(z=dbsp.col("x"), y=dbsp.col("y")), on="z"
        )
        scope.define(reach, (edge + longer.map(x=dbsp.col("x"), y=dbsp.col("y"))).distinct())
    built.output("reached", scope.leave(reach).group_by("y").agg(n=dbsp.count()))
    return built


def changes_of(tick: int) -> dict[str, Any]:
    """The changes of a tick: edges appear and disappear, names change."""
    chance = random.Random(tick)
    edges = {(chance.randrange(12), chance.randrange(12)): chance.choice((1, 1, -1)) for _ in range(4)}
    return {"edge": edges, "name": [(chance.randrange(12), f"name {chance.randrange(40)} {tick % 5}")]}


def _digest(parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _views(run: Run | ShardedRun) -> str:
    return _digest([(name, sorted(run.view(name).to_dict().items())) for name in run.outputs])


def _delta(result: Any) -> str:
    return _digest([(name, sorted(delta.to_dict().items())) for name, delta in result.items()])


class _Right:
    """A run in one process that is never killed."""

    def __init__(self) -> None:
        self._run = circuit().start()
        self.views = [_views(self._run)]
        self.deltas = [""]

    def upto(self, tick: int) -> None:
        while len(self.views) <= tick:
            self.deltas.append(_delta(self._run.step(changes_of(len(self.views)))))
            self.views.append(_views(self._run))


def coordinate(folder: str) -> None:
    """Step a sharded run without end, and report every tick."""
    graph = circuit().circuit("distributed")
    run = ShardedRun(graph, SHARDS, folder=ShardFolder(folder, sync=False, snapshot_every=5))
    print(json.dumps({"opened": run.tick, "views": _views(run), "shards": _processes(run)}), flush=True)
    while True:
        tick = run.tick + 1
        delta = _delta(run.step(changes_of(tick)))
        print(json.dumps({"stepped": tick, "delta": delta, "shards": _processes(run)}), flush=True)


def _processes(run: ShardedRun) -> list[int]:
    return [shard.process.pid for shard in run._group]


class _Coordinator:
    """A child process and its reports."""

    def __init__(self, folder: Path) -> None:
        program = "import sys; from benchmarks.shard_kills import coordinate; coordinate(sys.argv[1])"
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self._reports = self.process.stdout
        self.shards: list[int] = []

    def report(self) -> dict[str, Any] | None:
        """Return the next report; None if the process ended or hangs."""
        if not select.select([self._reports], [], [], _PATIENCE)[0]:
            return None
        line = self._reports.readline()
        if not line.endswith("\n"):
            return None
        found: dict[str, Any] = json.loads(line)
        self.shards = found["shards"]
        return found

    def kill(self) -> list[dict[str, Any]]:
        """Kill the process; return its last reports."""
        self.process.kill()
        self.process.wait()
        return [json.loads(line) for line in self._reports if line.endswith("\n")]


def measure_shard_kills(kills: int, seed: int = 1) -> ShardsKilled:
    """Kill so many processes, about three shards for each coordinator."""
    started = time.perf_counter()
    done, right, chance = ShardsKilled(), _Right(), random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        acknowledged = 0
        coordinator: _Coordinator | None = None
        while done.shards + done.coordinators < kills and len(done.problems) < 5:
            if coordinator is None:
                coordinator = _Coordinator(Path(folder))
                acknowledged = _opened(coordinator.report(), acknowledged, right, done)
            for _ in range(chance.randrange(1, 5)):
                acknowledged = _stepped(coordinator.report(), acknowledged, right, done)
            time.sleep(chance.random() / 50)
            if chance.random() < 0.75:
                done.shards += 1
                _kill(chance.choice(coordinator.shards))
            else:
                done.coordinators += 1
                for report in coordinator.kill():
                    acknowledged = _stepped(report, acknowledged, right, done)
                coordinator = None
        if coordinator is None:
            coordinator = _Coordinator(Path(folder))
            acknowledged = _opened(coordinator.report(), acknowledged, right, done)
        else:
            acknowledged = _stepped(coordinator.report(), acknowledged, right, done)
        coordinator.kill()
    done.ticks, done.seconds = acknowledged, time.perf_counter() - started
    return done


def _kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # killed before; the coordinator has not noticed
        os.kill(process, signal.SIGKILL)


def _opened(report: dict[str, Any] | None, acknowledged: int, right: _Right, done: ShardsKilled) -> int:
    if report is None:
        done.problems.append(f"the run does not open after tick {acknowledged}")
        return acknowledged
    tick = int(report["opened"])
    right.upto(tick)
    if not acknowledged <= tick <= acknowledged + 1:
        done.problems.append(f"{acknowledged} ticks were durable, found {tick}")
    if report["views"] != right.views[tick]:
        done.problems.append(f"the views differ after tick {tick}")
    done.ahead += tick > acknowledged
    return tick


def _stepped(report: dict[str, Any] | None, acknowledged: int, right: _Right, done: ShardsKilled) -> int:
    if report is None:
        done.problems.append(f"the run does not continue after tick {acknowledged}")
        return acknowledged
    tick = int(report["stepped"])
    right.upto(tick)
    if tick != acknowledged + 1:
        done.problems.append(f"tick {tick} follows tick {acknowledged}")
    if report["delta"] != right.deltas[tick]:
        done.problems.append(f"the deltas of tick {tick} differ")
    return tick
