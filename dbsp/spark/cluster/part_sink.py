"""Sinks whose files the executors write: a folder with one folder of Parquet parts per tick.

    tick=12/3-8f...parquet      the rows of tick 12 on shard 3
    _dbsp/tick=12/...           parts that attempts have written, before the tick counts

When a tick is committed, the driver removes the parts of attempts that do not count and renames the
folder. Readers of Parquet, such as Spark, see a column `tick`, and nothing of `_dbsp`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from dbsp.data.zset import ZSet
from dbsp.operators.ports.spark_sink import SparkSink
from dbsp.spark.cluster.shared_folder import SharedFolder
from dbsp.spark.spark_types import conform_columns

_DRAFTS = "_dbsp"


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
        draft = f"{_DRAFTS}/{tick_folder(tick)}"
        present = self.folder.names(draft)
        if not any(file in files for file in present):
            # Published before, or only attempts that do not count have written.
            self.folder.remove(draft)
            return
        for file in present:
            if file not in files:
                self.folder.remove(f"{draft}/{file}")
        self.folder.rename(draft, tick_folder(tick))
        if self.replaces:
            self.remove_ticks(tick)

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
    texts = (name.removeprefix("tick=") for name in folder.names("") if name.startswith("tick="))
    return sorted(int(text) for text in texts if text.isascii() and text.isdigit())
