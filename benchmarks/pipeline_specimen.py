"""The folders of a Spark pipeline for `benchmarks.damage`, written and read without a JVM."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import dbsp
from benchmarks.fake_spark import TWO, FakeFrame, Received, driver_of
from dbsp.spark.driver import Driver
from dbsp.spark.recording import SinkRecording


def write_pipeline(folder: Path, chance: random.Random) -> None:
    """Leave a sink that was left out, and a batch of which some ticks are missing.

    The sinks are a folder `a`, and the functions `b` and `b2`; `b` is left out.
    """
    rows = [(chance.randrange(9), number) for number in range(8)]
    with _Opened(folder, {"a": folder / "a", "b": Received()}) as driver:
        driver(FakeFrame(*rows[:3]), 0)
    received = Received()
    with _Opened(folder, {"a": folder / "a", "b2": received}) as driver:
        driver(FakeFrame(*rows[3:5]), 1)
        received.fails = True
        with suppress(dbsp.errors.UserFunctionError):  # after the first tick of three
            driver(FakeFrame(*rows[5:]), 2)


def read_pipeline(folder: Path) -> str:
    """Continue with all sinks, and read the folder as Spark does."""
    b, b2 = Received(), Received()
    with _Opened(folder, {"a": folder / "a", "b": b, "b2": b2}) as driver:
        driver(FakeFrame(), 2)  # Spark repeats the batch; its rows are those in the folder
        driver(FakeFrame((10, 10)), 3)
        tick = driver.run.tick
    recording = SinkRecording(folder / "a")
    files = recording.files(recording.ticks())
    deltas = [sorted(map(repr, file.table().to_pylist())) for file in files]
    return repr((tick, b.ticks, b2.ticks, deltas, sorted(recording.view(None).items())))


class _Opened:
    """The driver of a pipeline, closed at the end."""

    def __init__(self, folder: Path, sinks: Mapping[str, Any]) -> None:
        pipeline = dbsp.spark.stream(TWO).source("e", FakeFrame()).options(sync="false", rowsPerTick=1)
        pipeline.option("snapshotEvery", 3)
        for name, target in sinks.items():
            pipeline.sink(name[0], target, name=name)
        self._driver = driver_of(pipeline, folder / "checkpoint")

    def __enter__(self) -> Driver:
        return self._driver

    def __exit__(self, *_: object) -> None:
        self._driver.close()
