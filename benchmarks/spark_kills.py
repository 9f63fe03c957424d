"""Kill executors, Python workers and drivers of a run on shards; check that ticks are exact.

A child process is the driver: it starts Spark on a local cluster of two executors, opens the state,
and steps. It reports each tick that `step` has returned. The parent kills a Python worker, the JVM
of an executor, or the driver with SIGKILL, after a random time. It also sets *traps*, which the
first attempt of a task that writes state takes: it raises an error after it has written, ends its
process, sleeps until Spark starts a second attempt, or finds a file system that fails.

A driver must find all reported ticks, and at most one more. At the end the parts of all ticks, and
the views of the state, must equal those of a run in one process.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import dbsp
from dbsp import CheckpointError, Circuit, sum_
from dbsp.circuit.graph import Graph
from dbsp.operators.ports.output import Output
from dbsp.operators.ports.spark_sink import SparkSink
from dbsp.operators.ports.spark_source import SparkSource
from dbsp.operators.stages.passes.distribute import distribute
from dbsp.spark.cluster.cluster_run import ClusterRun
from dbsp.spark.cluster.deal_tasks import DealtFrame
from dbsp.spark.cluster.part_sink import PartSink
from dbsp.spark.cluster.shared_folder import SharedFolder
from dbsp.spark.spark_types import arrow_types, struct_of

Delta = dict[tuple[Any, ...], int]
SPARK_KILLS = {"small": 5, "medium": 30, "large": 100}
"""By size the number of kills."""
SHARDS = 3
_KINDS = ("worker", "worker", "executor", "executor", "driver")
_TRAPS = ("raise", "exit", "sleep", "fail")
_SLEEP = 6.0
_PATIENCE = 240.0
"""Seconds in which a child must report the next tick."""
_SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "2",
    "spark.speculation.minTaskRuntime": "2s",
    "spark.network.timeout": "60s",
    "spark.executor.heartbeatInterval": "5s",
}


@dataclass
class SparkKilled:
    """The outcome of a campaign."""

    kills: Counter[str] = field(default_factory=Counter)
    traps: Counter[str] = field(default_factory=Counter)
    """How many traps of each kind tasks have taken."""
    ticks: int = 0
    ahead: int = 0
    """How often the next driver found a tick that `step` had not returned."""
    failed: int = 0
    """How often `step` raised, and was repeated."""
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


def circuit() -> Circuit:
    """A join, an aggregate and a recursion, so that shards exchange rows."""
    built = Circuit("killed")
    sold = built.input("sold", shop=str, amount=int)
    shops = built.input("shops", shop=str, region=str)
    built.output("totals", sold.join(shops, on=["shop"]).group_by("region").agg(total=sum_("amount")))
    near = shops.rename(x="shop", y="region").distinct()
    with built.fixpoint("reach") as scope:
        reach = scope.variable("reach", near.schema)
        longer = reach.join(near.rename(z="y", y="x"), on="y").project("x", "z").rename(y="z")
        scope.define(reach, (near + longer).distinct())
    built.output("reached", scope.leave(reach))
    return built


def changes_of(tick: int) -> dict[str, Delta]:
    """The changes of a tick: rows appear and disappear."""
    draw = random.Random(tick)
    sold = {(f"n{draw.randrange(9)}", draw.randrange(20)): draw.choice((1, 1, 2, -1)) for _ in range(30)}
    shops = {(f"n{draw.randrange(9)}", f"n{draw.randrange(9)}"): draw.choice((1, 1, -1)) for _ in range(4)}
    return {"sold": sold, "shops": shops}


@dataclass(frozen=True)
class TrappedFolder(SharedFolder):
    """A shared folder in which the first task that writes state takes a trap."""

    traps: str = ""

    def write(self, name: str, content: bytes) -> None:
        super().write(name, content)
        if not name.startswith("state/"):
            return
        for trap in sorted(Path(self.traps).glob("*.set")):
            with suppress(FileNotFoundError):
                trap.rename(trap.with_suffix(".taken"))
                self._taken(trap.name.partition("-")[0], name)
                return

    def _taken(self, kind: str, name: str) -> None:
        if kind == "raise":
            raise RuntimeError("a task that fails after it has written")
        if kind == "exit":
            os._exit(1)
        if kind == "sleep":
            time.sleep(_SLEEP)
        if kind == "fail":
            raise CheckpointError(f"cannot write {name}: the disk is on fire", code="checkpoint-write")


# --- the child -----------------------------------------------------------------------------------


def sinks_of(graph: Graph, folder: Path) -> list[PartSink]:
    return [
        PartSink(
            operator.relation,
            SparkSink(operator.relation, columns=node.schema),
            dict(arrow_types(struct_of(node.schema, None))),
            SharedFolder(str(folder / operator.relation)),
        )
        for node in graph.nodes
        if isinstance(operator := node.operator, Output)
    ]


def drive(folder: Path, final: bool) -> None:
    """Step a run without end, and report every tick; the final one writes the views instead."""
    spark = dbsp.spark.session(
        "kills",
        master="local-cluster[2,1,512]",
        settings={**_SETTINGS, "spark.local.dir": str(folder / "local")},
    )
    spark.sparkContext.setLogLevel("OFF")
    graph = distribute(circuit().circuit("physical"), inner_exchanges=False, whole_outputs=True)
    schemas = {node.operator.relation: node for node in graph.nodes if hasattr(node.operator, "dealt")}
    state = TrappedFolder(str(folder / "state"), str(folder / "traps"))
    sinks = sinks_of(graph, folder / "out")
    run = ClusterRun(spark, graph, SHARDS, state, sinks, image_from=6000)
    print(json.dumps({"opened": run.tick, "label": run.commit.label}), flush=True)
    if final:
        run.write_views(sinks_of(graph, folder / "views"))
        print(json.dumps({"final": run.tick}), flush=True)
        spark.stop()
        return
    while True:
        tick = run.tick + 1
        frames = []
        for name, rows in changes_of(tick).items():
            schema = schemas[name].schema
            data = [(*row, weight) for row, weight in rows.items()]
            frame = spark.createDataFrame(data, struct_of(schema, None).add("weight", "long"))
            frames.append(DealtFrame(SparkSource(name, schema, "zset", encoding="weight"), frame))
        try:
            run.step(frames, label=tick)
        except Exception as error:
            print(json.dumps({"failed": f"{type(error).__name__}: {error}"[:300]}), flush=True)
        else:
            print(json.dumps({"stepped": tick}), flush=True)


# --- the parent ----------------------------------------------------------------------------------


class _Driver:
    """A child process, its descendants, and its reports."""

    def __init__(self, folder: Path, final: bool = False) -> None:
        program = "import sys; from pathlib import Path; from benchmarks.spark_kills import drive; "
        program += f"drive(Path(sys.argv[1]), {final})"
        with open(folder / "errors", "ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", program, str(folder)],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        assert self.process.stdout is not None
        self._reports = self.process.stdout

    def report(self) -> dict[str, Any] | None:
        """Return the next report; None if the process ended or hangs."""
        while select.select([self._reports], [], [], _PATIENCE)[0]:
            line = self._reports.readline()
            if line.startswith("{") and line.endswith("\n"):
                found: dict[str, Any] = json.loads(line)
                return found
            if not line:
                return None
        return None

    def of_kind(self, kind: str) -> list[int]:
        """Return the processes of a kind: Python workers, or executors."""
        sign = "pyspark.daemon" if kind == "worker" else "CoarseGrainedExecutorBackend"
        return [pid for pid, command in descendants(self.process.pid).items() if sign in command]

    def kill(self) -> list[dict[str, Any]]:
        """Kill the driver; return its last reports. Its executors end some time later."""
        self.process.kill()
        self.process.wait()
        lines = [line for line in self._reports if line.startswith("{") and line.endswith("\n")]
        return [json.loads(line) for line in lines]

    def end(self) -> None:
        """End what a killed driver has left behind."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def descendants(pid: int) -> dict[int, str]:
    """Return the processes that a process has started, and those that they have, with commands."""
    parents: dict[int, list[tuple[int, str]]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            parents.setdefault(int(fields[1]), []).append((int(folder.name), command))
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        for child, command in parents.get(waiting.pop(), ()):
            found[child] = command
            waiting.append(child)
    return found


class _Campaign:
    """Kills of one state, and what was found."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.draw = random.Random(seed)
        self.done = SparkKilled()
        self.acknowledged = 0
        self._ended: list[_Driver] = []
        (folder / "traps").mkdir()

    def opened(self, final: bool = False) -> _Driver:
        driver = _Driver(self.folder, final)
        report = driver.report()
        if report is None or "opened" not in report:
            self.done.problems.append(f"the run does not open after tick {self.acknowledged}: {report}")
            return driver
        tick = report["opened"]
        if not self.acknowledged <= tick <= self.acknowledged + 1:
            self.done.problems.append(f"{self.acknowledged} ticks were acknowledged, found {tick}")
        if report["label"] != (tick or None):
            self.done.problems.append(f"tick {tick} has the label {report['label']}")
        self.done.ahead += tick > self.acknowledged
        self.acknowledged = tick
        return driver

    def take(self, report: dict[str, Any] | None) -> None:
        if report is None:
            self.done.problems.append(f"the run does not continue after tick {self.acknowledged}")
        elif "failed" in report:
            self.done.failed += 1
        elif report["stepped"] != self.acknowledged + 1:
            self.done.problems.append(f"tick {report['stepped']} follows tick {self.acknowledged}")
        else:
            self.acknowledged += 1

    def step(self, driver: _Driver) -> None:
        """Wait for a tick; failed attempts of it count for nothing."""
        before = self.acknowledged
        while self.acknowledged == before and not self.done.problems:
            self.take(driver.report())

    def run(self, kills: int) -> None:
        driver = self.opened()
        for number in range(kills):
            if self.done.problems:
                break
            for _ in range(self.draw.randrange(1, 3)):
                self.step(driver)
            if self.draw.random() < 0.5:
                trap = self.draw.choice(_TRAPS)
                (self.folder / "traps" / f"{trap}-{number}.set").touch()
            time.sleep(self.draw.random() * 1.5)
            kind = self.draw.choice(_KINDS)
            if kind != "driver" and (processes := driver.of_kind(kind)):
                with suppress(ProcessLookupError):
                    os.kill(self.draw.choice(processes), signal.SIGKILL)
                self.done.kills[kind] += 1
                self.step(driver)
            elif kind == "driver":
                for report in driver.kill():
                    self.take(report)
                self.done.kills[kind] += 1
                self._ended.append(driver)
                driver = self.opened()
        driver.kill()
        self._ended.append(driver)
        for ended in self._ended:
            ended.end()
        self.done.traps.update(path.name.partition("-")[0] for path in self.folder.glob("traps/*.taken"))

    def compare(self) -> None:
        """Compare all ticks and the final views with a run in one process."""
        for trap in self.folder.glob("traps/*.set"):
            trap.unlink()
        driver = self.opened(final=True)
        if (report := driver.report()) is None or "final" not in report:
            self.done.problems.append(f"the views cannot be written: {report}")
            return
        driver.process.wait(timeout=_PATIENCE)
        driver.end()
        right = circuit().start()
        for tick in range(1, self.acknowledged + 1):
            result = right.step(changes_of(tick))
            for name in right.outputs:
                found, expected = parts(self.folder / "out" / name, tick), result[name].to_dict()
                if found != expected:
                    self.done.problems.append(f"tick {tick} of {name}: expected {expected}, got {found}")
        for name in right.outputs:
            if len(list((self.folder / "out" / name).glob("tick=*"))) > self.acknowledged:
                self.done.problems.append(f"{name} has ticks that were never committed")
            if parts(self.folder / "views" / name, self.acknowledged) != right.view(name).to_dict():
                self.done.problems.append(f"the view of {name} differs after tick {self.acknowledged}")


def parts(folder: Path, tick: int) -> Delta:
    """Return the rows of a tick, with their weights."""
    found: Delta = {}
    for file in folder.glob(f"tick={tick}/*.parquet"):
        for row in pq.ParquetFile(file).read().to_pylist():
            weight = row.pop("weight")
            found[tuple(row.values())] = found.get(tuple(row.values()), 0) + weight
    return found


def measure_spark_kills(kills: int, seed: int = 1) -> SparkKilled:
    """Kill so many processes of a run on shards."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        campaign = _Campaign(Path(folder), seed)
        campaign.run(kills)
        if not campaign.done.problems:
            campaign.compare()
    done = campaign.done
    done.ticks, done.seconds = campaign.acknowledged, time.perf_counter() - started
    return done
