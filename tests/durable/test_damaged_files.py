"""Damaged, missing and foreign files: an error that names the file, or an intact snapshot."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dbsp
from dbsp import CheckpointError, Circuit, Run
from dbsp.durable import DeltaLog, Inbox, Store, parquet_files, sealed_files
from dbsp.durable.folder_report import verify_folder
from dbsp.errors import CheckpointWarning

PROGRAM = dbsp.compile("""
    .decl e(x: number, s: symbol)
    .input e
    .decl o(x: number, s: symbol)
    .output o
    o(x, s) :- e(x, s).
""")
ROWS = [(1234567, "Ada"), (7654321, "Alan"), (3, "Grace"), (4, "Edsger")]


def started(folder: Path, ticks: int, snapshots: tuple[int, ...] = ()) -> None:
    """Write a checkpoint with this number of ticks, and snapshots after some of them."""
    run = PROGRAM.start(checkpoint=Store(folder, sync=False))
    assert isinstance(run.log, Store)
    for tick in range(1, ticks + 1):
        run.step({"e": [ROWS[tick - 1]]}, label=tick)
        if tick in snapshots:
            run.log.snapshot()
    run.log.close()


def reopened(folder: Path) -> Run:
    run = PROGRAM.start(checkpoint=Store(folder, sync=False))
    assert run.log is not None
    run.log.close()
    return run


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 4
    path.write_bytes(content)


def test_one_flipped_bit_of_the_journal(tmp_path: Path) -> None:
    started(tmp_path, 2)
    path = tmp_path / "journal" / "1.ticks"
    flip(path, path.read_bytes().index((7654321).to_bytes(8, "little")))
    with pytest.raises(CheckpointError) as caught:
        reopened(tmp_path)
    assert str(caught.value) == (
        f"cannot read {path}: tick 2 does not match its checksum; restore the folder from a copy, or start "
        "in an empty folder [checkpoint-unreadable]"
    )


def test_a_file_that_may_not_be_read_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(tmp_path, 2)

    def refuse(path: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(sealed_files, "open", refuse, raising=False)
    with pytest.raises(CheckpointError) as caught:
        reopened(tmp_path)
    expected = f"cannot read {tmp_path / 'manifest.json'}: Permission denied [checkpoint-unreadable]"
    assert str(caught.value) == expected


def test_ticks_of_the_journal_that_are_in_the_snapshot_are_not_read(tmp_path: Path) -> None:
    started(tmp_path, 2, (2,))
    path = tmp_path / "journal" / "1.ticks"
    content = path.read_bytes()
    second = content.index(b"dbspseal", 8)
    flip(path, second + 100)
    assert reopened(tmp_path).view("o").rows() == sorted(ROWS[:2])
    flip(path, 10)  # of the version of the seal: only `verify` reads it
    assert reopened(tmp_path).tick == 2
    assert any("1.ticks: tick 1 " in problem for problem in verify_folder(tmp_path).problems)
    run = PROGRAM.start(checkpoint=Store(tmp_path, sync=False))
    run.step({"e": [ROWS[2]]})
    assert run.log is not None
    run.log.close()
    for end in (second + 7, second, 60, 0):
        path.write_bytes(content[:end])
        assert reopened(tmp_path).view("o").rows() == sorted(ROWS[:3])
    (tmp_path / "small" / "2.runs").unlink()
    with pytest.raises(CheckpointError, match=r"small/2\.runs: the file is missing"):
        reopened(tmp_path)


def test_ticks_after_the_snapshot_in_the_same_file(tmp_path: Path) -> None:
    run = PROGRAM.start(checkpoint=Store(tmp_path, sync=False))
    assert isinstance(run.log, Store)
    run.step({"e": [ROWS[0]]})
    run.step({"e": [ROWS[1]]})
    with mock.patch("dbsp.durable.tick_journal.TickJournal.end_file"):
        run.log.snapshot()
    run.step({"e": [ROWS[2]]})
    run.step({"e": [ROWS[3]]})
    run.log.close()
    path = tmp_path / "journal" / "1.ticks"
    content = path.read_bytes()
    flip(path, 100)
    assert reopened(tmp_path).view("o").rows() == sorted(ROWS)
    seals = [found.start() for found in re.finditer(b"dbspseal", content)]
    for tick in (3, 4):
        path.write_bytes(content)
        flip(path, seals[tick - 1] + 60)
        with pytest.raises(CheckpointError, match=rf"1\.ticks: tick {tick} does not match its checksum"):
            reopened(tmp_path)
    path.write_bytes(content)
    flip(path, 16)  # the size of tick 1: the place of tick 3 is then unknown
    with pytest.raises(CheckpointError, match=r"1\.ticks: "):
        reopened(tmp_path)


def test_every_byte_of_a_journal_is_verified(tmp_path: Path) -> None:
    started(tmp_path, 1)
    path = tmp_path / "journal" / "1.ticks"
    content = path.read_bytes()
    for at in range(len(content)):
        flip(path, at)
        with pytest.raises(CheckpointError, match=r"1\.ticks.*\[checkpoint-(unreadable|version)\]"):
            reopened(tmp_path)
        path.write_bytes(content)
    assert reopened(tmp_path).view("o").rows() == [ROWS[0]]


@pytest.mark.parametrize("part", ["small", "interned", "memory", "manifest.json"])
@pytest.mark.parametrize("damage", ["flipped", "missing", "empty", "longer"])
def test_a_damaged_snapshot_is_replaced_by_the_previous_one(tmp_path: Path, part: str, damage: str) -> None:
    started(tmp_path, 4, (1, 3))
    path = tmp_path / part
    if path.is_dir():
        (*_, path) = sorted(path.iterdir())
    content = path.read_bytes()
    if damage == "flipped":
        flip(path, len(content) // 2)
    elif damage == "missing":
        path.unlink()
    else:
        path.write_bytes(b"" if damage == "empty" else content + b"x")
    with pytest.warns(CheckpointWarning) as warned:
        run = PROGRAM.start(checkpoint=Store(tmp_path, sync=False))
    assert [str(warning.message).startswith(f"cannot read {path}: ") for warning in warned] == [True]
    assert "nothing is lost, since the snapshot of tick 1 and the journal replace it" in str(
        warned[0].message
    )
    assert (run.tick, run.log and run.log.label) == (4, 4)
    assert run.view("o").rows() == sorted(ROWS)
    # The next snapshot repairs the folder.
    run.step({"e": [(5, "Barbara")]})
    assert isinstance(run.log, Store)
    run.log.snapshot()
    run.log.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert reopened(tmp_path).tick == 5


def test_a_damaged_first_snapshot_is_replaced_by_the_journal(tmp_path: Path) -> None:
    started(tmp_path, 2, (2,))
    path = tmp_path / "small" / "2.runs"
    flip(path, path.read_bytes().index((1234567).to_bytes(8, "little")))
    with pytest.warns(CheckpointWarning, match=r"since the journal replaces it"):
        assert reopened(tmp_path).view("o").rows() == sorted(ROWS[:2])


def test_two_damaged_snapshots_are_an_error(tmp_path: Path) -> None:
    started(tmp_path, 4, (1, 3))
    for name in ("small/1.runs", "small/3.runs"):
        (tmp_path / name).unlink()
    with pytest.raises(CheckpointError, match=r"small/3\.runs: the file is missing.*\[checkpoint-unreadable"):
        reopened(tmp_path)


def test_missing_files_of_the_journal(tmp_path: Path) -> None:
    started(tmp_path, 2, (1,))
    path = tmp_path / "journal" / "2.ticks"
    path.unlink()
    with pytest.raises(CheckpointError, match=r"2\.ticks: the file is missing"):
        reopened(tmp_path)
    shutil.rmtree(tmp_path)
    started(tmp_path, 2)
    latest = tmp_path / "journal" / "latest"
    latest.unlink()
    with pytest.warns(
        CheckpointWarning, match="latest is missing or damaged; all ticks were read that are in"
    ):
        assert reopened(tmp_path).tick == 2
    content = (tmp_path / "journal" / "1.ticks").read_bytes()
    (tmp_path / "journal" / "1.ticks").write_bytes(content[:-9])  # `latest` was written again
    with pytest.raises(CheckpointError, match=r"1\.ticks: tick 2 is not complete"):
        reopened(tmp_path)
    (tmp_path / "journal" / "1.ticks").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"1\.ticks: tick 1 is missing"):
        reopened(tmp_path)
    started(tmp_path / "gap", 3, (1, 2))
    for name in ("manifest.json", "journal/2.ticks"):
        (tmp_path / "gap" / name).unlink()
    with pytest.raises(CheckpointError, match=r"manifest\.json: the file is missing"):
        reopened(tmp_path / "gap")


def test_a_folder_without_its_manifest_is_no_new_folder(tmp_path: Path) -> None:
    started(tmp_path, 2)
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match=r"manifest\.json: the file is missing; .*\[checkpoint-unread"):
        reopened(tmp_path)
    assert (tmp_path / "journal" / "1.ticks").exists()


def test_a_young_folder_of_an_earlier_version(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "1.arrow").touch()
    with pytest.raises(CheckpointError, match=r"has format version 1, .* expects 3; .*checkpoint-version"):
        reopened(tmp_path)


def test_a_journal_of_another_folder_or_another_history(tmp_path: Path) -> None:
    started(tmp_path / "a", 2)
    started(tmp_path / "b", 2)
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    for folder, row in (("a", ROWS[2]), ("copy", ROWS[3])):
        run = PROGRAM.start(checkpoint=Store(tmp_path / folder, sync=False))
        run.step({"e": [row]})
        assert run.log is not None
        run.log.close()
    path = tmp_path / "a" / "journal" / "1.ticks"
    content = path.read_bytes()
    shutil.copy(tmp_path / "b" / "journal" / "1.ticks", path)
    with pytest.raises(CheckpointError, match=r"1\.ticks: it is a file of another place \(.*/journal/1\)"):
        reopened(tmp_path / "a")
    shutil.copy(tmp_path / "copy" / "journal" / "1.ticks", path)
    with pytest.raises(CheckpointError, match=r"tick 3 is not the one that was written there last"):
        reopened(tmp_path / "a")
    path.write_bytes(content)
    assert reopened(tmp_path / "a").view("o").rows() == sorted(ROWS[:3])


def test_a_tick_of_another_history_does_not_fit(tmp_path: Path) -> None:
    started(tmp_path / "a", 2)
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    for folder, row in (("a", ROWS[2]), ("copy", ROWS[3])):
        run = PROGRAM.start(checkpoint=Store(tmp_path / folder, sync=False))
        run.step({"e": [row]})
        assert isinstance(run.log, Store)
        run.log.snapshot()
        run.step({"e": [(9, "same")]})
        run.log.close()
    for name in ("4.ticks", "latest"):
        shutil.copy(tmp_path / "copy" / "journal" / name, tmp_path / "a" / "journal" / name)
    with pytest.raises(CheckpointError, match=r"4\.ticks: tick 4 does not follow the ticks before it"):
        reopened(tmp_path / "a")


def test_another_program_is_refused_before_the_first_tick(tmp_path: Path) -> None:
    reopened(tmp_path)
    other = dbsp.compile(".decl e(x: symbol, s: float) .input e .output e")
    with pytest.raises(
        CheckpointError, match=r"is the checkpoint of another query .*checkpoint-other-program"
    ):
        other.start(checkpoint=tmp_path)


@pytest.mark.parametrize("changed", ["constant", "function"])
def test_a_circuit_with_other_expressions_is_another_query(tmp_path: Path, changed: str) -> None:
    def circuit(constant: int, function: Callable[..., Any]) -> Circuit:
        circuit = Circuit("same")
        stream = circuit.input("a", x=int).filter(dbsp.col("x") > constant)
        circuit.output("out", stream.map(function, dbsp.Schema.of(x=int)))
        return circuit

    run = circuit(1, first).start(checkpoint=tmp_path)
    assert run.log is not None
    run.log.close()
    other = circuit(2, first) if changed == "constant" else circuit(1, second)
    with pytest.raises(CheckpointError, match="checkpoint-other-program"):
        other.start(checkpoint=tmp_path)


def test_a_circuit_with_a_spark_sink_is_the_same_query(tmp_path: Path) -> None:
    from dbsp.operators.ports.spark_sink import SparkSink
    from dbsp.operators.streams.spark_pair import bind_ports

    circuit = Circuit("bound")
    circuit.output("out", circuit.input("a", x=int))
    run = circuit.start(checkpoint=tmp_path)
    run.step({"a": [(1,)]})
    assert isinstance(run.log, Store)
    run.log.snapshot()
    run.log.close()
    again = bind_ports(circuit, [SparkSink("out")]).start(checkpoint=tmp_path)
    assert again.view("out").rows() == [(1,)]
    assert again.log is not None
    again.log.close()


def first(row: tuple[int]) -> tuple[int]:
    return row


def second(row: tuple[int]) -> tuple[int]:
    return (row[0] + 1,)


def test_a_damaged_delta_log(tmp_path: Path) -> None:
    run, log = PROGRAM.start(), DeltaLog(tmp_path, sync=False)
    for tick in range(1, 4):
        log.append(tick, run.step({"e": [ROWS[tick - 1]]}), tick)
    place = tmp_path / "ticks" / "tick=000000000002"
    for path, message in (
        (place / "o.parquet", r"o\.parquet: its content does not match its checksum"),
        (place / "tick.json", r"tick\.json: "),
        (tmp_path / "log.json", r"log\.json: "),
        (tmp_path / "latest.json", r"latest\.json: "),
    ):
        content = path.read_bytes()
        flip(path, len(content) // 2)
        with pytest.raises(CheckpointError, match=message):
            DeltaLog(tmp_path).view("o")
        path.unlink()
        with pytest.raises(CheckpointError, match=rf"{path.name}: the file is missing"):
            DeltaLog(tmp_path).view("o")
        path.write_bytes(content)
    third = tmp_path / "ticks" / "tick=000000000003"
    for moved in (place, third):
        moved.rename(tmp_path / "moved")
        with pytest.raises(CheckpointError, match=rf"{moved}: the folder is missing"):
            DeltaLog(tmp_path).view("o")
        (tmp_path / "moved").rename(moved)
    shutil.copy(place / "tick.json", third / "tick.json")
    with pytest.raises(CheckpointError, match=r"3/tick\.json: it is a file of another place"):
        DeltaLog(tmp_path).view("o")


def test_a_damaged_inbox(tmp_path: Path) -> None:
    from dbsp.durable.deliveries import deliveries

    inbox = Inbox(tmp_path / "in", sync=False)
    for batch in range(3):
        inbox.put("e", pa.table({"x": [batch], "s": ["a"]}), batch)
    batches = tmp_path / "in" / "batches" / "e"
    for number in range(3):
        path = batches / f"{number:012d}.json"
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(CheckpointError, match=rf"{path.name}: the file is missing"):
            deliveries(tmp_path / "in")
        path.write_bytes(content)
        flip(path, len(content) // 2)
        with pytest.raises(CheckpointError, match=rf"{path.name}: "):
            deliveries(tmp_path / "in")
        path.write_bytes(content)
    (tmp_path / "in" / "taken.json").unlink()
    with pytest.raises(CheckpointError, match=r"taken\.json: the file is missing"):
        inbox.drain(PROGRAM.start(checkpoint=Store(tmp_path / "run", sync=False)))


def test_a_file_that_unpacks_to_much_more_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    for table, compression in (
        (pa.table({"x": pa.array([7] * 500_000)}), "NONE"),
        (pa.table({"s": ["x" * 4_000_000]}), "ZSTD"),
    ):
        pq.write_table(table, path, compression=compression, use_dictionary=compression == "NONE")
        content = bytearray(path.read_bytes())
        assert parquet_files.read_parquet(path, content, table.num_rows).num_rows == table.num_rows
        with (
            mock.patch.object(parquet_files, "_ALWAYS", 1_000_000),
            pytest.raises(CheckpointError, match=r"bytes unpack to 4,0[0-9,]* bytes; "),
        ):
            parquet_files.read_parquet(path, content, table.num_rows)
        with pytest.raises(CheckpointError, match=r"expected 3 rows, got [0-9,]+; "):
            parquet_files.read_parquet(path, content, 3)
        with pytest.raises(CheckpointError, match=r"cannot read .*file\.parquet: "):
            parquet_files.read_parquet(path, content[:-30], table.num_rows)


CHILD = """
import os, sys
from dbsp.errors import CheckpointError
from dbsp.durable import Store
try:
    Store(sys.argv[1])
    print("opened")
