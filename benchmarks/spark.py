"""The cost of driving a circuit from Spark, above Spark's own cost for the same micro-batches.

Every micro-batch is a Parquet file; its time is the one that Spark reports. The same session sends
the same files through functions without a circuit (the floors) and through pipelines. One floor
does nothing, and Spark does not even read the rows; the other fetches the rows as Arrow, which
every pipeline needs. The cost of a pipeline is its time above the second floor.

`measure_passing` sends rows through a circuit that emits all of them, so that source, tick, journal
and sink process every row. `measure_driven` plays W1 and W2 through Spark and through the same
circuit without Spark; both results must be equal.
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
    """Median seconds of micro-batches with a number of rows."""

    rows: int
    way: str
    seconds: float
    over: float
    """Seconds above the floor, which fetches the same rows as Arrow."""
    parts: tuple[float, ...]
    """The parts of a pipeline: fetching the rows, the tick with its journal, the sinks."""

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
        """The seconds that the pipeline adds to Spark's floor and the tick."""
        return self.through - self.floor - self.direct


def measure_passing(
    session: Any, sizes: tuple[int, ...], batches: int = 12, rounds: int = 3, warm_up: int = 5
) -> Iterator[Passing]:
    """Measure the floors and the pipelines with different options, for each number of rows.

    They take turns, because Spark becomes faster for minutes. An extra first round is not counted,
    nor the first micro-batches of a query, which compile code.
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
                if turn == 1:  # discard the times of the first round
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
    """Do nothing, as a sink or for `foreachBatch`."""


_FLOORS: dict[str, Callable[[Any, int], object]] = {
    "no function": _nothing,
    FLOOR: lambda frame, batch: frame.toArrow(),
}
_WAYS: dict[str, tuple[bool, dict[str, Any] | None]] = {
    "to a function": (True, None),
    "to a folder": (False, None),
    "to a folder, checkpoint, sync=false": (False, {"sync": "false"}),
    "to a folder, checkpoint": (False, {}),
}
"""Whether the sink is a function, and the options of the checkpoint, or None without one."""


def passing() -> Circuit:
    """Return a circuit that emits every input row."""
    circuit = Circuit("passing")
    circuit.output("row", circuit.input("row", id=int, a=int, b=int, c=int).filter(col("a") >= 0))
    return circuit


def measure_driven(session: Any, name: str, size: str, batches: int = 15, rounds: int = 3) -> list[Driven]:
    """Measure the load and batches of a workload without and through Spark; compare the results.

    An extra first round is not counted.
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
    """Return the net changes of all relations, even empty ones, so that files stay aligned."""
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
    """Return the outcome of the sum of the deltas in a sink's folder; check that weights are 1."""
    table = pq.read_table(folder).drop_columns(["tick"])
    names = [name for name in table.column_names if name != "weight"]
    total = table.group_by(names).aggregate([("weight", "sum")])
    weights = total.column("weight_sum").to_numpy()
    if not np.isin(weights, (0, 1)).all():
        raise ValueError("expected the deltas to sum up to a set, got weights other than 0 and 1")
    return _outcome(total.filter(weights == 1).select(names))


def outcome_of_rows(folder: Path) -> Outcome:
    """Return the outcome of a result without weights."""
    return _outcome(pq.read_table(folder))


def _outcome(table: pa.Table) -> Outcome:
    return checksum_of(np.stack([column.to_numpy() for column in table.columns], axis=1))


# --- micro-batches --------------------------------------------------------------------------------


def put(folder: Path, place: int, table: pa.Table) -> None:
    """Write a file that becomes the micro-batch with this number."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{place:06d}.parquet"
    pq.write_table(table, file)
    os.utime(file, (1_700_000_000 + place,) * 2)  # Spark orders files by their times


def arriving(session: Any, folder: Path) -> Any:
    schema = session.read.parquet(str(folder)).schema
    return session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def play(frame: Any, function: Callable[[Any, int], object]) -> list[float]:
    """Return the seconds of every micro-batch with a function."""
    query = frame.writeStream.foreachBatch(function).trigger(availableNow=True).start()
    query.awaitTermination()
    return durations(query)


def finish(pipeline: dbsp.spark.Pipeline) -> Any:
    query = pipeline.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def durations(query: Any) -> list[float]:
    """Return Spark's seconds of the micro-batches of an ended query; at most the last 100."""
    parts = {progress["batchId"]: progress["durationMs"] for progress in query.recentProgress}
    return [parts[batch]["triggerExecution"] / 1e3 for batch in sorted(parts) if "addBatch" in parts[batch]]
