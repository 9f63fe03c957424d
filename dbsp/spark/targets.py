"""The targets of a sink: each receives every tick once, identified by its number.

A target receives the table of a tick and the tick number. After a failure the driver repeats the
latest tick; `has` returns whether a tick arrived, so that it is not written twice:

| target                    | published by                   | ledger                   | twice? |
|---------------------------|--------------------------------|--------------------------|--------|
| folder of Parquet files   | renaming `tick-N.parquet`      | the names of the files   | never  |
| table                     | appending with a column `tick` | the ticks in the column  | (a)    |
| function(DataFrame, tick) | its returning                  | a file in the checkpoint | (b)    |

(a) Never, if the format appends atomically. (b) Only if the process ends after the function returns
and before the ledger is written; the function can detect the repetition by the tick number.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq

from dbsp.durable.atomic_files import write_atomically
from dbsp.errors import CheckpointError, InputError, SchemaError, UserFunctionError, cause_text, shorten
from dbsp.spark.spark_types import arrow_types, conform

TICK = "tick"
"""The column of files and tables with the tick number."""


@dataclass(frozen=True)
class Opening:
    """The properties of the query that a target needs."""

    owner: str
    """A unique name of the query and output."""
    struct: Any
    """The Spark schema of the tables."""
    replaces: bool
    """Every table is the whole view and replaces the previous one."""
    new: bool
    """The query has written nothing yet, so the target must be empty."""
    sync: bool
    """Written data must survive a power failure."""


class Target(Protocol):
    """Receives the tables of one output, tick by tick."""

    def open(self, opening: Opening) -> None:
        """Prepare for writing. Raises CheckpointError if it holds data of another query."""

    def has(self, tick: int) -> bool:
        """Return whether the tick, or a later one, has arrived."""

    def write(self, table: pa.Table, tick: int) -> None:
        """Write the table of a tick that has not arrived."""


class FolderTarget:
    """A folder of Parquet files, one per tick that changed the output: `tick-000000000012.parquet`.

    The columns are those of the output and `tick`. A file is written completely and then renamed,
    so readers never see a part of it. A view keeps only the latest file. `_dbsp.json` names the
    owner.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, opening: Opening) -> None:
        owner, struct = opening.owner, opening.struct
        self._replaces, self._sync = opening.replaces, opening.sync
        self._arrow = pa.schema([*arrow_types(struct).items(), (TICK, pa.int64())])
        _refuse_tick_column(struct)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            marker = self.path / "_dbsp.json"
            if marker.exists():
                known = json.loads(marker.read_bytes())
                if known["owner"] != owner:
                    raise CheckpointError(
                        f"{self.path} holds the output of another query ({known['owner']}); choose another"
                        " folder, or continue with the checkpoint of that query",
                        code="checkpoint-other-query",
                    )
                if known["schema"] != struct.jsonValue():
                    files = type(struct).fromJson(known["schema"]).simpleString()
                    raise SchemaError(
                        f"expected the columns of the files in {self.path}, {files},"
                        f" got {struct.simpleString()}; choose another folder",
                        code="schema-mismatch",
                    )
            else:
                if any(self.path.glob("*.parquet")):
                    raise CheckpointError(
                        f"expected an empty folder, got Parquet files of another program in {self.path};"
                        " choose another folder",
                        code="checkpoint-not-empty",
                    )
                description = {"owner": owner, "schema": struct.jsonValue(), "view": opening.replaces}
                write_atomically(marker, json.dumps(description).encode(), opening.sync)
            self._latest = max(self.ticks(), default=0)
            for draft in self.path.glob(".tick-*"):
                draft.unlink()
        except (OSError, ValueError, KeyError) as error:
            raise CheckpointError(f"{self.path} cannot be used: {error}", code="checkpoint-write") from None

    def ticks(self) -> list[int]:
        """Return the ticks that have arrived, in order."""
        return sorted(int(path.stem[5:]) for path in self.path.glob("tick-*.parquet"))

    def has(self, tick: int) -> bool:
        return tick <= self._latest

    def write(self, table: pa.Table, tick: int) -> None:
        column = pa.repeat(pa.scalar(tick, pa.int64()), table.num_rows)
        sink = pa.BufferOutputStream()
        pq.write_table(table.append_column(TICK, column).cast(self._arrow), sink)
        write_atomically(self.path / f"tick-{tick:012d}.parquet", sink.getvalue(), self._sync)
        if self._replaces:
            for older in self.ticks():
                if older < tick:
                    (self.path / f"tick-{older:012d}.parquet").unlink()
        self._latest = tick


