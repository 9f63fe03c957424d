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

_DRAFTS = "_dbsp"


@dataclass(frozen=True)
class PartSink:
    """A sink of an output; executors call `write`, the driver `publish`."""

    name: str
    operator: SparkSink
    types: dict[str, pa.DataType]
    """The Arrow types of its columns."""
    folder: SharedFolder

    def write(self, delta: ZSet, view: Callable[[], ZSet], tick: int, shard: int, attempt: str) -> str | None:
        """Write the part of a shard; return the name of its file, None without rows.

        Raises CheckpointError, and the errors of `SparkSink.table`.
        """
        replaces = self.operator.encoding == "view"
        if not delta and not replaces:
            return None
        table = self.operator.table(delta, view, self.types)
        if not table.num_rows and not replaces:
            return None
        content = pa.BufferOutputStream()
        pq.write_table(table, content)
        file = f"{shard}-{attempt}.parquet"
        self.folder.write(f"{_DRAFTS}/{_of_tick(tick)}/{file}", content.getvalue())
        return file

    def publish(self, tick: int, files: Collection[str]) -> None:
        """Make the parts of a committed tick visible. May be repeated. Raises CheckpointError."""
        draft = f"{_DRAFTS}/{_of_tick(tick)}"
        present = self.folder.names(draft)
        if not present or not files:
            self.folder.remove(draft)
            return
        for file in present:
            if file not in files:
                self.folder.remove(f"{draft}/{file}")
        self.folder.rename(draft, _of_tick(tick))
        if self.operator.encoding == "view":
            for name in self.folder.names(""):
                if name.startswith("tick=") and name != _of_tick(tick):
                    self.folder.remove(name)


def _of_tick(tick: int) -> str:
    return f"tick={tick}"
