"""Where the deltas of an output go: each tick once, told by the number of the tick.

A target is handed the table of a tick and the tick's number. After a failure the same tick may come again;
`has` says whether it arrived, so that it is not handed over twice:

| target                    | published by                   | ledger                         | twice? |
|---------------------------|--------------------------------|--------------------------------|--------|
| folder of Parquet files   | renaming `tick-N.parquet`      | the names of the files         | never  |
| table                     | appending with a column `tick` | the ticks in that column       | (a)    |
| function(DataFrame, tick) | its returning                  | a file beside the checkpoint   | (b)    |

(a) Never, if the format appends atomically. (b) Only if the process ends after the function has returned
and before that is noted: then with the same tick, by which the function can tell.
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
from dbsp.errors import CheckpointError, InputError, SchemaError, UserFunctionError
from dbsp.spark.spark_types import arrow_types, conform

TICK = "tick"
"""The column of files and tables that holds the number of the tick."""


@dataclass(frozen=True)
class Opening:
    """What a target needs to know of its query."""

    owner: str
    """Unique to the query."""
    struct: Any
    """The Spark schema of the tables."""
    replaces: bool
    """Every table is the whole view, in place of the one before."""
    new: bool
    """The query has not handed over anything yet, so there must be nothing."""
    sync: bool
    """What is there is to outlive a loss of power."""


class Target(Protocol):
    """Takes the tables of one output, tick by tick."""

    def open(self, opening: Opening) -> None:
        """Make ready. Raises CheckpointError if it holds what is not of this query."""

    def has(self, tick: int) -> bool:
        """Whether the tick, or a later one, has arrived."""

    def write(self, table: pa.Table, tick: int) -> None:
        """Hand over the table of a tick that has not arrived."""


class FolderTarget:
    """A folder of Parquet files, one for every tick in which the output changed: `tick-000000000012.parquet`.

    Its columns are those of the output and `tick`. A file is written whole and renamed; readers see it or
    not. Of a view only the latest file is kept. `_dbsp.json` says whose folder it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, opening: Opening) -> None:
        owner, struct = opening.owner, opening.struct
        self._replaces, self._sync = opening.replaces, opening.sync
        self._arrow = pa.schema([*arrow_types(struct).items(), (TICK, pa.int64())])
        if TICK in struct.names:
            raise SchemaError(f"the output has a column {TICK!r} itself; rename it")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            marker = self.path / "_dbsp.json"
            if marker.exists():
                known = json.loads(marker.read_bytes())
                if known["owner"] != owner:
                    raise CheckpointError(
                        f"{self.path} holds the output of another query ({known['owner']}); choose another"
                        " folder, or go on from the checkpoint that belongs to it"
                    )
                if known["schema"] != struct.jsonValue():
                    raise SchemaError(f"the files in {self.path} have other columns than the output now has")
            else:
                if any(self.path.glob("*.parquet")):
                    raise CheckpointError(
                        f"{self.path} holds Parquet files of others; choose an empty folder"
                    )
                description = {"owner": owner, "schema": struct.jsonValue(), "view": opening.replaces}
                write_atomically(marker, json.dumps(description).encode(), opening.sync)
            self._latest = max(self.ticks(), default=0)
            for draft in self.path.glob(".tick-*"):
                draft.unlink()
        except (OSError, ValueError, KeyError) as error:
            raise CheckpointError(f"{self.path} cannot be used: {error}") from None

    def ticks(self) -> list[int]:
        """The ticks that have arrived, in order."""
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
    """A table of Spark's catalogue, made if it is not there; each row with its `tick`.

    A view replaces what is in the table. Appending is as atomic as the table's format is: Delta and Iceberg
    are; of plain Parquet tables one file is written for each tick, which appears as a whole.
    """

    def __init__(self, name: str, session: Any) -> None:
        self.name = name
        self._session = session

    def open(self, opening: Opening) -> None:
        if TICK in opening.struct.names:
            raise SchemaError(f"the output has a column {TICK!r} itself; rename it")
        self._struct, self._replaces, self._owner = opening.struct, opening.replaces, opening.owner
        if opening.new and not opening.replaces and self.has(0):
            raise CheckpointError(
                f"table {self.name} holds the ticks of another query; choose another table, or go on from the"
                " checkpoint that belongs to it"
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
        # Delta drops a write of the same pair; other formats do not look at it.
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
            raise UserFunctionError(
                f"{name}(DataFrame, {tick}) raised {type(error).__name__}: {error}"
            ) from error
        self._latest = tick
        if self._ledger is not None:
            write_atomically(self._ledger, str(tick).encode(), self._sync)


def target_of(target: Any, session: Any, ledger: Path | None) -> Target:
    """The target a user means: a Path or a string with a slash is a folder, any other string a table."""
    if callable(target):
        return FunctionTarget(target, session, ledger)
    if isinstance(target, os.PathLike) or (isinstance(target, str) and ("/" in target or os.sep in target)):
        return FolderTarget(local_path(target, "a sink"))
    if isinstance(target, str) and target:
        return TableTarget(target, session)
    raise InputError(
        f"a sink is a folder, the name of a table, or a function(DataFrame, tick), not {target!r}"
    )


def local_path(location: Any, what: str) -> Path:
    """The path of a location on this machine. Raises InputError for any other file system's."""
    text = os.fspath(location)
    parsed = urlparse(text)
    if parsed.scheme == "file":
        return Path(unquote(parsed.path))
    if "://" in text or (len(parsed.scheme) > 1 and ":/" in text):
        raise InputError(
            f"{what} has to be on a file system of this machine, which {text} is not: what is in it is put"
            " in place by renaming, once and for all"
        )
    return Path(text)


def _frame(session: Any, table: pa.Table, struct: Any) -> Any:
    return session.createDataFrame(conform(table, struct), struct)
