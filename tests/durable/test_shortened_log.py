"""Delta logs that retain the latest ticks: what remains can be read, and the rest is named."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbsp import ArgumentError, CheckpointError
from dbsp.durable import DeltaLog, delta_log, ledger
from dbsp.durable.folder_report import describe_folder, verify_folder
from tests.crashes import Ended, ends_after
from tests.durable.test_delta_log import delta, everything, sequences
from tests.profiles import examples
from tests.reference import Z, add


def shortened(folder: str | Path, retain: int | str | None) -> DeltaLog:
    return DeltaLog(folder, sync=False, retain=retain)


def row(number: int) -> Z:
    return {(number, None, "a"): 1}


def filled(folder: Path, retain: int | str | None, ticks: int) -> DeltaLog:
    log = shortened(folder, retain)
    for tick in range(log.last + 1, log.last + ticks + 1):
        log.append(tick, delta(row(tick)))
    return log


@settings(max_examples=examples(30))
@given(sequences, st.integers(1, 8), st.integers(1, 10), st.data())
def test_what_remains_is_as_in_a_log_of_all_ticks(
    sequence: list[Z], retain: int, keep: int, data: st.DataObject
) -> None:
    sequence = sequence * 3
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(delta_log, "_KEEP_FROM", keep),
        mock.patch.object(delta_log, "_CHECK_EVERY", data.draw(st.integers(1, 3))),
    ):
        log = shortened(folder, retain)
        for number, tick in enumerate(sequence, 1):
            assert log.append(number, delta(tick), number)
            assert (
                not log.append(data.draw(st.integers(1, number)), delta(tick), number) if number == 1 else 1
            )
            first, last = log.ledger.first(), number
            assert last - first + 1 >= min(number, retain)
            assert log.ticks() == list(range(first, last + 1))
        assert last - first + 1 <= retain + max(3, retain // 2) + 3
        for number in range(last + 1):
            if number < first - 1:
                with pytest.raises(CheckpointError, match=rf"begins with tick {first}, "):
                    log.view("out", number)
                with pytest.raises(CheckpointError, match=rf"has no tick {number + 1} any more"):
                    log.deltas("out", after=number)
            else:
                assert log.view("out", number).to_dict() == add(*sequence[:number])
                read = [(tick, zset.to_dict()) for tick, zset in log.deltas("out", after=number)]
                assert read == [(tick, sequence[tick - 1]) for tick in range(number + 1, last + 1)]
        assert log.view("out").to_dict() == add(*sequence)
        assert not verify_folder(Path(folder)).problems


def test_files_are_bounded(tmp_path: Path) -> None:
    log = filled(tmp_path, 12, 48)
    files = len(everything(tmp_path))
    filled(tmp_path, 12, 112)
    assert 12 <= len(log.ticks()) <= 27
    assert len(everything(tmp_path)) <= files + 24
    assert len(log.view("out")) == 160
    assert log.ledger.first() > 130
    assert not log.append(3, delta(row(3)))  # it was recorded, and removed


def test_time_is_retained(tmp_path: Path) -> None:
    now = 1_000_000.0
    with mock.patch.object(ledger, "clock", lambda: now), mock.patch.object(delta_log, "clock", lambda: now):
        log = shortened(tmp_path, "2 days")
        for tick in range(1, 65):
            now += 86_400 / 8
            log.append(tick, delta(row(tick)))
        assert 16 <= len(log.ticks()) <= 34
        now += 30 * 86_400
        filled(tmp_path, "2 days", 8)
        # At least the latest tick stays; a check follows every eighth one.
        assert 1 <= len(log.ticks()) <= 9
        assert len(log.view("out")) == 72


def test_a_large_view_is_not_written_for_few_ticks(tmp_path: Path) -> None:
    log = shortened(tmp_path, 1)
    with mock.patch.object(delta_log, "_TICK_ROWS", 10):
        log.append(1, delta({(number, None, "a"): 1 for number in range(1_000)}))
        filled(tmp_path, 1, 15)
        assert log.ledger.first() == 16  # there was no view before
        filled(tmp_path, 1, 96)
        assert log.ledger.first() == 16
        filled(tmp_path, 1, 8)
        assert log.ledger.first() == 120


def test_a_log_without_retain_keeps_what_another_process_has_left(tmp_path: Path) -> None:
    filled(tmp_path, 4, 32)
    log = filled(tmp_path, None, 20)
    assert log.ticks()[0] == log.ledger.first() > 20 and log.last == 52
    assert len(log.view("out")) == 52
    facts = {fact.name: fact.text for fact in describe_folder(tmp_path)}
    assert facts["recorded ticks"] == f"{len(log.ticks())}"


def test_a_reader_that_began_before_a_removal(tmp_path: Path) -> None:
    log = filled(tmp_path, None, 10)
    reader = DeltaLog(tmp_path).deltas("out")
    assert next(reader)[0] == 1
    filled(tmp_path, 2, 6)
    with pytest.raises(CheckpointError, match=r"has no tick 2 any more: it begins with tick 15, ") as caught:
        next(reader)
    assert caught.value.code == "tick-removed"
    assert log.ticks() == [15, 16]


@pytest.mark.crash
def test_the_process_ends_while_ticks_are_removed(tmp_path: Path) -> None:
    filled(tmp_path / "first", None, 15)
    for count in range(0, 1_000, 4):
        folder = tmp_path / f"{count}"
        shutil.copytree(tmp_path / "first", folder)
        complete = False
        with ends_after(count):
            try:
                filled(folder, 3, 1)
                complete = True
            except Ended:
                pass
        log = DeltaLog(folder)
        assert not verify_folder(folder).problems
        views = [len(log.view("out", tick)) for tick in range(log.ledger.first() - 1, log.last + 1)]
        assert views == list(range(log.ledger.first() - 1, log.last + 1)) and log.last >= 15
        log = filled(folder, 3, 24 - log.last)
        names = {path.name for path in (folder / "ticks").iterdir()}
        assert names == {f"tick={tick:012d}" for tick in log.ticks()} and log.ledger.first() == 22
        shutil.rmtree(folder)
        if complete:
            assert count > 8
            return
    pytest.fail("the removal never ends")


def test_a_removed_tick_that_nobody_removed_is_damage(tmp_path: Path) -> None:
    log = filled(tmp_path, 4, 32)
    shutil.rmtree(tmp_path / "ticks" / f"tick={log.ticks()[1]:012d}")
    with pytest.raises(CheckpointError, match="the folder is missing"):
        list(log.deltas("out", after=log.ticks()[0]))
    first = (tmp_path / "first.json").read_text()
    (tmp_path / "first.json").write_text(first.replace('"tick": ', '"tick": 1'))
    with pytest.raises(CheckpointError, match="does not match its checksum"):
        log.view("out")


@pytest.mark.parametrize("retain", [0, -1, True, "soon", "7 eons", 1.5, ""])
def test_an_unclear_retention(tmp_path: Path, retain: int) -> None:
    with pytest.raises(ArgumentError, match="retain: expected a number of ticks, or a duration such as"):
        DeltaLog(tmp_path, retain=retain)
