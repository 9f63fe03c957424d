"""Sinks whose parts executors write: only the parts of commits become visible. Needs no JVM."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from dbsp import CheckpointError, ZSet
from dbsp.data.schema import Schema
from dbsp.operators.ports.spark_sink import SparkSink
from dbsp.spark.cluster.part_sink import PartSink, ticks_of_parts
from dbsp.spark.cluster.shared_folder import SharedFolder
from dbsp.spark.spark_types import arrow_types, struct_of
from tests.spark.faulty_files import Faults, FaultyFolder

COLUMNS = Schema.of(n=int)


def sink_in(folder: SharedFolder, encoding: str = "weight") -> PartSink:
    return PartSink(
        "out", SparkSink("out", COLUMNS, encoding), dict(arrow_types(struct_of(COLUMNS, None))), folder
    )


@pytest.fixture(params=["local", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> FaultyFolder:
    location = str(tmp_path) if request.param == "local" else f"memory://{uuid.uuid4().hex}"
    return FaultyFolder(location, Faults())


def part(sink: PartSink, tick: int, shard: int = 0) -> str:
    delta = ZSet({(tick * 10 + shard,): 1}, COLUMNS)
    file = sink.write(delta, lambda: delta, tick, shard, uuid.uuid4().hex)
    assert file is not None
    return file


def visible(sink: PartSink, tick: int) -> list[str]:
    return sink.folder.names(f"tick={tick}")


def test_only_the_parts_that_count_become_visible(folder: FaultyFolder) -> None:
    sink = sink_in(folder)
    lost, counts, other = part(sink, 1), part(sink, 1), part(sink, 1, 1)
    sink.check_written(1, [counts, other])
    assert ticks_of_parts(folder) == []
    sink.publish(1, [counts, other])
    assert visible(sink, 1) == sorted([counts, other])
    sink.publish(1, [counts, other])
    part(sink, 1)  # of a late attempt
    sink.publish(1, [counts, other])
    assert visible(sink, 1) == sorted([counts, other])
    assert lost not in visible(sink, 1)
    assert [name for name in folder.names("_dbsp") if name.startswith("tick=")] == []


def test_a_tick_without_parts(folder: FaultyFolder) -> None:
    sink = sink_in(folder)
    assert sink.write(ZSet({}, COLUMNS), lambda: ZSet({}, COLUMNS), 1, 0, "a") is None
    part(sink, 1)  # does not count
    sink.check_written(1, [])
    sink.publish(1, [])
    assert ticks_of_parts(folder) == [] and folder.names("_dbsp") == []


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("encoding", ["weight", "view"])
def test_a_publication_that_ends_at_any_call_is_completed(
    folder: FaultyFolder, after: bool, encoding: str
) -> None:
    sink, ended = sink_in(folder, encoding), 0
    for tick in range(1, 26):
        files = [part(sink, tick), part(sink, tick, 1)]
        part(sink, tick, 1)
        folder.faults.arm(tick, after)
        try:
            sink.publish(tick, files)
        except CheckpointError:
            ended += 1
        folder.faults.disarm()
        sink.publish(tick, files)
        assert visible(sink, tick) == sorted(files)
    assert ended > 5
    assert ticks_of_parts(folder) == ([25] if encoding == "view" else list(range(1, 26)))


def test_parts_that_readers_have_removed_stay_removed(folder: FaultyFolder) -> None:
    sink = sink_in(folder)
    files = [part(sink, 1)]
    sink.publish(1, files)
    folder.remove("tick=1")
    sink.publish(1, files)
    assert ticks_of_parts(folder) == []


def test_the_parts_of_an_ended_process_on_their_way(folder: FaultyFolder) -> None:
    """Views that are written again have other files; those of the first time do not appear."""
    sink = sink_in(folder)
    folder.write("_dbsp/chosen/tick=3/0-old.parquet", b"old")
    files = [part(sink, 3)]
    sink.publish(3, files)
    assert visible(sink, 3) == files


def test_a_folder_that_the_driver_does_not_share_is_refused_before_the_commit(folder: FaultyFolder) -> None:
    sink = sink_in(folder)
    file = part(sink, 1)
    folder.remove("_dbsp")
    with pytest.raises(
        CheckpointError, match=f"sink 'out': expected a folder .*the driver does not see {file}"
    ) as e:
        sink.check_written(1, [file])
    assert e.value.code == "folder-not-shared"