except CheckpointError as error:
    print(error.code)
"""


def test_removing_the_lock_lets_nobody_in(tmp_path: Path) -> None:
    run = PROGRAM.start(checkpoint=Store(tmp_path, sync=False))
    (tmp_path / "lock").unlink()
    with pytest.raises(CheckpointError, match=rf"in use by process {os.getpid()}; "):
        Store(tmp_path)
    child = [sys.executable, "-c", CHILD, str(tmp_path)]
    assert subprocess.run(child, capture_output=True, text=True, check=True).stdout == "checkpoint-in-use\n"
    run.step({"e": [ROWS[0]]})
    assert run.log is not None
    run.log.close()
    assert subprocess.run(child, capture_output=True, text=True, check=True).stdout == "opened\n"


def test_a_folder_that_was_replaced(tmp_path: Path) -> None:
    run = PROGRAM.start(checkpoint=Store(tmp_path / "run", sync=False))
    (tmp_path / "run").rename(tmp_path / "moved")
    with pytest.raises(CheckpointError, match=r"was removed or replaced .*\[checkpoint-write\]"):
        run.step({"e": [ROWS[0]]})
    assert run.tick == 0
    (tmp_path / "moved").rename(tmp_path / "run")
    run.step({"e": [ROWS[0]]})
    assert run.log is not None
    run.log.close()
    assert reopened(tmp_path / "run").tick == 1


def test_a_forked_child_does_not_write_the_journal_of_its_parent(tmp_path: Path) -> None:
    run = PROGRAM.start(checkpoint=Store(tmp_path, sync=False))
    run.step({"e": [ROWS[0]]})
    child = os.fork()
    if child == 0:
        refused = 0
        for action in (lambda: run.step({"e": [ROWS[1]]}), lambda: run.log.snapshot()):  # type: ignore[union-attr]
            try:
                action()
            except CheckpointError as error:
                refused += error.code == "checkpoint-in-use" and "was forked" in error.message
        os._exit(refused if run.tick == 1 else 9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    run.step({"e": [ROWS[2]]})
    with pytest.raises(CheckpointError, match="checkpoint-in-use"):  # the child has not released it
        Store(tmp_path)
    assert run.log is not None
    run.log.close()
    assert reopened(tmp_path).view("o").rows() == sorted([ROWS[0], ROWS[2]])
