"""Sinks whose files the executors write: a folder with one folder of Parquet parts per tick.

    tick=12/3-8f...parquet      the rows of tick 12 on shard 3
    _dbsp/tick=12/...           parts that attempts have written, before the tick counts
    _dbsp/chosen/tick=12/...    the parts that count, on their way; only the driver writes here

When a tick is committed, the driver moves the parts that its commit names to a folder of its own,
and renames that folder. So a late attempt, which writes at any time, never becomes visible. On
object stores, which cannot rename folders, the parts appear one after the other. Readers of
Parquet, such as Spark, see a column `tick`, and nothing of `_dbsp`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import pyarrow as pa
import pyarrow.parquet as pq

from dbsp.data.zset import ZSet
from dbsp.errors import CheckpointError
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.ports.spark_sink import SparkSink
from dbsp.spark.cluster.shared_folder import SharedFolder
from dbsp.spark.spark_types import conform_columns

_DRAFTS, _CHOSEN = "_dbsp", "_dbsp/chosen"


@dataclass(frozen=True)
class PartSink:
    """A sink of an output; executors call `write`, the driver `publish`."""

    name: str
    operator: SparkSink
    types: dict[str, pa.DataType]
    """The Arrow types of its columns."""
    folder: SharedFolder

    @property
    def replaces(self) -> bool:
        """Whether every tick has the whole view."""
        return self.operator.encoding == "view"

    def write(self, delta: ZSet, view: Callable[[], ZSet], tick: int, shard: int, attempt: str) -> str | None:
        """Write the part of a shard; return the name of its file, None without rows.

        Raises CheckpointError, and the errors of `SparkSink.table`.
        """
        if not delta and not self.replaces:
            return None
        table = self.operator.table(delta, view, self.types)
        table = conform_columns(
            table, dict(zip(table.column_names, table.schema.types, strict=True)) | self.types
        )
        if not table.num_rows and not self.replaces:
            return None
        content = pa.BufferOutputStream()
        pq.write_table(table, content)
        file = f"{shard}-{attempt}.parquet"
        self.folder.write(f"{_DRAFTS}/{tick_folder(tick)}/{file}", content.getvalue())
        return file

    def publish(self, tick: int, files: Collection[str]) -> None:
        """Make the parts of a committed tick visible. May be repeated. Raises CheckpointError."""
        drafts, chosen, visible = (
            f"{place}{tick_folder(tick)}" for place in (f"{_DRAFTS}/", f"{_CHOSEN}/", "")
        )
        folder, wanted = self.folder, set(files)
        if files and not wanted.issubset(there := folder.names(visible)):
            at_once = folder.renames_folders and not there
            target = chosen if at_once else visible
            for place in (chosen, drafts):
                if place != target:
                    for file in wanted.intersection(folder.names(place)):
                        folder.move_file(f"{place}/{file}", f"{target}/{file}")
            if at_once and (moved := folder.names(chosen)):
                for file in set(moved) - wanted:  # of a process that ended before it published them
                    folder.remove(f"{chosen}/{file}")
                folder.rename(chosen, visible)
        for name in folder.names(_DRAFTS):
            if (number := _tick_of(name)) is not None and number <= tick:
                folder.remove(f"{_DRAFTS}/{name}")
        if files and self.replaces:
            self.remove_ticks(tick)

    def check_written(self, tick: int, files: Collection[str]) -> None:
        """Check that the parts are there, before they count. Raises CheckpointError."""
        if not files:
            return
        missing = set(files).difference(self.folder.names(f"{_DRAFTS}/{tick_folder(tick)}"))
        if missing:
            raise CheckpointError(
                f"expected a folder that the driver and all executors share, got {self.folder.location}: the "
                f"driver does not see {min(missing)}, which an executor has written; choose a folder on a "
                "file system of the cluster, such as one of NFS, HDFS or S3",
                code="folder-not-shared",
                where=f"sink '{self.name}'",
            )

    def remove_ticks(self, below: int) -> None:
        """Remove the parts of all ticks below one."""
        for tick in ticks_of_parts(self.folder):
            if tick < below:
                self.folder.remove(tick_folder(tick))


def tick_folder(tick: int) -> str:
    """Return the name of the folder of a tick."""
    return f"tick={tick}"


def ticks_of_parts(folder: SharedFolder) -> list[int]:
    """Return the ticks that have parts in a folder, ascending."""
    return sorted(tick for name in folder.names("") if (tick := _tick_of(name)) is not None)


def _tick_of(name: str) -> int | None:
    """Return the tick of a folder's name; None for another one."""
    text = name.removeprefix("tick=")
    return int(text) if text != name and text.isascii() and text.isdigit() else None
