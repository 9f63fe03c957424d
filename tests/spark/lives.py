"""Lives of a pipeline without a JVM, over fake frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import dbsp
from benchmarks.fake_spark import TWO, FakeFrame, driver_of


class Life:
    """A driver of the program TWO, from its start to its end."""

    def __init__(self, root: Path, sinks: Mapping[str, Any] | Sequence[str], **settings: Any) -> None:
        pipeline = dbsp.spark.stream(TWO).source("e", FakeFrame()).option("sync", "false")
        every = settings.pop("every", None)
        if every is not None:
            pipeline.option("snapshotEvery", every)
        for name in sinks:
            target = sinks[name] if isinstance(sinks, Mapping) else root / name
            pipeline.sink(name[0], target, name=name, **settings)
        self.driver = driver_of(pipeline, root / "checkpoint")

    def batches(self, *numbers: int) -> Life:
        """Apply micro-batches; number n inserts the row (n, n)."""
        for number in numbers:
            self.driver(FakeFrame((number, number)), number)
        return self

    def close(self) -> None:
        self.driver.close()

    def kill(self) -> None:
        """End as the process ends: only its lock is released."""
        if self.driver.run.log is not None:
            self.driver.run.log.close()


def live(root: Path, sinks: Any, *numbers: int, **settings: Any) -> None:
    """Start, apply micro-batches, and end in order."""
    life = Life(root, sinks, **settings)
    try:
        life.batches(*numbers)
    finally:
        life.close()


def ticks(folder: Path) -> dict[int, list[tuple[int, ...]]]:
    """Return the rows of a folder by tick, with their weights."""
    found = {}
    for path in sorted(folder.glob("tick-*.parquet")):
        table = pq.ParquetFile(path).read().drop_columns(["tick"])
        found[int(path.stem[5:])] = sorted(zip(*(c.to_pylist() for c in table.columns), strict=True))
    return found
