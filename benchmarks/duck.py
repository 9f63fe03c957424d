"""duckdb as a contestant: apply the changes to its tables, then run the query again."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.changes import Change, Codes, Row
from benchmarks.contest import Outcome, checksum_of, net
from benchmarks.patterns import WORKLOADS as GRAPHS
from benchmarks.workloads import COLUMNS

QUERIES = {
    "w1": """
        SELECT region, count(*) AS n, CAST(sum(amount) AS BIGINT) AS total
        FROM orders JOIN customers USING (c) GROUP BY region
    """,
    "w3dag": """
        WITH RECURSIVE path(x, y) AS (
            SELECT x, y FROM e UNION SELECT path.x, e.y FROM path JOIN e ON path.y = e.x
        )
        SELECT x, y FROM path
    """,
}
QUERIES["w3chain"] = QUERIES["w3dag"]
QUERIES |= {name: pattern.sql() for name, pattern in GRAPHS.items()}


class Requery:
    def __init__(self, workload: str) -> None:
        self.workload = workload
        self.columns = COLUMNS[workload]
        duckdb: Any = importlib.import_module("duckdb")
        self.connection = duckdb.connect()
        self.connection.execute("SET enable_progress_bar = false")

    def load(self, base: dict[str, Codes]) -> None:
        for name, columns in self.columns.items():
            definition = ", ".join(f"{column} BIGINT" for column in columns)
            self.connection.execute(f"CREATE TABLE {name} ({definition})")
            self.insert(name, base[name])
        self.query()

    def prepare(self, changes: list[Change]) -> dict[str, tuple[Codes, Codes]]:
        """Return the rows to delete and the rows to insert, by relation."""
        prepared: dict[str, tuple[Codes, Codes]] = {}
        for name, rows in net(changes).items():
            width = len(self.columns[name])
            deleted: list[Row] = [row for row, weight in rows.items() if weight < 0]
            inserted: list[Row] = [row for row, weight in rows.items() if weight > 0]
            prepared[name] = (
                np.array(deleted, np.int64).reshape(-1, width),
                np.array(inserted, np.int64).reshape(-1, width),
            )
        return prepared

    def tick(self, prepared: dict[str, tuple[Codes, Codes]]) -> None:
        for name, (deleted, inserted) in prepared.items():
            if len(deleted) == 1:
                condition = " AND ".join(f"{column} = ?" for column in self.columns[name])
                self.connection.execute(f"DELETE FROM {name} WHERE {condition}", deleted[0].tolist())
            elif len(deleted):
                self.connection.register("deleted", self.table(name, deleted))
                same = " AND ".join(f"{name}.{column} = deleted.{column}" for column in self.columns[name])
                self.connection.execute(f"DELETE FROM {name} USING deleted WHERE {same}")
            if len(inserted):
                self.insert(name, inserted)
        self.query()

    def insert(self, name: str, rows: Codes) -> None:
        if len(rows) == 1:
            marks = ", ".join("?" for _ in self.columns[name])
            self.connection.execute(f"INSERT INTO {name} VALUES ({marks})", rows[0].tolist())
            return
        self.connection.register("inserted", self.table(name, rows))
        self.connection.execute(f"INSERT INTO {name} SELECT * FROM inserted")

    def table(self, name: str, rows: Codes) -> pa.Table:
        return pa.table({column: rows[:, place] for place, column in enumerate(self.columns[name])})

    def query(self) -> None:
        self.found = self.connection.execute(QUERIES[self.workload]).fetchnumpy()

    def outcome(self) -> Outcome:
        return checksum_of(np.stack([np.asarray(column) for column in self.found.values()], axis=1))
