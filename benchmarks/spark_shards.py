"""One circuit on Spark's executors, in the driver, and what a PySpark user writes instead.

All ways read the same Parquet files, through DataFrames of the same session, and in turn, so that
what else the machine does slows all of them. A tick deletes rows of the largest relation, the next
inserts them again; the last tick deletes. A way that recomputes takes part in the load and in the
last tick. All results must be equal.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dbsp
from benchmarks.contest import Outcome
from benchmarks.engine import RULES, outcome_of, regions, tables
from benchmarks.graphs import power_law
from benchmarks.patterns import WORKLOADS as GRAPHS
from benchmarks.processes import Peaks, forget_peaks, peaks, processor_seconds
from benchmarks.spark import outcome_in
from benchmarks.spark_rivals import IncrementalTotals, Recomputed, frame_of
from benchmarks.workloads import REGIONS, layers
from dbsp.operators.ports.input import Input
from dbsp.operators.ports.output import Output
from dbsp.operators.ports.spark_sink import SparkSink
from dbsp.operators.ports.spark_source import SparkSource
from dbsp.operators.stages.passes.distribute import distribute
from dbsp.spark.cluster.cluster_run import ClusterRun
from dbsp.spark.cluster.deal_tasks import DealtFrame
from dbsp.spark.cluster.messages import COLUMNS
from dbsp.spark.cluster.part_sink import PartSink
from dbsp.spark.cluster.shared_folder import SharedFolder
from dbsp.spark.spark_types import arrow_types, struct_of

SPARK_SHARDS = {
    "tiny": {"w1": 500, "w2": 200, "w3dag": 250},
    "small": {"w1": 100_000, "w2": 20_000, "w3dag": 2_000},
    "medium": {"w1": 1_000_000, "w2": 200_000, "w3dag": 20_000},
    "large": {"w1": 10_000_000, "w2": 1_000_000, "w3dag": 50_000},
}
"""The orders of w1, the edges of w2, the nodes of w3dag."""
TICKS = {1: 3, 1_000: 4, 100_000: 2}
"""By the rows of a tick, how many pairs of ticks are measured."""
DRIVER_MEMORY = {"spark.driver.memory": "4g"}
"""With 1 GB, which is usual, the driver fails to fetch 11 million rows; shards do not need it."""
LONGEST_LOOP = 2_000
"""The most nodes of w3dag for which Spark recomputes the closure: it takes minutes for more."""
FILES = 4


@dataclass
class Taken:
    """What ticks of one size have taken."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    """Of the driver, of Spark, and of all Python workers."""

    @property
    def seconds(self) -> float:
        return statistics.median(self.wall)

    @property
    def processor_seconds(self) -> float:
        return statistics.median(self.processor)


@dataclass
class OnSpark:
    """The measurements of a workload in one way."""

    workload: str
    way: str
    rows: int
    """The rows of the load."""
    load: Taken = field(default_factory=Taken)
    peaks: Peaks = field(default_factory=partial(Peaks, 0, 0, 0))
    """The memory during the load."""
    ticks: dict[int, Taken] = field(default_factory=dict)
    levels: int = 0
    """The segments of the circuit, if it runs on shards."""
    worked: dict[int, tuple[float, ...]] = field(default_factory=dict)
    """By the rows of a tick on shards, the seconds of the busiest task of each segment."""
    outcome: Outcome | None = None


class Way(Protocol):
    """A way to keep the result of a workload up to date."""

    name: str

    def step(self, changes: Mapping[str, Path]) -> None: ...

    def outcome(self) -> Outcome: ...


class OneProcess:
    """The circuit in the driver: it fetches the rows of the DataFrames."""

    name = "in the driver"

    def __init__(self, session: Any, workload: str, folder: Path) -> None:
        self.session, self.folder = session, folder
        self.run = circuit_of(workload).start(checkpoint=folder / "state")
        (folder / "out").mkdir()

    def step(self, changes: Mapping[str, Path]) -> None:
        fetched = {name: frame_of(self.session, file).toArrow() for name, file in changes.items()}
        delta = self.run.step(fetched)["result"]
        pq.write_table(delta.to_arrow(), self.folder / "out" / f"{self.run.tick}.parquet")

    def outcome(self) -> Outcome:
        return outcome_of(self.run)


class OnShards:
    """The circuit on the executors, in shards."""

    def __init__(self, session: Any, workload: str, folder: Path, shards: int = 2) -> None:
        self.name = f"on {shards} shards"
        self.session, self.folder = session, folder
        graph = distribute(
            circuit_of(workload).circuit("physical"), inner_exchanges=False, whole_outputs=True
        )
        inputs = [node.operator for node in graph.nodes if isinstance(node.operator, Input)]
        self.sources = {
            each.relation: SparkSource(
                each.relation, each.columns, kind=each.kind, key=each.key, encoding="weight"
            )
            for each in inputs
        }
        schema = next(node.schema for node in graph.nodes if isinstance(node.operator, Output))
        self.sink = PartSink(
            "result",
            SparkSink("result", columns=schema, encoding="weight", sink_name="result"),
            dict(arrow_types(struct_of(schema, None))),
            SharedFolder(str(folder / "out")),
        )
        self.run = ClusterRun(session, graph, shards, SharedFolder(str(folder / "state")), [self.sink])

    def step(self, changes: Mapping[str, Path]) -> None:
        self.run.step(
            [DealtFrame(self.sources[name], frame_of(self.session, file)) for name, file in changes.items()]
        )

    def worked(self) -> tuple[float, ...]:
        """By segment the seconds of its busiest task in the latest tick."""
        return tuple(
            max(facts["seconds"] for facts in self.run.reports if facts["level"] == level)
            for level in range(len(self.run.segments))
        )

    def outcome(self) -> Outcome:
        return outcome_in(self.folder / "out")


class EmptyJob:
    """A job with as many shuffles and Python stages as the circuit has segments, and no rows."""

    name = "empty job"

    def __init__(self, session: Any, levels: int, shards: int) -> None:
        self.session, self.levels, self.shards = session, levels, shards

    def step(self, changes: Mapping[str, Path]) -> None:
        rows = self.session.range(0, self.shards, 1, 1).selectExpr(
            "cast(id AS int) AS shard", "0 AS level", "'' AS input", "binary('') AS content"
        )
        for _ in range(self.levels):
            rows = rows.repartitionById(self.shards, "shard").mapInArrow(_same, COLUMNS)
        rows.toArrow()


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def circuit_of(workload: str) -> Any:
    if workload == "w1":
        return regions()
    return GRAPHS[workload].multiway() if workload in GRAPHS else dbsp.compile(RULES[workload])


def measure_spark_shards(
    session: Any,
    sizes: Mapping[str, int],
    ticks: Mapping[int, int] = TICKS,
    shards: int = 2,
    only: str = "",
    rivals: bool = True,
) -> Iterator[list[OnSpark]]:
    """Yield for each workload the measurements of all ways."""
    for workload, count in sizes.items():
        if only in workload:
            with tempfile.TemporaryDirectory(prefix="dbsp-spark-shards-") as folder:
                yield _measured(session, workload, count, ticks, shards, rivals, Path(folder))


def _measured(
    session: Any,
    workload: str,
    count: int,
    ticks: Mapping[int, int],
    shards: int,
    rivals: bool,
    folder: Path,
) -> list[OnSpark]:
    tiny = written(session, workload, SPARK_SHARDS["tiny"][workload], folder / "tiny")
    base = written(session, workload, count, folder / "base")
    counts = {name: session.read.parquet(str(file)).count() for name, file in base.items()}
    makers = _makers(session, workload, shards, rivals and (workload != "w3dag" or count <= LONGEST_LOOP))
    for place, maker in enumerate(makers[:2] if workload == "w3dag" else makers):
        _new(maker, folder / f"warm-{place}").step(tiny)  # compiles the kernels, starts workers
    ways, measured = [], []
    for place, maker in enumerate(makers):
        way = _new(maker, folder / f"way-{place}")
        one = OnSpark(workload, way.name, sum(counts.values()))
        forget_peaks()
        _take(way, base, one.load)
        one.peaks = peaks()
        ways.append(way)
        measured.append(one)
    on_shards = ways[0]
    assert isinstance(on_shards, OnShards)
    measured[0].levels = len(on_shards.run.segments)
    empty = EmptyJob(session, measured[0].levels, shards)
    floor = OnSpark(workload, f"{empty.name} of {empty.levels} levels", 0)
    largest = max(counts, key=lambda name: counts[name])
    sizes = [size for size in ticks if size <= counts[largest] // 2]
    for size in sizes:
        files = _tick_files(session, base[largest], size, folder / f"tick-{size}")
        for turn in range(2 * ticks[size] + (size == sizes[-1])):
            last = turn == 2 * ticks[size]
            for way, one in zip(ways, measured, strict=True):
                if last or not isinstance(way, Recomputed):
                    _take(way, {largest: files[turn % 2]}, one.ticks.setdefault(size, Taken()))
                if isinstance(way, OnShards):
                    one.worked[size] = way.worked()
            _take(empty, {}, floor.ticks.setdefault(size, Taken()))
    for way, one in zip(ways, measured, strict=True):
        one.outcome = way.outcome()
    return [*measured, floor]


def _take(way: Any, changes: Mapping[str, Path], taken: Taken) -> None:
    before, began = processor_seconds(), time.perf_counter()
    way.step(changes)
    taken.wall.append(time.perf_counter() - began)
    taken.processor.append(processor_seconds() - before)


Maker = Callable[[Path], Way]


def _makers(session: Any, workload: str, shards: int, rivals: bool) -> list[Maker]:
    """Return what makes each way; that on shards is first, while the driver is small."""
    makers: list[Maker] = [
        lambda folder: OnShards(session, workload, folder, shards),
        lambda folder: OneProcess(session, workload, folder),
    ]
    if rivals:
        makers.append(lambda folder: Recomputed(session, workload, folder))
        if workload == "w1":
            makers.append(lambda folder: IncrementalTotals(session, workload, folder))
    return makers


def _new(maker: Maker, folder: Path) -> Way:
    folder.mkdir()
    return maker(folder)


# --- the rows -------------------------------------------------------------------------------------


def written(session: Any, workload: str, count: int, folder: Path) -> dict[str, Path]:
    """Write the relations of a workload with weights, each as some Parquet files.

    Spark makes the orders and customers of w1, so that no process needs memory for them.
    """
    folder.mkdir()
    if workload == "w1":
        customers = count // 10
        rows = {
            "orders": session.range(0, count, 1, FILES).selectExpr(
                "id AS o",
                f"pmod(xxhash64(id), {customers}) AS c",
                "1 + pmod(xxhash64(id, 1), 999) AS amount",
                "1L AS weight",
            ),
            "customers": session.range(0, customers, 1, FILES).selectExpr(
                "id AS c", f"pmod(xxhash64(id, 2), {REGIONS}) AS region", "1L AS weight"
            ),
        }
        for name, frame in rows.items():
            frame.write.parquet(str(folder / name))
        return {name: folder / name for name in rows}
    edges = layers(count) if workload == "w3dag" else power_law(count, np.random.default_rng(1))
    table = tables(workload, {"e": edges})["e"]
    (folder / "e").mkdir()
    for place in range(FILES):
        low, high = (len(table) * bound // FILES for bound in (place, place + 1))
        _put(table.slice(low, high - low), 1, folder / "e" / f"{place}.parquet")
    return {"e": folder / "e"}


def _tick_files(session: Any, base: Path, size: int, folder: Path) -> tuple[Path, Path]:
    """Write the changes that delete some rows of a relation, and those that insert them again."""
    folder.mkdir()
    frame = session.read.parquet(str(base)).drop("weight")
    one_in = max(1, frame.count() // (2 * size + 20))
    chosen = frame.where(f"pmod(xxhash64({', '.join(frame.columns)}), {one_in}) = 0").limit(size)
    table = chosen.toArrow()
    assert len(table) == size, f"expected {size} rows, got {len(table)}"
    files = folder / "delete.parquet", folder / "insert.parquet"
    for file, weight in zip(files, (-1, 1), strict=True):
        _put(table, weight, file)
    return files


def _put(table: pa.Table, weight: int, file: Path) -> None:
    pq.write_table(table.append_column("weight", pa.array(np.full(len(table), weight))), file)
