"""What a PySpark user writes without a circuit: recomputation, and an incremental job by hand.

A tick comes as a Parquet file of rows with weights for each changed relation. Each way writes its
whole result after each tick.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.contest import Outcome
from benchmarks.spark import outcome_of_rows

TOTALS = """
    SELECT region, sum(o.weight * c.weight) AS orders, sum(o.weight * c.weight * amount) AS total
    FROM orders o JOIN customers c ON o.c = c.c GROUP BY region HAVING sum(o.weight * c.weight) <> 0
"""
TRIANGLES = """
    SELECT one.x AS a, one.y AS b, two.y AS c
    FROM e one JOIN e two ON one.y = two.x JOIN e three ON one.x = three.x AND two.y = three.y
"""


def frame_of(session: Any, *files: str | Path) -> Any:
    """Return the rows of Parquet files, without a job of Spark that finds their schema."""
    file = Path(files[0])
    schema = pq.read_schema(next(file.glob("*.parquet")) if file.is_dir() else file)
    columns = ", ".join(f"{name} long" for name in schema.names)
    return session.read.schema(columns).parquet(*map(str, files))


class Recomputed:
    """Spark computes the whole result after each tick: SQL, or for a closure a semi-naive loop."""

    name = "Spark, recomputing"

    def __init__(self, session: Any, workload: str, folder: Path) -> None:
        self.session, self.workload, self.folder = session, workload, folder
        self.files: dict[str, list[str]] = {}

    def step(self, changes: Mapping[str, Path]) -> None:
        for relation, file in changes.items():
            self.files.setdefault(relation, []).append(str(file))
        for relation in self.files:
            self.rows(relation).createOrReplaceTempView(relation)
        if self.workload == "w3dag":
            result = closure(self.session.table("e").localCheckpoint())
        else:
            result = self.session.sql(TOTALS if self.workload == "w1" else TRIANGLES)
        result.write.mode("overwrite").parquet(str(self.folder / "result"))

    def rows(self, relation: str) -> Any:
        """Return the changes of a relation; for a graph, its present edges."""
        files = self.files[relation]
        frame = frame_of(self.session, *files)
        if self.workload != "w1" and len(files) > 1:
            frame = frame.groupBy("x", "y").sum("weight").where("sum(weight) > 0").select("x", "y")
        return frame

    def outcome(self) -> Outcome:
        return outcome_of_rows(self.folder / "result")


def closure(edges: Any) -> Any:
    """Join the newest paths with the edges until no path is new.

    `localCheckpoint` cuts the plan, which would grow by a join in each iteration.
    """
    steps = edges.selectExpr("x AS y", "y AS z")
    paths = newest = edges.select("x", "y").distinct().localCheckpoint()
    while True:
        longer = newest.join(steps, "y").selectExpr("x", "z AS y").distinct()
        newest = longer.join(paths, ["x", "y"], "left_anti").localCheckpoint()
        if newest.isEmpty():
            return paths
        paths = paths.unionAll(newest).localCheckpoint()


class IncrementalTotals:
    """The totals by an incremental job by hand: join the changes, aggregate them, merge the totals.

    A change of orders joins the customers before the tick, one of customers the orders after it.
    """

    name = "Spark, incremental by hand"

    def __init__(self, session: Any, workload: str, folder: Path) -> None:
        assert workload == "w1", "written for this query only"
        self.session, self.folder = session, folder
        self.files: dict[str, list[str]] = {"orders": [], "customers": []}
        self.version = 0

    def step(self, changes: Mapping[str, Path]) -> None:
        terms = []
        if "orders" in changes and self.files["customers"]:
            terms.append(self.sums(self.read(changes["orders"]), self.read(*self.files["customers"])))
        self.add("orders", changes)
        if "customers" in changes and self.files["orders"]:
            terms.append(self.sums(self.read(*self.files["orders"]), self.read(changes["customers"])))
        self.add("customers", changes)
        if self.version:
            terms.append(self.read(self.result))
        merged = reduce(lambda one, other: one.unionByName(other), terms)
        merged = merged.groupBy("region").agg({"orders": "sum", "total": "sum"})
        self.version += 1
        merged.selectExpr("region", "`sum(orders)` AS orders", "`sum(total)` AS total").where(
            "orders <> 0"
        ).write.parquet(str(self.result))

    @property
    def result(self) -> Path:
        return self.folder / f"result-{self.version}"

    def add(self, relation: str, changes: Mapping[str, Path]) -> None:
        if relation in changes:
            self.files[relation].append(str(changes[relation]))

    def read(self, *files: str | Path) -> Any:
        return frame_of(self.session, *files)

    def sums(self, orders: Any, customers: Any) -> Any:
        """Return what changes of the two relations add to the totals."""
        joined = orders.join(customers.withColumnRenamed("weight", "times"), "c")
        weighted = joined.selectExpr("region", "weight * times AS w", "weight * times * amount AS part")
        return (
            weighted.groupBy("region")
            .agg({"w": "sum", "part": "sum"})
            .selectExpr("region", "`sum(w)` AS orders", "`sum(part)` AS total")
        )

    def outcome(self) -> Outcome:
        return outcome_of_rows(self.result)