class TableTarget:
    """A table of Spark's catalogue, created if it does not exist; each row has its `tick`.

    A view replaces the rows of the table. Appending is atomic if the table's format is: Delta and
    Iceberg are; a plain Parquet table gets one file per tick, which appears as a whole.
    """

    def __init__(self, name: str, session: Any) -> None:
        self.name = name
        self._session = session

    def open(self, opening: Opening) -> None:
        _refuse_tick_column(opening.struct)
        self._struct, self._replaces, self._owner = opening.struct, opening.replaces, opening.owner
        if opening.new and not opening.replaces and self.has(0):
            raise CheckpointError(
                f"table {self.name} holds the ticks of another query; choose another table, or continue with"
                " the checkpoint of that query",
                code="checkpoint-other-query",
            )

    def has(self, tick: int) -> bool:
        if not self._session.catalog.tableExists(self.name):
            return False
        latest = self._session.table(self.name).agg({TICK: "max"}).first()[0]
        return latest is not None and latest >= tick

    def write(self, table: pa.Table, tick: int) -> None:
        from pyspark.sql.functions import lit

        frame = _frame(self._session, table, self._struct).withColumn(TICK, lit(tick).cast("bigint"))
        writer = frame.coalesce(1).write.mode("overwrite" if self._replaces else "append")
        # Delta ignores a repeated write with the same pair; other formats ignore the options.
        writer.option("txnAppId", self._owner).option("txnVersion", tick).saveAsTable(self.name)


class FunctionTarget:
    """A function of a DataFrame and the number of its tick."""

    def __init__(self, function: Callable[[Any, int], object], session: Any, ledger: Path | None) -> None:
        self._function = function
        self._session = session
        self._ledger = ledger
        self._latest = 0

    def open(self, opening: Opening) -> None:
        self._struct, self._sync = opening.struct, opening.sync
        if self._ledger is not None and self._ledger.exists():
            self._latest = int(self._ledger.read_text())

    def has(self, tick: int) -> bool:
        return tick <= self._latest

    def write(self, table: pa.Table, tick: int) -> None:
        frame = _frame(self._session, table, self._struct)
        try:
            self._function(frame, tick)
        except Exception as error:
            name = getattr(self._function, "__name__", repr(self._function))
            raise UserFunctionError(f"{name}(DataFrame, {tick}) raised {cause_text(error)}") from error
        self._latest = tick
        if self._ledger is not None:
            write_atomically(self._ledger, str(tick).encode(), self._sync)


def target_of(target: Any, session: Any, ledger: Path | None) -> Target:
    """Return the target: a Path or a string with a slash is a folder, any other string a table."""
    if callable(target):
        return FunctionTarget(target, session, ledger)
    if isinstance(target, os.PathLike) or (isinstance(target, str) and ("/" in target or os.sep in target)):
        return FolderTarget(local_path(target, "a sink"))
    if isinstance(target, str) and target:
        return TableTarget(target, session)
    raise InputError(
        "a sink expects a folder, the name of a table, or a function(DataFrame, tick),"
        f" got {shorten(target)}",
        code="spark-sink",
    )


def local_path(location: Any, what: str) -> Path:
    """Return the path of a location on this machine. Raises InputError for other file systems."""
    text = os.fspath(location)
    parsed = urlparse(text)
    if parsed.scheme == "file":
        return Path(unquote(parsed.path))
    if "://" in text or (len(parsed.scheme) > 1 and ":/" in text):
        raise InputError(
            f"{what} expects a folder on a file system of this machine, because files are published by"
            f" renaming; got {text}",
            code="unsupported-location",
        )
    return Path(text)


def _refuse_tick_column(struct: Any) -> None:
    if TICK in struct.names:
        raise SchemaError(
            f"the output has a column {TICK!r}, which a sink adds itself; rename the column of the output",
            code="duplicate-column",
        )


def _frame(session: Any, table: pa.Table, struct: Any) -> Any:
    return session.createDataFrame(conform(table, struct), struct)
