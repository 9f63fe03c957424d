"""Every file of a pipeline's folders, damaged in every way, is an error. Needs no JVM."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dbsp
from benchmarks.fake_spark import TWO, FakeFrame, Received, driver_of
from dbsp import CheckpointError
from dbsp.spark.format import DbspSource
from dbsp.spark.recording import SinkRecording
from dbsp.spark.sink_delivery import SinkDelivery
from tests.spark.lives import ticks

STATE = "checkpoint/state"
"""Belongs to `dbsp.durable`, whose tests damage it."""


class Kill(BaseException):
    """The end of the process."""


def pipeline(sinks: dict[str, Any]) -> dbsp.spark.Pipeline:
    built = dbsp.spark.stream(TWO).source("e", FakeFrame()).options(sync="false", rowsPerTick=1)
    for name, target in sinks.items():
        built.sink(name[0], target, name=name)
    return built


def lived(root: Path) -> None:
    """Leave a folder `a`, a left-out function `b`, and a batch of which ticks are missing."""
    sinks = {"a": root / "a", "b": Received()}
    driver = driver_of(pipeline(sinks), root / "checkpoint")
    driver(FakeFrame((0, 0), (1, 1)), 0)
    driver.close()
    driver = driver_of(pipeline({"a": root / "a"}), root / "checkpoint")
    driver(FakeFrame((2, 2)), 1)
    emit, delivered = SinkDelivery.emit, []

    def killed(self: SinkDelivery, *tick: Any) -> None:
        if len(delivered) == 1:
            raise Kill
        delivered.append(tick)
        emit(self, *tick)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SinkDelivery, "emit", killed)
        with pytest.raises(RuntimeError, match="Kill"):
            driver(FakeFrame((3, 3), (4, 4), (5, 5)), 2)


def read(root: Path) -> object:
    """Continue with both sinks, and read the folder as the format "dbsp" does."""
    received = Received()
    driver = driver_of(pipeline({"a": root / "a", "b": received}), root / "checkpoint")
    try:
        # Spark repeats a batch; its rows are those in the folder, whatever Spark sends.
        driver(FakeFrame(), 2)
    finally:
        driver.close()
    view = SinkRecording(root / "a").view(None).rows()
    return ticks(root / "a"), received.ticks, view


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("whole")
    for name in ("whole", "twin"):
        lived(root / name)
    yield root


FILES = (
    "checkpoint/pipeline.json",
    "checkpoint/sink-b.json",
    "checkpoint/batch-2.tables",
    "checkpoint/left-out-b-2.tables",
    "a/_dbsp.json",
    *(f"a/tick-{tick:012d}.parquet" for tick in (1, 2, 3, 4)),
)


def test_these_are_all_files(whole: Path, tmp_path: Path) -> None:
    root = whole / "whole"
    found = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert {name for name in found if not name.startswith(STATE)} == set(FILES)
    copy = shutil.copytree(root, tmp_path / "copy")
    assert read(copy) == (
        {n + 1: [(n, n, 1)] for n in range(6)},
        {5: [(2, 2, 1), (3, 3, 1), (4, 4, 1)], 6: [(5, 5, 1)]},
        [(n, n) for n in range(6)],
    )


def changed(content: bytes, damage: str) -> bytes:
    middle = len(content) // 2
    return {
        "first bit": bytes([content[0] ^ 1]) + content[1:],
        "middle bit": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        "last bit": content[:-1] + bytes([content[-1] ^ 1]),
        "truncated": content[:middle],
        "empty": b"",
        "longer": content + b"x",
        "zeros": bytes(len(content)),
    }[damage]


DAMAGES = ("first bit", "middle bit", "last bit", "truncated", "empty", "longer", "zeros")


@pytest.mark.parametrize("damage", [*DAMAGES, "missing", "foreign", "a sibling"])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_an_error(whole: Path, tmp_path: Path, name: str, damage: str) -> None:
    copy = shutil.copytree(whole / "whole", tmp_path / "copy")
    path = copy / name
    if damage == "missing":
        path.unlink()
    elif damage == "foreign":
        path.write_bytes((whole / "twin" / name).read_bytes())
    elif damage == "a sibling":
        sibling = next(other for other in sorted(path.parent.iterdir()) if other != path and other.is_file())
        path.write_bytes(sibling.read_bytes())
    else:
        path.write_bytes(changed(path.read_bytes(), damage))
    with pytest.raises(CheckpointError) as caught:
        read(copy)
    assert path.name in str(caught.value) or str(path.parent) in str(caught.value)
    assert caught.value.code in (
        "checkpoint-unreadable",
        "checkpoint-version",
        "checkpoint-other-query",
        "sink-incomplete",
    )


@pytest.mark.parametrize("name", FILES)
def test_a_single_bit(whole: Path, tmp_path: Path, name: str) -> None:
    """Some bits of each file, one at a time."""
    copy = shutil.copytree(whole / "whole", tmp_path / "copy")
    content = (copy / name).read_bytes()
    for at in range(0, len(content), max(1, len(content) // 8)):
        (copy / name).write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        with pytest.raises(CheckpointError):
            read(copy)


def log_folder(root: Path) -> Path:
    from dbsp.durable import DeltaLog

    built = dbsp.Circuit("log")
    built.output("out", built.input("in", x=int))
    run, log = built.start(), DeltaLog(root)
    for x in range(3):
        log.append(x + 1, run.step({"in": [(x,)]}))
    return root


def deltas_of(folder: Path) -> list[tuple[int, ...]]:
    """Read the deltas as the processes that Spark starts do."""
    source = DbspSource({"path": str(folder), "deltas": "true"})
    reader = source.reader(source.schema())
    return [
        tuple(row.values())
        for task in reader.partitions()
        for batch in reader.read(task)
        for row in batch.to_pylist()
    ]


@pytest.mark.parametrize("damage", [*DAMAGES, "missing"])
@pytest.mark.parametrize(
    "name", ["log.json", "latest.json", *(f"ticks/tick=00000000000{n}/out.parquet" for n in (1, 2, 3))]
)
def test_spark_verifies_the_files_of_a_log(tmp_path: Path, name: str, damage: str) -> None:
    folder = log_folder(tmp_path / "log")
    assert deltas_of(folder) == [(0, 1, 1), (1, 1, 2), (2, 1, 3)]
    path = folder / name
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(changed(path.read_bytes(), damage))
    with pytest.raises(CheckpointError, match=path.name):
        deltas_of(folder)


def test_spark_notices_the_file_of_another_tick_in_a_log(tmp_path: Path) -> None:
    folder = log_folder(tmp_path / "log")
    one, two = (folder / f"ticks/tick=00000000000{n}/out.parquet" for n in (1, 2))
    one.write_bytes(two.read_bytes())
    with pytest.raises(CheckpointError, match=r"out\.parquet: its content does not match its checksum"):
        deltas_of(folder)


def test_spark_verifies_the_files_of_a_sink(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole / "whole" / "a", tmp_path / "a")
    assert deltas_of(folder) == [(n, n, 1, n + 1) for n in range(4)]
    (folder / f"tick-{2:012d}.parquet").unlink()
    with pytest.raises(CheckpointError, match=r"tick-000000000002\.parquet: the file is missing"):
        deltas_of(folder)


def test_the_seal_of_a_tick_is_found_after_any_name(tmp_path: Path) -> None:
    """The owner contains the name of the sink, which can look like a seal."""
    import pyarrow as pa

    from dbsp.spark.sink_files import TickSeal, read_tick, tick_path

    table = pa.table({"dbsp-seal:" + "0" * 32: ["dbsp-seal:" + "0" * 32, "x"]})
    owner = "id/dbsp-seal:" + "0" * 32
    path = tick_path(tmp_path, 7)
    path.write_bytes(TickSeal(owner, 7, 0).parquet(table))
    assert read_tick(path, owner, 7) == table
    with pytest.raises(CheckpointError, match="it is a file of another place"):
        read_tick(path, owner, 8)
    with pytest.raises(CheckpointError, match="it is a file of another place"):
        read_tick(path, "other", 7)
