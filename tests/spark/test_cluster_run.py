"""Circuits on Spark's executors return, tick by tick, what they return in one process."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import dbsp
from dbsp import CheckpointError, Circuit, CircuitError, DbspError, Run, col
from dbsp.circuit.graph import Graph
from dbsp.operators.ports.output import Output
from dbsp.operators.ports.spark_sink import SparkSink
from dbsp.operators.ports.spark_source import SparkSource
from dbsp.operators.stages.passes.distribute import distribute
from dbsp.spark.cluster.cluster_run import ClusterRun, DealtFrame
from dbsp.spark.cluster.part_sink import PartSink
from dbsp.spark.cluster.shared_folder import SharedFolder
from dbsp.spark.spark_types import arrow_types, struct_of
from tests.harness import deltas_of

pytestmark = pytest.mark.spark

Changes = Mapping[str, Mapping[tuple[Any, ...], int]]


class Compared:
    """A run on executors beside a run of one process. All inputs are Z-sets."""

    scopes = "gather"
    """Where recursions run that no column divides."""

    def __init__(
        self, spark: Any, physical: Graph, shards: int, folder: Path, image_from: int = 1 << 24
    ) -> None:
        self.spark = spark
        self.one = Run(physical)
        self.graph = distribute(physical, scopes=self.scopes, inner_exchanges=False)
        self.shards = shards
        self.folder = folder
        self.image_from = image_from
        self.sinks = [
            PartSink(
                operator.relation,
                SparkSink(operator.relation, columns=node.schema),
                dict(arrow_types(struct_of(node.schema, None))),
                SharedFolder(str(folder / "out" / operator.relation)),
            )
            for node in self.graph.nodes
            if isinstance(operator := node.operator, Output)
        ]
        self.many = self.started()

    def started(self) -> ClusterRun:
        state = SharedFolder(str(self.folder / "state"))
        return ClusterRun(self.spark, self.graph, self.shards, state, self.sinks, image_from=self.image_from)

    def tick(self, changes: Changes) -> None:
        result = self.one.step(changes)
        self.many.step([self.frame(name, rows) for name, rows in changes.items()])
        assert self.many.tick == self.one.tick
        assert self.deltas() == deltas_of(result), changes

    def frame(self, name: str, rows: Mapping[tuple[Any, ...], int]) -> DealtFrame:
        schema = self.one.inputs[name]
        source = SparkSource(name, schema, self.one.input_ports[name].kind, encoding="weight")
        data = [(*row, weight) for row, weight in rows.items()]
        frame = self.spark.createDataFrame(data, struct_of(schema, None).add("weight", "long"))
        return DealtFrame(source, frame)

    def deltas(self) -> dict[str, dict[tuple[Any, ...], int]]:
        """Return the delta of the latest tick by output, from the files of the sinks."""
        found: dict[str, dict[tuple[Any, ...], int]] = {}
        for sink in self.sinks:
            for file in (self.folder / "out" / sink.name).glob(f"tick={self.many.tick}/*.parquet"):
                for row in pq.ParquetFile(file).read().to_pylist():
                    weight = row.pop("weight")
                    delta = found.setdefault(sink.name, {})
                    delta[tuple(row.values())] = delta.get(tuple(row.values()), 0) + weight
        return found


def shop() -> Circuit:
    circuit = Circuit("shop")
    sold = circuit.input("sold", shop=str, amount=int)
    shops = circuit.input("shops", shop=str, region=str)
    joined = sold.join(shops, on=["shop"])
    circuit.output("totals", joined.group_by("region").agg(total=col("amount").sum()))
    circuit.output("regions", shops.select("region").distinct())
    return circuit


def delayed() -> Circuit:
    """A circuit that reads the rows of the tick before from another shard."""
    circuit = Circuit("delayed")
    rows = circuit.input("rows", a=int, n=int)
    seen = circuit.feedback(rows.schema)
    counted = (rows + seen).group_by("a").agg(n=col("n").sum())
    circuit.connect(seen, counted.filter(col("n") < 40).map(a=col("n") % 3, n=col("a") + 5))
    circuit.output("counted", counted)
    return circuit


def changes_of(draw: random.Random, tick: int) -> dict[str, dict[tuple[Any, ...], int]]:
    sold = {(f"s{draw.randrange(6)}", draw.randrange(9)): draw.choice([1, 1, 2, -1]) for _ in range(8)}
    if tick % 3 == 2:
        return {"sold": sold}
    shops = {(f"s{draw.randrange(6)}", f"r{draw.randrange(3)}"): draw.choice([1, -1]) for _ in range(3)}
    return {"sold": sold, "shops": shops}


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_a_join_and_an_aggregate(spark: Any, tmp_path: Path, shards: int) -> None:
    compared = Compared(spark, shop().circuit("physical"), shards, tmp_path)
    draw = random.Random(shards)
    for tick in range(4):
        compared.tick(changes_of(draw, tick))


def test_a_recursion_and_a_multiway_join(spark: Any, tmp_path: Path) -> None:
    program = dbsp.compile(
        """
        .decl edge(x: number, y: number) .input edge
        .decl path(x: number, y: number) .output path
        .decl triangle(x: number, y: number, z: number) .output triangle
        path(x, y) :- edge(x, y).
        path(x, z) :- path(x, y), edge(y, z).
        triangle(x, y, z) :- edge(x, y), edge(y, z), edge(z, x).
        """,
        "wcoj",
    )
    compared = Compared(spark, program.circuit("physical"), 2, tmp_path)
    draw = random.Random(1)
    for _ in range(3):
        edges = {(draw.randrange(7), draw.randrange(7)): draw.choice([1, 1, -1]) for _ in range(12)}
        compared.tick({"edge": edges})


def test_a_delay_over_an_exchange(spark: Any, tmp_path: Path) -> None:
    compared = Compared(spark, delayed().circuit("physical"), 2, tmp_path)
    assert any(
        crossing.next_readers for segment in compared.many.segments for crossing in segment.sends.values()
    )
    for rows in ({(0, 1): 1, (1, 30): 1, (2, 2): 1}, {}, {(0, 2): 1}, {(1, 30): -1}, {}):
        compared.tick({"rows": rows})


def test_a_run_continues_from_its_folder(spark: Any, tmp_path: Path) -> None:
    """With images and journals, and with state that the workers do not have."""
    compared = Compared(spark, shop().circuit("physical"), 2, tmp_path, image_from=600)
    draw = random.Random(3)
    for tick in range(6):
        compared.tick(changes_of(draw, tick))
        if tick % 2:
            compared.many = compared.started()
    versions = compared.many.commit.versions.values()
    assert any(version.image for version in versions) and any(version.journal for version in versions)
    named = (name for version in versions for name in (version.image, *version.journal))
    kept = {name for name in named if isinstance(name, str)}
    found = {f"state/{path.parent.name}/{path.name}" for path in (tmp_path / "state" / "state").glob("*/*")}
    assert kept <= found


def test_a_failed_tick_changes_nothing(spark: Any, tmp_path: Path) -> None:
    circuit = Circuit("inverse")
    rows = circuit.input("rows", n=int)
    circuit.output("inverse", rows.map(n=100 // col("n")))
    compared = Compared(spark, circuit.circuit("physical"), 2, tmp_path)
    compared.tick({"rows": {(5,): 1}})
    with pytest.raises(DbspError) as expected:
        compared.one.step({"rows": {(0,): 1, (4,): 1}})
    with pytest.raises(type(expected.value)) as found:
        compared.many.step([compared.frame("rows", {(0,): 1, (4,): 1})])
    assert (found.value.code, found.value.message) == (expected.value.code, expected.value.message)
    compared.tick({"rows": {(4,): 1, (5,): -1}})


def test_state_of_another_query_or_number_of_shards(spark: Any, tmp_path: Path) -> None:
    compared = Compared(spark, shop().circuit("physical"), 2, tmp_path)
    state = SharedFolder(str(tmp_path / "state"))
    with pytest.raises(CheckpointError, match="is divided over 2 shards, got 3; start with") as error:
        ClusterRun(spark, compared.graph, 3, state)
    assert error.value.code == "checkpoint-other-shards"
    with pytest.raises(CheckpointError, match="has the state of another query") as error:
        ClusterRun(spark, delayed().circuit("distributed"), 2, state)
    assert error.value.code == "checkpoint-other-program"


def test_a_circuit_that_cannot_be_sent(spark: Any, tmp_path: Path) -> None:
    class Stuck:
        def __reduce__(self) -> str:
            raise TypeError("stuck")

        def __call__(self, row: Any) -> bool:
            return True

    circuit = Circuit("stuck")
    circuit.output("out", circuit.input("rows", n=int).filter(Stuck()))
    with pytest.raises(CircuitError, match=r"cannot be sent to executors .*stuck") as error:
        ClusterRun(spark, circuit.circuit("distributed"), 2, SharedFolder(str(tmp_path)))
    assert error.value.code == "not-picklable"
