"""The processes that `benchmarks.spark_kills` kills: drivers of a circuit on Spark's executors.

A process steps a run itself ("run"), or starts a streaming query in a classic session ("stream") or
in one of Spark Connect with a server of its own ("connect"). It never ends, unless it is the final
process of its folder: that one processes what has arrived, and writes the views.

The parent sets *traps* in a folder: files that the folders of the state look for. The first task
that finds one of `TRAPS` takes it: it raises an error after it has written, ends its process,
sleeps until Spark starts a second attempt, or finds a full disk. While there is a file of
`WEATHER`, every call of the file system is slow, or some fail, on the driver and on the executors.
"""

from __future__ import annotations

import json
import os
import random
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import dbsp
from dbsp import CheckpointError, Circuit, col
from dbsp.circuit.graph import Graph
from dbsp.operators.ports.output import Output
from dbsp.operators.ports.spark_sink import SparkSink
from dbsp.operators.ports.spark_source import SparkSource
from dbsp.operators.stages.passes.distribute import distribute
from dbsp.spark.cluster import cluster_start
from dbsp.spark.cluster.cluster_run import ClusterRun
from dbsp.spark.cluster.deal_tasks import DealtFrame
from dbsp.spark.cluster.part_sink import PartSink
from dbsp.spark.cluster.shared_folder import SharedFolder
from dbsp.spark.spark_types import arrow_types, struct_of

Delta = dict[tuple[Any, ...], int]
SHARDS = 3
TRAPS = ("raise", "exit", "sleep", "full")
WEATHER = ("slow", "failing")
_SLEEP = 6.0
_IMAGE_FROM = 6000
_SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.log.level": "OFF",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "2",
    "spark.speculation.minTaskRuntime": "2s",
    "spark.network.timeout": "60s",
    "spark.executor.heartbeatInterval": "5s",
    "spark.sql.streaming.minBatchesToRetain": "1000000",  # for the comparison at the end
}


def circuit() -> Circuit:
    """A join, an aggregate and a recursion, so that shards exchange rows."""
    built = Circuit("killed")
    sold = built.input("sold", shop=str, amount=int)
    shops = built.input("shops", shop=str, region=str)
    built.output("totals", sold.join(shops, on=["shop"]).group_by("region").agg(total=col("amount").sum()))
    near = shops.rename(x="shop", y="region").distinct()
    with built.fixpoint("reach") as scope:
        reach = scope.variable("reach", near.schema)
        longer = reach.join(near.rename(z="y", y="x"), on="y").select("x", "z").rename(y="z")
        scope.define(reach, (near + longer).distinct())
    built.output("reached", scope.leave(reach))
    return built


def changes_of(tick: int) -> dict[str, Delta]:
    """The changes of a tick: rows appear and disappear."""
    draw = random.Random(tick)
    sold = {(f"n{draw.randrange(9)}", draw.randrange(20)): draw.choice((1, 1, 2, -1)) for _ in range(30)}
    shops = {(f"n{draw.randrange(9)}", f"n{draw.randrange(9)}"): draw.choice((1, 1, -1)) for _ in range(4)}
    return {"sold": sold, "shops": shops}


# --- traps ----------------------------------------------------------------------------------------


