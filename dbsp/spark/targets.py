"""The targets of a sink: each receives every tick once, identified by its number.

A target receives the table of a tick and the tick number. After a failure the driver repeats the
latest tick; `latest` is the latest tick that arrived, so that no tick is written twice:

| target                    | published by                   | ledger                   | twice? |
|---------------------------|--------------------------------|--------------------------|--------|
| folder of Parquet files   | renaming `tick-N.parquet`      | the names of the files   | never  |
| table                     | appending with a column `tick` | the ticks in the column  | (a)    |
| function(DataFrame, tick) | its returning                  | a file in the checkpoint | (b)    |

(a) Never, if the format appends atomically. (b) Only if the process ends after the function returns
and before the ledger is written; the function can detect the repetition by the tick number.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlparse

import pyarrow as pa

from dbsp.durable.atomic_files import write_atomically
from dbsp.durable.sealed_files import decoding
from dbsp.errors import CheckpointError, InputError, SchemaError, UserFunctionError, cause_text, shorten
from dbsp.lazy_dataclass import dataclass
from dbsp.spark.checked_files import RecordFile
from dbsp.spark.sink_files import TickSeal, description_of, tick_path, ticks_in
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
    """The query has written nothing yet, so the target must be empty. Otherwise the query has
    opened the target before, so it must exist."""
    sync: bool
    """Written data must survive a power failure."""


class Target(ABC):
    """Receives the tables of one output, tick by tick."""

    kind: ClassVar[str]
    """What the target is, such as "folder"."""
    latest: int = 0
    """The latest tick that has arrived; 0 if there is none. Known after `open`."""

    @abstractmethod
    def open(self, opening: Opening) -> None:
        """Prepare for writing. Raises CheckpointError if it holds data of another query, or lost
        the data of this one."""

    @abstractmethod
    def write(self, table: Any, tick: int) -> None:
        """Write the table of a tick that has not arrived; for tables and functions a DataFrame is
        also possible, which Spark computes when it is read."""

    @abstractmethod
    def describe(self) -> str:
        """Return the kind and the name of the target."""


class FolderTarget(Target):
    """A folder of Parquet files, one per tick that changed the output: `tick-000000000012.parquet`.

    The columns are those of the output and `tick`. A file is written completely and then renamed,
    so readers never see a part of it. A view keeps only the latest file. `_dbsp.json` names the
    owner. Every file has a checksum, which `format("dbsp")` verifies.
    """

    kind = "folder"

    def __init__(self, path: Path) -> None:
        self.path = path

    def describe(self) -> str:
        return f"the folder {self.path}"

    def open(self, opening: Opening) -> None:
        owner, struct = opening.owner, opening.struct
        self._replaces, self._sync = opening.replaces, opening.sync
        self._arrow = pa.schema([*arrow_types(struct).items(), (TICK, pa.int64())])
        refuse_tick_column(struct)
        self._owner = owner
        description = description_of(self.path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            known = description.read()
            if known is not None:
                self._compare(known, owner, struct)
            elif not opening.new and not opening.replaces:
                raise removed(self.describe())
            else:
                if any(self.path.glob("*.parquet")):
                    raise CheckpointError(
                        f"expected an empty folder, got Parquet files of another program in {self.path};"
                        " choose another folder",
                        code="checkpoint-not-empty",
                    )
                content = {"owner": owner, "schema": struct.jsonValue(), "view": opening.replaces}
                description.write(content, opening.sync)
            self.latest = max(self.ticks(), default=0)
            for draft in self.path.glob(".tick-*"):
                draft.unlink()
        except OSError as error:
            raise CheckpointError(f"{self.path} cannot be used: {error}", code="checkpoint-write") from None

    def _compare(self, known: Any, owner: str, struct: Any) -> None:
        """Raise an error unless the description of the folder is that of this sink."""
        with decoding(description_of(self.path).path):
            known_owner, known_schema = known["owner"], known["schema"]
        if known_owner != owner:
            raise CheckpointError(
                f"{self.path} holds the output of another query ({known_owner}); choose another"
                " folder, or continue with the checkpoint of that query",
                code="checkpoint-other-query",
            )
        if known_schema != struct.jsonValue():
            files = type(struct).fromJson(known_schema).simpleString()
            raise SchemaError(
                f"expected the columns of the files in {self.path}, {files},"
                f" got {struct.simpleString()}; choose another folder",
                code="schema-mismatch",
            )

    def ticks(self) -> list[int]:
        """Return the ticks that have arrived, in order."""
        return ticks_in(self.path)

    def write(self, table: pa.Table, tick: int) -> None:
        column = pa.repeat(pa.scalar(tick, pa.int64()), table.num_rows)
        seal = TickSeal(self._owner, tick, 0 if self._replaces else self.latest)
        content = seal.parquet(table.append_column(TICK, column).cast(self._arrow))
        write_atomically(tick_path(self.path, tick), content, self._sync)
        if self._replaces:
            for older in self.ticks():
                if older < tick:
                    tick_path(self.path, older).unlink()
        self.latest = tick


class TableTarget(Target):
    """A table of Spark's catalogue, created if it does not exist; each row has its `tick`.

    A view replaces the rows of the table. Appending is atomic if the table's format is: Delta and
    Iceberg are; a plain Parquet table gets one file per tick, which appears as a whole.
    """

    kind = "table"

    def __init__(self, name: str, session: Any, form: str = "") -> None:
        """`form` is the format of a new table; "" for the default of the session."""
        self.name = name
        self._session = session
        self._form = form

    def describe(self) -> str:
        return f"the table {self.name}"

    def open(self, opening: Opening) -> None:
        refuse_tick_column(opening.struct)
        self._struct, self._replaces, self._owner = opening.struct, opening.replaces, opening.owner
        if self._session.catalog.tableExists(self.name):
            latest = self._session.table(self.name).agg({TICK: "max"}).first()[0]
            self.latest = 0 if latest is None else latest
            if opening.new and not opening.replaces and self.latest:
                raise CheckpointError(
                    f"table {self.name} holds the ticks of another query; choose another table, or continue"
                    " with the checkpoint of that query",
                    code="checkpoint-other-query",
                )
            return
        if not opening.new and not opening.replaces:
            raise removed(self.describe())
        # Now, so that a table that is missing later was removed.
        self._writer(self._none(), 0).mode("append").saveAsTable(self.name)

    def _none(self) -> pa.Table:
        return pa.schema(list(arrow_types(self._struct).items())).empty_table()

    def write(self, table: Any, tick: int) -> None:
        writer = self._writer(table, tick).mode("overwrite" if self._replaces else "append")
        # Delta ignores a repeated write with the same pair; other formats ignore the options.
        writer.option("txnAppId", self._owner).option("txnVersion", tick).saveAsTable(self.name)
        self.latest = tick

    def _writer(self, table: Any, tick: int) -> Any:
        from pyspark.sql.functions import lit

        frame = _frame(self._session, table, self._struct).withColumn(TICK, lit(tick).cast("bigint"))
        writer = frame.coalesce(1).write
        return writer.format(self._form) if self._form else writer


class FunctionTarget(Target):
    """A function of a DataFrame and the number of its tick."""

    kind = "function"

    def __init__(
        self, function: Callable[[Any, int], object], session: Any, ledger: RecordFile | None
    ) -> None:
        self._function = function
        self._session = session
        self._ledger = ledger

    def describe(self) -> str:
        ledger = None if self._ledger is None else self._ledger.path
        return f"the ledger {ledger} of the function"

    def open(self, opening: Opening) -> None:
        self._struct, self._sync = opening.struct, opening.sync
        if self._ledger is None:
            return
        latest = self._ledger.read()
        if latest is not None:
            with decoding(self._ledger.path):
                self.latest = int(latest)
        elif opening.new or opening.replaces:
            self._record(0)  # now, so that a ledger that is missing later was removed
        else:
            raise removed(self.describe())

    def write(self, table: Any, tick: int) -> None:
        frame = _frame(self._session, table, self._struct)
        try:
            self._function(frame, tick)
        except Exception as error:
            name = getattr(self._function, "__name__", repr(self._function))
            raise UserFunctionError(f"{name}(DataFrame, {tick}) raised {cause_text(error)}") from error
        self._record(tick)

    def _record(self, tick: int) -> None:
        if self._ledger is not None:
            self._ledger.write(tick, self._sync)
        self.latest = tick


def target_of(target: Any, session: Any, ledger: RecordFile | None, form: str = "") -> Target:
    """Return the target: a Path or a string with a slash is a folder, any other string a table."""
    if callable(target):
        return FunctionTarget(target, session, ledger)
    if is_folder(target):
        if form not in ("", "parquet"):
            raise InputError(
                f"a folder of a sink has the format parquet, got format({form!r}); write that format to a"
                " table",
                code="spark-sink",
            )
        return FolderTarget(local_path(target, "a sink"))
    if isinstance(target, str) and target:
        return TableTarget(target, session, form)
    raise InputError(
        "a sink expects a folder, the name of a table, or a function(DataFrame, tick),"
        f" got {shorten(target)}",
        code="spark-sink",
    )


def is_folder(target: Any) -> bool:
    """Return whether a target is a folder, and not a table or a function."""
    return isinstance(target, os.PathLike) or (
        isinstance(target, str) and ("/" in target or os.sep in target)
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


def removed(target: str) -> CheckpointError:
    """Return the error for a target that this query has opened before, and that is gone."""
    return CheckpointError(
        f"expected the ticks that the sink has had in {target}, but it was removed, or the sink had another"
        " target; restore it, or give the sink another name=..., so that it begins with the current view",
        code="sink-incomplete",
    )


def refuse_tick_column(struct: Any) -> None:
    if TICK in struct.names:
        raise SchemaError(
            f"the output has a column {TICK!r}, which a sink adds itself; rename the column of the output",
            code="duplicate-column",
        )


def _frame(session: Any, table: Any, struct: Any) -> Any:
    if not isinstance(table, pa.Table):
        return table
    return session.createDataFrame(conform(table, struct), struct)
