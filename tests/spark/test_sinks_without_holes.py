"""A sink that missed ticks or lost them is noticed. Needs no JVM."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbsp
from benchmarks.fake_spark import TWO, FakeFrame, Received
from dbsp import CheckpointError
from dbsp.durable import Store
from dbsp.spark.sink_delivery import SinkDelivery
from tests.profiles import examples
from tests.spark.lives import Life, live, ticks


def row(*numbers: int) -> list[tuple[int, ...]]:
    return [(n, n, 1) for n in numbers]


@pytest.mark.parametrize("every", [1, 100])
def test_a_sink_left_out_and_put_back_receives_what_it_missed(tmp_path: Path, every: int) -> None:
    live(tmp_path, "ab", 0, every=every)
    live(tmp_path, "a", 1, 2, every=every)
    live(tmp_path, "a", 3, every=every)
    live(tmp_path, "ab", 4, every=every)
    assert ticks(tmp_path / "a") == {n + 1: row(n) for n in range(5)}
    assert ticks(tmp_path / "b") == {1: row(0), 4: row(1, 2, 3), 5: row(4)}
    assert not list((tmp_path / "checkpoint").glob("left-out-*"))
    live(tmp_path, "ab", 5, every=every)
    assert ticks(tmp_path / "b")[6] == row(5)


def test_missed_retractions_are_handed_over(tmp_path: Path) -> None:
    keyed = dbsp.Circuit("keyed")
    keyed.output("out", keyed.input("in", x=int, y=int, key="x"))
    pipelines = []
    for sinks in (["out"], [], ["out"]):
        pipeline = dbsp.spark.stream(keyed).source("in", FakeFrame(), encoding="upsert")
        for name in sinks:
            pipeline.sink(name, tmp_path / name)
        pipelines.append(pipeline)
    from benchmarks.fake_spark import driver_of

    for number, (pipeline, pair) in enumerate(zip(pipelines, [(1, 1), (1, 2), (1, 3)], strict=True)):
        driver = driver_of(pipeline, tmp_path / "checkpoint")
        driver(FakeFrame(pair), number)
        driver.close()
    assert ticks(tmp_path / "out") == {1: [(1, 1, 1)], 2: [(1, 1, -1), (1, 2, 1)], 3: [(1, 2, -1), (1, 3, 1)]}


def test_a_tick_that_a_sink_lacks_when_it_is_left_out(tmp_path: Path) -> None:
    seen = Received()
    life = Life(tmp_path, {"a": tmp_path / "a", "b": seen}).batches(0)
    seen.fails = True
    with pytest.raises(dbsp.errors.UserFunctionError, match=r"sink 'b'.*the disk is full"):
        life.batches(1)
    live(tmp_path, {"a": tmp_path / "a"}, 1, 2)
    seen.fails = False
    live(tmp_path, {"a": tmp_path / "a", "b": seen}, 3)
    assert seen.ticks == {1: row(0), 3: row(1, 2), 4: row(3)}


def test_a_new_sink_that_never_received_its_view(tmp_path: Path) -> None:
    live(tmp_path, "a", 0, 1)
    live(tmp_path, "ab")  # ends before a micro-batch
    live(tmp_path, "a", 2)
    live(tmp_path, "ab", 3)
    assert ticks(tmp_path / "b") == {3: row(0, 1, 2), 4: row(3)}


@pytest.mark.parametrize("crash", ["before", "after"])
def test_a_crash_while_missed_ticks_are_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash: str
) -> None:
    """The sink is left out again after the crash: the target alone knows what it has."""
    from dbsp.spark.targets import FolderTarget

    original = FolderTarget.write

    def interrupted(self: FolderTarget, table: Any, tick: int) -> None:
        if self.path.name == "b" and crash == "after":
            original(self, table, tick)
        if self.path.name == "b":
            raise SystemExit("killed")
        original(self, table, tick)

    live(tmp_path, "ab", 0)
    live(tmp_path, "a", 1, 2)
    with monkeypatch.context() as patched:
        patched.setattr(FolderTarget, "write", interrupted)
        with pytest.raises(RuntimeError, match="killed"):
            live(tmp_path, "ab", 3)
    live(tmp_path, "a", 3)
    live(tmp_path, "ab", 4)
    first = {1: row(0)}
    expected = {4: row(1, 2, 3)} if crash == "before" else {3: row(1, 2), 4: row(3)}
    assert ticks(tmp_path / "b") == first | expected | {5: row(4)}


def test_a_kill_after_missed_ticks_were_handed_over(tmp_path: Path) -> None:
    live(tmp_path, "ab", 0)
    live(tmp_path, "a", 1, 2)
    Life(tmp_path, "ab").batches(3).kill()
    assert not list((tmp_path / "checkpoint").glob("left-out-*"))
    live(tmp_path, "ab", 4)
    assert ticks(tmp_path / "b") == {1: row(0), 3: row(1, 2), 4: row(3), 5: row(4)}
    Life(tmp_path, "a").batches(5).kill()
    live(tmp_path, "ab", 6)
    assert ticks(tmp_path / "b") == {1: row(0), 3: row(1, 2), 4: row(3), 5: row(4), 6: row(5), 7: row(6)}


def test_a_kill_between_a_tick_and_its_delivery_after_a_handover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Received()
    sinks = {"a": tmp_path / "a", "b": seen}
    live(tmp_path, sinks, 0)
    live(tmp_path, "a", 1)
    life = Life(tmp_path, sinks).batches(2)
    seen.fails = True
    with monkeypatch.context() as patched:
        patched.setattr(SinkDelivery, "close", lambda self: None)  # a killed process closes nothing
        with pytest.raises(dbsp.errors.UserFunctionError):
            life.batches(3)
    seen.fails = False
    live(tmp_path, sinks, 4)
    assert seen.ticks == {1: row(0), 2: row(1), 3: row(2), 4: row(3), 5: row(4)}


def test_a_view_that_was_left_out_is_the_view_again(tmp_path: Path) -> None:
    live(tmp_path, "ab", 0, encoding="view")
    live(tmp_path, "a", 1, 2, encoding="view")
    live(tmp_path, "ab", encoding="view")
    live(tmp_path, "ab", 3, encoding="view")
    assert ticks(tmp_path / "b") == {4: [(n, n) for n in range(4)]}


LIFE = st.tuples(st.sampled_from(["", "a", "b", "ab"]), st.integers(0, 3), st.booleans(), st.booleans())
LIVES = st.lists(LIFE, min_size=2, max_size=7)


@settings(max_examples=examples(30))
@given(LIVES, st.sampled_from([1, 2, 100]))
def test_after_any_lives_the_sum_of_a_sink_is_the_view(
    tmp_path_factory: pytest.TempPathFactory, lives: list[tuple[str, int, bool, bool]], every: int
) -> None:
    root, number = tmp_path_factory.mktemp("lives"), 0
    received = {"a": Received(), "b": Received()}
    for present, count, fails, killed in [*lives, ("ab", 1, False, False)]:
        sinks = {name: received[name] for name in present}
        received["b"].fails = fails
        life = Life(root, sinks, every=every)
        for _ in range(count):
            try:
                life.batches(number)
            except dbsp.DbspError:
                break
            number += 1
        life.kill() if killed else life.close()
    for sink in received.values():
        delivered = sorted(pair for rows in sink.ticks.values() for pair in rows)
        assert delivered == row(*range(number))


def test_a_removed_folder_is_an_error(tmp_path: Path) -> None:
    live(tmp_path, "ab", 0, 1, 2)
    shutil.rmtree(tmp_path / "b")
    with pytest.raises(
        CheckpointError, match="sink 'b': expected the ticks that the sink has had in the fold"
    ):
        Life(tmp_path, "ab")
    # The error released the checkpoint, and changed nothing.
    with pytest.raises(CheckpointError, match=r"it was removed.*\[sink-incomplete\]"):
        Life(tmp_path, "ab")
    live(tmp_path, {"a": tmp_path / "a", "b2": tmp_path / "b"}, 3)
    assert ticks(tmp_path / "b") == {3: row(0, 1, 2), 4: row(3)}


def test_removed_files_are_an_error(tmp_path: Path) -> None:
    live(tmp_path, "ab", 0, 1, 2)
    for path in (tmp_path / "b").glob("*.parquet"):
        path.unlink()
    with pytest.raises(CheckpointError, match=r"the folder .*b lacks tick 3, which it had"):
        Life(tmp_path, "ab")


def test_another_target_of_the_same_name_is_an_error(tmp_path: Path) -> None:
    live(tmp_path, "ab", 0)
    with pytest.raises(
        CheckpointError, match=r"sink 'b': expected the ticks .* or the sink had another target"
    ):
        Life(tmp_path, {"a": tmp_path / "a", "b": tmp_path / "elsewhere"})
    with pytest.raises(CheckpointError, match=r"expected the target of the checkpoint, folder, got function"):
        Life(tmp_path, {"a": tmp_path / "a", "b": Received()})
    with pytest.raises(CheckpointError, match=r"expected the encoding of the checkpoint, weight, got append"):
        Life(tmp_path, "ab", encoding="append")


def test_a_checkpoint_older_than_its_sink_is_an_error(tmp_path: Path) -> None:
    live(tmp_path, "ab", 0)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    live(tmp_path, "ab", 1)
    shutil.rmtree(tmp_path / "checkpoint")
    shutil.move(tmp_path / "copy", tmp_path / "checkpoint")
    with pytest.raises(
        CheckpointError, match=r"the sink has tick 2, but the state of the checkpoint ends at tick 1"
    ):
        Life(tmp_path, "ab")


def test_several_sinks_of_one_output(tmp_path: Path) -> None:
    seen = Received()
    sinks = {"a": tmp_path / "a", "a2": seen}
    live(tmp_path, sinks, 0)
    live(tmp_path, {"a": tmp_path / "a"}, 1)
    live(tmp_path, sinks, 2)
    assert ticks(tmp_path / "a") == {n + 1: row(n) for n in range(3)}
    assert seen.ticks == {1: row(0), 2: row(1), 3: row(2)}


def ledger(root: Path) -> Path:
    return root / "checkpoint" / "sink-b.json"


@pytest.mark.parametrize("position", [0, 10, 0.25, 0.5, 0.75, -3])
@pytest.mark.parametrize("file", ["sink-b.json", "pipeline.json"])
def test_a_damaged_ledger_is_an_error(tmp_path: Path, file: str, position: float) -> None:
    seen = Received()
    live(tmp_path, {"b": seen}, 0, 1)
    path = tmp_path / "checkpoint" / file
    content = bytearray(path.read_bytes())
    at = int(position * len(content)) if isinstance(position, float) else position
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=f"{file}") as caught:
        Life(tmp_path, {"b": seen})
    assert caught.value.code in ("checkpoint-unreadable", "checkpoint-version")


@pytest.mark.parametrize("content", ["", "seven", "{}", "[]", "7"])
def test_a_ledger_with_other_content_is_an_error(tmp_path: Path, content: str) -> None:
    seen = Received()
    live(tmp_path, {"b": seen}, 0, 1)
    ledger(tmp_path).write_text(content)
    with pytest.raises(CheckpointError, match=r"sink-b\.json.*\[checkpoint-unreadable\]"):
        Life(tmp_path, {"b": seen})


def test_a_removed_ledger_is_an_error(tmp_path: Path) -> None:
    seen = Received()
    live(tmp_path, {"b": seen}, 0, 1)
    ledger(tmp_path).unlink()
    with pytest.raises(
        CheckpointError, match=r"sink 'b': expected the ticks .* in the ledger .*sink-b\.json"
    ):
        Life(tmp_path, {"b": seen})


@pytest.mark.parametrize("content", ["", "[]", json.dumps({"owner": "me"})])
def test_a_damaged_description_of_a_folder_is_an_error(tmp_path: Path, content: str) -> None:
    live(tmp_path, "b", 0)
    (tmp_path / "b" / "_dbsp.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"sink 'b': .*_dbsp\.json.*\[checkpoint-unreadable\]"):
        Life(tmp_path, "b")


def test_damaged_rows_of_a_left_out_sink_are_an_error(tmp_path: Path) -> None:
    live(tmp_path, "ab", 0)
    live(tmp_path, "a", 1)
    (path,) = (tmp_path / "checkpoint").glob("left-out-b-*")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"left-out-b-1\.tables: its content does not match"):
        live(tmp_path, "ab", 2)
    path.unlink()
    with pytest.raises(CheckpointError, match=r"cannot read .*left-out-b-1\.tables: the file is missing"):
        live(tmp_path, "ab", 2)


def test_a_state_that_another_program_stepped_is_refused(tmp_path: Path) -> None:
    run = TWO.start(checkpoint=Store(tmp_path / "checkpoint" / "state", sync=False))
    run.step({"e": [(1, 1)]}, label={"batches": {"e": 0}})
    assert run.log is not None
    run.log.close()
    with pytest.raises(
        CheckpointError, match=r"has the label \{.*, so another program than a Spark pipeline"
    ):
        Life(tmp_path, "a")
