"""What it costs to drive a circuit from Spark, over what Spark itself takes for the same micro-batches.

Every micro-batch is a Parquet file, and its time is what Spark says it took. The same files go through the
same session past functions that apply nothing to a circuit (the floors) and through pipelines. One floor does
nothing at all, and Spark does not even read the rows; the other brings them over as Arrow, which no pipeline
can do without. What a pipeline takes over the second is its own.

`measure_passing` lets rows pass a circuit that hands out all of them, so that source, tick, journal and sink
all have work with every row. `measure_driven` plays W1 and W2 through Spark and through the same circuit
stepped directly; both must come to the same result.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dbsp
from benchmarks.changes import Change, Codes, Row
from benchmarks.contest import Outcome, checksum_of, net
from benchmarks.engine import outcome_of, regions, tables
from benchmarks.patterns import WORKLOADS as GRAPHS
from benchmarks.workloads import COLUMNS, make
from dbsp import Circuit, col
from dbsp.runtime.input_changes import TableChange
from dbsp.spark.tagged_union import unite

PASSING = {"tiny": (0, 10), "small": (0, 1_000), "medium": (0, 1_000, 100_000), "large": (100_000, 1_000_000)}
"""Rows of a micro-batch, by the size of the benchmark."""
DRIVEN = {"tiny": ("tiny",), "small": ("small",), "medium": ("small", "medium"), "large": ("medium", "large")}
"""Sizes of the workloads, by the size of the benchmark."""
FLOOR = "toArrow only"


@dataclass(frozen=True)
class Passing:
    """Medians of micro-batches of so many rows, in seconds."""

    rows: int
    way: str
    seconds: float
    over: float
    """Over the floor, which brings the same rows over as Arrow."""
    parts: tuple[float, ...]
    """Of a pipeline: bringing the rows over, the tick with its journal, the sinks."""

    @property
    def per_second(self) -> float:
        return self.rows / self.seconds


@dataclass(frozen=True)
class Driven:
    """Seconds of the load, or of the median batch, of a workload."""

    workload: str
    size: str
    phase: str
    rows: int
    direct: float
    floor: float
    through: float
    agreed: bool

    @property
    def over(self) -> float:
        """What the pipeline adds to Spark's floor and the tick itself."""
        return self.through - self.floor - self.direct


def measure_passing(
    session: Any, sizes: tuple[int, ...], batches: int = 12, rounds: int = 3, warm_up: int = 5
) -> Iterator[Passing]:
    """For each number of rows the floors, and the pipelines with less and more of what they can do.

    They take turns, since Spark becomes faster for minutes. A round before the first is not counted, nor
    the first micro-batches of a query, in which code is compiled.
    """
    for rows in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder, chance = Path(name), np.random.default_rng(rows)
            for place in range(warm_up + batches):
                columns = {column: chance.integers(0, 1_000, rows) for column in "abc"}
                put(folder / "in", place, pa.table({"id": place * rows + np.arange(rows)} | columns))
            frame = arriving(session, folder / "in")
            seconds: dict[str, list[float]] = {}
            ticks: dict[str, list[dict[str, Any]]] = {}
            for turn in range(rounds + 1):
                if turn == 1:  # what the round before took is forgotten
                    seconds, ticks = {}, {}
                for way, function in _FLOORS.items():
                    seconds.setdefault(way, []).extend(play(frame, function)[warm_up:])
                for place, (way, (to_function, options)) in enumerate(_WAYS.items()):
                    pipeline = dbsp.spark.stream(passing()).source("row", frame)
                    pipeline.sink("row", _nothing if to_function else folder / f"out-{turn}-{place}")
                    if options is not None:
                        location = str(folder / f"checkpoint-{turn}-{place}")
                        pipeline.options(checkpointLocation=location, **options)
                    query = finish(pipeline)
                    seconds.setdefault(way, []).extend(durations(query)[warm_up:])
                    ticks.setdefault(way, []).extend(dbsp.spark.ticks(query)[warm_up:])
        floor = statistics.median(seconds[FLOOR])
        for way, times in seconds.items():
            parts = [
                statistics.median(tick[part] for tick in ticks[way])
                for part in ("fetch_seconds", "step_seconds", "sink_seconds")
                if way in ticks
            ]
            median = statistics.median(times)
            yield Passing(rows, way, median, median - floor, tuple(parts))


def _nothing(frame: Any, number: int) -> None:
    """Takes no time of its own, as a sink or for `foreachBatch`."""


_FLOORS: dict[str, Callable[[Any, int], object]] = {
    "nothing at all": _nothing,
    FLOOR: lambda frame, batch: frame.toArrow(),
}
_WAYS: dict[str, tuple[bool, dict[str, Any] | None]] = {
    "to a function": (True, None),
    "to a folder": (False, None),
    "to a folder, checkpoint, sync=false": (False, {"sync": "false"}),
    "to a folder, checkpoint": (False, {}),
}
"""Whether the sink is a function, and the options if there is a checkpoint."""


