"""A client of Spark Connect: runs its scenarios in a process of its own, writes what each found.

    python -m tests.spark.connect_client FOLDER [SCENARIO...]        writes FOLDER/found.json

A process has either classic sessions or those of Spark Connect, so the tests start this one. The
server that it starts calls the functions of micro-batches in further processes.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import dbsp
import dbsp.datomic
from dbsp import Circuit, col
from tests.spark.connect_sinks import Appended
from tests.spark.support import CLOSURE, Arrivals, finish

FACT = dbsp.compile(CLOSURE + "edge(0, 1).")


def counted() -> Circuit:
    """A circuit with a function that is not a member of a module."""
    circuit = Circuit("counted")
    rows = circuit.input("edge", x=int, y=int)
    circuit.output("path", rows.filter(lambda row: row.x < 10).map(x=col("x") + 1, y=col("y")))
    return circuit


def pipeline_of(spark: Any, root: Path, arrivals: Arrivals, program: Any = FACT) -> dbsp.spark.Pipeline:
    """Return a pipeline with sinks of all three kinds."""
    return (
        dbsp.spark.stream(program)
        .source("edge", arrivals.frame(spark))
        .sink("path", root / "out")
        .sink("path", Appended(root / "calls"), name="function")
        .sink("path", root.name, name="table")
        .option("checkpointLocation", root / "checkpoint")
    )


def found_by(spark: Any, root: Path) -> dict[str, Any]:
    """Return what the sinks have."""
    folder = spark.read.parquet(str(root / "out")).toArrow()
    return {
        "client": os.getpid(),
        "folder": sorted(
            zip(*(folder.column(n).to_pylist() for n in ("tick", "x", "y", "weight")), strict=True)
        ),
        "table": sorted((row.tick, row.x, row.y, row.weight) for row in spark.table(root.name).collect()),
        "calls": [json.loads(line) for line in (root / "calls").read_text().splitlines()],
    }


def restarts(spark: Any, root: Path) -> Any:
    """Two micro-batches, a restart, and one more; then a restart of a query that was stopped."""
    arrivals = Arrivals(root / "in", "x long, y long")

    def pipeline() -> dbsp.spark.Pipeline:
        return pipeline_of(spark, root, arrivals)

    arrivals.put((1, 2))
    arrivals.put((2, 3))
    finish(pipeline())
    arrivals.put((3, 4))
    finish(pipeline())
    query = pipeline().start()
    arrivals.put((4, 5))
    query.processAllAvailable()
    query.stop()
    finish(pipeline())
    return found_by(spark, root)


def shards(spark: Any, root: Path) -> Any:
    """Two micro-batches, a restart, and one more, on two shards."""
    arrivals = Arrivals(root / "in", "x long, y long")
    arrivals.put((1, 2))
    arrivals.put((2, 3))
    options = {"shards": 2, "memoryLimit": "64M", "sync": "false"}
    finish(pipeline_of(spark, root, arrivals).options(**options))
    arrivals.put((3, 4))
    finish(pipeline_of(spark, root, arrivals).options(**options))
    return found_by(spark, root)


def functions(spark: Any, root: Path) -> Any:
    """A circuit with a lambda, without a checkpoint, whose source is a named view."""
    arrivals = Arrivals(root / "in", "x long, y long")
    arrivals.put((1, 2), (11, 3))
    arrivals.frame(spark).createOrReplaceTempView("edges")
    finish(dbsp.spark.stream(counted()).source("edge", "edges").sink("path", root / "out"))
    return spark.read.parquet(str(root / "out")).select("x", "y", "weight").collect()


def several(spark: Any, root: Path) -> Any:
    """Two sources in one micro-batch, one of operations that are in the order of the files."""
    circuit = Circuit("two")
    people = circuit.input("person", schema={"id": int, "name": str}, key="id")
    orders = circuit.input("order", id=int, n=int)
    circuit.output("named", orders.join(people, on="id"))
    first = Arrivals(root / "person", "id long, name string, operation string")
    second = Arrivals(root / "order", "id long, n long")
    first.put((1, "a", "I"), (2, "b", "I"), (1, "a", "D"))
    second.put((1, 5), (2, 6))
    first.put((1, "c", "I"))
    second.put()
    finish(
        dbsp.spark.stream(circuit)
        .source("person", first.frame(spark), encoding="operations")
        .source("order", second.frame(spark))
        .sink("named", root / "out")
        .option("checkpointLocation", root / "checkpoint")
    )
    return sorted(spark.read.parquet(str(root / "out")).select("tick", "id", "n", "name", "weight").collect())


def batch(spark: Any, root: Path) -> Any:
    frame = spark.createDataFrame([(1, 2), (2, 3)], "x long, y long")
    return sorted(dbsp.spark.run(FACT, {"edge": frame})["path"].collect())


def failing(spark: Any, root: Path) -> Any:
    """A null in a micro-batch; the error by `query.exception` and by `dbsp.spark.error`."""
    arrivals = Arrivals(root / "in", "x long, y long")
    arrivals.put((1, 2))
    arrivals.put((9, None))
    pipeline = pipeline_of(spark, root, arrivals).trigger(availableNow=True)
    query = pipeline.start()
    while query.isActive:
        time.sleep(0.05)
    error = dbsp.spark.error(query)
    return {
        "exception": str(query.exception()),
        "class": type(error).__name__,
        "error": str(error),
        "code": getattr(error, "code", None),
        "ticks": refusal(lambda: dbsp.spark.ticks(query)),
    }


def failing_sink(spark: Any, root: Path) -> Any:
    """A sink fails once: the restart delivers the tick to it and does not apply it again."""
    arrivals = Arrivals(root / "in", "x long, y long")
    arrivals.put((1, 2))
    failing = root / "fail"
    failing.touch()
    pipeline = (
        dbsp.spark.stream(FACT)
        .source("edge", arrivals.frame(spark))
        .sink("path", Appended(root / "calls", failing))
        .option("checkpointLocation", root / "checkpoint")
        .trigger(availableNow=True)
    )
    query = pipeline.start()
    while query.isActive:
        time.sleep(0.05)
    told = str(dbsp.spark.error(query))
    failing.unlink()
    finish(pipeline)
    return {"error": told, "calls": [json.loads(line) for line in (root / "calls").read_text().splitlines()]}


def refused(spark: Any, root: Path) -> Any:
    """What `start` refuses before a query starts."""
    arrivals = Arrivals(root / "in", "x long, y long")
    lock = threading.Lock()

    def not_picklable(frame: Any, tick: int) -> None:
        lock.acquire()

    def pipeline() -> dbsp.spark.Pipeline:
        return dbsp.spark.stream(FACT).source("edge", arrivals.frame(spark))

    run = FACT.start()
    return {
        "pickle": refusal(pipeline().sink("path", not_picklable).start),
        "option": refusal(pipeline().option("sync", "maybe").start),
        "target": refusal(pipeline().sink("path", "s3://bucket/out").start),
        "shards": refusal(pipeline().option("shards", 2).start),
        "location": refusal(pipeline().option("checkpointLocation", "s3://bucket/state").start),
        "batch": refusal(
            dbsp.spark.stream(FACT).source("edge", spark.range(3).selectExpr("id x", "id y")).start
        ),
        "feed": refusal(lambda: dbsp.spark.feed(run, "edge")),
        "database": refusal(lambda: dbsp.spark.feed_database(dbsp.datomic.connect())),
    }


def refusal(action: Any) -> str:
    """Return the error of an action that must fail."""
    try:
        action()
    except dbsp.DbspError as error:
        return str(error)
    return "nothing was refused"


def main(folder: Path, names: list[str]) -> None:
    """Run the scenarios of these names, or all of them."""
    settings = {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.log.level": "OFF"}
    spark = dbsp.spark.session("connect tests", remote="local[2]", settings=settings)
    found: dict[str, Any] = {}
    for scenario in (restarts, functions, several, batch, failing, failing_sink, refused, shards):
        if names and scenario.__name__ not in names:
            continue
        root = folder / scenario.__name__
        root.mkdir()
        try:
            found[scenario.__name__] = scenario(spark, root)
        except Exception:
            found[scenario.__name__] = {"raised": traceback.format_exc()}
    (folder / "found.json").write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
