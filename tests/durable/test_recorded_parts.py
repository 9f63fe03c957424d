"""Transactions with a checkpoint: their steps are recorded one by one, and final together."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import dbsp
from dbsp import ArgumentError, CheckpointError, Circuit, CircuitError, Run, count
from dbsp.durable import Store, tick_journal
from dbsp.durable.folder_report import describe_folder
from dbsp.durable.journal_parts import TickPart
from dbsp.durable.tick_journal import TickJournal
from dbsp.runtime import compaction
from tests.crashes import Ended, count_operations, ends_after
from tests.harness import deltas_of, views
from tests.profiles import sampled


def words(delayed: bool = False) -> Circuit:
    circuit = Circuit("words")
    word = circuit.input("word", s=str, x=int)
    circuit.output("upper", word.map(s=dbsp.col("s").str.upper(), x=dbsp.col("x")))
    circuit.output("n", word.group_by("s").agg(n=count()))
    if delayed:
        circuit.output("before", word.delay())
    return circuit


def opened(folder: Path, **options: Any) -> Store:
    return Store(folder, sync=False, background=False, **options)


def ended(run: Run) -> None:
    """Stop a run as the end of its process does."""
    assert isinstance(run.log, Store)
    run.log.close()


def part(n: int) -> dict[str, list[tuple[str, int]]]:
    return {"word": [(f"w{n}", n), ("all", n)]}


@pytest.mark.parametrize("delayed", [False, True])
@pytest.mark.parametrize("snapshot_every", [1, 3, 100])
def test_a_transaction_is_repeated_when_the_folder_is_opened(
    tmp_path: Path, delayed: bool, snapshot_every: int
) -> None:
    def start() -> Run:
        return words(delayed).start(checkpoint=opened(tmp_path, snapshot_every=snapshot_every))

    run, right = start(), words(delayed).start()
    for first in range(0, 40, 10):
        run.step(part(first))
        right.step(part(first))
        with run.transaction(label={"first": first}) as tx, right.transaction() as other:
            for n in range(first + 1, first + 10):
                tx.step(part(n))
                other.step(part(n))
        assert isinstance(run.log, Store)
        assert run.log.label == {"first": first}
        ended(run)
        run = start()
        assert run.tick == right.tick
        assert views(run) == views(right)
        assert isinstance(run.log, Store)
        assert run.log.label == {"first": first}
        assert run.log.result is not None
        assert run.log.result.number == run.tick
        assert {name: delta.to_dict() for name, delta in run.log.result.items()} == {
            name: delta.to_dict() for name, delta in other.result.items()
        }
    assert run.step({})["n"].to_dict() == right.step({})["n"].to_dict()
    ended(run)


def test_values_that_are_new_after_the_last_step(tmp_path: Path) -> None:
    run = words().start(checkpoint=opened(tmp_path))
    for n in range(2):
        with run.transaction() as tx:
            tx.step(part(n))
            run.prepare({"word": [(f"unused {n}", 1)]})
    expected = views(run)
    ended(run)
    again = words().start(checkpoint=opened(tmp_path))
    assert views(again) == expected
    ended(again)


@pytest.mark.parametrize("delayed", [False, True])
def test_values_are_freed_between_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delayed: bool
) -> None:
    monkeypatch.setattr(compaction, "MANY_VALUES", 8)

    def start() -> Run:
        return words(delayed).start(checkpoint=opened(tmp_path, snapshot_every=3))

    run, right = start(), words(delayed).start()
    for n in range(30):
        for each in (run, right):
            with each.transaction() as tx:
                for k in range(4 * n, 4 * n + 4):
                    tx.step(part(k))
                    tx.step({"word": dict.fromkeys(part(k - 4)["word"], -1)} if k >= 4 else {})
        if n % 7 == 5:
            ended(run)
            run = start()
        assert views(run) == views(right)
    assert len(right.interner) > 200 > 100 > len(run.interner)
    ended(run)


def test_steps_without_their_tick_are_ignored_and_removed(tmp_path: Path) -> None:
    run = words().start(checkpoint=opened(tmp_path))
    run.step(part(0))
    size = (tmp_path / "journal" / "1.ticks").stat().st_size
    tx = run.transaction().__enter__()
    tx.step(part(1))
    tx.step(part(2))
    copy = tmp_path.with_name("copy")
    shutil.copytree(tmp_path, copy)
    assert (copy / "journal" / "1.ticks").stat().st_size > size
    again = words().start(checkpoint=opened(copy))
    assert again.tick == 1
    assert (copy / "journal" / "1.ticks").stat().st_size == size
    again.step(part(3))
    ended(again)
    again = words().start(checkpoint=opened(copy))
    assert again.view("n").to_dict() == {("w0", 1): 1, ("w3", 1): 1, ("all", 2): 1}
    ended(again)
    del tx
    gc.collect()
    assert run.tick == 1
    assert (tmp_path / "journal" / "1.ticks").stat().st_size == size, "removed by the rollback"
    ended(run)


def test_a_transaction_that_was_rolled_back_is_not_repeated(tmp_path: Path) -> None:
    run = words().start(checkpoint=opened(tmp_path))
    for n in range(3):
        with pytest.raises(ZeroDivisionError), run.transaction() as tx:
            tx.step(part(n))
            raise ZeroDivisionError
        with run.transaction() as tx:
            tx.step(part(n + 10))
            tx.step(part(n + 20))
    expected = views(run)
    ended(run)
    again = words().start(checkpoint=opened(tmp_path))
    assert (again.tick, views(again)) == (3, expected)
    ended(again)


@pytest.mark.crash
@pytest.mark.parametrize("delayed", [False, True])
def test_the_process_ends_between_any_two_file_operations(tmp_path: Path, delayed: bool) -> None:
    acknowledged: list[int] = []

    def lived(folder: Path) -> None:
        run = words(delayed).start(checkpoint=opened(folder, snapshot_every=2))
        try:
            while len(acknowledged) < 3:
                with run.transaction() as tx:
                    for n in range(2):
                        tx.step(part(2 * len(acknowledged) + n))
                acknowledged.append(run.tick)
        finally:
            assert isinstance(run.log, Store)
            run.log._owner.release()  # type: ignore[union-attr]

    operations = count_operations(lambda: lived(tmp_path / "whole"))
    assert operations > 30
    for end in sampled(operations):
        acknowledged.clear()
        folder = tmp_path / str(end)
        # Snapshots in the background are fewer when the machine is busy, and the operations, too.
        with contextlib.suppress(Ended), ends_after(end):
            lived(folder)
        gc.collect()
        again = words(delayed).start(checkpoint=opened(folder, snapshot_every=2))
        assert len(acknowledged) <= again.tick <= len(acknowledged) + 1
        right = words(delayed).start()
        for tick in range(again.tick):
            with right.transaction() as tx:
                for n in range(2):
                    tx.step(part(2 * tick + n))
        assert views(again) == views(right)
        for run in (again, right):
            with run.transaction() as tx:
                tx.step(part(100))
        ended(again)
        again = words(delayed).start(checkpoint=opened(folder, snapshot_every=2))
        assert views(again) == views(right)
        ended(again)


@pytest.mark.parametrize("at", range(4))
def test_a_full_disk_rolls_the_transaction_back(tmp_path: Path, at: int) -> None:
    run = words().start(checkpoint=opened(tmp_path))
    run.step(part(0))
    genuine, calls = tick_journal.write_all, [at]

    def write(file: int, content: bytes) -> None:
        calls[0] -= 1
        if calls[0] < 0:
            genuine(file, content[:-5])
            raise OSError(28, "No space left on device")
        genuine(file, content)

    with pytest.raises(CheckpointError, match="No space left"):  # noqa: SIM117
        with patch.object(tick_journal, "write_all", write), run.transaction() as tx:
            for n in range(1, 4):
                tx.step(part(n))
    assert run.tick == 1
    with run.transaction() as tx:
        tx.step(part(9))
    expected = views(run)
    ended(run)
    again = words().start(checkpoint=opened(tmp_path))
    assert (again.tick, views(again)) == (2, expected)
    ended(again)


def test_an_attempt_of_the_same_number_does_not_count_as_recorded(tmp_path: Path) -> None:
    """The record of a tick that failed must not make a later transaction final."""
    run = words().start(checkpoint=opened(tmp_path))
    with (
        pytest.raises(CheckpointError),
        patch.object(tick_journal, "write_all", side_effect=OSError(28, "x")),
    ):
        run.step(part(0))
    with pytest.raises(KeyboardInterrupt), run.transaction() as tx:
        for n in range(5):
            tx.step(part(n))
        with patch.object(TickJournal, "write", side_effect=KeyboardInterrupt):
            tx.__exit__(None, None, None)
    assert run.tick == 0
    assert run.view("n").rows() == []
    ended(run)


def test_steps_are_read_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = words().start(checkpoint=opened(tmp_path))
    with run.transaction() as tx:
        for n in range(5):
            tx.step(part(n))
    ended(run)
    order: list[str] = []
    read, step = TickPart.read, Run.apply_part
    monkeypatch.setattr(TickPart, "read", lambda place: order.append("read") or read(place))
    monkeypatch.setattr(Run, "apply_part", lambda *a: order.append("step") or step(*a))
    again = words().start(checkpoint=opened(tmp_path))
    assert order == ["read"] * 5 + ["read", "step"] * 5  # first only for their values
    ended(again)


def test_damage_of_a_step_is_reported(tmp_path: Path) -> None:
    run = words().start(checkpoint=opened(tmp_path))
    with run.transaction() as tx:
        for n in range(3):
            tx.step(part(n))
    run.step(part(3))
    ended(run)
    path = tmp_path / "journal" / "1.ticks"
    content = path.read_bytes()
    for at in range(60, len(content), 97):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(CheckpointError) as raised:
            words().start(checkpoint=opened(tmp_path))
        assert raised.value.code in ("checkpoint-unreadable", "checkpoint-version")
    size = content.index(b"dbspseal", 1)
    second = content.index(b"dbspseal", size + 1)
    for wrong in (
        content[size:],  # without the first step
        content[:size] + content[second:],  # without the second
        content[:size] + content,  # with one twice
    ):
        path.write_bytes(wrong)
        with pytest.raises(CheckpointError, match=r"a step of tick 1 is missing|does not follow") as raised:
            words().start(checkpoint=opened(tmp_path))
        assert raised.value.code == "checkpoint-unreadable"
    path.write_bytes(content)
    ended(words().start(checkpoint=opened(tmp_path)))


def test_a_value_that_cannot_be_stored_rolls_the_transaction_back(tmp_path: Path) -> None:
    circuit = Circuit("objects")
    circuit.output("out", circuit.input("a", x=object))
    run = circuit.start(checkpoint=opened(tmp_path))
    with pytest.raises(CheckpointError, match="column 'x' of input 'a' holds"), run.transaction() as tx:
        tx.step({"a": [("plain",)]})
        tx.step({"a": [(object(),)]})
    assert run.view("out").rows() == []
    with run.transaction() as tx:
        tx.step({"a": [("other",)]})
    ended(run)


def test_what_a_checkpoint_refuses_around_a_transaction(tmp_path: Path) -> None:
    run = words().start(checkpoint=opened(tmp_path))
    with pytest.raises(ArgumentError, match="label: expected a JSON value"):
        run.transaction(label=object()).__enter__()
    with run.transaction() as tx:
        tx.step(part(0))
        assert isinstance(run.log, Store)
        with pytest.raises(CircuitError, match="snapshot was called inside a transaction"):
            run.log.snapshot()
    ended(run)
    other = words().start()
    with other.transaction() as tx:
        store = opened(tmp_path / "other")
        with pytest.raises(CircuitError, match="attach was called inside a transaction"):
            store.attach(other, "words")
        store.close()


def test_the_description_of_a_folder_counts_the_rows_of_the_steps(tmp_path: Path) -> None:
    run = words().start(checkpoint=opened(tmp_path))
    run.step(part(0))
    with run.transaction() as tx:
        for n in range(1, 4):
            tx.step(part(n))
    ended(run)
    facts = {fact.name: fact.value for fact in describe_folder(tmp_path)}
    assert facts["tick"] == 2
    assert facts["  changes of word"] == 8


def test_steps_that_are_in_the_snapshot_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a process ended between the snapshot and the next tick, its files have both."""
    run = words().start(checkpoint=opened(tmp_path, snapshot_every=2))
    for first in range(0, 12, 4):
        with run.transaction() as tx:
            for n in range(first, first + 4):
                tx.step(part(n))
    assert isinstance(run.log, Store)
    expected = views(run)
    with patch.object(TickJournal, "end_file"):
        run.log.snapshot()
    run.step(part(20))
    right = views(run)
    ended(run)
    assert expected != right
    taken: list[int] = []
    genuine = TickPart.read
    monkeypatch.setattr(TickPart, "read", lambda place: taken.append(place.start) or genuine(place))
    again = words().start(checkpoint=opened(tmp_path))
    assert (again.tick, views(again), taken) == (4, right, [])
    ended(again)


def test_transactions_are_part_of_the_history(tmp_path: Path) -> None:
    run = words().start(checkpoint=opened(tmp_path, keep=100, snapshot_every=3))
    results = []
    states = [views(run)]
    for first in range(0, 20, 4):
        with run.transaction() as tx:
            for n in range(first, first + 4):
                tx.step(part(n))
        results.append(tx.result)
        states.append(views(run))
    with run.transaction() as tx:
        tx.step(part(100))
        for tick, state in enumerate(states):
            past = words().open(tmp_path, as_of=tick)
            assert (past.tick, views(past)) == (tick, state)
            assert list(map(deltas_of, past.ticks(since=0))) == list(map(deltas_of, results[:tick]))
    ended(run)


def test_only_the_tick_is_synchronised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    genuine: Callable[[int], None] = tick_journal._sync
    monkeypatch.setattr(tick_journal, "_sync", lambda file: (synced.append(file), genuine(file)))
    run = words().start(checkpoint=Store(tmp_path))
    with run.transaction() as tx:
        for n in range(5):
            tx.step(part(n))
        assert synced == []
    assert len(synced) == 1
    assert os.path.getsize(tmp_path / "journal" / "1.ticks") > 0
    ended(run)