def passing() -> Circuit:
    """Every row in comes out."""
    circuit = Circuit("passing")
    circuit.output("row", circuit.input("row", id=int, a=int, b=int, c=int).filter(col("a") >= 0))
    return circuit


def measure_driven(session: Any, name: str, size: str, batches: int = 15, rounds: int = 3) -> list[Driven]:
    """A workload's load and batches, stepped directly and driven from Spark, to the same result.

    As often as there are rounds, and once before, uncounted.
    """
    workload = make(name, size)
    logs = [whole(name, workload.base)]
    logs += [netted(name, changes) for changes in workload.batches[:batches]]
    direct, floor, through, agreed = [], [], [], True
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for place, log in enumerate(logs):
            for relation, change in log.items():
                put(root / relation, place, change.table.append_column("weight", pa.array(change.weights)))
        frames = {relation: arriving(session, root / relation) for relation in COLUMNS[name]}
        for turn in range(rounds + 1):
            run, times = circuit_of(name).start(), []
            for log in logs:
                began = time.perf_counter()
                run.step(log)
                times.append(time.perf_counter() - began)
            direct.append(times)
            floor.append(play(unite(frames), _FLOORS[FLOOR]))
            pipeline = dbsp.spark.stream(circuit_of(name))
            for relation, frame in frames.items():
                pipeline.source(relation, frame, encoding="weight")
            out = root / f"out-{turn}"
            pipeline.sink("result", out).option("checkpointLocation", str(root / f"checkpoint-{turn}"))
            through.append(durations(finish(pipeline)))
            agreed = agreed and len(through[-1]) == len(logs) and outcome_in(out) == outcome_of(run)
    rows = [sum(len(change.weights) for change in log.values()) for log in logs]
    counted = [measured[1:] or measured for measured in (direct, floor, through)]
    loads = [statistics.median(times[0] for times in measured) for measured in counted]
    medians = [statistics.median(t for times in measured for t in times[1:]) for measured in counted]
    return [
        Driven(name, size, "load", rows[0], *loads, agreed),
        Driven(name, size, "batch", round(statistics.median(rows[1:])), *medians, agreed),
    ]


def circuit_of(name: str) -> Circuit:
    return regions() if name == "w1" else GRAPHS[name].multiway()


def whole(name: str, base: dict[str, Codes]) -> dict[str, TableChange]:
    return {
        relation: TableChange(table, np.ones(len(table), np.int64))
        for relation, table in tables(name, base).items()
    }


def netted(name: str, changes: list[Change]) -> dict[str, TableChange]:
    """The net changes of every relation; none is left out, so that the relations' files stay in step."""
    found: dict[str, dict[Row, int]] = {relation: {} for relation in COLUMNS[name]} | net(changes)
    rows = {
        relation: np.array(list(rows), np.int64).reshape(-1, len(COLUMNS[name][relation]))
        for relation, rows in found.items()
    }
    return {
        relation: TableChange(table, np.array(list(found[relation].values()), np.int64))
        for relation, table in tables(name, rows).items()
    }


def outcome_in(folder: Path) -> Outcome:
    """What the deltas in a sink's folder add up to; that every row has the weight one is checked."""
    table = pq.read_table(folder).drop_columns(["tick"])
    names = table.column_names[:-1]
    total = table.group_by(names).aggregate([("weight", "sum")])
    weights = total.column("weight_sum").to_numpy()
    if not np.isin(weights, (0, 1)).all():
        raise ValueError("the deltas do not add up to a set")
    return checksum_of(np.stack([total.column(name).to_numpy()[weights == 1] for name in names], axis=1))


# -- micro-batches ------------------------------------------------------------------------------------


def put(folder: Path, place: int, table: pa.Table) -> None:
    """A file that becomes the micro-batch of that place."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{place:06d}.parquet"
    pq.write_table(table, file)
    os.utime(file, (1_700_000_000 + place,) * 2)  # files are taken by their times


def arriving(session: Any, folder: Path) -> Any:
    schema = session.read.parquet(str(folder)).schema
    return session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def play(frame: Any, function: Callable[[Any, int], object]) -> list[float]:
    """The seconds of every micro-batch past a function."""
    query = frame.writeStream.foreachBatch(function).trigger(availableNow=True).start()
    query.awaitTermination()
    return durations(query)


def finish(pipeline: dbsp.spark.Pipeline) -> Any:
    query = pipeline.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def durations(query: Any) -> list[float]:
    """Seconds of the micro-batches of a query that has ended, as Spark took them; of at most 100."""
    told = {progress["batchId"]: progress["durationMs"] for progress in query.recentProgress}
    return [told[batch]["triggerExecution"] / 1e3 for batch in sorted(told) if "addBatch" in told[batch]]
