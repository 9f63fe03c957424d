"""The commits of a query on Spark, their damage, and messages. Needs no JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dbsp import CheckpointError, InputError
from dbsp.durable.sealed_files import sealed_json
from dbsp.spark.cluster.commits import ClusterCommit, Commits, open_state
from dbsp.spark.cluster.messages import (
    DRIVER,
    Message,
    facts_in,
    failure,
    failures,
    is_failure,
    messages_in,
    report,
)
from dbsp.spark.cluster.segment_state import HeldRows, Version
from dbsp.spark.cluster.shared_folder import SharedFolder


def commit(tick: int) -> ClusterCommit:
    versions = {
        (0, 0): Version("a", "state/0-0/a.image", ("state/0-0/b.journal", 3), 9, 7),
        (0, 1): Version("c"),
    }
    held = [HeldRows(1, 0, "rows", "held/x")]
    return ClusterCommit(tick, {"batch": tick}, versions, {"out": ["1.parquet"]}, held)


def test_the_latest_commit_counts(tmp_path: Path) -> None:
    folder = SharedFolder(str(tmp_path))
    id_ = open_state(folder, "query", "name", 2)
    assert open_state(folder, "query", "name", 2) == id_
    commits = Commits(folder, id_)
    assert commits.latest() == ClusterCommit()
    for tick in range(1, 12):
        commits.publish(commit(tick))
        assert commits.latest() == commit(tick)
        assert Commits(folder, id_).latest() == commit(tick)
        commits = Commits(folder, id_)
    assert folder.names("commits") == ["000000000010", "000000000011"]


def test_a_tick_is_committed_once_and_by_the_owner(tmp_path: Path) -> None:
    folder = SharedFolder(str(tmp_path))
    id_ = open_state(folder, "query", "name", 2)
    one = Commits(folder, id_)
    one.publish(commit(1))
    with pytest.raises(CheckpointError, match="another run has opened") as error:
        one.publish(commit(1))
    assert error.value.code == "checkpoint-in-use"
    Commits(folder, id_)
    with pytest.raises(CheckpointError, match="another run has opened"):
        one.publish(commit(2))
    assert one.latest() == commit(1)


def test_damaged_commits(tmp_path: Path) -> None:
    folder = SharedFolder(str(tmp_path))
    id_ = open_state(folder, "query", "name", 2)
    commits = Commits(folder, id_)
    commits.publish(commit(1))
    commits.publish(commit(2))
    path = tmp_path / "commits" / "000000000002"
    content = path.read_bytes()
    previous = (tmp_path / "commits" / "000000000001").read_bytes()
    for damaged in (
        b"",
        content[:-9],
        content.replace(b"b.journal", b"d.journal"),
        previous,
        b"{}",
        b"\xff\xfe",
    ):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="000000000002") as error:
            commits.latest()
        assert error.value.code == "checkpoint-unreadable"
    other: dict[str, Any] = {"form": "dbsp commit on Spark"}
    path.write_bytes(sealed_json(f"{id_}/commits/000000000002", other))
    with pytest.raises(CheckpointError, match="its content is not as expected"):
        commits.latest()


def _changed(path: Path, **changes: Any) -> None:
    document = json.loads(path.read_bytes())
    content = {**document["content"], **changes}
    path.write_bytes(sealed_json("/query.json", {"format": document["format"], "content": content}))


def test_a_state_of_another_version_hash_query_or_number_of_shards(tmp_path: Path) -> None:
    folder, path = SharedFolder(str(tmp_path)), tmp_path / "query.json"
    open_state(folder, "query", "name", 2)
    content = path.read_bytes()
    for changes in ({"version": 2}, {"hash": "another"}):
        _changed(path, **changes)
        with pytest.raises(CheckpointError, match="written by another version of dbsp") as error:
            open_state(folder, "query", "name", 2)
        assert error.value.code == "checkpoint-version"
    path.write_bytes(content)
    for query, shards, code in (("other", 2, "other-program"), ("query", 3, "other-shards")):
        with pytest.raises(CheckpointError) as error:
            open_state(folder, query, "name", shards)
        assert error.value.code == f"checkpoint-{code}"
    path.write_bytes(content.replace(b'"shards": 2', b'"shards": 3'))
    with pytest.raises(CheckpointError, match="does not match its checksum") as error:
        open_state(folder, "query", "name", 3)
    assert error.value.code == "checkpoint-unreadable"


def test_commits_without_their_query(tmp_path: Path) -> None:
    folder = SharedFolder(str(tmp_path))
    Commits(folder, open_state(folder, "query", "name", 2)).publish(commit(1))
    (tmp_path / "query.json").unlink()
    with pytest.raises(CheckpointError, match="is missing, and the folder has commits") as error:
        open_state(folder, "query", "name", 2)
    assert error.value.code == "checkpoint-unreadable"


# --- messages -------------------------------------------------------------------------------------


def test_messages_travel_as_rows() -> None:
    sent = [Message(1, 0, "rows", b"x" * 9), Message(0, 2, "", b""), report(1, {"a": 1})]
    table = pa.Table.from_batches([message.batch() for message in sent]).combine_chunks()
    assert list(messages_in(table.to_batches())) == sent


def test_a_failure_stops_the_tasks_of_all_shards() -> None:
    """The others must not complain that they miss the messages of the shard that has failed."""
    messages = list(failures(1, 3, 2, InputError("wrong", code="weight")))
    assert sorted(message.shard for message in messages) == [0, 1, 2]
    assert all(map(is_failure, messages)) and not is_failure(report(0, {}))
    with pytest.raises(InputError, match="wrong"):
        facts_in([report(0, {}), *messages])


def test_the_driver_raises_the_error_of_the_first_level() -> None:
    assert facts_in([report(0, {"a": 1}), report(1, {"b": 2})]) == [{"a": 1}, {"b": 2}]
    later = failure(0, 2, InputError("later", code="weight"))
    first = failure(1, 1, InputError("first", where="operator 'x'", code="weight"))
    assert first.level == DRIVER
    for messages in ([later, report(0, {}), first], [first, later]):
        with pytest.raises(InputError, match="first") as error:
            facts_in(messages)
        assert (error.value.where, error.value.code) == ("operator 'x'", "weight")
