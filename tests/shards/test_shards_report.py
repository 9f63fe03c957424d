"""`dbsp checkpoint show` and `verify` of sharded runs."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from dbsp import CheckpointError
from dbsp.durable.commit_record import COMMITS
from dbsp.durable.folder_report import describe_folder, verify_folder
from dbsp.shards.shard_folder import ShardFolder
from tests.crashes import Ended
from tests.shards.durable_shards import DurableShards, changes_of, distributed_words


def made(folder: Path, ticks: int = 5) -> Path:
    run = DurableShards(distributed_words(), 2, folder, sync=False, background=False, snapshot_every=3)
    for tick in range(1, ticks + 1):
        run.step(changes_of(tick))
    run.close()
    return folder


def facts(folder: Path) -> dict[str, str]:
    return {fact.name: fact.text for fact in describe_folder(folder)}


def test_show(tmp_path: Path) -> None:
    found = facts(made(tmp_path))
    assert found.pop("identity")
    shards = [found.pop(f"  shard-{shard}") for shard in range(2)]
    assert found == {
        "kind": "checkpoint of a sharded run",
        "format version": "1",
        "program": "words",
        "tick": "5",
        "shards": "2",
    }
    assert all(text.startswith("snapshot of tick 3, journal up to tick 5, ") for text in shards)


def test_show_before_the_first_file_of_a_shard(tmp_path: Path) -> None:
    folder = ShardFolder(tmp_path, sync=False)
    folder.expect("query", "words", 2)
    folder.close()
    assert facts(tmp_path)["  shard-1"].startswith("snapshot of tick 0, journal up to tick 0, ")
    assert verify_folder(tmp_path).problems == []


def test_verify(tmp_path: Path) -> None:
    made(tmp_path)
    found = verify_folder(tmp_path)
    assert (found.kind, found.problems) == ("checkpoint of a sharded run", [])
    small = tmp_path / "shard-1" / "small" / "3.runs"
    small.write_bytes(small.read_bytes()[:-1])
    (problem,) = verify_folder(tmp_path).problems
    assert problem.startswith(f"cannot read {small}: ")
    (tmp_path / COMMITS).unlink()
    (problem,) = verify_folder(tmp_path).problems
    assert problem.startswith(f"cannot read {tmp_path / COMMITS}: the file is missing")
    with pytest.raises(CheckpointError, match="commits: the file is missing"):
        describe_folder(tmp_path)


def test_a_tick_that_does_not_count(tmp_path: Path) -> None:
    run = DurableShards(distributed_words(), 2, tmp_path, sync=False)
    run.step(changes_of(1))
    with (
        mock.patch.object(run.folder, "commit", side_effect=Ended),
        mock.patch("dbsp.durable.tick_journal.TickJournal.withdraw"),
        pytest.raises(Ended),
    ):
        run.step(changes_of(2))
    run.close()
    text = facts(tmp_path)["  shard-0"]
    assert text.startswith("snapshot of tick 0, journal up to tick 1 and 1 tick that does not count, ")
    assert verify_folder(tmp_path).problems == []


def test_a_shard_that_does_not_fit_the_commit_record(tmp_path: Path) -> None:
    made(tmp_path / "run")
    record = (tmp_path / "run" / COMMITS).read_bytes()
    made_again = DurableShards(distributed_words(), 2, tmp_path / "run", sync=False)
    made_again.step(changes_of(6))
    made_again.step(changes_of(7))
    made_again.close()
    (tmp_path / "run" / COMMITS).write_bytes(record)
    problems = verify_folder(tmp_path / "run").problems
    assert len(problems) == 2
    assert all("it has ticks after tick 5, the latest one of the run" in problem for problem in problems)
