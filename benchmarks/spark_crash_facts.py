"""The third chain of `benchmarks.spark_crash`: a database of facts between two targets of Spark.

    files -> Spark stream -> feed_database -> database -> subscribe -> a folder of Parquet

An edge is a fact. At the end every micro-batch must be exactly one transaction, the edges must be
those of all micro-batches in their order, and every tick must be the change of the query by its
transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql.functions import col, lit
from pyspark.sql.functions import sum as sum_of

import dbsp
from dbsp.datomic import connect, q

Delta = dict[tuple[Any, ...], int]
_SCHEMA = {":edge/to": {":db/valueType": ":db.type/ref", ":db/cardinality": ":db.cardinality/many"}}
_EDGES = "[:find ?x ?y :where [?x :edge/to ?y]]"
_PATHS = "[:find ?x ?z :where [?x :edge/to ?y] [?y :edge/to ?z]]"
_BATCHES = "[:find ?b ?tx :where [?tx :dbsp.spark/batch ?b]]"
CHECKPOINT = "facts-checkpoint"


@contextmanager
def fact_query(folder: Path, arriving: Any, trigger: dict[str, Any]) -> Iterator[Any]:
    """Run the query of the chain; its sink is closed at the end."""
    conn = connect(folder / "facts", schema=_SCHEMA)
    feed = dbsp.spark.feed_database(conn, form="datoms")

    def transact(frame: Any, batch: int) -> None:
        # Ids of entities count from 1. Edges of several files may cancel each other.
        edges = frame.groupBy("x", "y").agg(sum_of("w").alias("w")).where("w <> 0")
        columns = ((col("x") + 1).alias("e"), lit(":edge/to").alias("a"), (col("y") + 1).alias("v"))
        feed(edges.select(*columns, (col("w") > 0).alias("added")), batch)

    places = {"target": folder / "fact-paths", "checkpoint": folder / "fact-sink"}
    with dbsp.spark.subscribe(conn, _PATHS, since=1, **places):
        writer = arriving.writeStream.foreachBatch(transact)
        yield writer.option("checkpointLocation", str(folder / CHECKPOINT)).trigger(**trigger).start()


def compare_facts(
    folder: Path,
    batches: Sequence[Sequence[int]],
    change: Callable[[int], Delta],
    ticks: dict[int, Delta],
    check: Callable[[str, Any, Any], None],
) -> None:
    """Compare the database and the folder of its sink with the files of the micro-batches."""
    edges: set[tuple[int, int]] = set()
    for batch in batches:
        total: Counter[tuple[Any, ...]] = Counter()
        for file in batch:
            for row, weight in change(file).items():
                total[row] += weight
        edges |= {(x + 1, y + 1) for (x, y), weight in total.items() if weight > 0}
        edges -= {(x + 1, y + 1) for (x, y), weight in total.items() if weight < 0}
    with connect(folder / "facts", read_only=True) as conn:
        check("the facts", set(q(_EDGES, conn.db())), edges)
        applied = sorted(batch for batch, _ in q(_BATCHES, conn.db()))
        check("the micro-batches of the database", applied, list(range(len(batches))))
        expected = {delta.t: dict(delta.rows) for delta in conn.subscribe(_PATHS, since=1).deltas()}
    check("the folder 'fact-paths'", ticks, expected)