class TrappedFiles:
    """A file system of pyarrow, with the weather that the folder of traps says."""

    def __init__(self, files: Any, traps: str) -> None:
        self._files = files
        self._traps = Path(traps)

    @property
    def type_name(self) -> str:
        return str(self._files.type_name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(self._files, name)

        def called(*arguments: Any, **named: Any) -> Any:
            if (self._traps / "slow").exists():
                time.sleep(random.random() / 20)
            fails = (self._traps / "failing").exists() and random.random() < 0.01
            if fails and random.random() < 0.5:
                raise OSError(5, f"{name} fails")
            result = method(*arguments, **named)
            if fails:
                raise OSError(5, f"the answer of {name} is lost")
            return result

        return called


@dataclass(frozen=True)
class TrappedFolder(SharedFolder):
    """A shared folder with traps."""

    traps: str = ""

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        files, path = SharedFolder(self.location)._opened
        return TrappedFiles(files, self.traps), path

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
        if kind == "full":
            raise CheckpointError(f"cannot write {name}: no space left", code="checkpoint-write")


# --- the processes --------------------------------------------------------------------------------


def main(folder: Path, mode: str, master: str, final: bool) -> None:
    """Run one of the processes."""
    settings = {**_SETTINGS, "spark.local.dir": str(folder / "local")}
    if mode == "connect":
        settings["spark.sql.warehouse.dir"] = str(folder / "warehouse")
        spark = dbsp.spark.session("kills", remote=master, settings=settings)
    else:
        spark = dbsp.spark.session("kills", master=master, settings=settings)
    say("session")
    if mode == "run":
        step(spark, folder, final)
    else:
        stream(spark, folder, mode, final)
    spark.stop()


def say(what: str, **facts: Any) -> None:
    print(json.dumps({"what": what, **facts}), flush=True)


def say_failure(spark: Any, error: Exception) -> None:
    """Report an error; end if it is that of a JVM that has ended."""
    say("failed", error=f"{type(error).__name__}: {error}"[:300])
    context = getattr(spark, "_sc", None)
    if context is not None and context._gateway.proc.poll() is not None:
        os._exit(3)
    time.sleep(1)


def step(spark: Any, folder: Path, final: bool) -> None:
    """Step a run, and report every tick that `step` has returned."""
    graph = distribute(circuit().circuit("physical"), inner_exchanges=False, whole_outputs=True)
    schemas = {node.operator.relation: node for node in graph.nodes if hasattr(node.operator, "dealt")}
    traps = str(folder / "traps")
    state = TrappedFolder(str(folder / "state"), traps=traps)
    run: ClusterRun | None = None
    while True:
        try:
            if run is None:
                sinks = sinks_of(graph, folder / "out", traps)
                run = ClusterRun(spark, graph, SHARDS, state, sinks, image_from=_IMAGE_FROM)
                say("opened", tick=run.tick, label=run.commit.label)
            if final:
                run.write_views(sinks_of(graph, folder / "views", traps))
                say("final", tick=run.tick)
                return
            tick = run.tick + 1
            frames = []
            for name, rows in changes_of(tick).items():
                schema = schemas[name].schema
                data = [(*row, weight) for row, weight in rows.items()]
                frame = spark.createDataFrame(data, struct_of(schema, None).add("weight", "long"))
                frames.append(DealtFrame(SparkSource(name, schema, "zset", encoding="weight"), frame))
            run.step(frames, label=tick)
            say("stepped", tick=tick)
        except Exception as error:
            say_failure(spark, error)
            if getattr(error, "code", "") == "run-closed":
                run = None  # it does not know whether its latest tick counts
            elif run is not None:
                say("opened", tick=run.tick, label=run.commit.label)


def sinks_of(graph: Graph, folder: Path, traps: str) -> list[PartSink]:
    return [
        PartSink(
            operator.relation,
            SparkSink(operator.relation, columns=node.schema),
            dict(arrow_types(struct_of(node.schema, None))),
            TrappedFolder(str(folder / operator.relation), traps=traps),
        )
        for node in graph.nodes
        if isinstance(operator := node.operator, Output)
    ]


def stream(spark: Any, folder: Path, mode: str, final: bool) -> None:
    """Start a query, and start it again when it fails."""
    if mode == "stream":
        setattr(cluster_start, "SharedFolder", partial(TrappedFolder, traps=str(folder / "traps")))  # noqa: B010
    while True:
        try:
            query = pipeline(spark, folder, final).start()
            say("started")
            query.awaitTermination()
            say("ended")
            return
        except Exception as error:
            say_failure(spark, error)


def pipeline(spark: Any, folder: Path, final: bool) -> dbsp.spark.Pipeline:
    """Return the pipeline; that of the final process has one more sink of each output."""
    built = dbsp.spark.stream(circuit()).option("shards", SHARDS)
    columns = {"sold": "shop string, amount long", "shops": "shop string, region string"}
    for name, ddl in columns.items():
        reader = spark.readStream.schema(f"{ddl}, weight long").option("maxFilesPerTrigger", 1)
        built.source(name, reader.parquet(str(folder / "in" / name)), encoding="weight")
    for name in ("totals", "reached"):
        built.sink(name, folder / "out" / name)
        if final:
            built.sink(name, folder / "views" / name, name=f"view of {name}")
    built.options(checkpointLocation=str(folder / "checkpoint"), snapshotEvery=f"{_IMAGE_FROM // 1000} KB")
    return built.trigger(**{"availableNow": True} if final else {"processingTime": "0 seconds"})
