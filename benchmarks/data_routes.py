"""The speed of each way in: tables and files into a step, beside Polars and DuckDB.

Every contestant counts the rows of each of 1,000 groups. dbsp also stores the rows by group, to
follow later changes. The times are wall-clock, because all three use several cores.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import dbsp
from dbsp import Circuit, Run, count
from dbsp.data.frames import schema_of_arrow
from dbsp.io.facts import read_facts
from dbsp.io.json_rows import parse_json_rows
from dbsp.io.sqlite_rows import read_table

ROWS = {"tiny": 2_000, "small": 200_000, "medium": 2_000_000}
GROUPS = 1_000
SHAPES: dict[str, dict[str, type]] = {
    "(int, int)": {"g": int, "x": int},
    "(int, str, float)": {"g": int, "s": str, "f": float},
}
COUNTS = "select g, count(*) from {} group by g"

Counts: TypeAlias = Mapping[int, int]


@dataclass(frozen=True)
class Route:
    """One way in, and the same step with other libraries if they have it."""

    name: str
    change: Callable[[], Any]
    polars: Callable[[], Any] | None = None
    duckdb: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Throughput:
    """Rows per second of one route for rows of one shape; None for a library without the step."""

    shape: str
    route: str
    dbsp: float
    polars: float | None
    duckdb: float | None


def table(rows: int, shape: str) -> pa.Table:
    """Return random rows: 1,000 groups, 10,000 distinct texts."""
    random = np.random.default_rng(rows)
    columns: dict[str, Any] = {"g": random.integers(0, GROUPS, rows)}
    if "x" in SHAPES[shape]:
        columns["x"] = random.integers(0, 10**6, rows)
    else:
        texts = np.array([f"customer {number}" for number in range(10_000)])
        columns["s"] = pa.array(texts[random.integers(0, len(texts), rows)])
        columns["f"] = random.random(rows)
    return pa.table(columns)


def start(shape: str) -> Run:
    """Start a run that counts the rows of each group; its kernels are loaded."""
    circuit = Circuit("routes")
    circuit.output("counts", circuit.input("rows", **SHAPES[shape]).group_by("g").agg(n=count()))
    run = circuit.start()
    few = table(5, shape)
    run.step({"rows": few})
    run.input("rows").delete(few)
    run.step()
    return run


def routes_of(data: pa.Table, folder: Path) -> Iterator[Route]:
    """Yield the routes for some rows; files are written to the folder."""
    frame, lazy = data.to_pandas(), pl.from_arrow(data)
    arrays = {name: data[name].to_numpy() for name in data.column_names}
    yield Route("Arrow table", lambda: data, lambda: pl.from_arrow(data), lambda: duckdb.arrow(data))
    yield Route("pandas frame", lambda: frame, lambda: pl.from_pandas(frame), lambda: duckdb.from_df(frame))
    yield Route("Polars frame", lambda: lazy, lambda: lazy, lambda: duckdb.arrow(lazy.to_arrow()))
    yield Route("DuckDB relation", lambda: duckdb.arrow(data), lambda: duckdb.arrow(data).pl(), None)
    yield Route("dict of arrays", lambda: arrays, lambda: pl.DataFrame(arrays))
    structured = frame.to_records(index=False)
    yield Route("structured array", lambda: structured)
    if all(pa.types.is_integer(type_) for type_ in data.schema.types):
        square = np.column_stack(list(arrays.values()))
        names = data.column_names
        yield Route("2-D NumPy array", lambda: square, lambda: pl.from_numpy(square, names))
    yield from _files(data, folder)
    tuples = list(zip(*(column.to_pylist() for column in data.columns), strict=True))
    yield Route(
        "list of tuples (Python)",
        lambda: tuples,
        lambda: pl.DataFrame(tuples, data.column_names, orient="row"),
    )


def _files(data: pa.Table, folder: Path) -> Iterator[Route]:
    parquet, csv, ndjson = (str(folder / f"rows.{ending}") for ending in ("parquet", "csv", "ndjson"))
    pa.parquet.write_table(data, parquet)
    pa.csv.write_csv(data, csv)
    pl.from_arrow(data).write_ndjson(ndjson)
    yield Route(
        "Parquet file",
        lambda: dbsp.read_parquet(parquet),
        lambda: pl.read_parquet(parquet),
        lambda: duckdb.read_parquet(parquet),
    )
    yield Route(
        "CSV file", lambda: dbsp.read_csv(csv), lambda: pl.read_csv(csv), lambda: duckdb.read_csv(csv)
    )
    yield Route(
        "NDJSON file",
        lambda: dbsp.read_ndjson(ndjson),
        lambda: pl.read_ndjson(ndjson),
        lambda: duckdb.read_json(ndjson),
    )
    duck = duckdb.connect()
    yield Route(
        "DuckDB query",
        lambda: dbsp.read_database(f"from read_parquet('{parquet}')", duck),
        lambda: pl.read_database(f"from read_parquet('{parquet}')", duck),
    )
    database = sqlite3.connect(folder / "rows.sqlite")
    database.execute(f"create table rows ({', '.join(data.column_names)})")
    marks = ", ".join("?" * data.num_columns)
    database.executemany(
        f"insert into rows values ({marks})",
        zip(*(column.to_pylist() for column in data.columns), strict=True),
    )
    database.commit()
    query = "select * from rows"
    yield Route(
        "SQLite query (Python)",
        lambda: dbsp.read_database(query, database),
        lambda: pl.read_database(query, database),
    )
    yield from _inputs(data, folder)


def _inputs(data: pa.Table, folder: Path) -> Iterator[Route]:
    """Yield the files that only `.input` of a program reads, and the table of a database."""
    schema = schema_of_arrow(data)
    facts, quoted, array = (folder / name for name in ("rows.facts", "quoted.facts", "rows.json"))
    for path, delimiter, quotes in ((facts, "\t", "none"), (quoted, ",", "all_valid")):
        layout = pa.csv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style=quotes)
        pa.csv.write_csv(data, path, layout)
    rows = [list(row) for row in zip(*(column.to_pylist() for column in data.columns), strict=True)]
    array.write_text(json.dumps(rows))
    yield Route("fact file", lambda: read_facts(facts, schema))
    yield Route("fact file, quoted", lambda: read_facts(quoted, schema, delimiter=",", quoted=True))
    yield Route("JSON array", lambda: parse_json_rows(array.read_bytes(), "rows.json", schema, "rows"))
    yield Route("SQLite table", lambda: read_table(folder / "rows.sqlite", "rows", schema, "rows"))


def measure_routes(rows: int, repeat: int = 3) -> Iterator[Throughput]:
    """Yield the throughput of every route. Raises AssertionError if two counts differ."""
    for shape in SHAPES:
        data = table(rows, shape)
        expected = dict(duckdb.sql(COUNTS.format("data")).fetchall())
        with TemporaryDirectory() as folder:
            for route in routes_of(data, Path(folder)):
                own = _fastest(partial(_step, shape, route), expected, repeat)
                peers = [
                    None if work is None else _fastest(partial(counted, work), expected, repeat)
                    for counted, work in ((_polars, route.polars), (_duckdb, route.duckdb))
                ]
                speeds = [None if seconds is None else rows / seconds for seconds in peers]
                yield Throughput(shape, route.name, rows / own, *speeds)


def _fastest(work: Callable[[], tuple[float, Counts]], expected: Counts, repeat: int) -> float:
    least = float("inf")
    for _ in range(repeat):
        seconds, counts = work()
        assert dict(counts) == expected, "the counts differ"
        least = min(least, seconds)
    return least


def _step(shape: str, route: Route) -> tuple[float, Counts]:
    run = start(shape)
    before = time.perf_counter()
    run.step({"rows": route.change()})
    return time.perf_counter() - before, dict(run.view("counts").rows())


def _polars(work: Callable[[], Any]) -> tuple[float, Counts]:
    before = time.perf_counter()
    found = work().group_by("g").len()
    return time.perf_counter() - before, dict(found.rows())


def _duckdb(work: Callable[[], Any]) -> tuple[float, Counts]:
    before = time.perf_counter()
    relation = work()  # noqa: F841  (the query finds it by its name)
    found = duckdb.sql(COUNTS.format("relation")).fetchall()
    return time.perf_counter() - before, dict(found)
